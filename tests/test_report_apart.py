"""Runs that have no row in common: what `ruler-eval report` says to do with them."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from tests.running.processes import evaluate
from tests.runs import refused
from tests.test_report import few, save


@pytest.mark.parametrize(
    ("suites", "tasks", "why", "reports"),
    [
        (
            ("ruler", "sweep_hops", "ruler"), ("vt", "vt_hops_2", "vt"),
            "runs of the suites ruler and sweep_hops share no row",
            ({"0", "2"}, {"1"}),
        ),
        (("ruler", "ruler"), ("vt", "cwe"), "runs of other tasks or lengths", ({"0"}, {"1"})),
    ],
)  # fmt: skip
def test_runs_that_share_no_row_are_refused_with_a_command_for_each_report(
    suites: tuple[str, ...],
    tasks: tuple[str, ...],
    why: str,
    reports: tuple[set[str], ...],
    tmp_path: Path,
) -> None:
    places = []
    for number, (suite, task) in enumerate(zip(suites, tasks, strict=True)):
        one = few(f"m{number}", tasks=[task])
        data = replace(one.run.data, suite=suite)
        places.append(save(tmp_path / str(number), replace(one, run=replace(one.run, data=data))))
    said = refused(evaluate("report", *places, "--out", tmp_path / "out"))
    assert why in said and not (tmp_path / "out").exists()
    commands = [shlex.split(part)[1:] for part in said.split("; ")[1:]]
    commands[0] = commands[0][commands[0].index("report") :]
    assert [{Path(place).name for place in one[1:-2]} for one in commands] == list(reports)
    for command in commands:
        assert evaluate(*command, "--no-pictures").returncode == 0
