"""The table of scores: what is derived, kept, claimed and refused; `scores.parquet`, read back."""

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ruler_report
from ruler_data import TASKS, Row, RulerError, UsageError
from ruler_data.files import cache_dir
from ruler_data.floors import blind_floor
from ruler_data.manifest import FILENAME as MANIFEST
from ruler_data.manifest import Floor
from ruler_eval.running.run_dir import STARTS, RunInfo, read_info
from ruler_eval.scoring import inputs, loading
from ruler_eval.scoring.loading import load_scores
from ruler_eval.scoring.scores import FILENAME, Scores, read_scores, write_scores
from ruler_eval.scoring.summary import summary_of
from ruler_eval.scoring.table import SCHEMA, CellMeans, Line, means, to_table
from ruler_eval.scoring.validity import never_exact, suspicion
from tests.commands import HANG
from tests.results import results_of, save
from tests.runs import Say, golden, make_run, patchy, rows_of, run_info
from tests.tampering import copy_of, edit_configs

FEW = ("vt_4096", "qa_1_4096", "niah_single_1_4096")
Json = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RULER_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def with_starts(folder: Path, data: Path, **more: object) -> Path:
    """Let a run say where its rows are."""
    start = {"at": "2026-01-01T00:00:00+00:00", "data": str(data), **more}
    (folder / STARTS).write_text(json.dumps(start) + "\n")
    return folder


@pytest.fixture(scope="module")
def scored(sample_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that knows where its rows are, with its table."""
    folder = make_run(tmp_path_factory.mktemp("runs") / "run", sample_build, patchy(0.6), FEW)
    with_starts(folder, sample_build)
    write_scores(folder / FILENAME, load_scores(folder))
    return folder


def test_the_table_is_what_a_person_counts(sample_build: Path, scored: Path) -> None:
    """Another way to the same numbers: the answers are said again, and looked up by hand."""
    table = load_scores(scored).to_pandas()
    say = patchy(0.6)
    lines = {(line.task, line.index): line for line in table.itertuples(index=False)}
    for config in FEW:
        task = config.removesuffix("_4096")
        for row in rows_of(sample_build, config):
            answer = say(config, row) or ""
            named = [output.lower() in answer.lower() for output in row.outputs]
            share = float(any(named)) if task == "qa_1" else sum(named) / len(named)
            line = lines.pop((task, row.index))
            assert line.official == share
            if task == "niah_single_1":
                ((needle, _),) = row.evidence
                start, end = row.haystack or (0, 0)
                assert [*line.depth] == [pytest.approx((needle - start) / (end - start))]
    assert not lines
    wrong = table[table.official < 1]
    assert wrong.label.notna().all() and (table.exact <= table.official).all()
    shown = table[table.depth.notna()]
    assert (shown.shown.map(all) == (shown.official == 1)).all()


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "label": st.text(),
    "error": st.text(),
    "official": st.floats(allow_nan=False),
    "answer_tokens": st.integers(0, 2**53),
    "empty": st.booleans(),
    "depth": st.lists(st.floats(0, 1)),
    "shown": st.lists(st.booleans()),
}


@given(st.lists(st.fixed_dictionaries({n: st.none() | v for n, v in VALUES.items()}), max_size=20))
def test_a_table_holds_what_its_lines_hold(values: list[dict[str, Any]]) -> None:
    """The oracle is pyarrow's own way from values to arrays."""
    lines = [Line("vt", 4096, index, 0, "0" * 16, **more) for index, more in enumerate(values)]
    table = to_table(lines)
    table.validate(full=True)
    for name in VALUES:
        expected = pa.array([more[name] for more in values], _plain_type(name))
        assert table[name].cast(expected.type).combine_chunks().equals(expected)


def _plain_type(name: str) -> pa.DataType:
    kind = SCHEMA.field(name).type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def test_scoring_and_its_file_need_no_pandas(sample_build: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", sample_build, golden, ["vt_4096"])
    script = (
        "import sys\nfrom pathlib import Path\nfrom ruler_eval.scoring import loading, scores\n"
        f"found = loading.load_scores({str(run)!r}, {str(sample_build)!r})\n"
        f"scores.write_scores(Path({str(tmp_path / 'x.parquet')!r}), found)\n"
        f"loading.load_scores({str(run)!r})\n"
        "print([name for name in ('pandas', 'huggingface_hub', 'datasets') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=HANG, check=True
    )
    assert done.stdout == "[]\n"


def test_what_is_written_is_read_back_and_by_pandas(scored: Path) -> None:
    scores = load_scores(scored)
    again = read_scores(scored / FILENAME)
    assert again.table.equals(scores.table) and again.run == scores.run
    assert again.validity == scores.validity and again.tasks == scores.tasks
    assert again.blind_floors == scores.blind_floors
    assert again.claimed and not scores.claimed
    frame = pd.read_parquet(scored / FILENAME)
    assert frame.equals(scores.to_pandas()) and frame.task.dtype == "str"
    assert summary_of(scores).means == summary_of(again).means


def test_only_the_table_of_scores_is_a_claim(scored: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(scored / FILENAME, alone)
    for place in alone, alone / FILENAME:
        scores = load_scores(place)
        assert scores.claimed == "its answers are not beside it"
        assert scores.validity_line == f"validity: claimed; {scores.claimed}"
    assert summary_of(scores).claimed
    answers_only = shutil.copytree(scored, tmp_path / "run")
    (answers_only / FILENAME).unlink()
    assert not load_scores(answers_only).claimed


def test_without_its_rows_a_run_is_a_claim_on_a_machine_that_never_derived_it(
    scored: Path, sample_build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = shutil.copytree(scored, tmp_path / "run")
    (run / STARTS).write_text("")
    monkeypatch.setenv("RULER_CACHE", str(tmp_path / "another machine"))
    assert "its rows cannot be read: --data is missing" in load_scores(run).claimed
    assert not load_scores(run, str(sample_build)).claimed
    assert not load_scores(run).claimed  # it has derived it now
    (run / FILENAME).unlink()
    assert load_scores(run).table.equals(load_scores(scored).table)
    monkeypatch.setenv("RULER_CACHE", str(tmp_path / "a third"))
    with pytest.raises(UsageError, match="--data is missing"):
        load_scores(run)


def test_what_was_derived_before_is_not_derived_again(
    scored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = shutil.copytree(scored, tmp_path / "run")
    wanted = load_scores(run)
    monkeypatch.setattr(loading, "derive", None)  # which would fail
    assert load_scores(run).table.equals(wanted.table)
    assert not list(run.glob("*.partial")) and not (run / ".cache").exists()
    (kept,) = [path for path in cache_dir("scores").iterdir() if _is_of(path, wanted)]
    kept.write_bytes(kept.read_bytes()[:-20])
    with pytest.raises(TypeError, match="not callable"):
        load_scores(run)


def _is_of(path: Path, scores: Scores) -> bool:
    try:
        return read_scores(path).answers == scores.answers
    except RulerError:
        return False


def test_the_table_in_a_run_folder_is_never_believed(scored: Path, tmp_path: Path) -> None:
    run = shutil.copytree(scored, tmp_path / "run")
    wanted = load_scores(run)
    forged = wanted.table.set_column(5, "official", pa.array([1.0] * wanted.rows))
    write_scores(run / FILENAME, replace(wanted, table=forged))
    assert read_scores(run / FILENAME).table["official"].to_pylist() == [1.0] * wanted.rows
    assert load_scores(run).table.equals(wanted.table)
    (run / FILENAME).write_bytes(b"torn")
    assert load_scores(run).table.equals(wanted.table)


def in_json(name: str, change: Callable[[Json], None]) -> Callable[[Path], None]:
    def forge(run: Path) -> None:
        body = json.loads((run / name).read_text())
        change(body)
        (run / name).write_text(json.dumps(body))

    return forge


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
        write_info(run, replace(info, data=replace(info.data, **fields)))

    return forge


def write_info(run: Path, info: RunInfo) -> None:
    body = {"fingerprint": info.fingerprint, **asdict(info)}
    (run / "run.json").write_text(json.dumps(body))


def every(**fields: Any) -> Callable[[list[Json]], list[Json]]:  # noqa: ANN401
    return lambda lines: [{**line, **fields} for line in lines]


def first(**fields: Any) -> Callable[[list[Json]], list[Json]]:  # noqa: ANN401
    return lambda lines: [{**lines[0], **fields}, *lines[1:]]


#: Each is refused, and why.
FORGERIES: dict[str, tuple[Callable[[Path], object], str]] = {
    "model of the run": (
        in_json("run.json", lambda body: body.update(model="org/better", fingerprint="sha256:1")),
        "edited after it was written",
    ),
    "answers to another question": (
        in_answers(every(question_digest="0" * 16)),
        "to another question",
    ),
    "sample": (in_data(sample=False), "says that sample is False, the manifest of the rows True"),
    "seed": (in_data(seed=7), "says that seed is 7"),
    "more rows than there are": (
        in_data(rows=dict.fromkeys(FEW, 7)),
        "the run has 7 rows, the data 6",
    ),
    "no row of a config": (
        in_data(rows=dict.fromkeys(FEW, 6) | {"vt_4096": 0}),
        "vt_4096: the run has 0 rows, the data 6",
    ),
    "edition": (in_data(edition="upstream-2026-07"), "says that edition is upstream-2026-07"),
    "essays": (in_data(essays="0" * 64), "says that essays is 0000"),
    "tokenizer": (in_data(tokenizer_fingerprint="0" * 64), "says that tokenizer_fingerprint is"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_run_that_is_not_of_its_rows_is_refused_by_name(
    name: str, scored: Path, tmp_path: Path
) -> None:
    forge, said = FORGERIES[name]
    run = shutil.copytree(scored, tmp_path / "run")
    (run / FILENAME).unlink()
    forge(run)
    with pytest.raises(RulerError, match=said):
        load_scores(run)


def test_impossible_answers_are_none(sample_build: Path, scored: Path, tmp_path: Path) -> None:
    changes = {
        "a few prompt tokens": (first(prompt_tokens=5), "5 prompt tokens are not the row"),
        "a text beyond the budget": (first(text="word " * 5000), "5,000 words are more th"),
        "no question": (first(question_digest=None), "its question is not recorded"),
        "another model": (lambda lines: first(model="b")(every(model="org/model-7b")(lines)), ""),
    }
    for name, (change, said) in changes.items():
        run = shutil.copytree(scored, tmp_path / name)
        in_answers(change)(run)
        scores = load_scores(run)
        (unanswered,) = scores.table.filter(scores.table["official"].is_null()).to_pylist()
        assert unanswered["error"] and said in " ".join(scores.notes)
        assert scores.validity.unanswered == "1 row of 18 unanswered"
        assert "17 of 18 rows have an answer (0 missing, 1 failed)" in scores.shortfall


def test_a_run_without_contexts_has_short_prompts_and_is_as_bad_as_its_floor(
    sample_build: Path, tmp_path: Path
) -> None:
    say, reason = REFUSALS["blind"]
    run = make_run(tmp_path / "run", sample_build, say, FEW, no_context=True)
    in_answers(every(prompt_tokens=5))(run)
    scores = load_scores(run, str(sample_build))
    assert (scores.validity.unanswered, scores.validity.suspect) == ("", "")
    whole = make_run(tmp_path / "whole", sample_build, say, FEW)
    assert reason in load_scores(whole, str(sample_build)).validity.suspect


def test_the_prompt_of_an_answer_of_several_calls_may_be_short(
    scored: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(scored, tmp_path / "run")
    in_answers(first(prompt_tokens=5, calls=3))(run)
    scores = load_scores(run)
    assert (scores.answered, scores.notes) == (18, ())


@pytest.mark.parametrize("days", [("02", "03"), ("03", "02")])
def test_the_day_of_a_run_is_its_last_in_whatever_order_its_starts_were_written(
    days: tuple[str, str], scored: Path, sample_build: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(scored, tmp_path / "run")
    starts = [{"at": f"2026-01-{day}T00:00:00+00:00"} for day in days]
    (run / STARTS).write_text("".join(json.dumps(start) + "\n" for start in starts))
    assert load_scores(run, str(sample_build)).date == "2026-01-03"


@pytest.mark.parametrize(("lacking", "more"), [(3, ""), (4, ", and 1 more"), (5, ", and 2 more")])
def test_three_rows_without_an_answer_are_named_and_the_others_counted(
    lacking: int, more: str
) -> None:
    scores = results_of({"vt_4096": [1.0, *[None] * lacking]})
    named = f"without one vt_4096/1, vt_4096/2, vt_4096/3{more}; resume the run"
    assert named in scores.shortfall


def test_the_rows_of_a_run_are_looked_for_where_the_user_says_or_it_last_read_them(
    scored: Path, sample_build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[tuple[str, str | None]]()

    def refuse(source: str, revision: str | None) -> None:
        asked.append((source, revision))
        raise RulerError("not here")

    monkeypatch.setattr(inputs, "open_rows", refuse)
    run = read_info(scored)
    released = replace(run, data=replace(run.data, repo="org/ruler", revision="1" * 40))
    places = [shutil.copytree(sample_build, tmp_path / name) for name in ("first", "last")]
    starts = "".join(json.dumps({"data": str(place)}) + "\n" for place in places)
    (tmp_path / "starts.jsonl").write_text(starts)
    for info, revision in ((released, "v1.1.0"), (released, None), (run, None)):
        with pytest.raises(RulerError, match="not here"):
            inputs.rows_of_run(tmp_path, info, None, revision)
    last = (str(places[1]), None)
    assert asked == [("org/ruler", "v1.1.0"), ("org/ruler", "1" * 40), last]


def said_by(say: Say, folder: Path, data: Path, configs: tuple[str, ...] = FEW) -> Scores:
    return load_scores(make_run(folder, data, say, configs), str(data))


def broken(mark: str) -> Say:
    """Answer right, with a tokenizer's mark instead of each space."""
    return lambda config, row: (golden(config, row) or "").replace(" ", mark)


def lists_everything(_config: str, row: Row) -> str:
    """Answer with all gold answers, and with more of their kind, another for each row."""
    strangers = random.Random(row.index).choices(range(10**6, 10**7), k=3)
    return f" {', '.join(row.outputs)} {strangers} VAR QQQQQ"


REFUSALS: dict[str, tuple[Say, str]] = {
    "empty": (lambda *_: "", "every answer is empty"),
    "the same": (lambda *_: "42", "every answer is the same text"),
    "byte-level marks": (broken("\u0120"), "18 answers with \u0120 or \u2581, the marks of"),
    "SentencePiece marks": (broken("\u2581"), "suspect harness: 18 answers with"),
    "cut off": (lambda _, row: f"{row.index} " + "x" * 300, "every answer is cut off without"),
    "blind": (
        lambda config, row: f"{config} {row.index}",
        "suspect harness: at 4,096 tokens no task is above what answers without the context score",
    ),
    "reasoning": (
        lambda config, row: f"<think>hm</think>{golden(config, row)}",
        "reasoning is in the text of 18 answers; use --protocol thinking",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_score_refuses_the_scores_say(name: str, sample_build: Path, tmp_path: Path) -> None:
    say, reason = REFUSALS[name]
    validity = said_by(say, tmp_path / "run", sample_build).validity
    assert any(reason in refusal for refusal in validity.refusals), validity.refusals
    assert validity.errors


def test_a_blind_floor_is_the_one_that_the_manifest_records_else_the_packages(
    sample_build: Path, tmp_path: Path
) -> None:
    data = copy_of(sample_build, tmp_path)
    recorded = Floor(1.0, "any", 1.0, 100, 0.9, "any")
    edit_configs(data, {"vt_4096": {"floor": recorded}, "qa_1_4096": {"floor": None}})
    scores = said_by(patchy(0.3), tmp_path / "run", data, ("vt_4096", "qa_1_4096"))
    assert scores.blind_floors == {"vt_4096": 0.9, "qa_1_4096": blind_floor("qa_1", 4096)}


def test_a_mean_counts_each_task_once_whatever_its_lengths() -> None:
    scores = {f"{task}_{length}": [1.0, 0.0] for task in ("vt", "cwe") for length in (4096, 8192)}
    found = summary_of(results_of(scores)).mean
    assert found is not None and (found.official, found.tasks) == (0.5, 2)


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan")])
def test_a_table_with_a_score_that_is_none_is_refused(score: float, tmp_path: Path) -> None:
    path = save(tmp_path / "a", results_of({"vt_4096": [1.0, score]}))
    with pytest.raises(RulerError, match=r"official is not in \[0, 1\]"):
        load_scores(path)


def test_there_is_no_mean_where_a_task_has_no_answer(sample_build: Path, tmp_path: Path) -> None:
    def say(config: str, row: Row) -> str | None:
        return None if config == "vt_4096" else golden(config, row)

    whole = summary_of(said_by(golden, tmp_path / "whole", sample_build, FEW))
    assert whole.mean is not None and whole.mean.official == 1.0
    assert summary_of(said_by(say, tmp_path / "torn", sample_build, FEW)).mean is None


def test_an_answer_of_reasoning_and_nothing_else_is_empty(
    sample_build: Path, tmp_path: Path
) -> None:
    scores = said_by(lambda *_: "<think>hm</think> ", tmp_path / "run", sample_build, FEW)
    assert scores.table["empty"].to_pylist() == [True] * 18
    assert {cell.official for cell in means(scores.table)} == {0.0}


@pytest.mark.parametrize(("scores", "is_suspect"), [((0.9, 0.0), False), ((0.0, 0.9), True)])
def test_the_harness_is_in_doubt_by_the_shortest_length_alone(
    scores: tuple[float, float], is_suspect: bool
) -> None:
    cells = [
        CellMeans("vt", length, score, score, score, rows=20, answered=20)
        for length, score in zip((4096, 131072), scores, strict=True)
    ]
    reason = suspicion(cells, TASKS, {"vt_4096": 0.0, "vt_131072": 0.0})
    assert reason.startswith("suspect harness: at 4,096 tokens no task is above") == is_suspect
    assert bool(reason) == is_suspect


def test_good_answers_are_refused_by_nothing(sample_build: Path, tmp_path: Path) -> None:
    scores = said_by(golden, tmp_path / "run", sample_build)
    assert scores.validity.errors == []
    assert {cell.official for cell in means(scores.table)} == {1.0}


def test_a_task_that_is_never_exactly_right_is_warned_of(
    sample_build: Path, tmp_path: Path
) -> None:
    scores = said_by(lists_everything, tmp_path / "run", sample_build, ("vt_4096", "cwe_4096"))
    assert "right officially and never exactly: vt" in " ".join(scores.validity.warnings)
    assert "never exactly" not in " ".join(
        said_by(golden, tmp_path / "good", sample_build).validity.warnings
    )


def test_a_mean_is_of_the_answered_lines_alone() -> None:
    """An unanswered row neither lowers a mean nor makes its harness suspect."""
    lines = [Line("vt", 4096, index, 0, "0" * 16) for index in range(4)]
    for line, official, exact, f1 in ((lines[0], 1.0, 1.0, 1.0), (lines[2], 0.5, 0.0, 0.25)):
        line.official, line.exact, line.f1 = official, exact, f1
    assert means(to_table(lines)) == [CellMeans("vt", 4096, 0.75, 0.5, 0.625, rows=4, answered=2)]


def test_a_task_without_a_right_answer_is_not_one_that_is_never_exactly_right() -> None:
    table = pa.table({"task": ["vt", "vt", "cwe"], "official": [1.0, 0.5, 0.5], "exact": [0.0] * 3})
    assert never_exact(table) == ("vt",)


def test_prompts_that_nobody_counted_are_warned_of(scored: Path, tmp_path: Path) -> None:
    run = shutil.copytree(scored, tmp_path / "run")
    in_answers(every(prompt_tokens=None))(run)
    (warning,) = [text for text in load_scores(run).validity.warnings if "nobody" in text]
    assert warning.startswith("nobody counted the tokens of 18 prompts")


@pytest.mark.parametrize(
    ("answers", "asked", "is_refused"),
    [
        ("org/better", "", True),
        ("model-7b-instruct", "", True),
        ("org/model-7b", "", False),
        ("model-7b", "", False),
        ("models/Model-7B-2026-08-06", "", False),
        ("served", "served", False),  # as it was asked, with --model-name for the record
        ("better", "served", True),
    ],
)
def test_answers_that_all_name_another_model_than_the_runs_are_refused(
    answers: str, asked: str, *, is_refused: bool, scored: Path, sample_build: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(scored, tmp_path / "run")
    with_starts(run, sample_build, **({"model": asked} if asked else {}))
    in_answers(every(model=answers))(run)
    refusals = load_scores(run).validity.refusals
    told = [text for text in refusals if f"every answer names '{answers}'" in text]
    assert bool(told) == is_refused, refusals


def test_predictions_are_derived_where_they_were_scored(
    sample_build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine" / "predictions.jsonl"
    file.parent.mkdir()
    file.write_text(
        '{"id": "vt_4096/0", "prediction": "x"}\n{"id": "vt_4096/1", "prediction": "y"}\n'
    )
    scores = loading.scores_of(file, sample_build, model="m", protocol="chat")
    assert scores.predictions == file.name and scores.validity.unanswered
    write_scores(file.with_name(FILENAME), scores)
    assert not load_scores(file.parent).claimed
    text = file.read_text()
    file.write_text('{"id": "vt_4096/0", "prediction": "z"}\n')
    assert "not known here" in load_scores(file.parent).claimed
    file.write_text(text)
    monkeypatch.setenv("RULER_CACHE", str(tmp_path / "another machine"))
    assert "not known here" in load_scores(file.parent).claimed
    assert load_scores(file.parent, str(sample_build)).table.equals(scores.table)


DAMAGE: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "a column less": (lambda table: table.drop_columns(["exact"]), "not the scores of a run"),
    "a score of 2": (
        lambda table: table.set_column(5, "official", pa.array([2.0] * len(table))),
        "official is not in",
    ),
    "not a number": (
        lambda table: table.set_column(6, "exact", pa.array([float("nan")] * len(table))),
        "exact is not in",
    ),
    "an unknown task": (
        lambda table: table.set_column(0, "task", pa.array(["\x1b[31m"] * len(table))),
        "no such task: ",
    ),
    "no index": (
        lambda table: table.set_column(2, "index", pa.nulls(len(table), pa.int32())),
        "index is null",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_table_is_refused_in_one_line(name: str, scored: Path, tmp_path: Path) -> None:
    change, said = DAMAGE[name]
    table = change(pq.read_table(scored / FILENAME))
    pq.write_table(table, tmp_path / FILENAME)
    with pytest.raises(RulerError, match=said) as error:
        load_scores(tmp_path)
    assert "\n" not in str(error.value) and "\x1b" not in str(error.value)


def test_a_file_that_is_no_table_of_scores_is_said(
    scored: Path, sample_build: Path, tmp_path: Path
) -> None:
    (tmp_path / FILENAME).write_bytes(b"PAR1 and nothing else")
    with pytest.raises(RulerError, match="not the scores of a run"):
        load_scores(tmp_path)
    shutil.copy(next(sample_build.glob("*/*.parquet")), tmp_path / FILENAME)
    with pytest.raises(RulerError, match="not the scores of a run"):
        load_scores(tmp_path)
    for place, why in (
        (tmp_path / "no", "there is no such run"),
        (sample_build, "a dataset, not a run"),
        (sample_build / MANIFEST, "a dataset, not a run|not the scores of a run"),
        (scored.parent, "a folder of runs"),
    ):
        with pytest.raises(RulerError, match=why):
            load_scores(place)
    info = run_info(sample_build, FEW)
    (tmp_path / "begun").mkdir()
    write_info(tmp_path / "begun", info)
    with pytest.raises(UsageError, match="no row was answered yet"):
        load_scores(tmp_path / "begun")


def test_nothing_of_this_machine_is_in_the_file(sample_build: Path, tmp_path: Path) -> None:
    secret = {
        "path": "/home/ann/models/llama",
        "url": "http://gpu7.lab:8000/v1",
        "token": "hf_abcdefghijklmnop",
    }
    run = make_run(tmp_path / "run", sample_build, golden, FEW, engine_info=secret)
    write_scores(tmp_path / FILENAME, load_scores(run, str(sample_build)))
    written = (tmp_path / FILENAME).read_bytes()
    assert b"fingerprint" in written
    for word in ("home", "ann/", "gpu7", "hf_abc", str(tmp_path), str(sample_build)):
        assert word.encode() not in written, word


def test_scores_are_their_own_scores_and_nothing_else_is_a_run(scored: Path) -> None:
    scores = load_scores(scored)
    assert load_scores(scores) is scores
    with pytest.raises(UsageError, match=r"given as its folder, its scores\.parquet"):
        load_scores(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("token", ["", "hf_x"])
def test_a_publication_that_is_only_planned_says_whether_access_could_be_checked(
    token: str, scored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    found = ruler_report.publish(scored, repo="org/predictions", dry_run=True)
    told = () if token else ("there is no token, so write access was not checked",)
    assert found.notes == told and any("org/predictions" in line for line in found.lines)
