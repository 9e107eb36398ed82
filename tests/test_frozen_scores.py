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
import pandas as pd
import pytest

import ruler_builders
import ruler_eval
from ruler_data.names import parse_config
from ruler_eval.scoring.scores import FILENAME
from tests.conftest import ROOT

GOLDEN = Path(__file__).parent / "golden" / "scores.json"
TRAINED = ROOT / "results" / "qwen2.5-coder-0.5b"
RUNS = {path.parent.relative_to(ROOT).as_posix(): path.parent
        for path in sorted(ROOT.glob("results/**/scores.parquet"))}  # fmt: skip
#: Rows of each task, built anew, whose scores are made again.
ROWS = 6


def summary(table: pd.DataFrame) -> dict[str, Any]:
    """Return the digests of a run's scores, and its means by length in percent."""
    found = dict[str, Any]()
    for name in ("official", "exact", "f1"):
        text = json.dumps([None if np.isnan(score) else score for score in table[name].tolist()])
        found[name] = hashlib.sha256(text.encode()).hexdigest()[:16]
        by_cell = table.groupby(["task", "length"])[name].mean().dropna()
        means = by_cell.groupby("length").mean()  # without tasks of a run that was stopped
        found[f"{name}_means"] = {
            str(length): round(100 * mean, 6) for length, mean in means.items()
        }
    return found


@pytest.mark.parametrize("name", RUNS)
def test_scores_stay_to_the_last_digit(name: str) -> None:
    found = summary(pd.read_parquet(RUNS[name] / FILENAME))
    golden = json.loads(GOLDEN.read_text("utf-8"))
    if os.environ.get("REGOLD"):
        golden[name] = found
        GOLDEN.write_text(json.dumps(golden, indent=1) + "\n", encoding="utf-8")
    assert found == golden[name]


@pytest.mark.slow
def test_answers_of_a_trained_model_are_scored_alike(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are built from the sources, its texts scored anew: each row as it was on the GPU."""
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
    scored = ruler_eval.score(texts, rows, model="org/model", protocol="completion")
    committed = pd.read_parquet(RUNS["results/qwen2.5-coder-0.5b"] / FILENAME)
    is_built = (committed["length"] == 4096) & (committed["index"] < ROWS)
    frozen = committed[is_built].reset_index(drop=True)
    names = ["task", "index", "question", "official", "exact", "f1", "label"]
    assert scored.task.nunique() == 13 and scored[names].equals(frozen[names])
