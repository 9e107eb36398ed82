"""The means that are in question: over tasks, lengths, categories, each as shares of cells."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ruler_report.frame import Cell, Floats, Frame

#: Name of a column: task or category, and length; None for the mean over all of them.
Name = tuple[str | None, int | None]

#: The mean over the frame.
MEAN: Name = (None, None)

#: The paper's averages over lengths.
AVERAGES = ("avg", "wavg_inc", "wavg_dec")


@dataclass(frozen=True)
class Column:
    """A mean over lengths of the mean over tasks."""

    tasks: tuple[str, ...]
    lengths: tuple[int, ...]

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """The cells that it is the mean of."""
        return tuple((task, length) for task in self.tasks for length in self.lengths)

    def value(self, means: Mapping[Cell, Floats]) -> Floats:
        """Return the mean of the means of cells, by run, in upstream's order of operations."""
        by_length = []
        for length in self.lengths:
            total = sum(means[task, length] for task in self.tasks)
            by_length.append(total / len(self.tasks))
        return np.asarray(sum(by_length) / len(by_length))


def columns_of(frame: Frame, category_of: Mapping[str, str]) -> dict[Name, Column]:
    """Return the columns of a frame: the mean, then by length, category, task and cell.

    A category with the name of a task gives way to the task.
    """
    tasks = frame.tasks
    lengths = frame.lengths
    if not frame.cells:
        return {}
    columns: dict[Name, Column] = {MEAN: Column(tasks, lengths)}
    for length in lengths:
        columns[None, length] = Column(tasks, (length,))
    for category in dict.fromkeys(category_of[task] for task in tasks):
        members = tuple(task for task in tasks if category_of[task] == category)
        columns[category, None] = Column(members, lengths)
        for length in lengths:
            columns[category, length] = Column(members, (length,))
    for task in tasks:
        columns[task, None] = Column((task,), lengths)
        for length in lengths:
            columns[task, length] = Column((task,), (length,))
    return columns


def weights(lengths: int, kind: str) -> Floats:
    """Return the weights of lengths, shortest first; they add up to 1.

    `kind` is `avg`, `wavg_inc` (linearly increasing) or `wavg_dec` (decreasing). The paper does not
    print the weights 1 to 6 (arXiv 2404.06654, Table 3); they reproduce every printed wAvg.

    >>> weights(3, "wavg_inc") * 6
    array([1., 2., 3.])
    """
    rising = np.arange(1, lengths + 1, dtype=np.float64)
    by_kind = {"avg": np.ones(lengths), "wavg_inc": rising, "wavg_dec": rising[::-1]}
    chosen = by_kind[kind]
    return np.asarray(chosen / chosen.sum())
