"""Write the files of `ruler-eval score` and `ruler-eval report`."""

import csv
import io
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Literal, get_args

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import write_bytes, write_file
from ruler_data.names import quote
from ruler_eval.run_dir import RUN_FILE
from ruler_eval.scoring import PREDICTIONS
from ruler_report.derive import derive, derive_named, files_of, key_of, to_cache, window_of
from ruler_report.figures.style import FILES, Medium
from ruler_report.format import format_number, spreadsheet, visible
from ruler_report.pages.render import html_page, latex_page, markdown_page
from ruler_report.pages.report import Report, build, caveats_of
from ruler_report.predictions import load
from ruler_report.results_file import FILENAME, Results, Run, read_results, write_results
from ruler_report.scoring import name_of, read_bare, results_of
from ruler_report.stats.comparison import labels_of
from ruler_report.stats.summary import ScoredRun, summarize

Format = Literal["html", "latex"]


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
) -> ScoredRun:
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
    info, predictions, rows = load(place, data, revision, model=model, protocol=protocol)
    if not (info.model and info.protocol):
        msg = "--model and --protocol are required for a predictions file"
        raise UsageError(msg)
    bare = read_bare(Path(no_context), info) if no_context else None
    name = "" if (place / RUN_FILE).is_file() else name_of(place)
    results = results_of(info, predictions, rows, bare, name, partial=partial)
    results = replace(results, window=window_of(place))
    if not results.scored or (results.scored < results.rows and not partial):
        msg = (
            f"{shortfall(results)}; resume the run, or score the answers that exist with --partial"
        )
        raise RulerError(msg)
    to_cache(key_of(results.run if name else info, place), results)
    results = replace(results, files=files_of(place))
    summary = summarize(results)
    write_results(target, results, summary.to_record())
    incomplete = [shortfall(results)] if results.scored < results.rows else []
    doubts = results.validity.warnings if results.validity else ()
    notes = (*results.notes, *incomplete, *doubts, *caveats_of(results))
    return ScoredRun(labels_of([results])[0], results, summary, notes, target)


def _check_same(target: Path, place: Path, model: str, protocol: str) -> None:
    """Check that results at the default place are of these answers, or can be replaced."""
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
    runs: Run | Sequence[Run],
    out: str | Path,
    *,
    baseline: Run | None = None,
    form: Format = "html",
    pictures: bool = True,
    force: bool = False,
    data: str | None = None,
    names: Sequence[str] = (),
    claimed: bool = False,
) -> Report:
    """Write the report of runs to a folder, and return it.

    `html` writes `index.html`, `report.md` and the pictures as PNG; `latex` writes `report.tex` and
    the pictures as PDF and SVG, as wide as a column. Both write `report.csv`, a row for each model,
    task and length, and the results. With several runs, each is compared with the baseline, or
    else with the first.

    Args:
        runs: one, or several.
        out: the folder.
        baseline: the run that the others should equal, e.g. with full attention.
        form: `html` or `latex`.
        pictures: whether to draw pictures; needs the extra `report`.
        force: compare runs even if suites or protocols differ; the report then says so.
        data: rows of runs that are not where the run read them.
        names: `NAME=RUN`, a name to show for a run.
        claimed: rank also runs of which only a results.json is known.

    Raises:
        UsageError: there is no such run or format, it is not scored, or `out` is a file.
        RulerError: the runs cannot be compared.
    """
    folder = Path(out)
    runs = [runs] if isinstance(runs, str | PathLike | Results) else [*runs]
    if not (runs or names):
        msg = "no runs to report; give at least one"
        raise UsageError(msg)
    if form not in get_args(Format):
        msg = f"--format {quote(form)}: not known; known: {', '.join(get_args(Format))}"
        raise UsageError(msg)
    results = derive_named(runs, names, data)
    base = None if baseline is None else derive(baseline, data)
    if folder.exists() and not folder.is_dir():
        msg = f"--out {quote(str(folder))}: a file; give a folder"
        raise UsageError(msg)
    places = dict.fromkeys(name.partition("=")[2] for name in names)  # as `derive_named` has them
    given = [*runs, *(place for place in places if place not in map(str, runs))]
    every = [*([baseline] if baseline is not None else []), *given]
    results_of_all = [*([base] if base else []), *results]
    _check_shared(every, results_of_all, folder)
    medium: Medium = "paper" if form == "latex" else "page"
    made = build(
        results, baseline=base, medium=medium if pictures else None, force=force, claimed=claimed
    )
    page = folder / ("report.tex" if form == "latex" else "report.md")
    earlier = _pictures_of(page)
    for picture in made.pictures:
        for kind, body in picture.files.items():
            write_bytes(folder / "figures" / f"{picture.name}.{kind}", body)
    summaries = {id(run.results): run.summary for run in made.runs}
    for number, one in enumerate(results, 1):
        summary = summaries.get(id(one)) or summarize(one)
        name = FILENAME if len(results) == 1 else f"results-{number}.json.gz"
        write_results(folder / name, one, summary.to_record())
    write_file(folder / "report.csv", csv_text(made.runs))
    if form == "latex":
        write_file(page, latex_page(made))
    else:
        write_file(page, markdown_page(made))
        write_file(folder / "index.html", html_page(made))
        page = folder / "index.html"
    for name in earlier - {picture.name for picture in made.pictures}:
        for kind in FILES[medium]:
            (folder / "figures" / f"{name}.{kind}").unlink(missing_ok=True)
    return replace(made, file=page)


def _pictures_of(page: Path) -> set[str]:
    """Return the names of the pictures that an earlier report in this place shows."""
    text = page.read_text(encoding="utf-8", errors="replace") if page.is_file() else ""
    return set(re.findall(r"figures/([\w-]+)\.(?:png|pdf)", text))


#: Columns of `report.csv`; scores are in percent.
COLUMNS = (
    "model", "protocol", "edition", "tokenizer", "category", "task", "length", "score", "low",
    "high", "n", "exact", "f1", "truncated",
)  # fmt: skip


def csv_text(runs: Sequence[ScoredRun]) -> str:
    """Return the scores as CSV, a row for each model, task and length; no number has a unit."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for run in runs:
        info, summary = run.results.run, run.summary
        for task, cells in summary.cells.items():
            for length, cell in cells.items():
                kind = (summary.category_of[task], task)
                names = (run.label, info.protocol, info.data.edition, info.data.tokenizer, *kind)
                means = (of[task].get(length) for of in (summary.exact, summary.f1))
                config = run.results.configs[f"{task}_{length}"]
                shares = (*means, 100 * len(config.truncated) / config.scored)
                writer.writerow((
                    *map(spreadsheet, names),
                    length,
                    *(f"{x:.4f}" for x in (cell.value, cell.low, cell.high)),
                    cell.scored,
                    *(format_number(share, 4) for share in shares),
                ))  # fmt: skip
    return text.getvalue()


def _check_shared(runs: Sequence[Run], results: Sequence[Results], out: Path) -> None:
    """Check that every run shares a config with the first; otherwise nothing can be compared."""
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
