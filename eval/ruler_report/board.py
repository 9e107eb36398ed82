"""`ruler-eval leaderboard`: rank any number of runs on one static page, and as JSON.

The page sorts and filters by length, task, category and size of the model, without a server. Ranks
have intervals (`stats/ranking.py`). Runs that cannot be compared are refused: other protocols,
editions or MAJOR versions. Size is read from the name of the model (`7B`, `8x22B`).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from ruler_data.errors import UsageError
from ruler_data.files import write_file
from ruler_data.hub.download import fetch_file
from ruler_data.names import check_repo, counted, parse_length, quote
from ruler_report.format import visible
from ruler_report.pages.render import board_page
from ruler_report.pages.report import attributed, notes_of
from ruler_report.results_file import FILENAME, Results, Run, read_results
from ruler_report.runs import folder_of, named_scores
from ruler_report.stats.comparison import check_comparable, labels_of
from ruler_report.stats.effective_length import OVERALL, THRESHOLDS
from ruler_report.stats.pairs import pairs_of
from ruler_report.stats.scores import ScoreStack
from ruler_report.stats.summary import CATEGORIES, RunScores, group_of
from ruler_report.table import Printable

#: Name of the view of all tasks, and of that of all lengths.
ALL = "all"
#: By view and length: value, low, high, the interval of the rank, and the value with unanswered
#: rows counted as wrong, which decides.
Cells = dict[str, dict[str, tuple[float, ...]]]
_SIZE = re.compile(r"(?<![\w.])(?:(\d+)x)?(\d+(?:\.\d+)?)([bm])(?![a-z])", re.IGNORECASE)


@dataclass(frozen=True)
class Entry:
    """A run on the board.

    Attributes:
        size: parameters in billions, from the name; None if it names none.
        rows: that have a score.
        validity: what the scores rest on, in one line.
        window: tokens that the model declares to reach; None where not known.
        effective: the longest length at which the mean over the 13 tasks reaches the threshold.
        reach: the same as text, with what else is not excluded; empty for other tasks or suites.
        scores: by view (`all`, a category or a task) and length (`all` is the weighted mean).
        claimed: whether only its `results.json` is known.
    """

    model: str
    size: float | None
    tokenizer: str
    rows: int
    asked: int
    effective: int | None
    reach: str
    scores: Cells
    validity: str = ""
    window: int | None = None
    claimed: bool = False


@dataclass(frozen=True, repr=False)
class Board(Printable):
    """A leaderboard; it prints as its file and the number of runs.

    Attributes:
        protocol: of all runs; `edition` likewise.
        suite: of each run, sorted.
        lengths: in tokens.
        weights: of the lengths in their mean; they add up to 1.
        threshold: of the effective length, in percent.
        tasks: by category.
        entries: the runs, by their score over all tasks and lengths.
        notes: what a reader must know before the numbers.
    """

    protocol: str
    edition: str
    suite: str
    lengths: tuple[int, ...]
    weights: dict[int, float]
    threshold: float
    tasks: dict[str, tuple[str, ...]]
    entries: tuple[Entry, ...]
    notes: tuple[str, ...]
    file: Path | None = None

    def display_parts(self) -> list[str]:
        """Return the file and the number of runs."""
        return [f"{self.file}: {counted(len(self.entries), 'run')}"]

    def to_record(self) -> dict[str, Any]:
        """Return the board as plain values, as in `leaderboard.json`."""
        record = asdict(self)
        del record["file"]
        return record


def derive_all(
    places: Sequence[Run], names: Sequence[str], data: str | None
) -> tuple[list[Results], list[str]]:
    """Return the results of runs, and for messages what the user gave for each.

    `places` are runs as for `compare`, or Hub repos of predictions (`org/name`, `org/name@commit`).
    """
    places = [*{folder_of(place): place for place in places}.values()]
    results = named_scores([_read(place) for place in places], names, data)
    every = [*places, *results[len(places) :]]
    labels = (one.run.model if isinstance(one, Results) else str(one) for one in every)
    return results, [quote(visible(text)) for text in labels]


def write(board: Board, folder: Path) -> Board:
    """Write a leaderboard, `index.html` and `leaderboard.json`, and return it with its page."""
    page, record = folder / "index.html", board.to_record()
    write_file(folder / "leaderboard.json", json.dumps(record, indent=1) + "\n")
    write_file(page, board_page(record))
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


def parse_weights(text: str) -> dict[int, float]:
    """Return weights of lengths.

    >>> parse_weights("4096=3,32k=1")
    {4096: 3.0, 32768: 1.0}
    """
    weights: dict[int, float] = {}
    for part in filter(None, text.split(",")):
        match = re.fullmatch(r"\s*(\w+)\s*=\s*(\d{1,9}(?:\.\d{1,9})?)\s*", part)
        length = parse_length(match[1], "--weights") if match else 0
        if not match or length in weights:
            msg = f"--weights {quote(text)}: give each length once, e.g. 4096=3,32768=1"
            raise UsageError(msg)
        weights[length] = float(match[2])
    if weights and not sum(weights.values()):
        msg = f"--weights {quote(text)}: all are 0; give one above 0"
        raise UsageError(msg)
    return weights


def build(
    results: Sequence[Results],
    weights: Mapping[int, float],
    threshold: float | None,
    names: Sequence[str] = (),
    *,
    claimed: bool = False,
) -> Board:
    """Return the leaderboard of runs that can be compared; see `leaderboard`."""
    run = results[0].run
    if threshold is None:
        threshold = THRESHOLDS[group_of(results[0])][OVERALL]
    stack = ScoreStack(results)
    remedy = "write a leaderboard for each kind of runs"
    check_comparable(results, stack, names=names, remedy=remedy)
    lengths = tuple(stack.lengths)
    if unknown := [length for length in weights if length not in lengths]:
        known = ", ".join(map(str, lengths))
        msg = f"--weights: no run has {unknown[0]} tokens; lengths are {known}"
        raise UsageError(msg)
    weights = weights or dict.fromkeys(lengths, 1.0)
    shares = {length: weights.get(length, 0.0) / sum(weights.values()) for length in lengths}
    categories = {
        task: config.category for configs in stack.configs for (task, _), config in configs.items()
    }
    tasks: dict[str, tuple[str, ...]] = {
        category: tuple(task for task in stack.tasks if categories[task] == category)
        for category in CATEGORIES
        if category in categories.values()
    }
    every = tuple(task for some in tasks.values() for task in some)
    views: dict[str, tuple[str, ...]] = {ALL: every, **tasks, **{task: (task,) for task in every}}
    columns = {ALL: {length: share for length, share in shares.items() if share}}
    columns |= {str(length): {length: 1.0} for length in lengths}
    unranked = [at for at, one in enumerate(results) if one.claimed and not claimed]
    scores: list[Cells] = [{} for _ in results]
    for (view, names_of_tasks), (key, column) in product(views.items(), columns.items()):
        ranks = pairs_of(stack, names_of_tasks, column).ranks(unranked)
        means = stack.estimates((names_of_tasks,), column)
        lowest = stack.lowest(names_of_tasks, column)
        for rank, mean, least, cells in zip(ranks, means, lowest, scores, strict=True):
            if mean and least is not None:
                value, low, high = (round(end, 4) for end in (mean.value, mean.low, mean.high))
                cell = (value, low, high, *(rank or (0, 0)), round(least, 4))
                cells.setdefault(view, {})[key] = cell
    labels = labels_of(results)
    tables = [RunScores(one) for one in results]
    effective = [table.of_ruler(threshold) for table in tables]
    entries = [
        Entry(
            model=label,
            size=size_of(one.run.model),
            tokenizer=visible(one.run.data.tokenizer),
            rows=one.scored,
            asked=one.rows,
            effective=reach.length if reach else None,
            reach=reach.format_with_possible(table.lengths[-1]) if reach else "",
            scores=cells,
            validity=one.validity_line,
            window=one.window[0],
            claimed=bool(one.claimed),
        )
        for label, one, table, reach, cells in zip(
            labels, results, tables, effective, scores, strict=True
        )
    ]
    entries.sort(key=_order)
    return Board(
        protocol=run.protocol,
        edition=visible(run.data.edition),
        suite=", ".join(sorted({visible(one.run.data.suite) for one in results})),
        lengths=lengths,
        weights=shares,
        threshold=threshold,
        tasks=tasks,
        entries=tuple(entries),
        notes=tuple(attributed(_notes(entries, labels, results, claimed=claimed), len(entries))),
    )


def _order(entry: Entry) -> tuple[bool, float]:
    """Return the key by which entries are sorted: the ranked ones first, by what decides."""
    *_, rank, _, lowest = entry.scores.get(ALL, {}).get(ALL, (0.0,) * 6)
    return not rank, -lowest


def _notes(
    entries: Sequence[Entry], labels: Sequence[str], results: Sequence[Results], *, claimed: bool
) -> Iterator[tuple[str, str]]:
    """Yield labels with what to know of their runs."""
    for entry in entries:
        if entry.claimed:
            how = "ranked nevertheless, by --claimed" if claimed else "--claimed ranks it"
            yield entry.model, f"only its results.json is known; {how}"
        elif ALL not in entry.scores.get(ALL, {}):
            yield entry.model, "lacks tasks or lengths of others; no overall rank"
    for label, one in zip(labels, results, strict=True):
        yield from ((label, note) for note in notes_of(one))


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
