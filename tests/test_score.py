"""`ruler-eval score`: runs and predictions of others, over the rows of a real build."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_data import TASKS, Row
from ruler_data.layouts import read_answers
from ruler_eval.scoring.metrics import any_of, clean, recall
from ruler_report.resampling import mean_percent
from tests.conftest import LETTERS, ROOT
from tests.running.processes import evaluate
from tests.runs import Say, golden, make_run, refused, rows_of, silent


def adversarial(config: str, row: Row) -> str:
    """Answer right, wrong and in ways that scorers trip over, by turns."""
    first, last = row.outputs[0], row.outputs[-1]
    return [
        f"\x00{first}\x1b[31m",
        f" {first[: len(first) // 2]}\n{first[len(first) // 2 :]}",
        f"x{last.upper()}x" * 3,
        "\x1c\u2028\x85 \t",
        f"<script>alert(1)</script>=cmd|' /C calc'!A0 {first.swapcase()}",
        f"{row.context[:300]} {last}",
    ][row.index % 6]


def said_by(say: Say, data: Path, config: str) -> tuple[list[str], list[list[str]]]:
    rows = rows_of(data, config)
    texts = [cleaned_by_hand(say(config, row) or "") for row in rows]
    return texts, [list(row.outputs) for row in rows]


def scored(run: Path, data: Path, *options: object) -> dict[str, Any]:
    """Score a run and return its figures."""
    done = evaluate("score", run, "--data", data, "--json", *options)
    figures: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == bool(figures["refusals"]), done.stderr
    return figures


@pytest.mark.parametrize("say", [golden, silent, adversarial])
def test_every_score_is_the_oracles(say: Say, sample_build: Path, tmp_path: Path) -> None:
    figures = scored(make_run(tmp_path / "run", sample_build, say), sample_build)
    means = {cell["task"]: 100 * cell["official"] for cell in figures["means"]}
    for task, entry in TASKS.items():
        oracle = all_by_hand if entry.metric == "all" else part_by_hand
        texts, wanted = said_by(say, sample_build, f"{task}_4096")
        assert round(means[task], 2) == oracle(texts, wanted), task


BAD = {
    "not json": ("{", "line 3: not JSON"),
    "a list": ("[1]", "line 3: a mapping expected, found list"),
    "null": ('{"id": "vt_4096/3", "prediction": null}', "line 3: field prediction: str expected"),
    "id": ('{"id": "vt_4096", "prediction": ""}', "line 3: id 'vt_4096' is not a row"),
    "unknown config": (
        '{"id": "vt_512/3", "prediction": ""}',
        "'vt_512/3' is not a row to score; no row of 'vt_512' is",
    ),
    "unknown row": (
        '{"id": "vt_4096/6", "prediction": ""}',
        "is not a row to score; rows 0 to 5 are",
    ),
    "twice": (
        '{"id": "vt_4096/1", "prediction": ""}',
        "'vt_4096/1' already has a prediction, in p.jsonl line 2",
    ),
    "no text": ('{"id": "vt_4096/3"}', "line 3: no prediction"),
    "deep": ("[" * 100_000, "line 3: not JSON"),
    "bytes": ('{"id": "vt_4096/3", "prediction": "\udcff"}', "line 3: not JSON"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_line_has_its_number(name: str, sample_build: Path, tmp_path: Path) -> None:
    bad, message = BAD[name]
    good = [f'{{"id": "vt_4096/{index}", "prediction": ""}}' for index in range(2)]
    path = tmp_path / "p.jsonl"
    path.write_bytes("\n".join([*good, bad, ""]).encode("utf-8", "surrogateescape"))
    options = ("--data", sample_build, "--model", "m", "--protocol", "chat", "--partial")
    assert message in refused(evaluate("score", path, *options))
    assert not (tmp_path / "results.json").exists()


#: Letters whose case mappings change lengths, separators of several kinds, and what hides.
NASTY = st.text("aAbB12 -.,\n\t\x00\x1b\x1c\x85\xa0\u0130\u0131ß\u017fΣς\u200b'\"<&=", max_size=12)
ROWS = st.lists(
    st.tuples(
        NASTY, st.lists(st.text("aAbB12ßİ ", min_size=1, max_size=3), min_size=1, max_size=5)
    ),
    min_size=1,
    max_size=12,
)


def all_by_hand(predictions: list[str], references: list[list[str]]) -> float:
    """Mean over rows of the share of references found, in percent, to two digits."""
    total = 0.0
    for prediction, wanted in zip(predictions, references, strict=True):
        found = 0.0
        for reference in wanted:
            if prediction.lower().find(reference.lower()) != -1:
                found = found + 1.0
        total = total + found / len(wanted)
    return round(total / len(predictions) * 100, 2)


def part_by_hand(predictions: list[str], references: list[list[str]]) -> float:
    """Share of rows with any reference found, in percent, to two digits."""
    right = 0.0
    for prediction, wanted in zip(predictions, references, strict=True):
        if any(prediction.lower().count(reference.lower()) for reference in wanted):
            right = right + 1.0
    return round(right / len(predictions) * 100, 2)


def cleaned_by_hand(text: str) -> str:
    return "".join("\n" if ord(c) < 32 else c for c in text.strip()).strip()


def ours(one: Callable[[str, list[str]], float], texts: list[str], want: list[list[str]]) -> float:
    return round(mean_percent([one(p, r) for p, r in zip(texts, want, strict=True)]), 2)


@pytest.mark.parametrize(("metric", "oracle"), [(recall, all_by_hand), (any_of, part_by_hand)])
@given(rows=ROWS)
def test_scores_are_upstreams_to_the_last_digit(
    metric: Callable[[str, list[str]], float],
    oracle: Callable[[list[str], list[list[str]]], float],
    rows: list[tuple[str, list[str]]],
) -> None:
    texts = [clean(prediction) for prediction, _ in rows]
    wanted = [list(outputs) for _, outputs in rows]
    assert ours(metric, texts, wanted) == oracle(texts, wanted)


@given(text=st.text(LETTERS))
def test_predictions_are_cleaned_as_upstream_cleans_them(text: str) -> None:
    assert clean(text) == cleaned_by_hand(text)
    assert clean(text) == re.sub("[\x00-\x1f]", "\n", text.strip()).strip()


UPSTREAM = os.environ.get("RULER_UPSTREAM")
PREDICTIONS = os.environ.get("RULER_PREDICTIONS")
needs_upstream = pytest.mark.skipif(UPSTREAM is None, reason="no checkout of upstream is here")


def parity(*arguments: object) -> str:
    """Run the comparison; it exits 1 if any score differs."""
    command = [sys.executable, ROOT / "benchmarks" / "parity.py", "--upstream", UPSTREAM]
    done = subprocess.run([*map(str, command), *map(str, arguments)], capture_output=True,
                          text=True, timeout=600, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_upstream
def test_adversarial_answers_score_as_upstream(sample_build: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", sample_build, adversarial)
    said = parity("--data", sample_build, run)
    assert "78 predictions; no score differs" in said and said.count("_4096 |") == 13


@needs_upstream
@pytest.mark.skipif(PREDICTIONS is None, reason="no real predictions are here")
def test_real_predictions_score_as_upstream_s_own_script_has_it() -> None:
    folder = Path(PREDICTIONS or "")
    samples = sorted(folder.glob("samples_*.jsonl"))
    if samples:
        assert "no score differs" in parity(*samples)
    if (folder / "run").is_dir():
        assert "no score differs" in parity("--data", folder / "data", folder / "run")
    assert samples or (folder / "run").is_dir()


@pytest.mark.parametrize(
    ("name", "config"),
    [("niah_single_1", "niah_single_1_1000"), ("ruler_vt", "vt_1000"), ("ruler_cwe", "cwe_1000"),
     ("ruler_fwe", "fwe_1000"), ("ruler_qa_squad", "qa_1_1000"), ("ruler_qa_hotpot", "qa_2_1000")],
)  # fmt: skip
def test_the_harness_s_own_tasks_are_told_by_file_and_length(
    name: str, config: str, tmp_path: Path
) -> None:
    line = {"doc_id": 0, "filter": "none", "resps": [["a"]], "filtered_resps": ["a"],
            "doc": {"index": 3, "input": "?", "outputs": ["a"], "length": 900, "max_length": 1000,
                    "gen_prefix": ""}}  # fmt: skip
    path = tmp_path / f"samples_{name}_2025-06-27T14-58-32.284616.jsonl"
    path.write_text(json.dumps(line))
    (found,) = read_answers(path)
    assert (f"{found.task}_{found.length}", found.index, found.outputs) == (config, 3, ("a",))
