"""The Python API: compare runs, test for contamination, write reports.

The commands are thin layers over these functions. A run is given as its folder, as the path of its
`results.json`, or as `Results`.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import write_bytes, write_file
from ruler_data.names import quote
from ruler_report.format import visible
from ruler_report.pages.render import html_page, markdown_page
from ruler_report.pages.report import Report, build
from ruler_report.results import FILENAME, Results, read_results, write_results
from ruler_report.stats import comparison
from ruler_report.stats import contamination as unpaired
from ruler_report.stats.comparison import Comparison
from ruler_report.table import csv_text

Run = str | Path | Results

__all__ = [
    "Comparison", "Report", "Results", "compare", "contamination", "read_results", "report",
]  # fmt: skip


def compare(first: Run, second: Run, *, force: bool = False) -> Comparison:
    """Compare two runs question by question.

    The result prints as the table of `ruler-eval compare`. Differences are second minus first, in
    percentage points.

    Args:
        first: a run.
        second: a run on the same rows.
        force: compare even if the rows or protocols differ; `notes` then says so.

    Raises:
        UsageError: there is no such run, or it is not scored.
        RulerError: the runs cannot be compared and `force` is false, or they share no task.
    """
    return comparison.compare(_load(first), _load(second), force=force)


def contamination(
    public: Run, fresh: Run, *, margin: float = unpaired.MARGIN, force: bool = False
) -> Comparison:
    """Test whether a model scores higher on public rows than on fresh rows of another seed.

    The result prints as the table of `ruler-eval compare --contamination`. Differences are public
    minus fresh, in percentage points.

    Args:
        public: a run on the public rows.
        fresh: a run of the same model on rows of another seed.
        margin: the smallest gap that matters, in percentage points.
        force: compare even if the runs differ in more than the seed; `notes` then says so.

    Raises:
        UsageError: there is no such run, or it is not scored.
        RulerError: the runs differ in more than the seed and `force` is false, or have the same
            seed.
    """
    return unpaired.contamination(_load(public), _load(fresh), margin=margin, force=force)


def report(
    runs: Sequence[Run], out: str | Path, *, pictures: bool = True, force: bool = False
) -> Report:
    """Write the report of runs to a folder, and return it.

    Written are `index.html`, `report.md`, `report.csv`, the results, and the pictures in
    `figures/`. With several runs, each is compared with the first.

    Args:
        runs: one or more.
        out: the folder.
        pictures: whether to draw pictures; needs the extra `report`.
        force: compare runs even if the rows or protocols differ; the report then says so.

    Raises:
        UsageError: there is no such run, it is not scored, or `out` is a file.
        RulerError: the runs cannot be compared.
    """
    folder = Path(out)
    results = [_load(run) for run in runs]
    if not results:
        msg = "no runs to report; give at least one"
        raise UsageError(msg)
    if folder.exists() and not folder.is_dir():
        msg = f"--out {quote(str(folder))}: a file; give a folder"
        raise UsageError(msg)
    _check_shared(runs, results, folder)
    made = build(results, pictures=pictures, force=force)
    for picture in made.pictures:
        write_file(folder / "figures" / f"{picture.name}.svg", picture.standalone)
        write_bytes(folder / "figures" / f"{picture.name}.png", picture.png)
    for number, run in enumerate(made.runs, 1):
        name = FILENAME if len(made.runs) == 1 else f"results-{number}.json"
        write_results(folder / name, run.results, run.summary.to_record())
    write_file(folder / "report.md", markdown_page(made))
    write_file(folder / "report.csv", csv_text(made.tables))
    write_file(folder / "index.html", html_page(made))
    return made


def _load(run: Run) -> Results:
    return run if isinstance(run, Results) else read_results(Path(run))


def _check_shared(runs: Sequence[Run], results: Sequence[Results], out: Path) -> None:
    """Check that every run shares a config with the first; otherwise nothing can be compared.

    Raises:
        RulerError: with the commands that write one report for each group of runs.
    """
    first = results[0]
    other = next((one for one in results if not first.configs.keys() & one.configs.keys()), None)
    if other is None:
        return
    suites = [visible(one.run.data.suite) for one in (first, other)]
    if suites[0] != suites[1]:
        why = f"runs of the suites {suites[0]} and {suites[1]} share no row"
        names = [visible(one.run.data.suite) for one in results]
    else:
        why = "runs of other tasks or lengths than the first's share no row with it"
        names = [str(number) for number in range(1, len(results) + 1)]
    groups: dict[str, list[str]] = {}
    for name, run in zip(names, runs, strict=True):
        place = run.run.model if isinstance(run, Results) else str(run)
        groups.setdefault(name, []).append(place)
    commands = (
        f"ruler-eval report {shlex.join(places)} --out {shlex.quote(f'{out}-{name}')}"
        for name, places in groups.items()
    )
    msg = f"{why}, so they cannot be compared; write one report for each: {'; '.join(commands)}"
    raise RulerError(msg)
