"""`ruler-eval score`.

`ruler-eval report`.

`ruler-eval compare`.

`ruler-eval publish`.
"""

import json
import shlex
from pathlib import Path
from typing import Annotated, Optional

import typer

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import write_bytes, write_file
from ruler_data.names import quote
from ruler_data.terminal import named_path, out, say, warn
from ruler_eval.prompts import PROTOCOLS
from ruler_report.results import FILENAME, Results, read_results, write_results
from ruler_report.tables.escape import visible


def score(
    place: Annotated[
        Path, typer.Argument(help="Folder of a run; or a file or folder of predictions.")
    ],
    data: Annotated[
        Optional[str],  # noqa: UP045 - typer reads it at run time
        typer.Option(help="Folder or Hub repo of the rows; by default the repo that was run."),
    ] = None,
    revision: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Commit or tag of the Hub repo."),
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Score what is there; the report says n of N.")
    ] = False,
    no_context: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Run of the same model without context, to tell failures apart."),
    ] = None,
    model: Annotated[
        str, typer.Option(help="For predictions: whose they are, as you may publish it.")
    ] = "",
    protocol: Annotated[str, typer.Option(help=f"For predictions: {', '.join(PROTOCOLS)}.")] = "",
    to: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--out", help=f"File to write; {FILENAME} beside the answers by default."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Score answers against the frozen rows, and write results.json."""
    from ruler_report.pages.console import summary_table
    from ruler_report.pages.report import caveats_of
    from ruler_report.scoring import score as score_run
    from ruler_report.stats.summary import summarize

    if to is not None and to.is_dir():
        msg = f"--out {quote(str(to))}: a folder; give a file, e.g. {quote(str(to / FILENAME))}"
        raise UsageError(msg)
    results = score_run(
        place, data, revision, no_context=no_context, model=model, protocol=protocol
    )
    for note in results.notes:
        warn(note)
    _check_complete(results, partial)
    for caveat in caveats_of(results):
        warn(caveat)
    summary = summarize(results)
    target = to or (place if place.is_dir() else place.parent) / FILENAME
    write_results(target, results, summary.to_record())
    if as_json:
        out.print_json(json.dumps(summary.to_record()))
    else:
        out.print(summary_table(results, summary))
        say(f"{target}: {results.scored:,} of {results.rows:,} rows scored")


def _check_complete(results: Results, partial: bool) -> None:
    if results.scored == results.rows and results.rows:
        return
    missing = sum(len(config.missing) for config in results.configs.values())
    failed = sum(len(config.failed) for config in results.configs.values())
    msg = (
        f"{results.scored:,} of {results.rows:,} rows have an answer ({missing:,} missing, "
        f"{failed:,} failed)"
    )
    if not partial or not results.scored:
        msg += "; run them, or score what is there with --partial"
        raise RulerError(msg)
    warn(msg)


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
    from ruler_report.pages.render import html_page, markdown_page, spreadsheet_page
    from ruler_report.pages.report import build
    from ruler_report.stats.summary import summarize

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


def compare(
    first: Annotated[Path, typer.Argument(help="Folder of a scored run, or its results.json.")],
    second: Annotated[Path, typer.Argument(help="Likewise.")],
    contamination: Annotated[
        bool,
        typer.Option(
            "--contamination",
            help="FIRST is on public rows, SECOND on rows of another seed: is the model better "
            "on the public ones?",
        ),
    ] = False,
    margin: Annotated[
        Optional[float],  # noqa: UP045 - typer reads it at run time
        typer.Option(
            min=0.1,
            max=100.0,
            help="Gap that would matter, in percent points, with --contamination [default: 2].",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Compare runs of other rows or protocols; says so.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Compare two runs question by question: differences, intervals, p-values, verdicts."""
    if margin is not None and not contamination:
        msg = "--margin: is for --contamination; a comparison of two models has none"
        raise UsageError(msg)
    ours, theirs = read_results(first), read_results(second)
    if contamination:
        _contamination(ours, theirs, margin, force=force, as_json=as_json)
    else:
        _compare(ours, theirs, force=force, as_json=as_json)


def _compare(ours: Results, theirs: Results, *, force: bool, as_json: bool) -> None:
    from ruler_report.pages.console import comparison_table, verdict_line
    from ruler_report.pages.report import labels_of
    from ruler_report.stats.comparison import compare as compare_results

    comparison = compare_results(ours, theirs, force=force)
    labels = labels_of((ours, theirs))
    _warn(labels, (ours, theirs), comparison.warnings, comparison.left_out)
    if as_json:
        models = {"first": ours.run.model, "second": theirs.run.model}
        out.print_json(json.dumps({**models, **comparison.to_record()}))
    else:
        out.print(comparison_table(comparison))
        say(verdict_line(comparison, *labels))


def _contamination(
    public: Results, fresh: Results, margin: float | None, *, force: bool, as_json: bool
) -> None:
    from ruler_report.pages.console import contamination_line, contamination_table
    from ruler_report.stats.contamination import MARGIN
    from ruler_report.stats.contamination import contamination as test

    found = test(public, fresh, margin=MARGIN if margin is None else margin, force=force)
    _warn(("public rows", "fresh rows"), (public, fresh), found.warnings, found.left_out)
    if as_json:
        out.print_json(json.dumps({"model": public.run.model, **found.to_record()}))
    else:
        out.print(contamination_table(found))
        say(contamination_line(found, public.run.model))


def _warn(
    labels: tuple[str, ...] | list[str],
    runs: tuple[Results, ...],
    warnings: tuple[str, ...],
    left_out: tuple[str, ...],
) -> None:
    for warning in warnings:
        warn(f"forced: {warning}")
    for label, results in zip(labels, runs, strict=True):
        if results.scored < results.rows:
            warn(f"{label}: {results.scored:,} of {results.rows:,} rows scored")
    if left_out:
        warn(f"not compared, not in both or not at every length: {', '.join(left_out)}")


def publish(
    run: Annotated[Path, typer.Argument(help="Folder of a run, scored with `ruler-eval score`.")],
    repo: Annotated[str, typer.Option(help="Dataset repo for predictions, e.g. org/preds.")],
    model_repo: Annotated[
        str, typer.Option(help="Model repo whose page shall show the scores.")
    ] = "",
    private: Annotated[bool, typer.Option(help="Make a new dataset repo private.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be written, and write nothing.")
    ] = False,
) -> None:
    """Publish predictions as a dataset, and scores on the model's page."""
    from ruler_report.publish.push import PushConfig, compose, push

    order = PushConfig(run, repo, model_repo, private)
    bundle = compose(order)
    if dry_run:
        for path, data in bundle.files.items():
            say(f"{repo}: {path}, {len(data):,} bytes")
        for line in bundle.entries.splitlines():
            say(f"{model_repo}: {line}")
        return
    for line in push(order, bundle):
        say(line)
