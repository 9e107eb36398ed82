"""The command `ruler-eval score`: a table of means, one line with the interval, and two files.

It prints:

    task        4K     8K
    vt       97.20  93.10
    qa_1     81.50  78.00
    mean of 2 tasks 87.5 [86.1, 88.8]; exact 80.1
    validity: 2,000 of 2,000 rows answered by org/model; 0 empty, 3 cut off without the answer, …
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ruler_data.errors import RulerError, UsageError
from ruler_data.manifest import FILENAME as MANIFEST
from ruler_data.names import counted, parse_names, quote, short_length
from ruler_data.signatures import checked
from ruler_report.typesetting import Printable, Table

if TYPE_CHECKING:
    from ruler_eval.scoring.scores import Scores
    from ruler_eval.scoring.summary import Summary
    from ruler_eval.scoring.table import CellMeans
    from ruler_report.means import Estimate


@checked
def score(
    run: Annotated[
        Path | str, typer.Argument(help="Folder of a run, or file or folder of predictions.")
    ],
    data: Annotated[
        str | None,
        typer.Option(help="Folder or Hub repo of the rows [default: those of the run]."),
    ] = None,
    revision: Annotated[str | None, typer.Option(help="Commit or tag of the Hub repo.")] = None,
    *,
    tasks: Annotated[
        str | Collection[str], typer.Option(help="These tasks alone, e.g. vt,qa_1.")
    ] = "",
    partial: Annotated[
        bool, typer.Option(help="Score an incomplete run, its unanswered rows as wrong.")
    ] = False,
    model: Annotated[
        str, typer.Option(help="For predictions: name of the model, as published.")
    ] = "",
    protocol: Annotated[
        str, typer.Option(help="For predictions: completion, base, chat or thinking.")
    ] = "",
    out: Annotated[
        Path | str | None, typer.Option(help="Folder to write [default: that of the answers].")
    ] = None,
) -> Scored:
    """Score answers against the frozen rows; write scores.parquet and results.json.

        ruler-eval score runs/x
        ruler-eval score answers.jsonl --data org/ruler --model m --protocol chat

    Exit 1: rows are unanswered, or the answers cannot carry a score (docs/scoring.md). With
    --tasks, nothing is written without --out.

    Raises:
        UsageError: something is missing or contradictory.
        RulerError: the answers are damaged or for other rows, or the run is incomplete and
            `partial` is false.
    """
    from ruler_eval.running.run_dir import RUN_FILE
    from ruler_eval.scoring.loading import check_answers, scores_of

    place = Path(run)
    chosen = parse_names(tasks)
    folder = _folder_to_write(out, place)
    check_answers(place)
    if not (place / RUN_FILE).is_file() and not (model and protocol):
        raise UsageError("--model and --protocol are required for predictions that are not a run")
    scores = scores_of(place, data, revision=revision, model=model, protocol=protocol, tasks=chosen)
    if scores.validity.unanswered and not (partial and scores.answered):
        raise RulerError("; ".join([scores.shortfall, *scores.notes[:3]]))
    if chosen and out is None:
        return _scored(scores, None)
    return _scored(scores, folder, is_asked=out is not None)


def _folder_to_write(out: Path | str | None, place: Path) -> Path:
    """Return the folder for the scores of answers at a place.

    Raises:
        UsageError: it is a file, or holds a dataset, another run, or the scores of other answers.
    """
    from ruler_eval.running.run_dir import A_DATASET, RUN_FILE
    from ruler_eval.scoring.scores import FILENAME

    folder = place
    if not place.is_dir():
        folder = place.parent
    where = quote(str(place))
    dataset = A_DATASET
    if out is not None:
        folder = Path(out)
        where = f"--out {quote(str(folder))}"
        dataset = "holds a dataset; give another"
    if folder.exists() and not folder.is_dir():
        raise UsageError(where, "a file; give a folder")
    if (folder / MANIFEST).exists():
        raise UsageError(where, dataset)
    if folder.resolve() == place.resolve():
        return folder
    if (folder / RUN_FILE).is_file():
        raise UsageError(where, "holds another run; give another folder")
    if (folder / FILENAME).exists():
        _check_scores_of(place, folder / FILENAME)
    return folder


def _check_scores_of(place: Path, file: Path) -> None:
    """Raise UsageError if a file of scores is not of the answers at a place."""
    from ruler_eval.scoring.scores import read_scores

    try:
        predictions = read_scores(file).predictions
    except RulerError as error:
        raise UsageError(str(file), "is there, and not scores; give another --out") from error
    if predictions not in ("", place.resolve().name):
        reason = f"has the scores of {quote(predictions)}; give another --out"
        raise UsageError(str(file), reason)


@dataclass(frozen=True, repr=False)
class Scored(Printable):
    """The scores of answers; they print as the table of means.

    Attributes:
        scores: a line for each row.
        summary: as `results.json` has it.
        lengths: of the rows, in tokens.
        notes: what a reader must know before the numbers.
        folder: that the scores were written to; None where they were not.
    """

    scores: Scores
    summary: Summary
    lengths: tuple[int, ...]
    notes: tuple[str, ...] = ()
    folder: Path | None = None

    def display_parts(self) -> tuple[Table | str, ...]:
        """Return the table of means, the mean with its interval, and what they rest on."""
        printed = self.table(), self.mean_line(), self.summary.validity
        if self.folder is None:
            return printed
        from ruler_eval.scoring import scores, summary

        return *printed, f"{self.folder / scores.FILENAME} and {summary.FILENAME}"

    def table(self) -> Table:
        """Return the official means by task and length, in percent."""
        by_task: dict[str, dict[int, CellMeans]] = {}
        for cell in self.summary.means:
            by_task.setdefault(cell.task, {})[cell.length] = cell
        rows = [
            (task, *(_percent(cells.get(length)) for length in self.lengths))
            for task, cells in by_task.items()
        ]
        head = ("task", *map(short_length, self.lengths))
        return Table("scores", "Score in percent by length in tokens", head, tuple(rows))

    def mean_line(self) -> str:
        """Return the mean over tasks and lengths with its interval, and the exact one."""
        mean = self.summary.mean
        if mean is None:
            return "mean: some task or length has no answer"
        interval = ""
        if mean.low is not None and mean.high is not None:
            interval = f" [{100 * mean.low:.1f}, {100 * mean.high:.1f}]"
        return (
            f"mean of {counted(mean.tasks, 'task')} {100 * mean.official:.1f}{interval}; "
            f"exact {100 * mean.exact:.1f}"
        )

    @property
    def exit_status(self) -> int:
        """1 if `score` refuses the answers, else 0."""
        return int(bool(self.failure))

    @property
    def failure(self) -> str:
        """Why the answers cannot carry a score; empty if they can."""
        return "; ".join(self.scores.validity.refusals)

    def to_record(self) -> dict[str, Any]:
        """Return the content of `results.json`."""
        return self.summary.to_record()


def _percent(cell: CellMeans | None) -> str:
    if cell is None or cell.official is None:
        return ""
    return f"{100 * cell.official:.2f}"


def _scored(scores: Scores, folder: Path | None, *, is_asked: bool = False) -> Scored:
    """Write the scores, and return them as they print.

    `is_asked`: the user named the folder; of another one that cannot be written a note tells.
    """
    from ruler_data.files import write_file
    from ruler_eval.scoring import scores as files
    from ruler_eval.scoring import summary as summaries
    from ruler_report.columns import MEAN
    from ruler_report.conclusion import conclude
    from ruler_report.words import notes_of

    shown = _unanswered_as_wrong(scores)
    conclusion = conclude([shown], claimed=True)
    summary = summaries.summary_of(shown, _shares(conclusion.estimate(MEAN, 0)))
    lengths = tuple(sorted({cell.length for cell in summary.means}))
    notes = [*notes_of(scores, conclusion.frame.runs[0])]
    if scores.validity.unanswered:
        notes.append(f"{scores.validity.unanswered}, counted as wrong")
    if folder is not None:
        try:
            files.write_scores(folder / files.FILENAME, scores)
            text = json.dumps(summary.to_record(), indent=1, ensure_ascii=True, allow_nan=False)
            write_file(folder / summaries.FILENAME, text + "\n")
        except RulerError as error:
            if is_asked:
                raise
            notes.append(f"{error}; the scores are only printed")
            folder = None
    return Scored(scores, summary, lengths, tuple(notes), folder)


def _unanswered_as_wrong(scores: Scores) -> Scores:
    """Return scores with 0 for rows without an answer: what is printed of an incomplete run."""
    import pyarrow.compute as pc

    if not scores.validity.unanswered:
        return scores
    table = scores.table
    for name in ("official", "exact", "f1"):
        column = pc.fill_null(table[name], 0.0)
        table = table.set_column(table.column_names.index(name), name, column)
    return replace(scores, table=table)


def _shares(mean: Estimate | None) -> tuple[float, float] | None:
    """Return the ends of an interval in [0, 1]; None where there is none."""
    if mean is None or mean.low is None or mean.high is None:
        return None
    return mean.low / 100, mean.high / 100
