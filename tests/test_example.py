"""The results that are committed: whose questions they are of, and what stands beside them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ruler_data import DATA_VERSION
from tests.conftest import ROOT, Cli
from tests.running.processes import evaluate

RESULTS = ROOT / "results"
BASE = [RESULTS / f"{name}-base" for name in ("smollm2-135m-instruct", "gemma-3-270m")]
COMPLETION = RESULTS / "smollm2-135m-instruct-completion"


def test_cards_show_the_scores_of_the_results() -> None:
    done = subprocess.run(
        [sys.executable, "benchmarks/example.py", "--card"],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=True,
    )
    scores = (ROOT / "cards" / "scores.md").read_text(encoding="utf-8")
    assert done.stdout == scores
    table = scores.partition("\n\n")[2].strip()
    heads = {"SmolLM2-135M-Instruct-Q4_1": "SmolLM2", "gemma-3-270m-Q4_K_M": "Gemma"}
    for name, short in heads.items():
        table = table.replace(name, short)
    assert table in (RESULTS / "README.md").read_text(encoding="utf-8")


def test_the_results_are_of_rows_that_are_still_built() -> None:
    for run in (*BASE, COMPLETION):
        data = json.loads((run / "results.json").read_text(encoding="utf-8"))["run"]["data"]
        assert data["data_version"].split(".")[0] == DATA_VERSION.split(".")[0]


def test_the_two_models_are_compared_but_not_the_two_protocols() -> None:
    done = evaluate("compare", *BASE)
    assert done.returncode == 0, done.stderr
    assert "paired: the same questions, haystacks cut to each run's tokens" in done.stdout
    done = evaluate("compare", BASE[0], COMPLETION)
    assert done.returncode == 1 and "the protocols differ: base and completion" in done.stderr


@pytest.mark.slow
def test_a_build_from_the_same_sources_asks_the_questions_of_the_results(
    shared: Path, tmp_path: Path, cli: Cli
) -> None:
    tokenizer, sources = shared / "tokenizers" / "llama3", shared / "sources"
    done = cli("build", "--tokenizer", tokenizer, "--sources", sources,
               "--lengths", 1024, "--rows", 40, "--out", tmp_path / "data")  # fmt: skip
    assert done.returncode == 0, done.stderr
    built, known = (
        json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["configs"]
        for folder in (tmp_path / "data", RESULTS / "data" / "gemma-3-270m-Q4_K_M")
    )
    assert len(built) == 13
    for name, config in built.items():
        assert config["question_digest"] == known[name]["question_digest"], name
    card = (tmp_path / "data" / "README.md").read_text(encoding="utf-8")
    assert (ROOT / "cards" / "scores.md").read_text(encoding="utf-8").strip() in card
