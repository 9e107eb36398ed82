"""One report, whole: what it says of three runs, to the letter (`make regold` writes it anew).

Three runs of one model over rows of the sample, with and without an option: ranks, differences with
and without stars, bold cells, rows that flipped with their texts. Properties of reports that hold
for any runs are in `test_report.py`.
"""

import os
from pathlib import Path

import pytest

import ruler_report
from ruler_data import __version__
from ruler_report.typesetting import markdown_text
from tests.conftest import Builds
from tests.runs import make_run, patchy

GOLDEN = Path(__file__).parent / "golden" / "report"
TASKS = "vt,cwe,niah_single_2"
FILES = ("report.md", "report.csv", "report.tex")
#: Runs by name: the chance of a right answer, and the option in which they differ. The name of the
#: last has all that Markdown, LaTeX and spreadsheets read as their own.
RUNS = (("full", 1.0, None), ("half", 0.65, 0.5), ("=a_b|<i>$x^2$</i>", 0.3, 0.75))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, builds: Builds) -> Path:
    """A folder with the report in both forms."""
    folder, data = tmp_path_factory.mktemp("golden"), builds(TASKS, rows=12)
    runs = []
    for place, (name, rate, ratio) in enumerate(RUNS):
        options = {} if ratio is None else {"arguments": {"compression_ratio": ratio}}
        run = make_run(folder / f"run-{place}", data, patchy(rate, name), model=f"org/{name}",
                       engine_info={"version": "1.0", **options})  # fmt: skip
        ruler_report.results(run, data=str(data))
        runs.append(run)
    for form in ("html", "latex"):
        ruler_report.report(
            runs, folder / "out", baseline=runs[0], form=form, data=str(data),
            against="compression_ratio",
        )  # fmt: skip
    return folder / "out"


@pytest.mark.parametrize("name", FILES)
def test_a_report_is_the_golden_one_to_the_letter(name: str, written: Path, builds: Builds) -> None:
    text = (written / name).read_text("utf-8").replace(f"ruler-data {__version__}", "ruler-data")
    for place, shown in ((builds(TASKS, rows=12), "DATA"), (written.parent, "RUNS")):
        text = text.replace(markdown_text(str(place)), shown).replace(str(place), shown)
    if os.environ.get("REGOLD"):
        (GOLDEN / name).write_text(text, encoding="utf-8")
    assert text == (GOLDEN / name).read_text("utf-8")


def test_rows_flip_against_a_baseline_that_is_not_among_the_runs(
    written: Path, builds: Builds, tmp_path: Path
) -> None:
    full, half = written.parent / "run-0", written.parent / "run-1"
    data = str(builds(TASKS, rows=12))
    ruler_report.report([half], tmp_path / "out", baseline=full, data=data, pictures=False)
    text = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "Rows that flipped: 16 right in org/full alone, 0 right in org/half alone" in text
