"""The files of `ruler-eval score` and `ruler-eval report`: results, pages, pictures, CSV, LaTeX."""

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import write_bytes, write_file
from ruler_data.manifest import FILENAME as MANIFEST
from ruler_data.names import quote
from ruler_eval.running.run_dir import A_DATASET, RUN_FILE
from ruler_eval.scoring.labels import MEANINGS
from ruler_eval.scoring.results import FILENAME, Scores
from ruler_eval.scoring.results_file import read_results, write_results
from ruler_report.contents import Report
from ruler_report.drawing import COLOURS
from ruler_report.runs import caveats_of, labels_of
from ruler_report.summary import ScoredRun, summarize
from ruler_report.typesetting import TEMPLATES, format_number, render, spreadsheet

#: Signs of the markers in pictures.
SIGNS = "●■◆▲▼✚✖★◀▶⬟⬢"


def html_page(report: Report) -> str:
    """Return the report as one self-contained page: no network, scripts or fonts are needed."""
    style = page_style("report.css")
    key = list(enumerate(zip(report.runs, SIGNS * len(report.runs), strict=False)))
    return render("report.html.j2", report=report, style=style, meanings=MEANINGS, key=key)


def page_style(name: str) -> str:
    """Return a style sheet with the colours of series."""
    colours = "".join(f"--s{number}: {colour}; " for number, colour in enumerate(COLOURS))
    return f":root {{ {colours}}}\n{(TEMPLATES / name).read_text(encoding='utf-8').strip()}"


#: What a folder holds, by a file in it.
HOLDS = {
    MANIFEST: "a dataset",
    RUN_FILE: "a run",
    "report.csv": "a report",
    "leaderboard.json": "a leaderboard",
}


def folder_to_write(out: str | Path, kind: str) -> Path:
    """Return a folder for a report or a leaderboard; what holds other work is refused."""
    folder = Path(out)
    faults = ["a file; give a folder"] if folder.exists() and not folder.is_dir() else []
    faults += [
        f"holds {work}; give another folder"
        for name, work in HOLDS.items()
        if work != kind and (folder / name).exists()
    ]
    if faults:
        option = f"--out {quote(str(folder))}"
        raise UsageError(option, faults[0])
    return folder


def file_to_write(out: str | Path | None, place: Path) -> Path:
    """Return the file for the results of answers at a place; no other file is ever replaced.

    The `results.json` of a run is replaced even if it is damaged.
    """
    target = Path(out) if out else (place if place.is_dir() else place.parent) / FILENAME
    option = f"--out {quote(str(target))}"
    if target.is_dir():
        raise UsageError(option, f"a folder; give a file, e.g. {quote(str(target / FILENAME))}")
    if (target.parent / MANIFEST).exists():
        if not out:
            raise UsageError(quote(str(place)), A_DATASET)
        raise UsageError(option, "its folder holds a dataset; give a file elsewhere")
    is_run_folder = (place / RUN_FILE).is_file() and target == place / FILENAME
    if target.exists() and not is_run_folder:
        try:
            read_results(target)
        except RulerError as error:
            raise UsageError(option, "is there, and not a results file; give another") from error
    return target


def score(scores: Scores, target: Path, *, is_asked: bool) -> ScoredRun:
    """Write `results.json`, and return the scores with their statistics.

    `is_asked`: the user named the file; of another one that cannot be written a note tells.
    """
    notes = [*scores.notes]
    file: Path | None = target
    if scores.unanswered:
        notes.append(scores.shortfall.partition(": without")[0])
    try:
        write_results(target, scores)
    except RulerError as error:
        if is_asked:
            raise
        notes.append(f"{error}; the scores are only printed")
        file = None
    doubts = scores.validity.warnings if scores.validity else ()
    notes += [*doubts, *caveats_of(scores)]
    return ScoredRun(labels_of([scores])[0], scores, summarize(scores), tuple(notes), file)


def report(content: Report, results: Sequence[Scores], folder: Path, form: str) -> Report:
    """Write the files of a report, and return it with its page.

    `html` writes `index.html`, `report.md` and the pictures as PNG; `latex` writes `report.tex` and
    the pictures as PDF, as wide as a column. Both write `report.csv`, a row for each model,
    task and length, and the results.
    """
    page = folder / ("report.tex" if form == "latex" else "index.html")
    texts = {folder / "report.csv": csv_text(content.runs)}
    if form == "html":
        texts[page] = html_page(content)
        texts[folder / "report.md"] = render("report.md.j2", report=content)
    else:
        texts[page] = render("report.tex.j2", report=content).strip() + "\n"
    for number, scores in enumerate(results, 1):
        name = FILENAME if len(results) == 1 else f"results-{number}.json.gz"
        write_results(folder / name, scores)
    for picture in content.pictures:
        for kind, body in picture.files.items():
            write_bytes(folder / "figures" / f"{picture.name}.{kind}", body)
    for path, text in texts.items():
        write_file(path, text)
    return replace(content, file=page)


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
                n = config.scored
                value, cut = (cell.value, 100 * len(config.truncated) / n) if n else (None, None)
                writer.writerow((
                    *map(spreadsheet, names),
                    length,
                    *(format_number(x, 4) for x in (value, cell.low, cell.high)),
                    n,
                    *(format_number(share, 4) for share in (*means, cut)),
                ))  # fmt: skip
    return text.getvalue()
