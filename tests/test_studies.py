"""What a suite varies: found from parameters alone, told by the report."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ruler_data.suites import packaged
from ruler_eval.scoring.results import Scores, params_of
from ruler_report.contents import build
from tests.commands import succeeded
from tests.results import coin, config_result, results_of
from tests.running.processes import evaluate
from tests.runs import refused
from tests.test_report import save


def run_of(
    suite: str, lengths: tuple[int, ...] = (4096, 8192), rows: int = 40, begin: str = ""
) -> Scores:
    """Return a run of a packaged suite, right with a chance that falls from task to task.

    `begin` is how the names of its tasks begin.
    """
    tasks = {name: task for name, task in packaged()[suite].tasks.items() if name.startswith(begin)}
    scores, params = {}, {}
    for place, task in enumerate(tasks):
        for length in lengths:
            config = f"{task}_{length}"
            scores[config] = coin(config, max(0.95 - 0.08 * place, 0.0), rows)
            params[config] = params_of(tasks[task])
    results = results_of(scores)
    for name, one in results.configs.items():
        results.configs[name] = config_result(
            one.scores, family=one.family, category=one.category, params=params[name]
        )
    return results


@pytest.mark.parametrize(
    ("suite", "begin", "heads"),
    [
        ("paper", "niah_keys_", [("haystack", "keys", "task")]),
        ("paper", "niah_w_", [("value_type", "task")]),
        ("ruler", "", []),
    ],
)
def test_tasks_stand_beside_their_parameters(
    suite: str, begin: str, heads: list[tuple[str, ...]]
) -> None:
    run = run_of(suite, begin=begin)
    data = replace(run.run.data, suite=suite)
    report = build([replace(run, run=replace(run.run, data=data))], medium=None)
    tables = [table for table in report.tables if table.name.startswith("varied-")]
    assert [table.head[:-2] for table in tables] == heads
    assert all(len(table.rows) == len(run.configs) // 2 for table in tables)


HOSTILE: list[dict[str, Any]] = [
    {"a": "<script>alert(1)</script>", "=cmd|' /C calc'!A0": 1},
    {"a": "\x1b[31m\u202e$\\frac{$", "=cmd|' /C calc'!A0": 2},
    {"depths": 10**12, "haystack": "needles"},
    {"depths": -3, "keys": True, "haystack": 7},
    {"none": "true", "value_type": "<b>"},
    {"none": "possible", "keys": 10**300},
]


@pytest.mark.parametrize("places", [(0, 1), tuple(range(6))])
def test_hostile_parameters_stay_text(places: tuple[int, ...], tmp_path: Path) -> None:
    results = results_of({f"niah_x{place}_4096": [1.0, 0.0] for place in places})
    for place in places:
        name = f"niah_x{place}_4096"
        results.configs[name] = replace(results.configs[name], params=HOSTILE[place])
    succeeded(evaluate("report", save(tmp_path / "run", results), "--out", tmp_path / "out"))
    for name in ("index.html", "report.md", "report.csv"):
        text = (tmp_path / "out" / name).read_text(encoding="utf-8")
        assert "\x1b" not in text and "\u202e" not in text
        assert "\n=cmd" not in text and ",=cmd" not in text
    assert "<script" not in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


def test_a_parameter_that_is_no_number_is_refused(tmp_path: Path) -> None:
    results = results_of({"vt_a_4096": [1.0]})
    text = (save(tmp_path, results) / "results.json").read_text(encoding="utf-8")
    (tmp_path / "results.json").write_text(text.replace('"params":{}', '"params":{"hops":NaN}'))
    said = refused(evaluate("report", tmp_path, "--out", tmp_path / "out"))
    assert "vt_a_4096: a parameter is not a finite number; score the run again" in said
