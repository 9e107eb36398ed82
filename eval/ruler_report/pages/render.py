"""Write a report: an HTML page, Markdown, CSV, pictures and results."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import jinja2

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import write_bytes, write_file
from ruler_data.names import quote
from ruler_report.failures import MEANINGS
from ruler_report.format import fenced, markdown_text, visible
from ruler_report.pages.report import Report, build
from ruler_report.results import FILENAME, Results, Run, read_results, write_results
from ruler_report.stats.resampling import FLIPS, RESAMPLES
from ruler_report.table import csv_text

TEMPLATES = Path(__file__).parent / "templates"


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
    if not runs:
        msg = "no runs to report; give at least one"
        raise UsageError(msg)
    results = [read_results(run) for run in runs]
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


def html_page(report: Report) -> str:
    """Return the report as one self-contained page: no network, scripts or fonts are needed."""
    style = (TEMPLATES / "report.css").read_text(encoding="utf-8").strip()
    page = _environment(autoescape=True).get_template("report.html.j2")
    numbers = {"resamples": RESAMPLES, "flips": FLIPS}
    return page.render(report=report, style=style, meanings=MEANINGS, **numbers).lstrip()


def markdown_page(report: Report) -> str:
    """Return the report as Markdown; its pictures are files in `figures/`."""
    return _environment(autoescape=False).get_template("report.md.j2").render(report=report)


def _environment(*, autoescape: bool) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        autoescape=autoescape,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "fenced": fenced,
        "md": markdown_text,
        "visible": visible,
        "visible_lines": lambda text: visible(text, lines=True),
    }
    return environment
