"""Write the files of `ruler-eval score` and `ruler-eval report`."""

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import write_bytes, write_file
from ruler_data.names import quote
from ruler_eval.run_dir import RUN_FILE
from ruler_report.derive import derive_named, files_of, key_of, to_cache, window_of
from ruler_report.figures.style import Medium
from ruler_report.format import format_number, spreadsheet, visible
from ruler_report.pages.render import html_page, latex_page, markdown_page
from ruler_report.pages.report import Report, build, caveats_of
from ruler_report.predictions import load
from ruler_report.results_file import FILENAME, Results, Run, write_results
from ruler_report.scoring import name_of, read_bare, results_of
from ruler_report.stats.comparison import labels_of
from ruler_report.stats.summary import ScoredRun, summarize


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

    The arguments and errors are those of `ruler_report.results`.
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
    info, predictions, rows = load(place, data, revision, model=model, protocol=protocol)
    if not (info.model and info.protocol):
        msg = "--model and --protocol are required for a predictions file"
        raise UsageError(msg)
    bare = read_bare(Path(no_context), info) if no_context else None
    name = "" if (place / RUN_FILE).is_file() else name_of(place)
    results = results_of(info, predictions, rows, bare, name, partial=partial)
    results = replace(results, window=window_of(place))
    missing = sum(len(config.missing) for config in results.configs.values())
    failed = sum(len(config.failed) for config in results.configs.values())
    shortfall = (
        f"{results.scored:,} of {results.rows:,} rows have an answer ({missing:,} missing, "
        f"{failed:,} failed)"
    )
    if not results.scored or (results.scored < results.rows and not partial):
        msg = f"{shortfall}; resume the run, or score the answers that exist with --partial"
        raise RulerError(msg)
    to_cache(key_of(results.run if name else info, place), results)
    results = replace(results, files=files_of(place))
    summary = summarize(results)
    write_results(target, results, summary.to_record())
    incomplete = [shortfall] if results.scored < results.rows else []
    doubts = results.validity.warnings if results.validity else ()
    notes = (*results.notes, *incomplete, *doubts, *caveats_of(results))
    return ScoredRun(labels_of([results])[0], results, summary, notes, target)


def report(
    runs: Run | Sequence[Run],
    out: str | Path,
    *,
    baseline: Run | None = None,
    form: str = "html",
    pictures: bool = True,
    force: bool = False,
    data: str | None = None,
    names: Sequence[str] = (),
    attributes: Sequence[str] = (),
    claimed: bool = False,
) -> Report:
    """Write the report of runs to a folder, and return it.

    `html` writes `index.html`, `report.md` and the pictures as PNG; `latex` writes `report.tex` and
    the pictures as PDF and SVG, as wide as a column. Both write `report.csv`, a row for each model,
    task and length, and the results. With several runs, each is compared with the baseline, or
    else with the first. The arguments and errors are those of `ruler_report.report`.
    """
    folder, forms = Path(out), {"html": "index.html", "latex": "report.tex"}
    runs = [runs] if isinstance(runs, str | PathLike | Results) else [*runs]
    if not (runs or names):
        msg = "no runs to report; give at least one"
        raise UsageError(msg)
    if form not in forms:
        msg = f"--format {quote(form)}: not known; known: {', '.join(forms)}"
        raise UsageError(msg)
    results = derive_named(runs, names, data, attributes)
    base = None if baseline is None else derive_named([baseline], [], data)[0]
    if folder.exists() and not folder.is_dir():
        msg = f"--out {quote(str(folder))}: a file; give a folder"
        raise UsageError(msg)
    first = base or results[0]
    for one in results:
        if not first.configs.keys() & one.configs.keys():
            suites = " and ".join(visible(each.run.data.suite) for each in (first, one))
            msg = f"{one!r}: shares no row with {first!r} (suites {suites}); report them apart"
            raise RulerError(msg)
    medium: Medium = "paper" if form == "latex" else "page"
    made = build(
        results, baseline=base, medium=medium if pictures else None, force=force, claimed=claimed
    )
    for picture in made.pictures:
        for kind, body in picture.files.items():
            write_bytes(folder / "figures" / f"{picture.name}.{kind}", body)
    summaries = {id(run.results): run.summary for run in made.runs}
    for number, one in enumerate(results, 1):
        summary = summaries.get(id(one)) or summarize(one)
        name = FILENAME if len(results) == 1 else f"results-{number}.json.gz"
        write_results(folder / name, one, summary.to_record())
    write_file(folder / "report.csv", csv_text(made.runs))
    page = folder / forms[form]
    if form == "latex":
        write_file(page, latex_page(made))
    else:
        write_file(folder / "report.md", markdown_page(made))
        write_file(page, html_page(made))
    return replace(made, file=page)


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
