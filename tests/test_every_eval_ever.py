"""Records of Every Eval Ever: its schema, and means only of what is a score of RULER."""

import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from ruler_data import TASKS
from ruler_eval.scoring.results import Scores
from ruler_report.publication import record_of
from ruler_report.summary import summarize
from tests.conftest import ROOT
from tests.results import coin, results_of

LENGTHS = (4096, 8192)
FULL = [f"{task}_{length}" for task in TASKS for length in LENGTHS]


def full(**changes: Any) -> Scores:  # noqa: ANN401 - fields of RunInfo
    """Return a run of all 13 tasks at two lengths."""
    return results_of({name: coin(name, 0.9, 30) for name in FULL}, **changes)


def of_data(**changes: Any) -> Scores:  # noqa: ANN401 - fields of DataInfo
    results = full()
    return replace(results, run=replace(results.run, data=replace(results.run.data, **changes)))


NO_SCORE: list[Scores] = [
    of_data(sample=True),
    of_data(suite="mini"),
    full(no_context=True),
    results_of({name: coin(name, 0.9, 9) for name in FULL[:-2]}),
    results_of({name: [1.0, None] for name in FULL}),
]


@pytest.mark.parametrize("results", [full(), *NO_SCORE])
def test_a_record_has_means_only_of_scores_of_ruler(results: Scores) -> None:
    text = record_of(results, summarize(results), None, "https://hub/datasets/o/p")
    assert ("ruler/mean_4096" in text) == (results not in NO_SCORE)


@pytest.mark.parametrize("at", ["2026-11-25T10:00:00+00:00", None])
def test_a_record_keeps_to_the_schema_of_every_eval_ever(at: str | None) -> None:
    schema = json.loads((ROOT / "tests/golden/every_eval_ever.schema.json").read_text("utf-8"))
    for results in (full(), full(engine="python"), of_data(repo=None)):
        text = record_of(results, summarize(results), at, "https://hub/datasets/o/p")
        jsonschema.validate(json.loads(text), schema)
        assert (
            ("self_deployed" in text) == ("open_weights" in text) == (results.run.engine == "vllm")
        )
