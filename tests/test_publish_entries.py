"""Entries for a model's page: the Hub's format, the figures of the run, and what is no score."""

import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
import yaml
from huggingface_hub import parse_eval_result_entries

from ruler_data import TASKS, RulerError
from ruler_eval.scores import Scores
from ruler_report.publication import entries, file_name, record_of, to_yaml
from ruler_report.summary import summarize
from tests.conftest import ROOT
from tests.results import coin, results_of

LENGTHS = (4096, 8192)
FULL = [f"{task}_{length}" for task in TASKS for length in LENGTHS]


def boards(kind: str = "completion_balanced") -> set[str]:
    """Return the leaderboards of a dataset."""
    return {f"{name}_{kind}" for name in ("ruler", "ruler_4096", "ruler_8192")}


def full(**changes: Any) -> Scores:  # noqa: ANN401 - fields of RunInfo
    """Return a run of all 13 tasks at two lengths."""
    return results_of({name: coin(name, 0.9, 30) for name in FULL}, **changes)


def test_entries_are_in_the_hub_s_format_with_the_figures_of_the_run() -> None:
    results = full()
    summary = summarize(results)
    text = to_yaml(entries(results, summary, FULL, boards(), "https://hub/datasets/org/preds"))
    found = {one.task_id: one for one in parse_eval_result_entries(yaml.safe_load(text))}
    kind = "completion_balanced"
    assert set(found) == boards()
    for length in LENGTHS:
        one = found[f"ruler_{length}_{kind}"]
        assert one.value == round(summary.overall[length].point.value, 2)
        assert (one.dataset_id, one.dataset_revision) == ("org/ruler", "1" * 40)
        assert one.source_url == "https://hub/datasets/org/preds"
        assert one.notes and "protocol completion; edition balanced" in one.notes
        _, low, high = summary.overall[length].point
        assert f"390 rows, 95 % interval {low:.2f} to {high:.2f}" in one.notes
    assert found[f"ruler_{kind}"].value == round(summary.averages["avg"].point.value, 2)


def test_entries_of_another_edition_stand_beside_the_first() -> None:
    runs = [full(), of_data(edition="upstream-2026-07")]
    names = {
        f".eval_results/ruler_completion_{one}.yaml" for one in ("balanced", "upstream-2026-07")
    }
    assert {file_name(one) for one in runs} == names
    known = boards() | boards("completion_upstream-2026-07")
    ids = [one["dataset"]["task_id"] for run in runs  # type: ignore[index]
           for one in entries(run, summarize(run), FULL, known, "https://hub/x")]  # fmt: skip
    assert len(ids) == len(set(ids)) == 6


def test_only_leaderboards_that_the_dataset_has_get_an_entry() -> None:
    for run, held in [(full(protocol="chat"), boards()), (full(), set[str]())]:
        with pytest.raises(RulerError, match=r"eval\.yaml of org/ruler has no leaderboard"):
            entries(run, summarize(run), FULL, held, "https://hub/x")


def test_a_run_of_some_lengths_enters_no_mean_over_all() -> None:
    wider = [*FULL, "vt_131072"]
    found = entries(full(), summarize(full()), wider, boards(), "https://hub/x")
    assert [one["dataset"]["task_id"] for one in found] == [  # type: ignore[index]
        "ruler_4096_completion_balanced",
        "ruler_8192_completion_balanced",
    ]


def of_data(**changes: Any) -> Scores:  # noqa: ANN401 - fields of DataInfo
    results = full()
    return replace(results, run=replace(results.run, data=replace(results.run.data, **changes)))


NO_SCORE: list[tuple[Scores, str]] = [
    (of_data(repo=None), "rows are of a folder"),
    (of_data(sample=True), "rows are of the sample corpus"),
    (of_data(suite="mini"), "its suite is mini, not ruler"),
    (full(no_context=True), "without context"),
    (results_of({name: coin(name, 0.9, 9) for name in FULL[:-2]}), "not have exactly the 13 tasks"),
    (results_of({name: [1.0, None] for name in FULL}), "26 of 52 rows are scored"),
]


@pytest.mark.parametrize(("results", "why"), NO_SCORE, ids=[why for _, why in NO_SCORE])
def test_what_is_no_ruler_score_does_not_enter_a_leaderboard(results: Scores, why: str) -> None:
    with pytest.raises(RulerError, match=why):
        entries(results, summarize(results), FULL, boards(), "https://hub/x")
    text = record_of(results, summarize(results), None, "https://hub/datasets/o/p")
    assert ("ruler/mean_4096" in text) == (results.run.data.repo is None)


@pytest.mark.parametrize("at", ["2026-11-25T10:00:00+00:00", None])
def test_a_record_keeps_to_the_schema_of_every_eval_ever(at: str | None) -> None:
    schema = json.loads((ROOT / "tests/golden/every_eval_ever.schema.json").read_text("utf-8"))
    for results in (full(), full(engine="python"), of_data(repo=None)):
        text = record_of(results, summarize(results), at, "https://hub/datasets/o/p")
        jsonschema.validate(json.loads(text), schema)
        assert (
            ("self_deployed" in text) == ("open_weights" in text) == (results.run.engine == "vllm")
        )
