"""One table of pairs: the difference of any two runs, from which every conclusion is read.

Rows pair by their question (`scores.py`). Runs that share no question (another seed) are compared
unpaired. Intervals and p-values are those of `intervals.py`, each of the bound that hurts: an
interval leaves out 0 exactly if the p-value is below 5 %.

Holm's method (1979) corrects p-values within each family of tests, over all pairs of the table: all
cells, all tasks, all lengths, all categories, and the overall means. Ranks follow from the p-values
of the overall means (Mogstad, Romano, Shaikh, Wilhelm, Review of Economic Studies 91 (2024)).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np

from ruler_data.errors import RulerError
from ruler_report.format import format_signed
from ruler_report.results_file import Results
from ruler_report.stats.intervals import LEVEL, Floats, Statistic
from ruler_report.stats.scores import Bools, Ints, Key, ScoreStack

#: The interval of a rank; None for a run that lacks part of the mean.
Ranks = tuple[int, int] | None
#: Verdicts of a difference; `second` is the better run.
FIRST, SECOND, CANNOT_TELL = "first", "second", "cannot tell"
#: A difference that is significant alone, but not after the correction for all pairs.
UNCORRECTED = "not after correction"
#: Verdicts of a test for contamination.
CONTAMINATED, NO_SIGN = "contaminated", "no sign"
#: A cell or a mean of the table; or a category.
Name = Key | str


@dataclass(frozen=True)
class Difference:
    """A difference between two means, in percentage points.

    Attributes:
        value: the difference; `low` and `high` are its 95 % interval.
        p: the p-value; `adjusted` is corrected for the other tests of its family. Two-sided, but
            one-sided in a test for contamination.
        rows: the answered rows in each mean, for paired runs the same number twice; 0 if a config
            in it has none, so that only the bounds are known.
        verdict: what the difference shows.

    >>> print(Difference(-7.25, -8.0, -6.5, 0.0001, (500, 500)))
    -7.2 [-8.0, -6.5]
    """

    value: float
    low: float
    high: float
    p: float
    rows: tuple[int, int]
    adjusted: float = 1.0
    verdict: str = CANNOT_TELL

    @property
    def points(self) -> str:
        """The difference, signed, in percentage points; empty where only its bounds are known."""
        return format_signed(self.value) if all(self.rows) else ""

    def __str__(self) -> str:
        return f"{self.points} [{self.low:+.1f}, {self.high:+.1f}]".lstrip()


@dataclass(frozen=True)
class Pairs:
    """The differences of one mean between all runs: arrays of runs by runs, second minus first.

    NaN where one of the two runs lacks part of the mean.

    Attributes:
        rows: rows of the second run that are compared: those that both answered, if paired.
        value: difference of the means over them, in [-1, 1], kept within the bounds.
        lower: the difference where unanswered rows count against the second run.
        same: pairs with the same answers, whose difference is exactly 0.
    """

    rows: Floats
    value: Floats
    lower: Statistic
    same: Bools

    @cached_property
    def above(self) -> Floats:
        """The p-values of the one-sided tests whether the second run is better."""
        return np.where(self.same, 1.0, self.lower.p_above())

    @cached_property
    def p(self) -> Floats:
        """The two-sided p-values: 1 unless one of the two runs is better in its lower bound."""
        p_values, better = np.ones_like(self.value), (self.lower.value > 0) & ~self.same
        p_values[better] = np.minimum(1.0, 2 * self.lower.at(better).p_above())
        return np.minimum(p_values, p_values.T)

    @cached_property
    def interval(self) -> tuple[Floats, Floats]:
        """The ends of the 95 % intervals."""
        low = np.where(self.same, 0.0, self.lower.interval()[0])
        return low, 0.0 - low.T

    def ranks(self, without: Collection[int] = ()) -> list[Ranks]:
        """Return the interval of each run's rank; None for those that are left out."""
        known = ~np.isnan(np.diag(self.value))
        known[[*without]] = False
        present = np.flatnonzero(known)
        where = np.ix_(present, present)
        intervals: list[Ranks] = [None] * len(self.value)
        for run, rank in zip(
            present, rank_intervals(self.p[where], self.value[where]), strict=True
        ):
            intervals[run] = rank
        return intervals


def rank_intervals(p: Floats, value: Floats) -> list[tuple[int, int]]:
    """Return the interval of the rank of each run, from the table of their pairs.

    It begins after the runs that are better, and ends before those that are worse, after Holm's
    correction over all pairs.
    """
    is_shown = _holm_of_means([p])[0] < LEVEL
    better, worse = (is_shown & (value > 0)).sum(axis=1), (is_shown & (value < 0)).sum(axis=1)
    return [(1 + int(n), len(p) - int(m)) for n, m in zip(better, worse, strict=True)]


def holm(p: Floats) -> Floats:
    """Return Holm's corrected p-values of a family of tests.

    >>> holm(np.array([0.03, 0.02]))
    array([0.04, 0.04])
    """
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    steps = np.minimum(1.0, p[order] * (len(p) - np.arange(len(p))))
    adjusted[order] = np.maximum.accumulate(steps)
    return adjusted


def _holm_of_means(family: Sequence[Floats]) -> list[Floats]:
    """Return the corrected p-values of several means, each of all pairs of runs."""
    upper = np.triu_indices(len(family[0]), 1)
    corrected = [np.ones_like(p) for p in family]
    parts = np.split(holm(np.concatenate([p[upper] for p in family])), len(family))
    for matrix, part in zip(corrected, parts, strict=True):
        matrix[upper] = matrix.T[upper] = part
    return corrected


class PairTable:
    """The differences of all pairs of runs, by task and length and in their means.

    Means are over the tasks and lengths that all runs have, so that they are of the same rows.

    Attributes:
        runs: the results; `labels` are their names.
        tasks: that all runs have at each of the `lengths`.
        pairs: by task and length, None stands for the mean over all of them; and by category, for
            the mean over its tasks and all lengths.
        margin: in a test for contamination, the smallest gap that matters, in percentage points.
    """

    def __init__(
        self, runs: Sequence[Results], labels: Sequence[str], *, margin: float | None = None
    ) -> None:
        """Compute the table; with a margin it is a test for contamination, which pairs no rows."""
        self.runs, self.labels, self.margin = tuple(runs), tuple(labels), margin
        self.stack = ScoreStack(runs, apart=margin is not None)
        self.tasks, self.lengths = self.stack.shared()
        if not self.tasks:
            msg = (
                "nothing to compare: no task was scored by both runs at all lengths that both "
                "have; report them one at a time"
            )
            raise RulerError(msg)
        self.pairs: dict[Name, Pairs] = {}
        for task, length in product((*self.tasks, None), (*self.lengths, None)):
            tasks = self.tasks if task is None else (task,)
            lengths = self.lengths if length is None else (length,)
            self.pairs[task, length] = pairs_of(self.stack, tasks, _evenly(lengths))
        by_category: dict[str, list[str]] = {}
        for task in self.tasks:
            category = self.stack.configs[0][task, self.lengths[0]].category
            by_category.setdefault(category, []).append(task)
        for category, members in by_category.items():
            self.pairs[category] = pairs_of(self.stack, members, _evenly(self.lengths))

    def ranks(self) -> list[Ranks]:
        """Return the interval of each run's rank by the mean over all tasks and lengths."""
        return self.pairs[None, None].ranks()

    def order(self) -> list[int]:
        """Return the runs by their mean, the best first; unanswered rows count against a run."""
        means = self.stack.lowest(self.tasks, _evenly(self.lengths))
        return sorted(range(len(self.runs)), key=lambda run: -(means[run] or 0.0))

    @cached_property
    def _p(self) -> dict[Name, tuple[Floats, Floats]]:
        """The p-values of all means, and the corrected ones."""
        families: dict[object, dict[Name, Floats]] = {}
        for name, pairs in self.pairs.items():
            kind = "categories" if isinstance(name, str) else (name[0] is None, name[1] is None)
            p = pairs.p if self.margin is None else pairs.above
            families.setdefault(kind, {})[name] = p
        return {
            name: (p, adjusted)
            for family in families.values()
            for (name, p), adjusted in zip(
                family.items(), _holm_of_means([*family.values()]), strict=True
            )
        }

    def difference(self, name: Name, first: int, second: int) -> Difference:
        """Return a difference of two runs, second minus first, with its verdict."""
        pairs, at = self.pairs[name], (first, second)
        value, low, high = (100 * float(x[at]) for x in (pairs.value, *pairs.interval))
        p, adjusted = (float(x[at]) for x in self._p[name])
        rows = int(pairs.rows[second, first]), int(pairs.rows[at])
        gap = Difference(value, low, high, p, rows, adjusted)
        return replace(gap, verdict=_verdict(gap, self.margin))


def _verdict(gap: Difference, margin: float | None) -> str:
    """Return which of two runs is better; or, with a margin, whether rows seem to be known."""
    is_shown = gap.adjusted < LEVEL
    if margin is not None:
        if is_shown and gap.value > 0:
            return CONTAMINATED
        return NO_SIGN if gap.high < margin else CANNOT_TELL
    if is_shown:
        return SECOND if gap.value > 0 else FIRST
    return CANNOT_TELL if gap.low <= 0 <= gap.high else UNCORRECTED


def _evenly(lengths: Sequence[int]) -> dict[int, float]:
    return dict.fromkeys(lengths, 1 / len(lengths))


def pairs_of(stack: ScoreStack, tasks: Sequence[str], lengths: Mapping[int, float]) -> Pairs:
    """Return the differences of a mean over tasks and lengths; weights of lengths add to 1."""
    count = len(stack.configs)
    rows, value, lower, variance, size, added = np.full((6, count, count), np.nan)
    for one, other in product(stack.alike, stack.alike):
        ends = stack.bounds(one, other, (tasks,), lengths)
        if ends is None:
            continue
        where = np.ix_(one, other)
        _, first, second, _ = ends  # the bounds that hurt the second run
        spread = first.variance[:, None] + second.variance
        if stack.paired(int(one[0]), int(other[0])):
            for task, errors in first.errors.items():
                spread -= 2 * _products(errors, second.errors[task])
        floors = (stack.noise[one] / first.rows)[:, None] + stack.noise[other] / second.rows
        variance[where] = np.maximum(spread, 0) + floors
        lower[where] = second.value - first.value[:, None]
        size[where] = 2 / (1 / first.rows[:, None] + 1 / second.rows)
        added[where] = (np.asarray(first.added)[:, None] + second.added) / 2
        value[where], rows[where] = lower[where], second.scored / len(other)
        if not stack.complete:
            value[where], rows[where] = _differences(stack, one, other, tasks, lengths)
    value = np.clip(value, lower, -lower.T)
    bound = Statistic(lower, variance, size, -1.0, added)
    return Pairs(rows, value, bound, stack.same & ~np.isnan(value))


def _products(first: Floats, second: Floats) -> Floats:
    """Return the inner products of all rows of two matrices.

    In blocks that BLAS multiplies in one thread: with more, the others wait actively, and cost
    ten times what is computed.
    """
    size = max(1, int((2**18 / first.shape[1]) ** 0.5))
    blocks = [
        np.pad(matrix, ((0, -len(matrix) % size), (0, 0))).reshape(-1, size, matrix.shape[1])
        for matrix in (first, second)
    ]
    blockwise = blocks[0][:, None] @ blocks[1].swapaxes(1, 2)
    square = blockwise.swapaxes(1, 2).reshape(len(blocks[0]) * size, len(blocks[1]) * size)
    return square[: len(first), : len(second)]


def _differences(
    stack: ScoreStack, first: Ints, second: Ints, tasks: Sequence[str], lengths: Mapping[int, float]
) -> tuple[Floats, Floats]:
    """Return the differences over answered rows, and their number.

    A config without any counts as the middle of its bounds, and makes the number 0.
    """
    columns = [stack.lengths.index(length) for length in lengths]
    masks = stack.masks(int(first[0]), int(second[0]), tasks, columns) or ({}, {})
    value, number = np.zeros((2, len(first), len(second)))
    known = np.ones_like(value)
    for task, (at, weight) in product(tasks, enumerate(lengths.values())):
        has_score, low, high = (
            [
                scores[task][runs][:, mask[task][:, at], columns[at]].astype(np.float64)
                for runs, mask in zip((first, second), masks, strict=True)
            ]
            for scores in (stack.answered, stack.low, stack.high)
        )
        a, b = has_score
        middle = [(x + y).mean(axis=1) / 2 for x, y in zip(low, high, strict=True)]
        if masks[0] is masks[1]:
            both = a @ b.T
            total = a @ (low[1] * b).T - (low[0] * a) @ b.T
            gap = middle[1] - middle[0][:, None]
            value += weight / len(tasks) * np.divide(total, both, out=gap, where=both > 0)
            number += both
            known *= both > 0
        else:
            means = [
                np.divide((x * n).sum(axis=1), n.sum(axis=1), out=m, where=n.any(axis=1))
                for x, n, m in zip(low, has_score, middle, strict=True)
            ]
            value += weight / len(tasks) * (means[1] - means[0][:, None])
            number += b.sum(axis=1)
            known *= np.outer(a.any(axis=1), b.any(axis=1))
    return value, number * known


def format_ranks(ranks: Ranks) -> str:
    """Return an interval of ranks.

    >>> format_ranks((1, 1)), format_ranks((2, 4)), format_ranks(None)
    ('1', '2-4', '')
    """
    if ranks is None:
        return ""
    low, high = ranks
    return f"{low}" if low == high else f"{low}-{high}"
