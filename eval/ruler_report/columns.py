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
