"""The exact score on its way: results, the tables of `score` and `report`, and `compare`."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from ruler_data import Row
from ruler_report.results_file import read_results, write_results
from ruler_report.stats.comparison import compare
from ruler_report.stats.summary import summarize
from tests.running.processes import evaluate
from tests.runs import golden, make_run, refused

CONFIGS = ("niah_multikey_1_4096", "vt_4096", "niah_multiquery_4096")


def listing(_config: str, row: Row) -> str:
    """List every candidate of the context: variables, numbers."""
    candidates = re.findall(r"VAR ([A-Z]+)|\b(\d{7})\b", row.context)
    return ", ".join(name or number for name, number in candidates)


@pytest.fixture(scope="module")
def runs(sample_build: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("exact")
    made = [
        make_run(folder / say.__name__, sample_build, say, CONFIGS) for say in (golden, listing)
    ]
    for run in made:
        done = evaluate("score", run, "--data", sample_build)
        assert done.returncode == 0, done.stderr
    return made[0], made[1]


def test_a_listing_scores_100_and_is_never_exact(runs: tuple[Path, Path]) -> None:
    right, listed = map(read_results, runs)
    for name in CONFIGS:
        assert set(right.configs[name].exact) == set(right.configs[name].f1) == {1.0}
        assert right.configs[name].failures == {}
        if name == "niah_multiquery_4096":  # all needles are asked for
            continue
        one = listed.configs[name]
        assert set(one.scores) == {1.0}
        assert set(one.exact) == {0.0}
        assert all(score is not None and 0 < score < 1 for score in one.f1)
        assert one.failures == {"more than the gold answers": tuple(range(one.rows))}
    assert summarize(listed).exact["vt"][4096] == 0.0


def test_score_report_and_compare_show_it(
    runs: tuple[Path, Path], sample_build: Path, tmp_path: Path
) -> None:
    done = evaluate("score", runs[1], "--data", sample_build)
    assert re.search(r"niah_multikey_1 +0\.0 / \d+\.\d", done.stdout)
    done = evaluate("report", runs[1], "--out", tmp_path / "out", "--no-pictures")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "| score | floor | listing | exact | F1 |" in page
    assert "more than the gold answers" in page
    done = evaluate("compare", *runs)
    assert "exact score: " in done.stdout and "-66.7 [" in done.stdout
    done = evaluate("compare", *runs, "--score", "exact", "--json")
    assert json.loads(done.stdout)["overall"]["value"] == pytest.approx(-200 / 3)
    said = refused(evaluate("compare", *runs, "--score", "best"), code=2)
    assert "--score 'best': not known; known: official, exact, f1" in said


def test_a_headline_decides_on_means_and_comparisons(runs: tuple[Path, Path]) -> None:
    listed = read_results(runs[1])
    configs = {name: replace(one, headline="exact") for name, one in listed.configs.items()}
    summary = summarize(replace(listed, configs=configs))
    assert summary.cells["vt"][4096].value == 0.0
    assert summary.official["vt"][4096] == 100.0
    made = compare(read_results(runs[0]), replace(listed, configs=configs), force=True)
    assert made.differences["vt", 4096].value == -100.0


def test_results_of_versions_without_it_are_still_read(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    listed = read_results(runs[1])
    configs = {name: replace(one, exact=(), f1=()) for name, one in listed.configs.items()}
    write_results(tmp_path / "results.json", replace(listed, configs=configs), {})
    old = read_results(tmp_path)
    assert "exact" not in str(summarize(old))
    assert compare(runs[0], old).exact is None
    said = refused(evaluate("compare", runs[0], tmp_path, "--score", "f1"), code=2)
    assert "was scored by a version without it" in said
