"""The small suite: its rows are the benchmark's, and its mean is as near as it says."""

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from ruler_data import TASKS
from ruler_data.suites import packaged
from ruler_report.pages.report import caveats_of
from ruler_report.results_file import Results
from ruler_report.stats.summary import summarize
from tests.conftest import ROOT, Cli
from tests.results import coin, results_of
from tests.running.processes import evaluate
from tests.runs import rows_of
from tests.test_report import save

MINI = packaged()["mini"]
FULL = 500


def exceeded(rows: int, error: float, draws: int = 4000) -> float:
    """Return how often a mean over 13 tasks of even chances is further off than an error."""
    rng = random.Random("mini")
    far = 0
    for _ in range(draws):
        gap = 0.0
        for _ in range(13):
            first, rest = rng.getrandbits(rows), rng.getrandbits(FULL - rows)
            right = first.bit_count()
            gap += right / rows - (right + rest.bit_count()) / FULL
        far += abs(100 * gap / 13) > error
    return far / draws


def test_the_stated_error_holds_where_rows_vary_the_most_and_no_fewer_rows_would_do() -> None:
    assert MINI.error is not None and set(MINI.tasks) == set(TASKS)
    assert exceeded(MINI.rows, MINI.error) <= 0.055  # 5 %, and three standard errors of 4,000 draws
    assert exceeded(MINI.rows - 10, MINI.error) > 0.06


def test_the_committed_measurement_is_of_these_rows_and_this_error() -> None:
    text = (ROOT / "benchmarks" / "results" / "mini.md").read_text(encoding="utf-8")
    found = re.search(r"Within ([\d.]+) points whatever the profile: (\d+) rows of each task", text)
    assert found and (float(found[1]), int(found[2])) == (MINI.error, MINI.rows)


def test_its_rows_are_the_first_of_the_benchmark_s(tmp_path: Path, cli: Cli) -> None:
    for suite, rows in (("mini", 3), ("ruler", 5)):
        done = cli("build", "--suite", suite, "--tasks", "vt,qa_1", "--lengths", 2048,
                   "--rows", rows, "--sources-kind", "sample",
                   "--out", tmp_path / suite)  # fmt: skip
        assert done.returncode == 0, done.stderr
    for config in ("vt_2048", "qa_1_2048"):
        assert rows_of(tmp_path / "mini", config) == rows_of(tmp_path / "ruler", config)[:3]


def run_of(rows: int, tasks: int = 13) -> Results:
    """Return a run of the small suite."""
    results = results_of({f"{task}_4096": coin(task, 0.8, rows) for task in list(TASKS)[:tasks]})
    data = replace(results.run.data, suite="mini")
    return replace(results, run=replace(results.run, data=data))


def test_score_and_report_state_the_error(tmp_path: Path) -> None:
    results = run_of(MINI.rows)
    said = f"in 95 of 100 runs its mean of the 13 tasks is within {MINI.error:g} points of that of"
    assert summarize(results).error == MINI.error
    assert any(said in caveat for caveat in caveats_of(results))
    done = evaluate("report", save(tmp_path / "run", results), "--out", tmp_path, "--no-pictures")
    assert done.returncode == 0, done.stderr
    assert said in (tmp_path / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(("rows", "tasks"), [(MINI.rows - 1, 13), (MINI.rows, 12)])
def test_with_fewer_rows_or_tasks_no_error_is_stated(rows: int, tasks: int) -> None:
    results = run_of(rows, tasks)
    assert summarize(results).error is None
    assert not any("in 95 of 100 runs" in caveat for caveat in caveats_of(results))
