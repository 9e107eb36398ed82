"""Several samples of each row: each asked once, averaged in the scores, with their spread."""

import json
from collections.abc import Sequence
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import ruler_eval
from ruler_eval import Request
from ruler_report.publication import compose
from tests.running.processes import evaluate


def often(requests: Sequence[Request]) -> list[str]:
    """Answer the first two of four samples, and the third of even rows."""
    return [
        ", ".join(request.row.outputs)
        if request.sample < 2 or (request.sample == 2 and request.row.index % 2 == 0)
        else ""
        for request in requests
    ]


def test_the_score_of_a_row_is_the_mean_over_its_samples_and_the_spread_is_reported(
    frozen: Path, tmp_path: Path
) -> None:
    done = ruler_eval.run(frozen, out=tmp_path, generate=often, samples=4, rows=6)
    assert done.complete and done.rows == 48
    assert len({(r["config"], r["index"], r["sample"]) for r in done.to_records()}) == 48
    scores = ruler_eval.score(done, frozen)
    assert scores.configs["vt_2048"] == (0.75, 0.5) * 3
    message = evaluate("score", tmp_path, "--data", frozen)
    assert message.returncode == 0, message.stderr
    assert "62.50 ±47.9" in message.stdout  # of 100, 100, 50 and 0
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["configs"]["vt_2048"]["samples"] == [1, 1, 0.5, 0]
    assert results["configs"]["vt_2048"]["scores"] == [0.75, 0.5] * 3
    assert results["summary"]["sample_spread"]["overall"]["2048"] == pytest.approx(47.87, abs=0.01)
    assert results["run"]["sampling"]["samples"] == 4
    published = compose(tmp_path, "org/predictions")
    rows = pq.read_table(BytesIO(published.files["predictions/vt_2048.parquet"])).to_pylist()
    assert [(row["sample"], row["index"]) for row in rows] == [*product(range(4), range(6))]
    assert [bool(row["prediction"]) for row in rows] == [True] * 12 + [True, False] * 3 + [
        False
    ] * 6


def test_a_row_without_one_of_its_samples_has_no_score(frozen: Path, tmp_path: Path) -> None:
    calls: list[Request] = []

    def moody(requests: Sequence[Request]) -> list[str]:
        calls.extend(requests)
        return [] if requests[0].key == ("vt_2048", 1, 2) and len(calls) < 20 else often(requests)

    choice: dict[str, Any] = {"configs": "vt_2048", "rows": 3, "samples": 3}
    first = ruler_eval.run(frozen, out=tmp_path, generate=moody, **choice)
    assert list(first.failed) == ["vt_2048/1/2"]
    assert ruler_eval.score(first, frozen, partial=True).unanswered == ["vt_2048/1"]
    calls.extend(calls * 2)
    command = len(calls)
    again = ruler_eval.run(frozen, out=tmp_path, generate=moody, **choice)
    assert again.complete and [request.key for request in calls[command:]] == [("vt_2048", 1, 2)]
