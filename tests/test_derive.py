"""Results are derived: forgeries are refused by name, and what is only claimed is marked."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

import ruler_report
from ruler_data import RulerError
from ruler_eval.running.run_dir import STARTS, RunInfo, read_info
from ruler_eval.scoring.derive import load_scores
from ruler_report import page
from ruler_report.publication import compose
from tests.commands import one_line, succeeded
from tests.running.processes import evaluate
from tests.runs import make_run, patchy, refused, run_info

FEW = ("vt_4096", "qa_1_4096", "niah_single_1_4096")
Json = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RULER_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def scored(sample_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that knows where its rows are, with its results."""
    folder = make_run(tmp_path_factory.mktemp("runs") / "run", sample_build, patchy(0.6), FEW)
    info = run_info(sample_build, FEW)
    starts = {"at": "2026-01-01T00:00:00+00:00", "fingerprint": info.fingerprint}
    (folder / STARTS).write_text(json.dumps({**starts, "data": str(sample_build)}) + "\n")
    ruler_report.results(folder)
    return folder


def in_json(name: str, change: Callable[[Json], None]) -> Callable[[Path], None]:
    def forge(run: Path) -> None:
        body = json.loads((run / name).read_text())
        change(body)
        (run / name).write_text(json.dumps(body))

    return forge


def of_config(field: str, value: Callable[[Any], Any]) -> Callable[[Path], None]:
    def change(body: Json) -> None:
        body["configs"]["vt_4096"][field] = value(body["configs"]["vt_4096"][field])

    return in_json("results.json", change)


def in_field(*path: str, value: Any) -> Callable[[Path], None]:  # noqa: ANN401
    def change(body: Json) -> None:
        for name in path[:-1]:
            body = body[name]
        body[path[-1]] = value

    return in_json("results.json", change)


def in_answers(change: Callable[[list[Json]], list[Json]]) -> Callable[[Path], None]:
    """Change a journal."""

    def forge(run: Path) -> None:
        journals = sorted(run.glob("answers-*"))
        texts = [line for path in journals for line in path.read_text().splitlines()]
        lines = "".join(json.dumps(line) + "\n" for line in change([*map(json.loads, texts)]))
        for path in journals:
            path.write_text(lines if path == journals[0] else "")

    return forge


def in_data(**fields: Any) -> Callable[[Path], None]:  # noqa: ANN401
    """Describe the rows of a run otherwise than their manifest, with a fingerprint that fits."""

    def forge(run: Path) -> None:
        info = read_info(run)
        info = replace(info, data=replace(info.data, **fields))
        write_info(run, info)

    return forge


def write_info(run: Path, info: RunInfo) -> None:
    body = {"fingerprint": info.fingerprint, **asdict(info)}
    (run / "run.json").write_text(json.dumps(body))
    (run / "results.json").unlink(missing_ok=True)


def every(**fields: Any) -> Callable[[list[Json]], list[Json]]:  # noqa: ANN401
    return lambda lines: [{**line, **fields} for line in lines]


def first(**fields: Any) -> Callable[[list[Json]], list[Json]]:  # noqa: ANN401
    return lambda lines: [{**lines[0], **fields}, *lines[1:]]


VT = "configs.vt_4096"
#: Each is refused, and why.
FORGERIES: dict[str, tuple[Callable[[Path], object], str]] = {
    "all scores 1": (
        of_config("scores", lambda x: [1.0] * len(x)), rf"{VT}.scores.\d: 1.0 is claimed, 0",
    ),
    "exact scores": (of_config("exact", lambda x: [1.0] * len(x)), f"{VT}.exact"),
    "a config left out": (
        in_json("results.json", lambda body: body["configs"].pop("qa_1_4096") and None),
        "configs.qa_1_4096.scores",
    ),
    "noise": (in_field("noise", value=-1.0), "noise: Input should be greater than"),
    "fingerprint": (in_field("fingerprint", value="sha256:1"), "fingerprint sha256:1 is claim"),
    "model of the run": (
        in_json("run.json", lambda body: body.update(model="org/better")),
        "edited after it was written|fingerprint .* is claimed",
    ),
    "answers to another question": (
        in_answers(every(question_digest="0" * 16)), "to another question",
    ),
    "sample": (in_data(sample=False), "says that sample is False, the manifest of the rows True"),
    "seed": (in_data(seed=7), "says that seed is 7"),
    "edition": (in_data(edition="upstream-2026-07"), "says that edition is upstream-2026-07"),
    "essays": (in_data(essays="0" * 64), "says that essays is 0000"),
    "tokenizer": (in_data(tokenizer_fingerprint="0" * 64), "says that tokenizer_fingerprint is"),
}  # fmt: skip
#: Each leaves a row of vt_4096 unanswered, and what is said.
UNANSWERED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a few prompt tokens": (in_answers(first(prompt_tokens=5)), "5 prompt tokens are not the row"),
    "a text beyond the budget": (in_answers(first(text="word " * 5000)), "5,000 words are more th"),
    "no question": (
        in_answers(first(question_digest=None)),
        "its question is not recorded",
    ),
    "another model": (
        in_answers(lambda lines: first(model="org/better")(every(model="org/a")(lines))),
        "",
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_refused_by_name(name: str, scored: Path, tmp_path: Path) -> None:
    forge, said = FORGERIES[name]
    run = shutil.copytree(scored, tmp_path / "run")
    assert not load_scores(run).claimed
    forge(run)
    with pytest.raises(RulerError, match=said):
        load_scores(run)


@pytest.mark.parametrize("name", UNANSWERED)
def test_impossible_answers_are_none(name: str, scored: Path, tmp_path: Path) -> None:
    forge, said = UNANSWERED[name]
    run = shutil.copytree(scored, tmp_path / "run")
    forge(run)
    scores = load_scores(run)
    assert len(scores.unanswered) == 1 and not scores.claimed
    assert said in " ".join(scores.notes)


def test_scores_that_answers_contradict_are_not_taken(scored: Path, tmp_path: Path) -> None:
    run = shutil.copytree(scored, tmp_path / "run")
    FORGERIES["all scores 1"][0](run)
    for code, *command in (
        (1, "compare", run, scored),
        (2, "gate", run, "--baseline", scored),  # 1 would say that the run is worse
        (1, "report", run, "--out", tmp_path / "out"),
        (1, "leaderboard", run, "--out", tmp_path / "out"),
        (1, "publish", run, "--repo", "org/preds", "--dry-run"),
    ):
        assert "1.0 is claimed" in refused(evaluate(*command), code), command
    assert not (tmp_path / "out").exists()


def test_where_nothing_can_be_written_scores_are_printed(scored: Path, tmp_path: Path) -> None:
    nowhere, scores = Path("/proc/no/results.json"), load_scores(scored)
    done = page.score(scores, nowhere, is_asked=False)
    assert done.file is None and "the scores are only printed" in " ".join(done.notes)
    with pytest.raises(RulerError, match="cannot be written"):
        page.score(scores, nowhere, is_asked=True)
    (tmp_path / "file").touch()
    env = {"RULER_CACHE": str(tmp_path / "file" / "cache")}
    succeeded(evaluate("compare", scored, scored, env=env))


def test_a_run_without_a_score_is_named_by_its_place(scored: Path, tmp_path: Path) -> None:
    run = shutil.copytree(scored, tmp_path / "unscored")
    (run / "results.json").unlink()
    for journal in run.glob("answers-*"):
        records = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
        lines = (json.dumps(one | {"text": None, "error": "no"}) + "\n" for one in records)
        journal.write_text("".join(lines), "utf-8")
    said = refused(evaluate("leaderboard", scored, run, "--out", tmp_path / "out"), 1)
    assert f"'{run}': no row has a score" in said


def test_a_record_keeps_the_time_of_its_run(scored: Path, tmp_path: Path) -> None:
    run = shutil.copytree(scored, tmp_path / "run")
    with (run / STARTS).open("a") as file:
        file.write(json.dumps({"at": "1999-01-01T00:00:00+00:00"}) + "\n")
    record, forged = (
        json.loads(compose(place, "org/preds")["every_eval_ever.json"]) for place in (scored, run)
    )
    assert record["evaluation_timestamp"] == forged["evaluation_timestamp"]


def test_an_edited_file_only_says_that_rows_may_lack(scored: Path, tmp_path: Path) -> None:
    run = shutil.copytree(scored, tmp_path / "run")
    wanted = load_scores(run)
    assert wanted.validity
    in_field("validity", "partial", value=True)(run)
    in_field("validity", "models", value={"org/better": 18})(run)
    in_field("noise", value=0.9)(run)
    for field in ("failures", "params", "questions"):
        of_config(field, lambda old: type(old)())(run)
    assert load_scores(run) == wanted


def test_answers_and_rows_are_scored_without_a_results_json(scored: Path, tmp_path: Path) -> None:
    run = shutil.copytree(scored, tmp_path / "run", ignore=shutil.ignore_patterns("results.json"))
    wanted = load_scores(scored)
    assert load_scores(run).configs == wanted.configs and not wanted.claimed
    assert evaluate("gate", run, "--baseline", scored).returncode == 0
    assert (run / "results.json").is_file()


def test_what_is_kept_is_of_this_machine_and_without_rows_it_is_a_claim(
    scored: Path, sample_build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, data = shutil.copytree(scored, tmp_path / "run"), tmp_path / "data"
    (run / STARTS).write_text("")
    assert not load_scores(run).claimed  # as kept
    monkeypatch.setenv("RULER_CACHE", str(tmp_path / "another machine"))
    assert "its rows cannot be read" in load_scores(run).claimed
    shutil.copytree(sample_build, data)
    assert not load_scores(run, str(data)).claimed
    done = evaluate("compare", run, run, "--data", data)
    assert "validity: 18 of 18 rows answered" in done.stdout and "[claimed]" not in done.stdout


def test_predictions_are_derived_where_they_were_scored(sample_build: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine" / "predictions.jsonl"
    file.parent.mkdir()
    file.write_text(
        '{"id": "vt_4096/0", "prediction": "x"}\n{"id": "vt_4096/1", "prediction": "y"}\n'
    )
    about = ("--model", "m", "--protocol", "chat", "--partial")
    assert evaluate("score", file, "--data", sample_build, *about).returncode == 1  # all wrong
    assert not load_scores(file.parent).claimed
    file.write_text('{"id": "vt_4096/0", "prediction": "z"}\n')
    assert "not known here" in load_scores(file.parent).claimed


def test_the_test_engine_is_never_published(sample_build: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", sample_build, patchy(1.0), FEW, engine="oracle")
    done = evaluate("publish", run, "--repo", "org/preds", "--dry-run", "--data", sample_build)
    assert "its answers are the gold answers, of no model" in one_line(done, 1)


def test_a_run_given_twice_is_one(scored: Path, tmp_path: Path) -> None:
    ways = (f"{scored}/", scored / "results.json", os.path.relpath(scored))
    named = ("--name", f"x={scored}/", "--out", tmp_path)
    succeeded(evaluate("leaderboard", scored, *ways, *named))
    (entry,) = json.loads((tmp_path / "leaderboard.json").read_text("utf-8"))["entries"]
    assert entry["model"] == "x"


def test_runs_have_the_names_that_the_user_gives(scored: Path, tmp_path: Path) -> None:
    done = evaluate("report", "--name", f"ratio=.5={scored}", "--no-pictures",
                    "--attr", f"train_length=8192={scored}", "--out", tmp_path / "out")  # fmt: skip
    assert done.returncode == 0 and "\nratio=.5 has a mean of" in done.stdout, done.stderr
    kept = json.loads((tmp_path / "out" / "results.json").read_text("utf-8"))
    assert kept["attributes"] == {"train_length": 8192.0}
    for wrong in ("x", "x=a", "x=nan", "x=1=elsewhere"):
        done = evaluate("report", scored, "--attr", wrong, "--out", tmp_path / "c")
        assert f"--attr '{wrong}'" in refused(done, 2)
    assert "--name 'x': give NAME=RUN" in refused(
        evaluate("leaderboard", scored, "--name", "x", "--out", tmp_path / "b"), 2
    )
