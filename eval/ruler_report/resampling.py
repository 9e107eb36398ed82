"""The resampling: draws of the mean of every cell, for all runs at once.

    rows of runs, frame ─► resample ─► Array(values, draws)

A question has one weight in a draw (Bayesian bootstrap, Rubin 1981), whatever run, length or
tokenizer has it: shared rows are paired, and lengths of one question are one observation, without
a formula for either. The weight follows from the question's digest, so the draws of a run are the
same whatever runs stand beside it. Draws are spread by sqrt((n+1) / (n-1)), which makes their
variance that of a mean of n questions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ruler_report.columns import Column
from ruler_report.frame import Cell, CellRows, Digests, Floats, Frame, Ints, RowsOfRun

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
    """The means of runs in cells, with their draws.

    Attributes:
        cells: in the order of the arrays.
        rows: number of rows in each cell.
        values: means in percent, runs by cells; NaN where a run lacks the cell.
        draws: of the means in [0, 1], runs by cells by draws; NaN also where a cell has one row.
        families: number of each cell's family; cells of one family share questions.
        layouts: digests of the questions of each run by cell.
    """

    cells: tuple[Cell, ...]
    rows: Ints
    values: Floats
    draws: Draws
    families: Ints
    layouts: Sequence[Mapping[Cell, Digests]]

    @cached_property
    def place(self) -> dict[Cell, int]:
        """Where each cell stands."""
        return {cell: place for place, cell in enumerate(self.cells)}

    def value(self, column: Column, run: int) -> float:
        """Return a mean in percent; NaN where the run lacks a cell of it."""
        return column.value({cell: float(self.values[run, self.place[cell]])
                             for cell in column.cells})  # fmt: skip

    def draws_of(self, column: Column, runs: Sequence[int]) -> Draws:
        """Return the draws of a mean in [0, 1], runs by draws."""
        places = [self.place[cell] for cell in column.cells]
        return np.asarray(self.draws[np.ix_(runs, places)].mean(axis=1))

    def fewest(self, column: Column) -> int:
        """Return the number of rows of the smallest cell of a mean."""
        return int(min(self.rows[self.place[cell]] for cell in column.cells))

    def questions(self, column: Column, run: int) -> float:
        """Return the number of distinct questions of equal share that a mean rests on."""
        key = column, self._layout_keys[run]
        if key not in self._questions:
            self._questions[key] = self._count_questions(column, self.layouts[run])
        return self._questions[key]

    @cached_property
    def _questions(self) -> dict[tuple[Column, int], float]:
        return {}

    @cached_property
    def _layout_keys(self) -> list[int]:
        """A number for each run, equal for runs that were asked the same."""
        keys: dict[tuple[bytes, ...], int] = {}
        numbers = []
        for layout in self.layouts:
            key = tuple(layout[cell].tobytes() if cell in layout else b"" for cell in self.cells)
            numbers.append(keys.setdefault(key, len(keys)))
        return numbers

    def _count_questions(self, column: Column, layout: Mapping[Cell, Digests]) -> float:
        digests = [layout.get(cell, np.zeros(0, np.uint64)) for cell in column.cells]
        sizes = [len(of_cell) for of_cell in digests]
        shares = np.repeat([1 / max(size, 1) / len(sizes) for size in sizes], sizes)
        _, question = np.unique(np.concatenate(digests), return_inverse=True)
        share_of_question = np.bincount(question, weights=shares)
        total = float((share_of_question**2).sum())
        return 1 / total if total else np.nan

    def freedom(self, column: Column, runs: Sequence[int]) -> Floats:
        """Return the degrees of freedom of the differences of a mean, first by second runs.

        Satterthwaite (1946), over the families of cells.
        """
        places = np.array([self.place[cell] for cell in column.cells])
        variance = np.zeros((len(runs), len(runs)))
        squares = np.zeros((len(runs), len(runs)))
        for family in np.unique(self.families[places]):
            members = places[self.families[places] == family]
            share = len(members) / len(places)
            size = int(self.rows[members].min())
            draws = self.draws[np.ix_(runs, members)].mean(axis=1) * np.float32(share)
            # Where nothing varies, every family counts alike.
            spread = _spread(draws) + 1e-4 * share**2 / size
            variance += spread
            squares += spread**2 / max(size - 1, 1)
        return variance**2 / squares


def _spread(draws: Draws) -> Floats:
    """Return the variances of differences of draws, first by second runs."""
    centred = draws - draws.mean(axis=1, keepdims=True)
    own = (centred**2).mean(axis=1)
    return np.asarray(own[:, None] + own - 2 * (centred @ centred.T) / DRAWS)


def resample(frame: Frame, runs: Sequence[RowsOfRun], score: Mapping[str, str] | str) -> Array:
    """Return the means of runs over a frame.

    Args:
        frame: the rows in question.
        runs: the rows of each run; a cell that it has not answered whole stays out of its means.
        score: `official` or `exact`, for all tasks or by task.
    """
    cells = frame.cells
    values = np.full((len(runs), len(cells)), np.nan)
    draws = np.full((len(runs), len(cells), DRAWS), np.nan, dtype=np.float32)
    layouts: list[dict[Cell, Digests]] = [{} for _ in runs]
    by_family = _families(frame, runs)
    for family in by_family:
        # Runs and cells that were asked the same are drawn together.
        groups: dict[bytes, list[tuple[int, Cell, Floats]]] = {}
        for cell in family:
            name = score if isinstance(score, str) else score[cell[0]]
            for run, rows in _answered_rows(runs, cell, frame.rows[cell]):
                scores: Floats = getattr(rows, name)
                layouts[run][cell] = rows.questions
                values[run, cells.index(cell)] = mean_percent(scores.tolist())
                groups.setdefault(rows.questions.tobytes(), []).append((run, cell, scores))
        for asked, lines in groups.items():
            questions = np.frombuffer(asked, np.uint64)
            drawn = _draws_of_means(np.stack([scores for *_, scores in lines]), questions)
            for (run, cell, _), of_line in zip(lines, drawn, strict=True):
                draws[run, cells.index(cell)] = of_line
    number_of = {cell: number for number, family in enumerate(by_family) for cell in family}
    return Array(
        cells=cells,
        rows=np.array([frame.rows[cell] for cell in cells], dtype=np.int64),
        values=values,
        draws=draws,
        families=np.array([number_of[cell] for cell in cells], dtype=np.int64),
        layouts=layouts,
    )


def _answered_rows(
    runs: Sequence[RowsOfRun], cell: Cell, rows: int
) -> Iterator[tuple[int, CellRows]]:
    """Yield the first rows of a cell with the places of the runs that answered all of them."""
    for run, rows_of_run in enumerate(runs):
        if cell in rows_of_run:
            first = rows_of_run[cell].first(rows)
            if first.is_complete:
                yield run, first


def _families(frame: Frame, runs: Sequence[RowsOfRun]) -> list[list[Cell]]:
    """Return the cells in groups that share questions: the first row tells, lengths ask alike."""
    families: dict[int, list[Cell]] = {}
    for cell in frame.cells:
        first = next(rows[cell] for rows in runs if cell in rows)
        families.setdefault(int(first.questions[0]), []).append(cell)
    return list(families.values())


def _draws_of_means(scores: Floats, questions: Digests) -> Draws:
    """Return draws of the means of lines of scores for the same questions, lines by draws."""
    weights = weights_of(questions)
    count = len(questions)
    means = scores.mean(axis=1, keepdims=True).astype(np.float32)
    drawn = scores.astype(np.float32) @ weights / weights.sum(axis=0)
    spread = np.sqrt((count + 1) / (count - 1)) if count > 1 else np.nan
    return np.asarray(means + (drawn - means) * np.float32(spread))
