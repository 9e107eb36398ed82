"""The means of runs over one frame: one array, resampled once, and what its draws show.

It takes arrays only. A question has one weight in a draw (Bayesian bootstrap, Rubin 1981), whatever
run, length or tokenizer has it: shared rows are paired, and lengths of one question are one
observation, without a formula for either. The weight follows from the question's digest, so the
draws of a run are the same whatever runs stand beside it. Draws are spread by sqrt((n+1) / (n-1)),
which makes their variance that of a mean of n questions, and padded with one more question at each
end of the scale, so that a few rows which happen to be alike do not claim to know their mean (for
shares this is Jeffreys' interval; where all rows are alike, its end is Clopper and Pearson's). A
row that a run was to answer and did not is 0 in one array of draws and 1 in the other, and only
what holds in both is said. How often intervals cover and tests err: benchmarks/simulate.py.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ruler_report.frame import Bools, Column, Floats, Ints, Name
from ruler_report.typesetting import format_signed

Draws = npt.NDArray[np.float32]

DRAWS = 2000

#: Chance of a false conclusion, and of an interval to miss.
LEVEL = 0.05

#: Verdicts of a difference; `SECOND`: the second run is better.
FIRST, SECOND, CANNOT_TELL = "first", "second", "cannot tell"

#: A difference that is significant alone, but not after the correction for all that is shown.
UNCORRECTED = "not after correction"

#: Rows of each cell below which nothing is ranked or shown: errors were simulated from here on.
FEWEST = 8

#: Differences that are tested at once: their draws stay in a cache of a megabyte.
PAIRS = 128

_LOW, _HIGH = np.random.Generator(np.random.PCG64(7)).gamma(0.5, size=(2, DRAWS)).astype(np.float32)


@dataclass(frozen=True)
class Estimate:
    """A mean in percent with its 95 % interval; `scored` of the `asked` rows are answered.

    Without an answer in one of its cells there is no value; with one row in a cell no interval.

    >>> print(Estimate(81.25, 79.04, 83.2, 6500, 6500), Estimate(None, 0.0, 100.0, 0, 500))
    81.2 [79.0, 83.2] [0.0, 100.0]
    """

    value: float | None
    low: float | None
    high: float | None
    scored: int
    asked: int

    @property
    def known(self) -> bool:
        """Whether there is a value, and not the bounds alone."""
        return self.value is not None

    @property
    def point(self) -> "Point":
        """The same for a picture: without an interval its ends are the value."""
        value = float("nan") if self.value is None else self.value
        low, high = (value if end is None else end for end in (self.low, self.high))
        return Point(value, low, high)

    def __str__(self) -> str:
        value = "" if self.value is None else f"{self.value:.1f}"
        if self.low is None or self.high is None:
            return value
        return f"{value} [{self.low:.1f}, {self.high:.1f}]".lstrip()


class Point(NamedTuple):
    """A mean with its interval, in percent, as pictures draw it."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Gap:
    """A difference of two means in percentage points, with its 95 % interval.

    Attributes:
        value: of the answered rows; None where a mean has none.
        low: of the interval, with unanswered rows against the second run; `high` with them for it.
        shown: whether the difference is shown after the correction for all that is compared.

    >>> print(Gap(-7.25, -8.0, -6.5, True))
    -7.2 [-8.0, -6.5]
    """

    value: float | None
    low: float | None
    high: float | None
    shown: bool

    @property
    def is_clear(self) -> bool:
        """Whether 0 is not in the interval."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high

    @property
    def verdict(self) -> str:
        """Which of two runs the difference shows to be better."""
        if self.value is not None and self.shown:
            return SECOND if self.value > 0 else FIRST
        return UNCORRECTED if self.is_clear else CANNOT_TELL

    @property
    def points(self) -> str:
        """The difference, signed; empty where only its bounds are known."""
        return "" if self.value is None else format_signed(self.value)

    @property
    def negated(self) -> "Gap":
        """The difference of the same means the other way round."""
        value, low, high = (
            None if end is None else 0.0 - end for end in (self.value, self.high, self.low)
        )
        return replace(self, value=value, low=low, high=high)

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return self.points
        return f"{self.points} [{self.low:+.1f}, {self.high:+.1f}]".lstrip()


def padded(draws: Draws, questions: Floats | float, lowest: Floats | float = 0.0) -> Draws:
    """Return draws with one more question at each end of the scale, `lowest` and 1."""
    number = np.asarray(questions, dtype=np.float32)[..., None]
    bottom = np.asarray(lowest, dtype=np.float32)[..., None]
    return np.asarray((number * draws + _HIGH + bottom * _LOW) / (number + _LOW + _HIGH))


@dataclass(frozen=True)
class Means:
    """The means of runs in columns, with their draws; arrays are columns by runs (by draws).

    NaN where a run lacks a cell of a column; draws also where one of its cells has one row.

    Attributes:
        columns: by name, in the order of the arrays.
        values: of the answered rows, in percent; `lowest` with 0 for unanswered ones, `highest`
            with 1.
        low: draws with 0 for unanswered rows; `high` with 1, the same array if there are none.
        questions: the number of distinct questions of equal share that a mean rests on.
        scored: answered rows of the `asked` ones.
        fewest: of each run, the smallest number of rows in a cell of the columns.
        freedom: degrees of freedom of the differences, columns by first by second runs
            (Satterthwaite 1946, over tasks).
        identities: what tells runs apart; a run and itself differ by exactly 0.
    """

    columns: Mapping[Name, Column]
    values: Floats
    lowest: Floats
    highest: Floats
    low: Draws
    high: Draws
    questions: Floats
    scored: Ints
    asked: Ints
    fewest: Ints
    freedom: Floats
    identities: Sequence[Hashable]

    @cached_property
    def place(self) -> dict[Hashable, int]:
        """Where each column stands."""
        return {name: place for place, name in enumerate(self.columns)}

    def estimate(self, name: Name, run: int) -> Estimate | None:
        """Return a mean; None if the run lacks a part of it."""
        at = self.place[name], run
        if not self.asked[at]:
            return None
        low, high = (padded(draws[at], self.questions[at]) for draws in (self.low, self.high))
        value = _known(self.values[at])
        low_end, high_end = _ends(low, high, self.lowest[at], self.highest[at], 0.0)
        # Where all rows are alike: Clopper and Pearson's end, which a few rows need.
        alike = 100 * (LEVEL / 2) ** (1 / self.questions[at])
        if low_end is not None and self.lowest[at] == 100:
            low_end = min(low_end, alike)
        if high_end is not None and self.highest[at] == 0:
            high_end = max(high_end, 100 - alike)
        return Estimate(value, low_end, high_end, int(self.scored[at]), int(self.asked[at]))

    def gap(self, name: Name, first: int, second: int) -> Gap:
        """Return a difference, second minus first, and whether it is shown."""
        better = self.better[self.place[name]]
        shown = bool(better[first, second] or better[second, first])
        return replace(self.difference(name, first, second), shown=shown)

    def difference(self, name: Name, first: int, second: int) -> Gap:
        """Return the mean of a run minus that of another; if they change places, its sign does."""
        if self.identities[first] == self.identities[second]:
            return Gap(0.0, 0.0, 0.0, shown=False)
        means = self._sums[self.place[name]]
        if means[first] > means[second]:
            return self.difference(name, second, first).negated
        gap = self.minus((name, first), (name, second))
        if means[first] == means[second] and None not in (gap.low, gap.high):
            other = self.minus((name, second), (name, first))
            end = max(abs(end or 0.0) for end in (gap.low, gap.high, other.low, other.high))
            return replace(gap, low=-end, high=end)
        return gap

    def minus(self, base: tuple[Name, int], new: tuple[Name, int], share: float = 1.0) -> Gap:
        """Return a mean of a run minus a share of another mean, of this run or of another."""
        a, b = ((self.place[name], run) for name, run in (base, new))
        questions = harmonic(self.questions[a], self.questions[b])
        low = padded(self.low[b] - share * self.high[a], questions, -share)
        high = padded(self.high[b] - share * self.low[a], questions, -share)
        least = self.lowest[b] - share * self.highest[a]
        most = self.highest[b] - share * self.lowest[a]
        low_end, high_end = _ends(low, high, least, most, -share)
        return Gap(_known(self.values[b] - share * self.values[a]), low_end, high_end, shown=False)

    @cached_property
    def _sums(self) -> Floats:
        """What orders two runs in a column: a difference is that of the better run from the other.

        So the order of runs changes no digit or verdict. Equal in the last digits is equal.
        """
        return np.asarray(np.round(self.lowest + self.highest, 9))

    def ratio(self, name: Name, base: int, run: int) -> Estimate:
        """Return a mean of a run in percent of that of a base.

        The interval has all ratios r for which 0 is in the interval of the run's mean minus r times
        the base's (Fieller 1954); in the draws that is the interval of the ratio itself.
        """
        a, b = (self.place[name], base), (self.place[name], run)
        n = harmonic(self.questions[a], self.questions[b]).astype(np.float32)
        low, high = (
            np.asarray((n * np.maximum(new, 0) + _HIGH) / (n * np.maximum(old, 0) + _LOW))
            for new, old in ((self.low[b], self.high[a]), (self.high[b], self.low[a]))
        )
        value = _known(100 * self.values[b] / self.values[a]) if self.values[a] > 0 else None
        ends = np.inf if value is None else value, -np.inf if value is None else value
        low_end, high_end = _ends(low, high, *ends, 0.0, highest=np.inf)
        return Estimate(value, low_end, high_end, int(self.scored[b]), int(self.asked[b]))

    def worse(self, first: int, second: int, margin: float) -> dict[Name, bool]:
        """Return in which columns the second run is shown to be lower by more than a margin.

        All columns together err with a chance of 5 %. The second run's unanswered rows count as
        right, the first's as wrong.
        """
        questions = harmonic(self.questions[:, first], self.questions[:, second])
        gaps = padded(self.high[:, second] - self.low[:, first], questions, -1.0)
        centre, spread = gaps.mean(axis=1), gaps.std(axis=1)
        lower = (centre[:, None] - gaps) / spread[:, None]
        yardstick = np.quantile(lower.max(axis=0), 1 - LEVEL)
        is_below = (gaps >= -margin / 100).sum(axis=1) < LEVEL / 2 * (DRAWS - 1)
        size = normal((-margin / 100 - centre) / spread, self.freedom[:, first, second])
        shown = is_below & (size > yardstick) & (self.identities[first] != self.identities[second])
        return dict(zip(self.columns, map(bool, shown), strict=True))

    def with_rows(self, times: float) -> "Means":
        """Return the means as they were with so many times the rows, if no mean changed."""
        centre = self.low.mean(axis=2, keepdims=True), self.high.mean(axis=2, keepdims=True)
        low, high = (
            middle + (draws - middle) / np.float32(np.sqrt(times))
            for middle, draws in zip(centre, (self.low, self.high), strict=True)
        )
        return replace(
            self, low=low, high=low if self.low is self.high else high,
            questions=times * self.questions, freedom=times * self.freedom,
        )  # fmt: skip

    @cached_property
    def better(self) -> Bools:
        """Which run is shown to be better: columns by first runs by second runs, the better ones.

        All tests together err with a chance of 5 %: the yardstick of a difference, in units of its
        own spread, is the maximum over all pairs and columns in each draw.
        """
        count = self.values.shape[1]
        if self.low is self.high:  # a draw of a difference is the other's with its sign changed
            pairs = np.array(np.triu_indices(count, 1))
        else:
            pairs = np.array([(a, b) for a in range(count) for b in range(count) if a != b]).T
        sizes = np.zeros((len(self.columns), count, count))
        most = np.zeros(DRAWS, dtype=np.float32)
        for column, start in product(range(len(self.columns)), range(0, pairs.shape[1], PAIRS)):
            first, second = pairs[:, start : start + PAIRS]
            if self.low is self.high:
                ahead = self._sums[column, first] > self._sums[column, second]
                first, second = np.where(ahead, second, first), np.where(ahead, first, second)
            at = np.s_[column, first], np.s_[column, second]
            questions = harmonic(self.questions[at[0]], self.questions[at[1]])
            gaps = padded(self.low[at[1]] - self.high[at[0]], questions, -1.0)
            centre, spread = gaps.mean(axis=1), gaps.std(axis=1)
            wrong_side = np.minimum((gaps <= 0).sum(axis=1), (gaps >= 0).sum(axis=1))
            is_outside = wrong_side < LEVEL / 2 * (DRAWS - 1)  # 0 is not in the interval
            is_test = np.isfinite(spread)
            gaps = (gaps[is_test] - centre[is_test, None]) / spread[is_test, None]
            if self.low is self.high:
                gaps = np.abs(gaps)
            most = np.maximum(most, gaps.max(axis=0, initial=0.0))
            size = normal(centre / spread, self.freedom[column, first, second])
            is_many = np.minimum(self.fewest[first], self.fewest[second]) >= FEWEST
            sizes[column, first, second] = np.where(is_outside & is_many, size, 0.0)
            if self.low is self.high:
                sizes[column, second, first] = -sizes[column, first, second]
        return sizes > np.quantile(most, 1 - LEVEL)

    def ranks(self, runs: Collection[int], name: Name = (None, None)) -> dict[int, tuple[int, int]]:
        """Return the best and the worst rank of runs that the differences leave open.

        None of them has a rank where one has fewer than `FEWEST` rows in a cell.
        """
        ranked = np.array(sorted(runs), dtype=np.int64)
        column = self.place.get(name)
        if column is None or len(ranked) < 2 or self.fewest[ranked].min() < FEWEST:
            return {}
        better = self.better[column][np.ix_(ranked, ranked)]
        ahead, behind = better.sum(axis=1), better.sum(axis=0)
        ranks = (1 + ahead).tolist(), (len(ranked) - behind).tolist()
        return dict(zip(ranked.tolist(), zip(*ranks, strict=True), strict=True))

    def order(self, name: Name = (None, None)) -> list[int]:
        """Return the runs by their mean, the best first, unanswered rows counted as wrong."""
        return [int(run) for run in np.argsort(-self.lowest[self.place[name]], kind="stable")]


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def normal(statistic: Floats, freedom: Floats) -> Floats:
    """Return the standard normal value as far out as one of Student's t (Wallace 1959)."""
    size = np.sqrt(freedom * np.log1p(np.nan_to_num(statistic) ** 2 / freedom))
    return np.asarray(np.sign(statistic) * size * (8 * freedom + 1) / (8 * freedom + 3))


def harmonic(first: Floats | float, second: Floats | float) -> Floats:
    """Return the number of questions behind a difference: two means of it have its variance."""
    return np.asarray(2 / (1 / np.asarray(first) + 1 / np.asarray(second)))


def _ends(
    low: Draws, high: Draws, least: float, most: float, lowest: float, highest: float = 1.0
) -> tuple[float | None, float | None]:
    """Return the ends of an interval in percent; the means in percent are always in it."""
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return None, None
    ends = quantile(low, LEVEL / 2), quantile(high, 1 - LEVEL / 2)
    bottom, top = (100 * float(np.clip(end, lowest, highest)) for end in ends)
    return min(bottom, float(least)), max(top, float(most))


def quantile(draws: Draws, share: float) -> float:
    """Return a quantile as `np.quantile` does, whose checks take ten times as long as the work.

    >>> quantile(np.array([3, 1, 2, 5], dtype=np.float32), 0.5)
    2.5
    """
    place = (len(draws) - 1) * share
    lower, upper = np.partition(draws, (at := int(place), at + 1))[at : at + 2].tolist()
    return float(lower + (place - at) * (upper - lower))


def mean_percent(scores: Sequence[float]) -> float:
    """Return the mean of scores in [0, 1] in percent, in upstream's order of operations.

    Upstream prints `round(..., 2)` of this; another order of operations could round a tie the
    other way.

    >>> mean_percent([1.0, 0.0, 1.0])
    66.66666666666666
    """
    return sum(scores) / len(scores) * 100
