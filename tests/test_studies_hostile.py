"""Parameters in somebody's results are hostile input: what they cannot do to a report."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.results import results_of
from tests.running.processes import evaluate
from tests.runs import refused
from tests.test_report import save

HOSTILE: list[dict[str, Any]] = [
    {"a": "<script>alert(1)</script>", "=cmd|' /C calc'!A0": 1},
    {"a": "\x1b[31m\u202e$\\frac{$", "=cmd|' /C calc'!A0": 2},
    {"depths": 10**12, "haystack": "needles"},
    {"depths": -3, "keys": True, "haystack": 7},
    {"none": "true", "value_type": "<b>"},
    {"none": "possible", "keys": 10**300},
]


@pytest.mark.parametrize("places", [(0, 1), (2, 3), tuple(range(6))])
def test_hostile_parameters_neither_run_nor_break_a_report(
    places: tuple[int, ...], tmp_path: Path
) -> None:
    results = results_of({f"niah_x{place}_4096": [1.0, 0.0] for place in places})
    for place in places:
        name = f"niah_x{place}_4096"
        results.configs[name] = replace(results.configs[name], params=HOSTILE[place])
    done = evaluate("report", save(tmp_path / "run", results), "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
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
