"""`ruler-eval report`."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import write_bytes, write_file
from ruler_data.names import quote
from ruler_data.terminal import named_path, say
from ruler_eval.reports.safe import visible
from ruler_eval.results import FILENAME, Results, read_results, write_results


def report(
    places: Annotated[
        list[Path], typer.Argument(help="Folders of scored runs, or their results.json.")
    ],
    to: Annotated[
        Path, typer.Option("--out", parser=named_path, metavar="<path>", help="Folder to write.")
    ] = Path("report"),
    pictures: Annotated[
        bool, typer.Option("--pictures/--no-pictures", help="Draw pictures (extra `report`).")
    ] = True,
    force: Annotated[
        bool, typer.Option("--force", help="Compare runs of other rows or protocols; says so.")
    ] = False,
) -> None:
    """Write a report: one HTML page, Markdown, pictures, tables as CSV, and results.json."""
    from ruler_eval.figures.summary import summarize
    from ruler_eval.reports.document import build
    from ruler_eval.reports.pages import html_page, markdown_page, spreadsheet_page

    runs = [read_results(place) for place in places]
    _check_target(to)
    _check_shared(places, runs, to)
    made = build(runs, pictures=pictures, force=force)
    for picture in made.pictures:
        write_file(to / "figures" / f"{picture.name}.svg", picture.standalone)
        write_bytes(to / "figures" / f"{picture.name}.png", picture.png)
    for name, one in _named(runs):
        write_results(to / name, one, summarize(one).to_record())
    write_file(to / "report.md", markdown_page(made))
    write_file(to / "report.csv", spreadsheet_page(made))
    write_file(to / "index.html", html_page(made))
    what = ", ".join(one.run.model for one in runs)
    say(f"{to}/index.html: {what}; {len(made.pictures)} pictures, {len(made.tables)} tables")


def _named(runs: list[Results]) -> list[tuple[str, Results]]:
    """Return results with the names of their files."""
    if len(runs) == 1:
        return [(FILENAME, runs[0])]
    return [(f"results-{place}.json", one) for place, one in enumerate(runs, 1)]


def _check_shared(places: list[Path], runs: list[Results], to: Path) -> None:
    """Refuse a run that has no config in common with the first: nothing in it compares.

    Raises:
        RulerError: says why, with a command for each report that can be written.
    """
    first = runs[0]
    other = next((one for one in runs if not first.configs.keys() & one.configs.keys()), None)
    if other is None:
        return
    suites = [visible(one.run.data.suite) for one in (first, other)]
    if suites[0] != suites[1]:
        why = f"runs of the suites {suites[0]} and {suites[1]} share no row"
        names = [visible(one.run.data.suite) for one in runs]
    else:
        why = "runs of other tasks or lengths than the first's share no row with it"
        names = [str(number) for number in range(1, len(runs) + 1)]
    groups: dict[str, list[str]] = {}
    for name, place in zip(names, places, strict=True):
        groups.setdefault(name, []).append(str(place))
    commands = (
        f"ruler-eval report {shlex.join(some)} --out {shlex.quote(f'{to}-{name}')}"
        for name, some in groups.items()
    )
    msg = f"{why}, and a report compares; write one for each: {'; '.join(commands)}"
    raise RulerError(msg)


def _check_target(to: Path) -> None:
    if to.exists() and not to.is_dir():
        msg = f"--out {quote(str(to))}: a file; give a folder"
        raise UsageError(msg)
