"""One frame: the rows in question, named once; every number of a report is over them.

    scores of runs ─► rows by cell ─► who has a rank ─► Frame(rows, ranked, unranked, …)

A cell (a task at a length) is complete in a run if each of its planned rows is answered. The frame
is the tasks and lengths that are complete in all ranked runs, and in each cell the first rows that
all of them have. No row is counted as right or wrong because it was not answered.

Runs can be compared if protocol, edition and MAJOR version of the data agree, whatever the suite
and the tokenizer.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, product

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ruler_data.errors import RulerError
from ruler_data.parquet import integers
from ruler_eval.running import run_dir
from ruler_eval.scoring.scores import Scores
from ruler_report.typesetting import visible

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

#: Digests of questions, 64 bits each.
Digests = npt.NDArray[np.uint64]

#: A task and a length in tokens.
Cell = tuple[str, int]

#: Not `pa.scalar`, which imports pandas.
NAN = pa.Array.from_buffers(pa.float64(), 1, [None, pa.py_buffer(np.array([np.nan]))])[0]


@dataclass(frozen=True, eq=False)
class CellRows:
    """The rows that a run was to answer in a cell, in their order; samples of a row are averaged.

    Attributes:
        index: of each row in its config.
        questions: digest of what each row asks.
        official: score in [0, 1]; NaN where a sample of the row is unanswered.
        exact: likewise.
    """

    index: Ints
    questions: Digests
    official: Floats
    exact: Floats

    @property
    def planned(self) -> int:
        """Number of rows that were to be answered."""
        return len(self.index)

    @property
    def answered(self) -> int:
        """Number of rows that were answered."""
        return int(np.count_nonzero(~np.isnan(self.official)))

    @property
    def is_complete(self) -> bool:
        """Whether every planned row is answered."""
        return self.answered == self.planned

    @property
    def are_first(self) -> bool:
        """Whether the rows are the first ones of their config, not chosen ones."""
        return bool(np.array_equal(self.index, np.arange(self.planned)))

    @property
    def as_wrong(self) -> "CellRows":
        """The same rows with unanswered ones as wrong."""
        official = np.nan_to_num(self.official)
        exact = np.nan_to_num(self.exact)
        return replace(self, official=official, exact=exact)

    def first(self, rows: int) -> "CellRows":
        """Return the first rows alone."""
        return CellRows(
            self.index[:rows], self.questions[:rows], self.official[:rows], self.exact[:rows]
        )


#: The rows of a run by cell.
RowsOfRun = Mapping[Cell, CellRows]


def rows_of(table: pa.Table) -> dict[Cell, CellRows]:
    """Return the rows of a table of scores by cell, tasks in their order and lengths rising."""
    tasks = pc.cast(table["task"], pa.string()).combine_chunks().dictionary_encode()
    names = tasks.dictionary.to_pylist()
    codes = integers(tasks.indices)
    lengths = integers(table["length"].combine_chunks())
    index = integers(table["index"].combine_chunks())
    sample = integers(table["sample"].combine_chunks())
    order = np.lexsort((sample, index, lengths, codes))
    codes, lengths, index = codes[order], lengths[order], index[order]
    questions = digests_of(table["question"])[order]
    official = _numbers(table["official"])[order]
    exact = _numbers(table["exact"])[order]
    is_new_cell = (np.diff(codes, prepend=-1) != 0) | (np.diff(lengths, prepend=-1) != 0)
    is_new_row = is_new_cell | (np.diff(index, prepend=-1) != 0)
    first_lines = np.flatnonzero(is_new_row)
    samples = np.diff(np.append(first_lines, len(index)))
    if len(first_lines) < len(index):
        official = np.add.reduceat(official, first_lines) / samples
        exact = np.add.reduceat(exact, first_lines) / samples
    starts = np.flatnonzero(is_new_cell[first_lines])
    ends = np.append(starts[1:], len(first_lines))
    cells = {}
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        lines = first_lines[start:end]
        cell = names[codes[lines[0]]], int(lengths[lines[0]])
        cells[cell] = CellRows(
            index[lines], questions[lines], official[start:end], exact[start:end]
        )
    return cells


def _numbers(column: pa.ChunkedArray) -> Floats:
    """Return a column of numbers; NaN for null. `to_numpy` imports pandas."""
    numbers = pc.fill_null(column, NAN).combine_chunks()
    return np.from_dlpack(numbers).astype(np.float64)


def digests_of(column: pa.ChunkedArray) -> Digests:
    """Return 16 hexadecimal digits as numbers of 64 bits."""
    encoded = column.combine_chunks()
    texts = encoded.dictionary  # each once, though a question is asked at every length
    is_digest = pc.match_substring_regex(texts, "^[0-9a-f]{16}$")
    if not pc.all(is_digest).as_py():
        raise RulerError("the digest of a question is not 16 hexadecimal digits; score again")
    digits = bytes.fromhex("".join(texts.to_pylist()))
    return np.frombuffer(digits, dtype=">u8").astype(np.uint64)[integers(encoded.indices)]


@dataclass(frozen=True)
class Frame:
    """The rows in question.

    Attributes:
        rows: number of rows in each cell, the first ones of its config; tasks in their order.
        ranked: places of the runs that have all of these rows and may be compared.
        unranked: why each other run has no rank, by its place.
        left_out: cells of the ranked runs that are not in the frame.
        runs: the rows of each run.
        forced: why a run should not be compared with the first, by its place; only where that was
            forced.
    """

    rows: Mapping[Cell, int]
    ranked: tuple[int, ...]
    unranked: Mapping[int, str]
    left_out: tuple[Cell, ...]
    runs: Sequence[RowsOfRun]
    forced: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """The tasks at their lengths."""
        return tuple(self.rows)

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        """The tasks, in their order."""
        return tuple(dict.fromkeys(task for task, _ in self.rows))

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """The lengths in tokens, rising."""
        return tuple(sorted({length for _, length in self.rows}))


def frame_of_runs(
    runs: Sequence[Scores], names: Sequence[str], *, partial: bool, claimed: bool, force: bool
) -> Frame:
    """Return the frame of runs.

    Args:
        runs: their scores.
        names: theirs.
        partial: show unanswered rows as wrong; runs with such rows have no rank.
        claimed: rank also runs whose scores cannot be made again here.
        force: compare runs although protocols differ.

    Raises:
        RulerError: runs cannot be compared, or one has no row.
    """
    rows = [rows_of(run.table) for run in runs]
    for name, of_run in zip(names, rows, strict=True):
        if not any(cell.answered for cell in of_run.values()):
            raise RulerError(name, "no row has a score; resume the run, or leave it out")
    frame = frame_of(rows, _barred(runs, claimed=claimed), partial=partial)
    return replace(frame, forced=_forced(runs, names, rows, force=force))


def frame_of(runs: Sequence[RowsOfRun], barred: Mapping[int, str], *, partial: bool) -> Frame:
    """Return the frame of rows; `barred`: why a run has no rank whatever rows it has."""
    unranked = _unranked(runs, barred, partial=partial)
    if partial:
        runs = [{cell: rows.as_wrong for cell, rows in of_run.items()} for of_run in runs]
    complete = [complete_cells(rows) for rows in runs]
    candidates = [place for place in range(len(runs)) if place not in unranked]
    unranked |= _too_small(candidates, complete)
    ranked = tuple(place for place in candidates if place not in unranked)
    shown = ranked or range(len(runs))
    common = set.intersection(*(complete[place] for place in shown))
    rows_of_cell, left_out = _rows_in_question([runs[place] for place in shown], common)
    return Frame(rows_of_cell, ranked, unranked, left_out, runs)


def _unranked(
    runs: Sequence[RowsOfRun], barred: Mapping[int, str], *, partial: bool
) -> dict[int, str]:
    """Return why runs have no rank, by their place, without a look at the others."""
    unranked = dict(barred)
    for place, rows in enumerate(runs):
        reason = _own_obstacle(rows, partial=partial)
        if reason:
            unranked.setdefault(place, reason)
    return unranked


def _rows_in_question(
    runs: Sequence[RowsOfRun], common: Collection[Cell]
) -> tuple[dict[Cell, int], tuple[Cell, ...]]:
    """Return the number of rows of each cell in question, and the cells that are left out."""
    tasks, lengths = rectangle([cell for cell in runs[0] if cell in common])
    rows_of_cell = {}
    for cell in product(tasks, lengths):
        rows_of_cell[cell] = min(rows[cell].planned for rows in runs)
    everything = dict.fromkeys(chain.from_iterable(runs))
    return rows_of_cell, tuple(cell for cell in everything if cell not in rows_of_cell)


def _own_obstacle(rows: RowsOfRun, *, partial: bool) -> str:
    """Return why a run has no rank, by its own rows; empty if it may have one."""
    if not all(cell.are_first for cell in rows.values()):
        return "its rows are not the first ones of each config but chosen"
    unanswered = sum(cell.planned - cell.answered for cell in rows.values())
    if partial and unanswered:
        return f"{unanswered:,} unanswered rows count as wrong, for display alone"
    if not complete_cells(rows):
        return "no task at a length is complete in it"
    return ""


def _barred(runs: Sequence[Scores], *, claimed: bool) -> dict[int, str]:
    """Return why runs have no rank whatever rows they have, by their place."""
    essays = Counter(run.run.data.essays for run in runs if run.run.data.essays)
    usual = max(essays, key=lambda name: (essays[name], name), default="")
    reasons = {}
    for place, run in enumerate(runs):
        if run.validity.refusals:
            reasons[place] = f"`score` refuses it: {visible('; '.join(run.validity.refusals))}"
        elif run.claimed and not claimed:
            reasons[place] = f"claimed: {visible(run.claimed)}; --claimed ranks it"
        elif run.run.data.essays not in ("", usual):
            reasons[place] = "its rows have other essays than most"
    return reasons


def complete_cells(rows: RowsOfRun) -> set[Cell]:
    """Return the cells of a run each of whose planned rows is answered."""
    return {cell for cell, of_cell in rows.items() if of_cell.is_complete}


def _too_small(candidates: Sequence[int], complete: Sequence[Collection[Cell]]) -> dict[int, str]:
    """Return runs that would remove more than half of the cells that the others share.

    The run that keeps the smallest share goes first, so the order of runs changes nothing; of runs
    that keep the same, those with the fewest complete cells go together.
    """
    reasons: dict[int, str] = {}
    remaining = list(candidates)
    while len(remaining) > 1:
        shares: dict[int, tuple[float, int]] = {}
        texts: dict[int, str] = {}
        for place in remaining:
            cells = {*complete[place]}
            shared = set.intersection(*({*complete[run]} for run in remaining if run != place))
            common = len(shared & cells)
            if 2 * common < len(shared):
                shares[place] = common / len(shared), len(cells)
                texts[place] = (
                    f"complete in {common} of the {len(shared)} tasks at a length that the others "
                    "share"
                )
        if not shares:
            break
        smallest = min(shares.values())
        for place, share in shares.items():
            if share == smallest:
                remaining.remove(place)
                reasons[place] = texts[place]
    return reasons


def rectangle(cells: Sequence[Cell]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return tasks and lengths all of whose cells are there: means are over the same tasks.

    All tasks, at the lengths that all have, if that is at least half of the cells; else the most
    cells.

    >>> rectangle([("vt", 4096), ("vt", 8192), ("cwe", 4096)])
    (('vt', 'cwe'), (4096,))
    """
    lengths: dict[str, set[int]] = {}
    for task, length in cells:
        lengths.setdefault(task, set()).add(length)
    if not lengths:
        return (), ()
    common = set.intersection(*lengths.values())
    if 2 * len(lengths) * len(common) >= len(cells):
        return tuple(lengths), tuple(sorted(common))
    largest: tuple[tuple[str, ...], tuple[int, ...]] = (), ()
    for candidate in lengths.values():
        tasks = tuple(task for task, of_task in lengths.items() if candidate <= of_task)
        if len(tasks) * len(candidate) > len(largest[0]) * len(largest[1]):
            largest = tasks, tuple(sorted(candidate))
    return largest


def _forced(
    runs: Sequence[Scores], names: Sequence[str], rows: Sequence[RowsOfRun], *, force: bool
) -> dict[int, tuple[str, ...]]:
    """Return by its place why a run should not be compared with the first, where that is forced.

    Raises:
        RulerError: runs cannot be compared, and `force` is false or their editions differ.
    """
    forced: dict[int, tuple[str, ...]] = {}
    for place in range(1, len(runs)):
        differing = _other_task(runs[0], runs[place])
        if share_questions(rows[0], rows[place]):
            differing = ""
        problems = [visible(text) for text in run_dir.obstacles(runs[0].run, runs[place].run)]
        if differing:
            problems.append(f"no question is shared, and the parameters of {differing} differ")
        same_edition = runs[0].run.data.edition == runs[place].run.data.edition
        if problems and not (force and same_edition):
            whose = f"{names[place]}: " if len(runs) > 2 else ""
            remedy = "--force compares anyway"
            if not same_edition:
                remedy = "run both models on one edition"
            raise RulerError(f"{whose}not comparable: {'; '.join(problems)}; {remedy}")
        if problems:
            forced[place] = tuple(problems)
    return forced


def _other_task(first: Scores, second: Scores) -> str:
    """Return a task that two runs have with other parameters; empty if there is none."""
    for name, task in first.tasks.items():
        if name in second.tasks and second.tasks[name].params != task.params:
            return name
    return ""


def share_questions(first: RowsOfRun, second: RowsOfRun) -> bool:
    """Whether two runs were asked a common question, and so are paired."""
    for cell, rows in first.items():
        if cell in second and {*rows.questions.tolist()} & {*second[cell].questions.tolist()}:
            return True
    return False
