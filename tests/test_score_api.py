"""`ruler_eval.score`: the official scores from Python, of predictions in any form."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ruler_data
import ruler_eval
import ruler_report
from ruler_data import RulerError, UsageError
from ruler_eval.running.data import open_dataset
from ruler_eval.scoring.results_file import read_results
from tests.runs import golden, make_run, rows_of, scored_run
from tests.test_score import adversarial


def said(data: Path, say: Callable[..., Any], configs: list[str]) -> dict[str, str]:
    """Return predictions by row."""
    return {
        f"{name}/{row.index}": say(name, row) for name in configs for row in rows_of(data, name)
    }


CONFIGS = ["vt_4096", "qa_1_4096"]


def official(scores: ruler_eval.Scores) -> dict[str, list[float | None]]:
    return {name: [*config.scores] for name, config in scores.configs.items()}


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


@pytest.mark.parametrize("form", [lambda texts, _folder: texts, as_records, as_file])
def test_every_form_has_the_scores_of_the_run_s_results(
    form: Callable[..., Any], sample_build: Path, tmp_path: Path
) -> None:
    run = scored_run(tmp_path / "run", sample_build, adversarial, CONFIGS)
    expected = official(read_results(run))
    predictions = form(said(sample_build, adversarial, CONFIGS), tmp_path)
    assert official(ruler_eval.score(predictions, sample_build)) == expected
    assert official(ruler_eval.score(run, sample_build)) == expected
    loaded = ruler_data.load(sample_build)
    for data in (loaded, open_dataset(str(sample_build))):
        assert official(ruler_eval.score(str(run), data)) == expected
    assert ruler_eval.score({"vt_4096/0": ""}, loaded["vt_4096"], partial=True).unanswered == [
        f"vt_4096/{index}" for index in range(1, 6)
    ]


def test_records_are_one_for_each_config_with_scores_from_0_to_1(sample_build: Path) -> None:
    texts = said(sample_build, golden, CONFIGS)
    texts.update(dict.fromkeys(["vt_4096/0", "vt_4096/1", "vt_4096/2"], "") | {"qa_1_4096/5": ""})
    del texts["qa_1_4096/0"]
    scores = ruler_eval.score(texts, sample_build, partial=True)
    vt = {"config": "vt_4096", "task": "vt", "length": 4096, "score": 0.5, "exact": 0.5,
          "f1": 0.5, "rows": 6, "answered": 6}  # fmt: skip
    qa = {**vt, "config": "qa_1_4096", "task": "qa_1", "score": 0.8,
          "exact": 0.8, "f1": 0.8, "answered": 5}  # fmt: skip
    assert scores.to_records() == [vt, qa]
    assert scores.unanswered == ["qa_1_4096/0"]
    lines = [" ".join(line.split()) for line in repr(scores).splitlines()]
    means = ["vt 50.00", "qa_1 80.00", "mean of 2 65.00"]
    validity = "validity: 11 of 12 rows answered; 4 empty, 0 cut off without the answer, 0 with"
    assert lines[:4] == ["task 4K", *means] and lines[4].startswith(validity)
    assert lines[5:] == ["36% of the answers are empty", "36% of the answers are the same text"]
    assert scores.to_record()["validity"]["answered"] == 11 and scores.exit_status == 0
    page = scores._repr_html_()
    assert re.findall(r"<t[hd]>(.*?)</t[hd]>", page)[-2:] == ["mean of 2", "65.00"]
    assert validity in page


def test_reasoning_is_never_scored_and_told_if_unexpected(sample_build: Path) -> None:
    texts = {row: f"<think>{text}</think> {number}" for number, (row, text) in
             enumerate(said(sample_build, golden, ["vt_4096"]).items())}  # fmt: skip
    for protocol, status in {"": 1, "completion": 1, "thinking": 1}.items():
        scores = ruler_eval.score(texts, sample_build, protocol=protocol)
        assert scores.to_records()[0]["score"] == 0 and scores.exit_status == status
        told = "reasoning is in the text of 6 answers" in repr(scores)
        assert told == (protocol != "thinking") and "suspect harness" in repr(scores)


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
        (lambda: ruler_report.report(None, tmp_path / "out"), "runs None: give the folder"),
    ]
    for call, message in cases:
        with pytest.raises(UsageError, match=message):
            call()


def test_blank_lines_are_no_records(sample_build: Path, tmp_path: Path) -> None:
    path, texts = tmp_path / "p.jsonl", {"vt_4096/0": "a"}
    path.write_text('{"id": "vt_4096/0", "text": "a"}\n\n  \n')
    found = ruler_eval.score(path, sample_build, partial=True)
    assert found.configs == ruler_eval.score(texts, sample_build, partial=True).configs
