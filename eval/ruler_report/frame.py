"""One frame: the rows in question, named once; every run is one line over them.

    runs' questions ─► frame_of ─► Frame ─► means.resample(scores, columns) ─► every conclusion

A column names the cells of a mean and their weights. It takes digests and names only.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

Ints = npt.NDArray[np.int64]

Bools = npt.NDArray[np.bool_]

#: Digests of questions, 64 bits each.
Digests = npt.NDArray[np.uint64]

#: A task and a length.
Cell = tuple[str, int]

#: The paper's averages over lengths.
AVERAGES = ("avg", "wavg_inc", "wavg_dec")
#: Name of the mean of where the needle is there and where it is not.
BALANCED = "balanced"

#: Name of a column: task or category, and length; None for the mean over all of them.
Name = tuple[str | None, int | None]


@dataclass(frozen=True)
class Rows:
    """The rows of a cell that a run was to answer.

    Attributes:
        questions: their digests.
        places: where they stand in the run's scores; -1 for a row that the run does not have.
    """

    questions: Digests
    places: Ints

    def part(self, mask: Bools) -> "Rows":
        """Return the rows that a mask selects."""
        return Rows(self.questions[mask], self.places[mask])


@dataclass(frozen=True)
class Frame:
    """The rows in question.

    Attributes:
        cells: that every run was to answer; ranks and differences are over them.
        lines: of each run, its rows by cell, also of cells that others lack.
    """

    cells: tuple[Cell, ...]
    lines: tuple[Mapping[Cell, Rows], ...]

    @cached_property
    def rectangle(self) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """The tasks and lengths that means are over: the most cells that have all of both."""
        lengths: dict[str, set[int]] = {}
        for task, length in self.cells:
            lengths.setdefault(task, set()).add(length)
        largest: tuple[tuple[str, ...], tuple[int, ...]] = (), ()
        for common in lengths.values():
            tasks = tuple(
                task for task, lengths_of_task in lengths.items() if common <= lengths_of_task
            )
            if len(tasks) * len(common) > len(largest[0]) * len(largest[1]):
                largest = tasks, tuple(sorted(common))
        return largest

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that means are over, in their order."""
        return self.rectangle[0]

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths that means are over, increasing."""
        return self.rectangle[1]

    def alone(self, run: int) -> "Frame":
        """Return the frame of one run over all its cells; its rows are the same."""
        return Frame(tuple(self.lines[run]), (self.lines[run],))

    def share_questions(self, first: int, second: int) -> bool:
        """Whether two runs answer a common question, and so are paired."""
        a, b = self.lines[first], self.lines[second]
        return any(np.isin(a[cell].questions, b[cell].questions).any() for cell in a if cell in b)


def frame_of(
    runs: Sequence[Mapping[Cell, Digests]],
    *,
    rows: int | None = None,
    tasks: Collection[str] = (),
    lengths: Collection[int] = (),
    baseline: int | None = None,
) -> Frame:
    """Return the frame of runs, given the questions that each was to answer, in their order.

    In a cell it is the union of the runs' rows; of a run that has all rows of others (the first
    ones, or chosen ones), the frame has no more than theirs. `rows` (the first ones), `tasks` and
    `lengths` narrow it for all runs. A `baseline` keeps its rows, and each other run is to answer
    them, too.
    """
    most = max((len(digests) for run in runs for digests in run.values()), default=0)
    numbers = np.arange(most)  # all runs' places are parts of it
    narrowed = [
        {
            cell: Rows(digests[:rows], numbers[: len(digests[:rows])])
            for cell, digests in run.items()
            if (not tasks or cell[0] in tasks) and (not lengths or cell[1] in lengths)
        }
        for run in runs
    ]
    if baseline is not None:
        return Frame(tuple(narrowed[baseline]), _against(narrowed, baseline))
    common = tuple(cell for cell in narrowed[0] if all(cell in line for line in narrowed))
    for cell in {cell: None for line in narrowed for cell in line}:
        having = [line for line in narrowed if cell in line]
        for line, smallest in zip(having, _smallest([line[cell] for line in having]), strict=True):
            line[cell] = smallest
    return Frame(common, tuple(narrowed))


def _smallest(rows: Sequence[Rows]) -> list[Rows]:
    """Return the rows of runs in a cell: of a run that has those of others, only theirs."""
    keys = [line.questions.tobytes() for line in rows]
    distinct = dict(zip(keys, rows, strict=True))
    if len(distinct) == 1:
        return [*rows]
    questions = np.unique(np.concatenate([line.questions for line in distinct.values()]))
    places = [np.searchsorted(questions, line.questions) for line in distinct.values()]
    has = np.zeros((len(distinct), len(questions)), dtype=np.float32)
    for row, at in zip(has, places, strict=True):
        row[at] = 1
    within = (has @ (1 - has).T) == 0  # which sets are among which others
    smallest = within.sum(axis=0) == 1
    smallest_rows = {
        key: line if alone else line.part(has[inside & smallest].any(axis=0)[at])
        for (key, line), alone, inside, at in zip(
            distinct.items(), smallest, within.T, places, strict=True
        )
    }
    return [smallest_rows[key] for key in keys]


def _against(
    lines: Sequence[Mapping[Cell, Rows]], baseline: int
) -> tuple[Mapping[Cell, Rows], ...]:
    """Return runs over the rows of a baseline; by their number if they share no question."""
    base = lines[baseline]
    narrowed: list[Mapping[Cell, Rows]] = []
    for line in lines:
        paired = any(np.isin(base[c].questions, line[c].questions).any() for c in base if c in line)
        rows_of_run: dict[Cell, Rows] = {}
        for cell, rows in base.items():
            has = line.get(cell, Rows(rows.questions[:0], rows.places[:0]))
            if paired or not len(has.questions):
                order = np.argsort(has.questions)
                place = np.searchsorted(has.questions, rows.questions, sorter=order)
                place = np.append(order, -1)[np.minimum(place, len(order))]
                is_there = np.append(has.questions, 0)[place] == rows.questions
                rows_of_run[cell] = Rows(
                    rows.questions, np.where(is_there & (place >= 0), place, -1)
                )
            else:
                rows_of_run[cell] = has.part(np.arange(len(has.places)) < len(rows.places))
        narrowed.append(rows_of_run)
    return tuple(narrowed)


@dataclass(frozen=True)
class Column:
    """A mean: over lengths, with weights that add up to 1, of the mean over groups of tasks."""

    groups: tuple[tuple[str, ...], ...]
    weights: Mapping[int, float]

    @cached_property
    def shares(self) -> dict[Cell, float]:
        """The share of each cell; they add up to 1."""
        shares: dict[Cell, float] = {}
        for group, (length, weight) in product(self.groups, self.weights.items()):
            for task in group:
                shares[task, length] = weight / len(self.groups) / len(group)
        return shares

    def value(self, cells: Mapping[Cell, float]) -> float:
        """Return the mean of cells, added up in upstream's order of operations."""
        means = []
        for length in self.weights:
            groups = [
                sum(cells[task, length] for task in group) / len(group) for group in self.groups
            ]
            means.append(sum(groups) / len(groups))
        return float(np.array(means) @ np.array([*self.weights.values()]))


def weights(lengths: int, kind: str) -> Floats:
    """Return the weights of lengths, shortest first; they add up to 1.

    `kind` is `avg`, `wavg_inc` (linearly increasing) or `wavg_dec` (decreasing). The paper does not
    print the weights 1 to 6 (arXiv 2404.06654, Table 3); they reproduce every printed wAvg.

    >>> weights(3, "wavg_inc") * 6
    array([1., 2., 3.])
    """
    rising = np.arange(1, lengths + 1, dtype=np.float64)
    columns: dict[str, Floats] = {
        "avg": np.ones(lengths),
        "wavg_inc": rising,
        "wavg_dec": rising[::-1],
    }
    return np.asarray(columns[kind] / columns[kind].sum())


def evenly(lengths: Collection[int]) -> dict[int, float]:
    """Return equal weights of lengths."""
    return dict.fromkeys(lengths, 1 / len(lengths))


def columns_of(
    frame: Frame,
    category_of: Mapping[str, str],
    none_of: Mapping[str, object] = MappingProxyType({}),
    *,
    cells: bool = True,
) -> dict[Name, Column]:
    """Return the columns of a page: all tasks, categories and tasks, by length and over lengths.

    A category or a task with another's name gives way to it. The paper's averages are there where
    every task of the frame is in the means, and a balanced mean where the needle `possible` is
    absent in some tasks and is (`true`) in others, as `none_of` says. Without `cells` there are the
    means over all tasks and the categories over all lengths alone, which a gate looks at.
    """
    columns: dict[Name, Column] = {}
    tasks, lengths = frame.tasks, frame.lengths
    groups: dict[str | None, tuple[str, ...]] = {None: tasks} if tasks else {}
    for task in tasks:
        groups[category_of[task]] = (*groups.get(category_of[task], ()), task)
    for name, group in groups.items():
        columns[name, None] = Column((group,), evenly(lengths))
        for length in lengths if cells or name is None else ():
            columns[name, length] = Column((group,), {length: 1.0})
    if not cells:
        return columns
    for task in dict.fromkeys(task for task, _ in frame.cells):
        task_lengths = sorted(length for name, length in frame.cells if name == task)
        columns[task, None] = Column(((task,),), evenly(task_lengths))
        columns |= {(task, length): Column(((task,),), {length: 1.0}) for length in task_lengths}
    if {task for task, _ in frame.cells} == {*tasks} and len(lengths) > 1:
        for kind in AVERAGES[1:]:
            shares = zip(lengths, weights(len(lengths), kind).tolist(), strict=True)
            columns[kind, None] = Column((tasks,), dict(shares))
    halves = tuple(
        tuple(task for task in tasks if none_of.get(task) == kind) for kind in ("possible", "true")
    )
    if all(halves):
        columns |= {(BALANCED, length): Column(halves, {length: 1.0}) for length in lengths}
    return columns
