"""The published tables: every derived column comes out of the per-length columns again."""

import csv
import json
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest

from ruler_data import DATA_VERSION
from ruler_report.effective_length import THRESHOLDS, effective_length
from ruler_report.procedures import FOLDER, LENGTHS, published
from tests.commands import succeeded
from tests.conftest import ROOT, Cli
from tests.running.processes import evaluate
from tests.runs import refused

#: Rounding of the paper: means of scores with one digit, printed with one digit.
ROUNDING = 0.1 + 1e-9
FILES = ("paper-2024-04", "paper-2024-08", "leaderboard")
WHOLE = [line for name in FILES for line in published(name) if len(line.scores) == len(LENGTHS)]
#: Cells that do not follow from their own line; SOURCES.md names them.
MISPRINTS = {
    ("Qwen2.5-14B-Instruct-1M* (14B)", "avg"),
    ("Qwen3-14B* (14B)", "effective"),
    ("Qwen2.5-7B-Instruct-1M* (7B)", "effective"),
    ("Qwen3-8B* (8B)", "effective"),
    ("Qwen3-4B* (4B)", "effective"),
}
#: Tables of the mean over all 13 tasks.
OVERALL = ("3", "12", "leaderboard")


def averages(scores: list[float]) -> dict[str, float]:
    """Averages over six lengths, summed by hand."""
    return {
        "avg": sum(scores) / 6,
        "wavg_inc": sum(place * score for place, score in enumerate(scores, 1)) / 21,
        "wavg_dec": sum((7 - place) * score for place, score in enumerate(scores, 1)) / 21,
    }


def printed(name: str) -> list[dict[str, str]]:
    """Return the cells of a file as they are printed; all six scores are there."""
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return [line for line in csv.DictReader(file) if all(line[str(n)] for n in LENGTHS)]


def averages_of(line: dict[str, str]) -> dict[str, float]:
    return averages([float(line[str(length)]) for length in LENGTHS])


def test_averages_follow_from_the_scores() -> None:
    for line in (line for name in FILES for line in printed(name)):
        for name, found in averages_of(line).items():
            differs = bool(line[name]) and abs(found - float(line[name])) > ROUNDING
            assert differs == ((line["model"], name) in MISPRINTS), (line, name)


def test_effective_lengths_follow_from_the_scores() -> None:
    for line in WHOLE:
        if line.table in OVERALL:
            found = effective_length(line.scores, THRESHOLDS[line.group]) or 0
            expected = (line.model, "effective") in MISPRINTS
            assert (found != line.effective) == expected, (line.table, line.model, found)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("average", ["wavg_inc", "wavg_dec"])
def test_ranks_follow_from_the_scores(name: str, average: str) -> None:
    rank = f"rank_{average.removeprefix('wavg_')}"
    lines = [line for line in printed(name) if line[rank]]
    assert lines
    for _, group in groupby(lines, key=lambda line: (line["table"], line["group"])):
        members = list(group)
        values = [averages_of(line)[average] for line in members]
        ranks = [1 + sum(rival > value for rival in values) for value in values]
        assert ranks == [int(line[rank]) for line in members]


def test_thresholds_are_those_that_the_tables_print() -> None:
    lines = [line for name in FILES for line in published(name) if list(line.scores) == [4096]]
    overall = [line for line in lines if line.table in OVERALL]
    assert {line.group: line.scores[4096] for line in overall} == THRESHOLDS


@pytest.mark.parametrize("table", ["3", "12"])
def test_categories_add_up_to_the_thirteen_tasks(table: str) -> None:
    lines = {(line.table, line.model): line for line in published("paper-2024-04")}
    compared = 0
    for line in published("paper-2024-04"):
        if line.table != table or len(line.scores) < 6 or line.model == "Command-R (35B)":
            continue  # Table 16 calls it 34B
        for length in LENGTHS:
            parts = [lines[part, line.model].scores[length] for part in ("13", "14", "15", "16")]
            mean = (8 * parts[0] + parts[1] + 2 * parts[2] + 2 * parts[3]) / 13
            assert mean == pytest.approx(line.scores[length], abs=0.11), (line.model, length)
            compared += 1
    assert compared == 6 * {"3": 9, "12": 7}[table]


def test_every_table_is_there() -> None:
    tables = {line.table for name in FILES for line in published(name)}
    assert tables == {"3", *map(str, range(10, 17)), "leaderboard"}
    assert len(published("paper-2024-04")) == 129


RESULTS = ROOT / "results"
BASE = [RESULTS / f"{name}-base" for name in ("smollm2-135m-instruct", "gemma-3-270m")]
COMPLETION = RESULTS / "smollm2-135m-instruct-completion"


@pytest.mark.slow
def test_cards_show_the_scores_of_the_results() -> None:
    command = [sys.executable, "benchmarks/example.py", "--card"]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=True)
    scores = (ROOT / "cards" / "scores.md").read_text(encoding="utf-8")
    assert done.stdout == scores
    table = scores.partition("\n\n")[2].strip()
    heads = {"SmolLM2-135M-Instruct-Q4_1": "SmolLM2", "gemma-3-270m-Q4_K_M": "Gemma"}
    for name, short in heads.items():
        table = table.replace(name, short)
    assert table in (RESULTS / "README.md").read_text(encoding="utf-8")


def test_the_results_are_of_rows_that_are_still_built() -> None:
    for run in (*BASE, COMPLETION):
        data = json.loads((run / "run.json").read_text(encoding="utf-8"))["data"]
        assert data["data_version"].split(".")[0] == DATA_VERSION.split(".")[0]


def test_the_two_models_are_compared_but_not_the_two_protocols() -> None:
    shown = succeeded(evaluate("compare", *BASE, "--claimed")).stdout
    assert "paired: the same questions, haystacks cut to each run's tokens" in shown
    said = refused(evaluate("compare", BASE[0], COMPLETION))
    assert "the protocols differ: base and completion" in said


@pytest.mark.slow
def test_a_build_asks_the_questions_of_results(shared: Path, tmp_path: Path, cli: Cli) -> None:
    tokenizer, sources = shared / "tokenizers" / "llama3", shared / "sources"
    few = ("--lengths", 1024, "--rows", 40, "--out", tmp_path / "data")
    succeeded(cli("build", "--tokenizer", tokenizer, "--sources", sources, *few))
    built, known = (
        json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["configs"]
        for folder in (tmp_path / "data", RESULTS / "data" / "gemma-3-270m-Q4_K_M")
    )
    assert len(built) == 13
    for name, config in built.items():
        assert config["question_digest"] == known[name]["question_digest"], name
    card = (tmp_path / "data" / "README.md").read_text(encoding="utf-8")
    assert (ROOT / "cards" / "scores.md").read_text(encoding="utf-8").strip() in card
