"""`ruler-eval leaderboard`: rank any number of runs in one sortable table, and as JSON.

All runs stand on one frame: ranks are intervals, and a run that `score` refuses or that is only
claimed has none. Runs that cannot be compared are refused: other protocols or editions.
Size is read from the name of the model (`7B`, `8x22B`).
"""

import base64
import hashlib
import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ruler_data.errors import UsageError
from ruler_data.files import write_file
from ruler_data.hub.download import fetch_file
from ruler_data.names import check_repo, counted
from ruler_data.tasks import TASKS
from ruler_eval.scoring.results import FILENAME, Scores
from ruler_eval.scoring.results_file import Run, read_results
from ruler_report.effective_length import OVERALL, THRESHOLDS, effective_length_of
from ruler_report.lineup import format_ranks, lineup
from ruler_report.means import Estimate
from ruler_report.page import page_style
from ruler_report.runs import RULER, attributed, folder_of, named_scores, notes_of
from ruler_report.summary import group_of
from ruler_report.typesetting import TEMPLATES, Printable, format_length, render, visible

_SIZE = re.compile(r"(?<![\w.])(?:(\d+)x)?(\d+(?:\.\d+)?)([bm])(?![a-z])", re.IGNORECASE)


@dataclass(frozen=True)
class Entry:
    """A run on the board.

    Attributes:
        size: parameters in billions, from the name; None if it names none.
        rows: that have a score, of those `asked`.
        rank: the best and the worst that the array leaves open; None without a rank.
        mean: over all tasks and lengths of the frame; None without a common cell.
        lowest: the same with unanswered rows counted as wrong, which decides.
        lengths: means over all tasks, by length.
        categories: means over all lengths, by category.
        effective: the longest length at which the mean over the 13 tasks reaches the threshold.
        reach: the same as text, with what else is not excluded; empty for other tasks or suites.
        validity: what the scores rest on, in one line.
        window: tokens that the model declares to reach; None where not known.
        claimed: whether only its `results.json` is known.
    """

    model: str
    size: float | None
    tokenizer: str
    rows: int
    asked: int
    rank: tuple[int, int] | None
    mean: Estimate | None
    lowest: float | None
    lengths: dict[int, Estimate]
    categories: dict[str, Estimate]
    effective: int | None
    reach: str
    validity: str = ""
    window: int | None = None
    claimed: bool = False


@dataclass(frozen=True, repr=False)
class Board(Printable):
    """A leaderboard; it prints as its file and the number of runs.

    Attributes:
        frame: the rows in question, in one line.
        protocol: of all runs; `edition` likewise.
        suite: of each run, sorted.
        lengths: in tokens.
        tasks: that means are over.
        categories: of the tasks.
        threshold: of the effective length, in percent.
        entries: the runs, the ranked ones first, by their mean.
        notes: what a reader must know before the numbers.
    """

    frame: str
    protocol: str
    edition: str
    suite: str
    lengths: tuple[int, ...]
    tasks: tuple[str, ...]
    categories: tuple[str, ...]
    threshold: float
    entries: tuple[Entry, ...]
    notes: tuple[str, ...]
    file: Path | None = None

    def display_parts(self) -> list[str]:
        """Return the frame, and the file with the number of runs."""
        return [self.frame, f"{self.file}: {counted(len(self.entries), 'run')}"]

    def to_record(self) -> dict[str, Any]:
        """Return the board as plain values, as in `leaderboard.json`."""
        record = asdict(self)
        del record["file"]
        return record


def derive_all(places: Sequence[Run], names: Sequence[str], data: str | None) -> list[Scores]:
    """Return the scores of runs.

    `places` are runs as for `compare`, or Hub repos of predictions (`org/name`, `org/name@commit`).
    """
    places = [*{folder_of(place): place for place in places}.values()]
    return named_scores([_read(place) for place in places], names, data)


def page_of(board: Board) -> str:
    """Return a leaderboard as one page; the only script that may run is its own."""
    script = (TEMPLATES / "leaderboard.js").read_text(encoding="utf-8").strip()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    heads = [*map(format_length, board.lengths), *board.categories]
    style = page_style("report.css")
    return render(
        "leaderboard.html.j2", board=board, heads=heads, script=script, digest=digest, style=style,
        ranks=format_ranks, tokens=format_length,
    )  # fmt: skip


def write(board: Board, folder: Path) -> Board:
    """Write a leaderboard, `index.html` and `leaderboard.json`, and return it with its page."""
    page, record = folder / "index.html", board.to_record()
    write_file(folder / "leaderboard.json", json.dumps(record, indent=1) + "\n")
    write_file(page, page_of(board))
    return replace(board, file=page)


def _read(place: Run) -> Run:
    """Return a place on this machine, or what a Hub repo of predictions claims."""
    if not isinstance(place, str | Path) or Path(place).exists():
        return place
    repo, _, revision = str(place).partition("@")
    try:
        check_repo(repo)
    except UsageError:
        return place
    path = fetch_file(repo, FILENAME, revision or "main")
    if path is None:
        msg = f"{repo}: holds no {FILENAME}; give a repo that `ruler-eval publish` wrote"
        raise UsageError(msg)
    return read_results(path)


def build(
    results: Sequence[Scores],
    threshold: float | None = None,
    *,
    rows: int | None = None,
    tasks: Collection[str] = (),
    lengths: Collection[int] = (),
    claimed: bool = False,
) -> Board:
    """Return the leaderboard of runs that can be compared; see `leaderboard`."""
    field = lineup(
        results, rows=rows, tasks=tasks, lengths=lengths, cells=False, claimed=claimed,
        remedy="write a leaderboard for each kind of runs",
    )  # fmt: skip
    run, means, frame = results[0].run, field.means, field.frame
    if threshold is None:
        threshold = THRESHOLDS[group_of(results[0])][OVERALL]
    categories = [name for name, length in means.columns if name and length is None]
    is_ruler = {*frame.tasks} == {*TASKS}

    def row(place: int, names: Iterable[tuple[str | None, int | None]]) -> list[Estimate]:
        return [mean for name in names if (mean := means.estimate(name, place))]

    entries = []
    for place in field.order:
        result, reach = results[place], None
        if is_ruler and result.run.data.suite == RULER:
            reach = effective_length_of(means, place, None, threshold)
        entry = Entry(
            model=field.labels[place],
            size=size_of(result.run.model),
            tokenizer=visible(result.run.data.tokenizer),
            rows=result.scored,
            asked=result.rows,
            rank=field.ranks.get(place),
            mean=means.estimate((None, None), place) if frame.tasks else None,
            lowest=float(means.lowest[means.place[None, None], place]) if frame.tasks else None,
            lengths=dict(
                zip(frame.lengths, row(place, ((None, n) for n in frame.lengths)), strict=True)
            ),
            categories=dict(
                zip(categories, row(place, ((name, None) for name in categories)), strict=True)
            ),
            effective=reach.length if reach else None,
            reach=reach.format_with_possible(frame.lengths[-1]) if reach else "",
            validity=result.validity_line,
            window=result.window[0],
            claimed=bool(result.claimed),
        )
        entries.append(entry)
    notes = [*field.why_unranked]
    for label, result in zip(field.labels, results, strict=True):
        notes += [(label, note) for note in notes_of(result)]
    return Board(
        frame=field.line,
        protocol=run.protocol,
        edition=visible(run.data.edition),
        suite=", ".join(sorted({visible(result.run.data.suite) for result in results})),
        lengths=frame.lengths,
        tasks=frame.tasks,
        categories=tuple(categories),
        threshold=threshold,
        entries=tuple(entries),
        notes=tuple(attributed(notes, len(entries))),
    )


def size_of(model: str) -> float | None:
    """Return the number of parameters that a model's name tells, in billions.

    >>> size_of("org/Qwen2.5-7B-Instruct-1M"), size_of("SmolLM2-135M"), size_of("Mixtral-8x22B")
    (7.0, 0.135, 176.0)
    >>> size_of("gpt-4o")
    """
    sizes = [
        int(times or 1) * float(number) / (1000 if unit in "mM" else 1)
        for times, number, unit in _SIZE.findall(model.replace("_", "-"))
    ]
    return round(max(sizes), 3) if sizes else None
