"""Results are derived: forgeries are refused by name, and what is only claimed is marked."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ruler_report
from ruler_data import RulerError
from ruler_eval.run_dir import STARTS
from ruler_report.derive import derive
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


def in_answers(
    change: Callable[[list[Json]], list[Json]], *, hidden: bool = False
) -> Callable[[Path], None]:
    """Change a journal; if hidden, results.json no longer says what it was made of."""

    def forge(run: Path) -> None:
        path = run / "answers-0-of-2.jsonl"
        lines = change([json.loads(line) for line in path.read_text().splitlines()])
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        if hidden:
            in_json("results.json", lambda body: body.update(files={}))(run)

    return forge


def every(**fields: Any) -> Callable[[list[Json]], list[Json]]:  # noqa: ANN401
    return lambda lines: [{**line, **fields} for line in lines]


def dropped(rows: int) -> Callable[[Path], None]:
    """Leave the last rows out of results.json, in all columns alike."""

    def change(body: Json) -> None:
        one = body["configs"]["vt_4096"]
        one["rows"] -= rows
        for name in ("scores", "exact", "f1", "characters", "tokens"):
            one[name] = one[name][: one["rows"]]
        one["questions"] = one["questions"][: 16 * one["rows"]]
        one["failures"] = {}

    return in_json("results.json", change)


def another(run: Path) -> None:
    """Take the answers of another config for those of this one."""
    in_answers(
        lambda lines: [
            {**line, "config": "vt_4096" if line["config"] == "qa_1_4096" else "qa_1_4096"}
            for line in lines if line["config"] in ("vt_4096", "qa_1_4096")
        ],
        hidden=True,
    )(run)  # fmt: skip


CHANGED = "answers-0-of-2.jsonl: was changed after results.json"
VT = "configs.vt_4096"
FORGERIES: dict[str, tuple[Callable[[Path], object], str]] = {
    "all scores 1": (
        of_config("scores", lambda x: [1.0] * len(x)),
        rf"{VT}.scores.\d: '1.0' is claimed, '0.*found",
    ),
    "exact scores": (of_config("exact", lambda x: [1.0] * len(x)), f"{VT}.exact"),
    "headline": (of_config("headline", lambda _: "exact"), f"{VT}.headline: 'exact' is claimed"),
    "questions": (of_config("questions", lambda x: "0" * len(x)), f"{VT}.questions"),
    "fewer rows": (dropped(2), f"{VT}.characters"),
    "a config left out": (
        in_json("results.json", lambda body: body["configs"].pop("qa_1_4096") and None),
        "configs.qa_1_4096: 'nothing' is claimed",
    ),
    "cut off": (of_config("truncated", lambda _: [0]), f"{VT}.truncated"),
    "kinds of failure": (of_config("failures", lambda _: {}), f"{VT}.failures"),
    "parameters": (of_config("params", lambda _: {"hops": 9}), f"{VT}.params"),
    "noise": (in_field("noise", value=-1.0), "noise: Input should be greater than"),
    "model": (in_field("run", "model", value="org/better"), "run.model: 'org/better' is claimed"),
    "fingerprint": (in_field("fingerprint", value="sha256:1"), "fingerprint: 'sha256:1' is claim"),
    "who answered": (in_field("validity", "models", value={"gpt": 18}), "by gpt.* is claimed"),
    "model of the run": (
        in_json("run.json", lambda body: body.update(model="org/better")),
        "fingerprint: .* is claimed",
    ),
    "texts": (in_answers(every(text="all of them")), CHANGED),
    "texts, files hidden": (
        in_answers(every(text="all of them"), hidden=True), "configs.*.characters",
    ),
    "wrong answers removed": (in_answers(lambda lines: lines[1:]), CHANGED),
    "another's answers": (another, "characters|configs"),
    "answers to another question": (
        in_answers(every(question_digest="0" * 16), hidden=True), "to another question",
    ),
    "answers of another model": (
        in_answers(every(model="org/better"), hidden=True), "by org/better.*found",
    ),
    "a journal added": (
        lambda run: (run / "answers-1-of-3.jsonl").write_text("") and None,
        "answers-1-of-3.jsonl: was added after|$",
    ),
    "timestamps": (
        lambda run: (run / STARTS).write_text(
            (run / STARTS).read_text().replace("2026-01-01", "2025-01-01")
        ) and None,
        "starts.jsonl: was changed after results.json",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_refused_by_name(name: str, scored: Path, tmp_path: Path) -> None:
    forge, said = FORGERIES[name]
    run = shutil.copytree(scored, tmp_path / "run")
    assert not derive(run).claimed
    forge(run)
    with pytest.raises(RulerError, match=said):
        derive(run)


def test_no_command_takes_scores_that_their_answers_contradict(
    scored: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(scored, tmp_path / "run")
    FORGERIES["all scores 1"][0](run)
    for code, *command in (
        (1, "compare", run, scored),
        (2, "gate", run, "--baseline", scored),  # 1 would say that the run is worse
        (1, "report", run, "--out", tmp_path / "out"),
        (1, "leaderboard", run, "--out", tmp_path / "out"),
        (1, "publish", run, "--repo", "org/preds", "--dry-run"),
    ):
        assert "'1.0' is claimed" in refused(evaluate(*command), code), command
    assert not (tmp_path / "out").exists()


def test_a_cache_that_cannot_be_written_costs_time_and_nothing_else(
    scored: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    nowhere = {"RULER_CACHE": str(tmp_path / "file" / "cache")}
    for command in (("score", scored, "--out", tmp_path / "r.json"), ("compare", scored, scored)):
        succeeded(evaluate(*command, env=nowhere))
    assert (tmp_path / "r.json").read_bytes() == (scored / "results.json").read_bytes()


def test_a_run_without_a_score_is_named_by_its_place(scored: Path, tmp_path: Path) -> None:
    run = shutil.copytree(scored, tmp_path / "unscored")
    (run / "results.json").unlink()
    for journal in run.glob("answers-*"):
        records = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
        lines = (json.dumps(one | {"text": None, "error": "no"}) + "\n" for one in records)
        journal.write_text("".join(lines), "utf-8")
    said = refused(evaluate("leaderboard", scored, run, "--out", tmp_path / "out"), 1)
    assert f"'{run}': no row has a score" in said


def test_a_later_start_does_not_change_the_time_of_a_published_record(
    scored: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(scored, tmp_path / "run")
    with (run / STARTS).open("a") as file:
        file.write(json.dumps({"at": "1999-01-01T00:00:00+00:00"}) + "\n")
    record, forged = (
        json.loads(compose(place, "org/preds").files["every_eval_ever.json"])
        for place in (scored, run)
    )
    assert record["evaluation_timestamp"] == forged["evaluation_timestamp"]


def test_the_validity_line_is_never_that_of_the_file(scored: Path, tmp_path: Path) -> None:
    run = shutil.copytree(scored, tmp_path / "run")
    wanted = derive(run).validity
    in_field("package_version", value="0.0.1")(run)
    in_field("validity", "partial", value=True)(run)
    in_field("validity", "models", value={"org/better": 18})(run)
    assert wanted and derive(run).validity == replace(wanted, partial=True)


def test_noise_and_kinds_of_failure_are_never_those_of_the_file(
    scored: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(scored, tmp_path / "run")
    wanted = derive(run)
    in_field("noise", value=0.9)(run)
    in_field("package_version", value="0.0.1")(run)
    forged = {"refusal": [0], "as without context": [0, 1, 2, 3, 4, 5, 99]}
    of_config("failures", lambda _: forged)(run)
    found, config = derive(run), wanted.configs["vt_4096"]
    assert found.noise == wanted.noise == 0
    zeros = {row for row, score in enumerate(config.scores) if score == 0}
    kinds = {kind: {*rows} for kind, rows in found.configs["vt_4096"].failures.items()}
    ours = {kind: {*rows} - zeros for kind, rows in config.failures.items()}
    assert kinds.pop("as without context", set()) == zeros
    assert kinds == {kind: rows for kind, rows in ours.items() if rows}


def test_answers_and_rows_are_scored_without_a_results_json(scored: Path, tmp_path: Path) -> None:
    run = shutil.copytree(scored, tmp_path / "run", ignore=shutil.ignore_patterns("results.json"))
    wanted = derive(scored)
    assert derive(run).configs == wanted.configs and not wanted.claimed
    assert evaluate("gate", run, "--baseline", scored).returncode == 0
    assert sorted(path.name for path in run.iterdir()) == sorted(
        path.name for path in scored.iterdir() if path.name != "results.json"
    )


def test_what_is_derived_is_kept_and_rows_that_are_gone_make_a_claim(
    scored: Path, sample_build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, data = shutil.copytree(scored, tmp_path / "run"), tmp_path / "data"
    (run / STARTS).write_text("")
    in_json("results.json", lambda body: body.update(files={}))(run)
    assert not derive(run).claimed  # from the cache
    monkeypatch.setenv("RULER_CACHE", str(tmp_path / "empty"))
    assert "its rows cannot be read" in derive(run).claimed
    shutil.copytree(sample_build, data)
    assert not derive(run, str(data)).claimed
    done = evaluate("compare", run, run, "--data", data)
    assert "validity: 18 of 18 rows answered" in done.stdout and "[claimed]" not in done.stdout


def test_predictions_are_derived_where_they_were_scored(sample_build: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine" / "predictions.jsonl"
    file.parent.mkdir()
    file.write_text(
        '{"id": "vt_4096/0", "prediction": "x"}\n{"id": "vt_4096/1", "prediction": "y"}\n'
    )
    about = ("--model", "m", "--protocol", "chat", "--partial")
    succeeded(evaluate("score", file, "--data", sample_build, *about))
    assert not derive(file.parent).claimed
    file.write_text('{"id": "vt_4096/0", "prediction": "z"}\n')
    assert "score them again" in derive(file.parent).claimed


def test_the_test_engine_is_never_published(sample_build: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", sample_build, patchy(1.0), FEW, engine="oracle")
    done = evaluate("publish", run, "--repo", "org/preds", "--dry-run", "--data", sample_build)
    assert "its answers are the gold answers, of no model" in one_line(done, 1)


def test_a_run_that_is_given_twice_is_one_however_its_folder_is_written(
    scored: Path, tmp_path: Path
) -> None:
    ways = (f"{scored}/", scored / "results.json", os.path.relpath(scored))
    named = ("--name", f"x={scored}/", "--out", tmp_path)
    succeeded(evaluate("leaderboard", scored, *ways, *named))
    (entry,) = json.loads((tmp_path / "leaderboard.json").read_text("utf-8"))["entries"]
    assert entry["model"] == "x"


def test_runs_have_the_names_that_the_user_gives(scored: Path, tmp_path: Path) -> None:
    done = evaluate("report", "--name", f"ratio=.5={scored}", "--no-pictures",
                    "--attr", f"train_length=8192={scored}", "--out", tmp_path / "out")  # fmt: skip
    assert done.returncode == 0 and done.stdout.startswith("ratio=.5 has a mean of"), done.stderr
    kept = json.loads((tmp_path / "out" / "results.json").read_text("utf-8"))
    assert kept["attributes"] == {"train_length": 8192.0}
    for wrong in ("x", "x=a", "x=nan", "x=1=elsewhere"):
        done = evaluate("report", scored, "--attr", wrong, "--out", tmp_path / "c")
        assert f"--attr '{wrong}'" in refused(done, 2)
    assert "--name 'x': give NAME=RUN" in refused(
        evaluate("leaderboard", scored, "--name", "x", "--out", tmp_path / "b"), 2
    )
