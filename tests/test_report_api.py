"""The Python API of the reports: what it takes, returns and shows."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ruler_report
from ruler_data import UsageError
from ruler_eval.scoring.inputs import Text
from ruler_eval.scoring.loading import load_scores
from ruler_report.columns import MEAN
from ruler_report.contents import _example
from tests.commands import succeeded
from tests.results import coin, results_of, save
from tests.running.processes import evaluate
from tests.runs import refused
from tests.test_report import few


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    return [save(tmp_path / name, few(name, rate)) for name, rate in (("one", 0.95), ("two", 0.6))]


def test_runs_are_folders_files_or_scores(runs: list[Path]) -> None:
    first, second = runs
    found = ruler_report.compare(first, second, claimed=True).to_record()
    again = ruler_report.compare(str(first), second / "scores.parquet", claimed=True)
    assert found == again.to_record()
    loaded = [load_scores(run) for run in runs]
    assert found == ruler_report.compare(*loaded, claimed=True).to_record()


def test_a_comparison_shows_and_returns_what_the_command_prints(runs: list[Path]) -> None:
    comparison = ruler_report.compare(*runs, claimed=True)
    printed = evaluate("compare", *runs, "--claimed").stdout
    shown = str(comparison).split("\nnote: ")[0]
    assert printed.split() == shown.split()
    assert repr(comparison) == str(comparison)
    record = json.loads(evaluate("compare", *runs, "--claimed", "--json").stdout)
    assert record == json.loads(json.dumps(comparison.to_record()))


def test_hostile_names_stay_text() -> None:
    scores = {"vt_4096": coin("x", 0.5, 20)}
    hostile = results_of(scores, model="<script>alert(1)</script>\x1b[31m[bold]")
    shown = str(ruler_report.compare(results_of(scores), hostile))
    assert "\x1b" not in shown and "[bold]" in shown and "\\[" not in shown


def test_a_report_is_written_and_shows_its_first_table(runs: list[Path], tmp_path: Path) -> None:
    report = ruler_report.report(runs, tmp_path / "out", claimed=True, pictures=False)
    done = evaluate("report", *runs, "--claimed", "--no-pictures", "--out", tmp_path / "again")
    assert done.returncode == 0 and " 0 pictures, " in done.stdout
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"index.html", "report.md", "report.csv", "report.json", "report.tex"}
    for name in names - {"index.html", "report.md"}:  # these name the command
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    mean = report.conclusion.value(MEAN, 0)
    assert f"org/one [claimed]    1 {mean:.1f}" in str(report)


def test_a_terminal_of_80_columns_shows_a_line_and_a_table_without_intervals(
    runs: list[Path], tmp_path: Path
) -> None:
    for chosen in (runs[:1], runs):
        done = evaluate("report", *chosen, "--no-pictures", "--claimed", "--out", tmp_path / "out",
                        env={"COLUMNS": "80"})  # fmt: skip
        table = [line.rstrip() for line in done.stdout.splitlines() if "%" not in line]
        assert any(" 4K" in line and " 8K" in line for line in table)
        row = re.compile(r"(org/\w+ \[claimed\]|vt|cwe|mean) +[\d-]+ ")
        rows = [line for line in table if row.match(line)]
        assert rows and all(len(line) <= 80 and ", " not in line[20:] for line in rows)


def test_a_run_or_a_baseline_that_is_named_twice_stands_there_once(
    runs: list[Path], tmp_path: Path
) -> None:
    report = ruler_report.report(
        [*runs, runs[0]], tmp_path / "out", baseline=runs[1], name=[f"full={runs[1]}"],
        claimed=True, pictures=False,
    )  # fmt: skip
    assert [*report.conclusion.names] == ["full [claimed]", "org/one [claimed]"]
    assert "minus full " in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")


def test_a_place_that_only_a_name_tells_follows_the_runs(runs: list[Path], tmp_path: Path) -> None:
    report = ruler_report.report(
        runs[:1], tmp_path / "out", name=[f"full={runs[1]}"], claimed=True, pictures=False
    )
    assert {*report.conclusion.names} == {"full [claimed]", "org/one [claimed]"}
    report = ruler_report.report(
        runs[0], tmp_path / "out", name=[f"snapkv=.5={runs[0]}"], claimed=True, pictures=False
    )
    assert [*report.conclusion.names] == ["snapkv=.5 [claimed]"]


@pytest.mark.slow
def test_without_matplotlib_there_are_no_pictures(runs: list[Path], tmp_path: Path) -> None:
    code = (
        "import importlib.machinery as m, sys\n"
        "find = m.PathFinder.find_spec\n"
        "m.PathFinder.find_spec = lambda name, *more: None if name == 'matplotlib' else "
        "find(name, *more)\n"
        "import ruler_report\n"
        "print(ruler_report.report(sys.argv[1:3], sys.argv[3]))"
    )
    command = [sys.executable, "-c", code, *map(str, runs), str(tmp_path / "out")]
    done = succeeded(subprocess.run(command, capture_output=True, text=True, check=False))
    assert (
        "note: no pictures: they need matplotlib (pip install 'ruler-data[report]'" in done.stdout
    )
    assert not (tmp_path / "out" / "figures").exists()


def test_what_is_not_a_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run" / "x").mkdir(parents=True)
    message = refused(evaluate("compare", tmp_path, tmp_path), 2)
    assert "has no run.json; give the output folder of a run" in message
    with pytest.raises(UsageError, match="no runs to report"):
        ruler_report.report([], tmp_path / "out")
    for entry, said in (("x", "give NAME=RUN"), ("=x", "give NAME=RUN")):
        with pytest.raises(UsageError, match=said):
            ruler_report.report([few("a")], tmp_path / "out", name=[entry])


def test_an_example_shows_the_end_of_a_question_and_the_beginning_of_answers() -> None:
    text = Text("x" * 300 + "Which?", ("A", "B"), "")
    shown = _example("vt", text, {"org/a": "y" + "z" * 400})
    assert shown.question == "x" * 294 + "Which?" and shown.outputs == "A, B"
    assert shown.answers == {"org/a": "y" + "z" * 299}
