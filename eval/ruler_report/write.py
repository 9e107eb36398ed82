"""Write the files of `ruler-eval score` and `ruler-eval report`."""

import shlex
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import write_bytes, write_file
from ruler_data.names import quote
from ruler_eval.schema import RUN_FILE
from ruler_eval.scoring import PREDICTIONS
from ruler_report import scoring
from ruler_report.format import visible
from ruler_report.pages.render import html_page, markdown_page
from ruler_report.pages.report import Report, build
from ruler_report.results import FILENAME, Results, Run, read_results, write_results
from ruler_report.scoring import name_of
from ruler_report.stats.summary import summarize
from ruler_report.table import csv_text


def score(
    run: str | Path,
    data: str | None = None,
    revision: str | None = None,
    *,
    no_context: str | Path | None = None,
    model: str = "",
    protocol: str = "",
    partial: bool = False,
    out: str | Path | None = None,
) -> Results:
    """Score a run, or the predictions of another tool, and write `results.json`.

    Args:
        run: folder of a run, or file or folder of predictions.
        data: folder or Hub repo of the rows; by default the repo of the run.
        revision: commit or tag of the repo; by default that of the run.
        no_context: folder of a run of the same model without context, to classify failures.
        model: for predictions, the name of the model, as published.
        protocol: for predictions, how prompts were formatted.
        partial: score an incomplete run.
        out: the file; by default `results.json` beside the answers.

    Raises:
        UsageError: something is missing or contradictory.
        RulerError: the answers are damaged or for other rows, or the run is incomplete and
            `partial` is false.
    """
    if not isinstance(run, str | PathLike):
        msg = f"{quote(str(run))}: give the folder of a run, or a file or folder of predictions"
        raise UsageError(msg)
    place = Path(run)
    target = Path(out) if out else (place if place.is_dir() else place.parent) / FILENAME
    if target.is_dir():
        file = quote(str(target / FILENAME))
        msg = f"--out {quote(str(target))}: a folder; give a file, e.g. {file}"
        raise UsageError(msg)
    if not out:
        _check_same(target, place, model, protocol)
    bare = Path(no_context) if no_context else None
    results = scoring.score(place, data, revision, no_context=bare, model=model, protocol=protocol)
    if not results.scored or (results.scored < results.rows and not partial):
        msg = (
            f"{shortfall(results)}; resume the run, or score the answers that exist with --partial"
        )
        raise RulerError(msg)
    write_results(target, results, summarize(results).to_record())
    return results


def _check_same(target: Path, place: Path, model: str, protocol: str) -> None:
    """Check that results at the default place are of these answers, or can be replaced.

    Raises:
        UsageError: they are of another run or of other predictions.
    """
    try:
        found = read_results(target)
    except (UsageError, RulerError):  # there is none, or none that can be read
        return
    if (place / RUN_FILE).is_file():
        same = found.run.engine != PREDICTIONS
    elif found.predictions:
        same = found.predictions == name_of(place)
    else:  # scored by a version that did not record the name
        same = (found.run.model, found.run.protocol) == (model, protocol)
    if not same:
        whose = found.predictions or found.run.model
        msg = (
            f"{quote(str(target))}: holds the scores of {quote(visible(whose))}, not of "
            f"{quote(place.name)}; give --out FILE, or delete it"
        )
        raise UsageError(msg)


def shortfall(results: Results) -> str:
    """Return how many rows are scored, and why others are not."""
    missing = sum(len(config.missing) for config in results.configs.values())
    failed = sum(len(config.failed) for config in results.configs.values())
    share = f"{results.scored:,} of {results.rows:,} rows have an answer"
    return f"{share} ({missing:,} missing, {failed:,} failed)"


def report(
    runs: Run | Sequence[Run], out: str | Path, *, pictures: bool = True, force: bool = False
) -> Report:
    """Write the report of runs to a folder, and return it.

    Written are `index.html`, `report.md`, `report.csv`, the results, and the pictures in
    `figures/`. With several runs, each is compared with the first.

    Args:
        runs: one, or several.
        out: the folder.
        pictures: whether to draw pictures; needs the extra `report`.
        force: compare runs even if suites or protocols differ; the report then says so.

    Raises:
        UsageError: there is no such run, it is not scored, or `out` is a file.
        RulerError: the runs cannot be compared.
    """
    folder = Path(out)
    if isinstance(runs, str | PathLike | Results):
        runs = [runs]
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
    msg = f"{why}, so nothing can be compared; instead run: {'; '.join(commands)}"
    raise RulerError(msg)
