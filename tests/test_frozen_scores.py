"""Scores of every committed run, and of a trained model, stay to the last digit.

`golden/scores.json` has of each run the sha256 of its official, exact and F1 scores, row by row,
and the means in percent. It changes on purpose alone (REGOLD=1).
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ruler_builders
from ruler_data.names import parse_config
from ruler_eval.scoring.results import Scores
from ruler_eval.scoring.results_file import read_results
from tests.conftest import ROOT

GOLDEN = Path(__file__).parent / "golden" / "scores.json"
TRAINED = ROOT / "results" / "qwen2.5-coder-0.5b"
RUNS = {path.parent.relative_to(ROOT).as_posix(): path.parent
        for path in sorted(ROOT.glob("results/**/results.json"))}  # fmt: skip
#: Rows of each task, built anew, whose scores are made again.
ROWS = 6


def summary(scores: Scores) -> dict[str, Any]:
    """Return the digests of a run's scores, and its means by length in percent."""
    table, found = scores.table, dict[str, Any]()
    for name in ("official", "exact", "f1"):
        column = getattr(table, name)
        text = json.dumps([None if np.isnan(score) else score for score in column.tolist()])
        found[name] = hashlib.sha256(text.encode()).hexdigest()[:16]
        by_length: dict[int, list[float]] = {}
        for (_, length), rows in table.cells.items():
            if np.isnan(column[rows]).all():  # of a run that was stopped
                continue
            by_length.setdefault(length, []).append(float(np.nanmean(column[rows])))
        found[f"{name}_means"] = {
            str(length): round(100 * sum(means) / len(means), 6)
            for length, means in sorted(by_length.items())
        }
    return found


@pytest.mark.parametrize("name", RUNS)
def test_scores_stay_to_the_last_digit(name: str) -> None:
    found, golden = summary(read_results(RUNS[name])), json.loads(GOLDEN.read_text("utf-8"))
    if os.environ.get("REGOLD"):
        golden[name] = found
        GOLDEN.write_text(json.dumps(golden, indent=1) + "\n", encoding="utf-8")
    assert found == golden[name]


@pytest.mark.slow
def test_answers_of_a_trained_model_are_scored_alike(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are built from the sources, its texts scored anew: each row as it was on the GPU."""
    from ruler_report import results

    monkeypatch.setenv("RULER_TOKENIZERS", str(shared / "tokenizers"))
    monkeypatch.setenv("NLTK_DATA", str(shared / "sources" / "nltk_data"))
    rows, texts = tmp_path / "rows", tmp_path / "texts.jsonl"
    ruler_builders.build(
        tokenizer="qwen2.5", out=rows, lengths=[4096], rows=ROWS, sources=shared / "sources"
    )
    said: dict[str, str] = {}
    for path in sorted(TRAINED.glob("answers-*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            record: Mapping[str, Any] = json.loads(line)
            row = f"{record['config']}/{record['index']}"
            is_built = parse_config(record["config"])[1] == 4096 and record["index"] < ROWS
            if is_built and record["text"] is not None:
                said.setdefault(row, record["text"])
    lines = (json.dumps({"id": row, "text": text}) for row, text in said.items())
    texts.write_text("\n".join(lines), encoding="utf-8")
    scored = results(texts, str(rows), model="org/model", protocol="completion").results
    frozen = read_results(TRAINED)
    assert len(scored.configs) == 13
    for name, config in scored.configs.items():
        for column in ("scores", "exact", "f1"):
            assert getattr(config, column) == getattr(frozen.configs[name], column)[:ROWS], name
