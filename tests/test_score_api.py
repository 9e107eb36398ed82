"""`ruler_eval.score`: the table of scores from Python, of predictions in any form."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ruler_data
import ruler_eval
import ruler_report
from ruler_data import Row, RulerError, UsageError
from ruler_eval.running.data import open_dataset
from tests.runs import golden, make_run, rows_of
from tests.test_score import adversarial


def said(data: Path, say: Callable[..., Any], configs: list[str]) -> dict[str, str]:
    """Return predictions by row."""
    return {
        f"{name}/{row.index}": say(name, row) for name in configs for row in rows_of(data, name)
    }


CONFIGS = ["vt_4096", "qa_1_4096"]


def official(table: pd.DataFrame) -> dict[str, list[float]]:
    """Return the official scores by config."""
    by_cell = table.groupby(["task", "length"], sort=False)
    return {f"{task}_{length}": [*cell.official] for (task, length), cell in by_cell}


def as_records(texts: dict[str, str], _folder: Path) -> object:
    """Return records as a generator, the forms by turns."""
    return (
        {"id": row, "prediction": text}
        if number % 2
        else {"config": row.split("/")[0], "index": int(row.split("/")[1]), "text": text}
        for number, (row, text) in enumerate(texts.items())
    )


def as_file(texts: dict[str, str], folder: Path) -> object:
    path = folder / "predictions.jsonl"
    lines = (json.dumps(record) + "\n" for record in as_records(texts, folder))  # type: ignore[attr-defined]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def as_frame(texts: dict[str, str], _folder: Path) -> object:
    return pd.DataFrame({"id": [*texts], "prediction": [*texts.values()]})


def as_is(texts: dict[str, str], _folder: Path) -> object:
    return texts


@pytest.mark.parametrize("form", [as_is, as_records, as_file, as_frame])
def test_every_form_has_the_scores_of_the_run(
    form: Callable[..., Any], sample_build: Path, tmp_path: Path
) -> None:
    run = make_run(tmp_path / "run", sample_build, adversarial, CONFIGS)
    expected = {
        name: [by_hand(name, row) for row in rows_of(sample_build, name)] for name in CONFIGS
    }
    predictions = form(said(sample_build, adversarial, CONFIGS), tmp_path)
    assert official(ruler_eval.score(predictions, sample_build)) == expected
    assert official(ruler_eval.score(run, sample_build)) == expected
    loaded = ruler_data.load(sample_build)
    for data in (loaded, open_dataset(str(sample_build))):
        assert official(ruler_eval.score(str(run), data)) == expected
    few = ruler_eval.score({"vt_4096/0": ""}, loaded["vt_4096"], partial=True)
    assert few.official.notna().tolist() == [True] + [False] * 5


def by_hand(config: str, row: Row) -> float:
    """Return the official score of an answer as the paper says it, without our metrics."""
    answer = adversarial(config, row).lower()
    named = [output.lower() in answer for output in row.outputs]
    return float(any(named)) if config.startswith("qa") else sum(named) / len(named)


def test_of_some_tasks_alone_the_others_need_no_answer(sample_build: Path, tmp_path: Path) -> None:
    texts = said(sample_build, golden, ["vt_4096"]) | {"qa_1_4096/0": "x", "fwe_4096/0": "y"}
    with pytest.raises(RulerError, match="8 of 18 rows have an answer"):
        ruler_eval.score(texts, sample_build)
    assert official(ruler_eval.score(texts, sample_build, tasks=["vt"])) == {"vt_4096": [1.0] * 6}
    run = make_run(tmp_path / "run", sample_build, golden, CONFIGS)
    for tasks in ["vt"], ["qa_1"]:
        table = ruler_eval.score(run, sample_build, tasks=tasks)
        assert [*table.task.unique()] == tasks and len(table) == 6
    with pytest.raises(UsageError, match="no config has these tasks"):
        ruler_eval.score(texts, sample_build, tasks=["cwe"])


def test_the_table_has_the_columns_of_the_contract_and_what_it_rests_on(
    sample_build: Path,
) -> None:
    texts = said(sample_build, golden, CONFIGS)
    texts.update(dict.fromkeys(["vt_4096/0", "vt_4096/1", "vt_4096/2"], "") | {"qa_1_4096/5": ""})
    del texts["qa_1_4096/0"]
    table = ruler_eval.score(texts, sample_build, partial=True)
    assert " ".join(table.columns) == (
        "task length index sample question official exact f1 label depth shown finish empty "
        "truncated prompt_tokens answer_tokens seconds cost error"
    )
    assert table.error.dropna().to_dict() == {6: "not asked"}
    assert table.label.tolist()[:3] == ["empty"] * 3 and table["empty"].sum() == 4
    by_task = table.groupby("task")[["official", "exact", "f1"]].mean()
    assert by_task.loc["vt"].tolist() == [0.5] * 3
    assert by_task.loc["qa_1"].tolist() == [0.8] * 3
    assert table.attrs["validity"].startswith("validity: 11 of 12 rows answered; 4 empty, 0 cut")
    assert table.attrs["refusals"] == ["1 row of 12 unanswered"]
    assert "36% of the answers are empty" in table.attrs["warnings"]


def test_reasoning_is_never_scored_and_told_if_unexpected(sample_build: Path) -> None:
    texts = {row: f"<think>{text}</think> {number}" for number, (row, text) in
             enumerate(said(sample_build, golden, ["vt_4096"]).items())}  # fmt: skip
    for protocol in "", "completion", "thinking":
        table = ruler_eval.score(texts, sample_build, protocol=protocol)
        refusals = " ".join(table.attrs["refusals"])
        assert table.official.sum() == 0 and "suspect harness" in refusals
        told = "reasoning is in the text of 6 answers" in refusals
        assert told == (protocol != "thinking")


REFUSED: list[tuple[Any, str]] = [
    (
        {"vt_4096/0": "x"},
        "1 of 6 rows have an answer (5 missing, 0 failed): without one vt_4096/1, vt_4096/2, ",
    ),
    ({"vt_4096/6": "x"}, "record 1: 'vt_4096/6' is not a row to score; rows 0 to 5 are"),
    ([{"id": "vt_4096/0", "text": "x"}] * 2, "record 2: 'vt_4096/0' already has a prediction"),
    ([{"id": "vt_4096/0"}], "record 1: no prediction: none of the fields"),
    ({}, "no predictions: give a run"),
    (["x"], "record 1: a mapping expected, found str"),
    (pd.DataFrame({"answer": ["x"]}), "record 1: no prediction: none of the fields"),
]


@pytest.mark.parametrize(("predictions", "message"), REFUSED)
def test_incomplete_unknown_and_repeated_predictions_are_named(
    predictions: Any,  # noqa: ANN401 - what users may pass
    message: str,
    sample_build: Path,
) -> None:
    with pytest.raises(RulerError, match=re.escape(message)):
        ruler_eval.score(predictions, sample_build)


def test_what_cannot_be_scored_is_a_usage_error(sample_build: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", sample_build, golden, ["vt_4096"])
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: ruler_eval.score(run), "--data is missing: give the folder"),
        (lambda: ruler_eval.score({"vt_4096/0": "x"}), "--data is missing: give the folder"),
        (
            lambda: ruler_eval.score(tmp_path / "no", sample_build),
            "there is no such run",
        ),
        (lambda: ruler_eval.score(run, sample_build, protocol="chat"), "a run has its own"),
        (lambda: ruler_eval.score(None, sample_build), "predictions None: give a run, a file"),  # type: ignore[arg-type]
        (lambda: ruler_report.report(None, tmp_path / "out"), "runs None: give the folder"),  # type: ignore[arg-type]
    ]
    for call, message in cases:
        with pytest.raises(UsageError, match=message):
            call()


def test_blank_lines_are_no_records(sample_build: Path, tmp_path: Path) -> None:
    path, texts = tmp_path / "p.jsonl", {"vt_4096/0": "a"}
    path.write_text('{"id": "vt_4096/0", "text": "a"}\n\n  \n')
    found = ruler_eval.score(path, sample_build, partial=True)
    assert found.equals(ruler_eval.score(texts, sample_build, partial=True))
