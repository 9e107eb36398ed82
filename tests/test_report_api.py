"""The Python API of the reports: what it takes, returns and shows."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import ruler_report
from ruler_data import UsageError
from ruler_eval.scoring.results import Cost, Scores
from ruler_report.contents import build
from tests.commands import succeeded
from tests.results import coin, results_of
from tests.running.processes import evaluate
from tests.runs import refused
from tests.test_report import Page, few, save


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    return [save(tmp_path / name, few(name, rate)) for name, rate in (("one", 0.95), ("two", 0.6))]


def test_runs_are_folders_files_or_results(runs: list[Path]) -> None:
    first, second = runs
    comparison = ruler_report.compare(first, second)
    assert comparison == ruler_report.compare(str(first), second / "results.json")
    assert comparison == ruler_report.compare(*map(ruler_report.read_results, runs))


def test_a_comparison_shows_and_returns_what_the_command_prints(runs: list[Path]) -> None:
    comparison = ruler_report.compare(*runs)
    printed = evaluate("compare", *runs).stdout
    assert [line.rstrip() for line in printed.splitlines()] == str(comparison).splitlines()
    assert repr(comparison) == str(comparison)
    record = json.loads(evaluate("compare", *runs, "--json").stdout)
    assert record == json.loads(json.dumps(comparison.to_record()))


def with_cost(results: Scores, seconds: float) -> Scores:
    """Return results whose rows, two or more, took these seconds together."""
    for name, one in results.configs.items():
        results.configs[name] = replace(one, cost=Cost(2, 3, 8000, seconds))
    return results


def test_a_comparison_shows_score_beside_cost() -> None:
    first, second = (with_cost(few(name), seconds) for name, seconds in (("one", 2), ("two", 8)))
    comparison = ruler_report.compare(first, second)
    assert "tokens per second" in str(comparison)
    assert [one["seconds"] for one in comparison.to_record()["cost"]] == [8, 32]
    (length, *_), every = comparison.lengths, len(first.configs)
    fewer = ruler_report.compare(first, second, lengths=[length])
    configs = sum(name.endswith(f"_{length}") for name in first.configs)
    assert configs < every
    costs = [one["seconds"] for one in fewer.to_record()["cost"]]
    assert costs == [2 * configs, 8 * configs]  # of the configs that are compared


def test_a_comparison_is_a_record_for_each_difference(runs: list[Path]) -> None:
    comparison = ruler_report.compare(*runs)
    records = comparison.to_records()
    assert len(records) == 2 * 2 + 2 + 2 + 1
    (overall,) = (one for one in records if (one["task"], one["length"]) == (None, None))
    assert overall["value"] == comparison.overall.value
    assert overall["rows_first"] == comparison.rows[None, None][0]


def test_hostile_names_stay_text_in_a_notebook() -> None:
    scores = {"vt_4096": coin("x", 0.5, 20)}
    hostile = results_of(scores, model="<script>alert(1)</script>\x1b[31m[bold]")
    comparison = ruler_report.compare(results_of(scores), hostile)
    page = Page(comparison._repr_html_())
    assert {tag for tag, _ in page.tags} >= {"table", "p"}
    assert page.all("caption") == [{"hidden": None}]
    assert "script" not in {tag for tag, _ in page.tags} and "<script>" in page.said
    shown = str(comparison)
    assert "\x1b" not in shown and "[bold]" in shown and "\\[" not in shown


def test_forced_comparisons_and_unscored_rows_are_noted() -> None:
    first = results_of({"vt_4096": [1.0, None]})
    second = results_of({"vt_4096": [1.0, 0.0], "cwe_4096": [1.0]}, protocol="chat")
    comparison = ruler_report.compare(first, second, force=True)
    forced, partial = comparison.notes
    assert forced == "forced: the protocols differ: completion and chat"
    assert partial.startswith("org/model-7b: 1 of 2 rows scored; the others count as wrong")
    assert "; not in it: cwe_4096 (" in comparison.frame
    assert all(note in str(comparison) for note in comparison.notes)
    assert all(note in Page(comparison._repr_html_()).said for note in comparison.notes)


def test_a_length_without_any_answer_takes_part_in_bounds_alone() -> None:
    run = results_of({"vt_4096": [None] * 4, "vt_8192": [1.0, 1.0, None, 1.0]})
    made = build([run], medium="page")
    summary = made.runs[0].summary
    assert str(summary.mean).startswith("[") and "own" not in summary.effective
    assert "lengths" not in {picture.name for picture in made.pictures}, "one length has a score"
    pair = ruler_report.compare(results_of({"vt_4096": [1.0] * 4, "vt_8192": [1.0] * 4}), run)
    assert str(pair.overall).startswith("[-") and pair.differences["vt", 8192].points == "0.0"


def test_a_baseline_that_has_a_name_in_the_report_stands_there_once() -> None:
    first, second = (
        results_of({f"vt_{n}": coin(f"{chance}/{n}", chance, 200) for n in (4096, 8192)})
        for chance in (0.95, 0.6)
    )
    made = build([second, replace(first, name="full")], baseline=first, medium=None)
    assert [run.label for run in made.runs] == ["full", "org/model-7b"]


def test_a_report_is_written_and_shows_its_headline(runs: list[Path], tmp_path: Path) -> None:
    report = ruler_report.report(runs, tmp_path / "out", pictures=False)
    done = evaluate("report", *runs, "--no-pictures", "--out", tmp_path / "again")
    assert done.returncode == 0 and f"0 pictures, {len(report.tables)} tables" in done.stdout
    names = {path.name for path in (tmp_path / "out").iterdir()}
    results = {f"results-{number}.json.gz" for number in (1, 2)}
    assert names == {"index.html", "report.md", "report.csv", *results}
    for name in names:
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    assert "org/one" in str(report) and "<table>" in report._repr_html_()
    means = [record for record in report.to_records() if record["task"] is None]
    assert [(one["model"], one["length"]) for one in means] == [
        (f"org/{name} [claimed]", length) for name in ("one", "two") for length in (4096, 8192)
    ]
    assert means[0]["value"] == report.runs[0].summary.overall[4096].value


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
    assert "note: no pictures: they need matplotlib (pip install -e '.[report]'" in done.stdout
    assert not (tmp_path / "out" / "figures").exists()


def test_what_is_not_a_scored_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run" / "x").mkdir(parents=True)
    message = refused(evaluate("compare", tmp_path, tmp_path), 2)
    assert "has no run.json; give the output folder of a run" in message
    (tmp_path / "run" / "run.json").touch()
    assert "a folder of runs; give one" in refused(evaluate("score", tmp_path), 2)
    assert "a file of a run; give its" in refused(evaluate("score", tmp_path / "run/run.json"), 2)
    with pytest.raises(UsageError, match="no runs to report"):
        ruler_report.report([], tmp_path / "out")
    other = results_of({"cwe_4096": [1.0]}, model="org/other")
    made = build([results_of({"vt_4096": [1.0]}), other], medium=None)
    assert made.verdict[0] == "frame: no task at a length is in all runs; no ranks, no differences."
