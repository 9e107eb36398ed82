"""The resampling: draws of the mean of every cell, for all runs at once.

    Array(frame, "official").values, .draws

A question has one weight in a draw (Bayesian bootstrap, Rubin 1981), whatever run, length or
tokenizer has it: shared rows are paired, and lengths of one question are one observation, without
a formula for either. The weight follows from the question's digest, so the draws of a run are the
same whatever runs stand beside it. Draws are spread by sqrt((n+1) / (n-1)), which makes their
variance that of a mean of n questions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ruler_report.columns import Column
from ruler_report.frame import Cell, CellRows, Digests, Floats, Frame

Draws = npt.NDArray[np.float32]

DRAWS = 2000


def weights_of(questions: Digests) -> Draws:
    """Return the weight of each question in each draw: exponential, a function of its digest."""
    drawn = np.empty((len(questions), DRAWS), dtype=np.float32)
    for weights, digest in zip(drawn, questions.tolist(), strict=True):
        generator = np.random.Generator(np.random.PCG64(digest))
        generator.standard_exponential(dtype=np.float32, out=weights)
    return drawn


def mean_percent(scores: Sequence[float]) -> float:
    """Return the mean of scores in [0, 1] in percent, in upstream's order of operations.

    Upstream prints `round(..., 2)` of this; another order of operations could round a tie the
    other way.

    >>> mean_percent([1.0, 0.0, 1.0])
    66.66666666666666
    """
    return sum(scores) / len(scores) * 100


@dataclass(frozen=True, eq=False)
class Array:
    """The means of runs in cells, and their draws, which are made when they are first needed.

    Attributes:
        frame: the rows in question; a cell that a run has not answered whole stays out of its
            means.
        score: `official` or `exact`, for all tasks or by task.
    """

    frame: Frame
    score: Mapping[str, str] | str

    @cached_property
    def place(self) -> dict[Cell, int]:
        """Where each cell stands in the arrays."""
        return {cell: place for place, cell in enumerate(self.frame.cells)}

    @cached_property
    def answered(self) -> list[dict[Cell, CellRows]]:
        """The rows of each run that its means are of."""
        answered: list[dict[Cell, CellRows]] = []
        for rows_of_run in self.frame.runs:
            cells = {}
            for cell, rows in self.frame.rows.items():
                if cell in rows_of_run:
                    first = rows_of_run[cell].first(rows)
                    if first.is_complete:
                        cells[cell] = first
            answered.append(cells)
        return answered

    def scores(self, cell: Cell, run: int) -> Floats:
        """Return the scores in [0, 1] that the mean of a cell is of."""
        name = self.score if isinstance(self.score, str) else self.score[cell[0]]
        scores: Floats = getattr(self.answered[run][cell], name)
        return scores

    @cached_property
    def values(self) -> Floats:
        """Means in percent, runs by cells; NaN where a run lacks the cell."""
        values = np.full((len(self.answered), len(self.place)), np.nan)
        for run, cells in enumerate(self.answered):
            for cell in cells:
                values[run, self.place[cell]] = mean_percent(self.scores(cell, run).tolist())
        return values

    @cached_property
    def draws(self) -> Draws:
        """Draws of the means in [0, 1], runs by cells by draws; NaN also for one row alone."""
        draws = np.full((len(self.answered), len(self.place), DRAWS), np.nan, dtype=np.float32)
        for family in self._families:
            for questions, lines in self._asked_alike(family).items():
                scores = np.stack([self.scores(cell, run) for cell, run in lines])
                drawn = _draws_of_means(scores, np.frombuffer(questions, np.uint64))
                for (cell, run), of_line in zip(lines, drawn, strict=True):
                    draws[run, self.place[cell]] = of_line
        return draws

    @cached_property
    def _families(self) -> list[list[Cell]]:
        """The cells in groups that share questions: the first row tells, lengths ask alike."""
        families: dict[int, list[Cell]] = {}
        for cell in self.frame.cells:
            rows = next(rows[cell] for rows in self.frame.runs if cell in rows)
            families.setdefault(int(rows.questions[0]), []).append(cell)
        return list(families.values())

    def _asked_alike(self, family: Sequence[Cell]) -> dict[bytes, list[tuple[Cell, int]]]:
        """Return the cells of runs by the questions asked in them: these are drawn together."""
        groups: dict[bytes, list[tuple[Cell, int]]] = {}
        for cell in family:
            for run, cells in enumerate(self.answered):
                if cell in cells:
                    groups.setdefault(cells[cell].questions.tobytes(), []).append((cell, run))
        return groups

    def draws_of(self, cells: Sequence[Cell], runs: Sequence[int]) -> Draws:
        """Return the draws of the mean of cells in [0, 1], runs by draws."""
        total = np.zeros((len(runs), DRAWS), dtype=np.float32)
        for cell in cells:
            total += self.draws[runs, self.place[cell]]
        return total / np.float32(len(cells))

    def fewest(self, column: Column) -> int:
        """Return the number of rows of the smallest cell of a mean."""
        return min(self.frame.rows[cell] for cell in column.cells)

    def questions(self, column: Column, run: int) -> float:
        """Return the number of distinct questions of equal share that a mean rests on."""
        key = column, self._layouts[run]
        if key not in self._questions:
            self._questions[key] = self._count_questions(column, run)
        return self._questions[key]

    @cached_property
    def _questions(self) -> dict[tuple[Column, int], float]:
        return {}

    @cached_property
    def _layouts(self) -> list[int]:
        """A number for each run, equal for runs that were asked the same."""
        numbers: dict[tuple[bytes, ...], int] = {}
        layouts = []
        for cells in self.answered:
            asked = [
                cells[cell].questions.tobytes() if cell in cells else b"" for cell in self.place
            ]
            layouts.append(numbers.setdefault(tuple(asked), len(numbers)))
        return layouts

    def _count_questions(self, column: Column, run: int) -> float:
        cells = self.answered[run]
        digests = [cells[cell].questions for cell in column.cells if cell in cells]
        if not digests:
            return np.nan
        sizes = [len(of_cell) for of_cell in digests]
        shares = np.repeat([1 / size / len(column.cells) for size in sizes], sizes)
        _, question = np.unique(np.concatenate(digests), return_inverse=True)
        share_of_question = np.bincount(question, weights=shares)
        return 1 / float((share_of_question**2).sum())

    def freedom(self, column: Column, runs: Sequence[int]) -> Floats:
        """Return the degrees of freedom of the differences of a mean, first by second runs.

        Satterthwaite (1946), over the families of cells.
        """
        variance = np.zeros((len(runs), len(runs)))
        squares = np.zeros((len(runs), len(runs)))
        for family in self._families:
            members = [cell for cell in column.cells if cell in family]
            if members:
                share = len(members) / len(column.cells)
                size = min(self.frame.rows[cell] for cell in members)
                draws = self.draws_of(members, runs) * np.float32(share)
                # Where nothing varies, every family counts alike.
                spread = _spread(draws) + 1e-4 * share**2 / size
                variance += spread
                squares += spread**2 / max(size - 1, 1)
        return variance**2 / squares


def _spread(draws: Draws) -> Floats:
    """Return the variances of differences of draws, first by second runs."""
    centred = (draws - draws.mean(axis=1, keepdims=True)).astype(np.float64)
    variance = (centred**2).mean(axis=1)
    covariance = centred @ centred.T / DRAWS
    return np.asarray(variance[:, None] + variance - 2 * covariance)


def _draws_of_means(scores: Floats, questions: Digests) -> Draws:
    """Return draws of the means of lines of scores for the same questions, lines by draws.

    In which order products are added depends on the processor. Sums in float64 differ in digits
    that rounding to float32 drops.
    """
    weights = weights_of(questions).astype(np.float64)
    count = len(questions)
    means = scores.mean(axis=1, keepdims=True)
    drawn = scores @ weights / weights.sum(axis=0)
    spread = np.sqrt((count + 1) / (count - 1)) if count > 1 else np.nan
    return np.asarray(means + (drawn - means) * spread, dtype=np.float32)
