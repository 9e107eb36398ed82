"""What the draws of means show: intervals, differences, and tests in families.

Draws are padded with one more question at each end of the scale, so that a few rows which happen
to be alike do not claim to know their mean (for shares this is Jeffreys' interval; where all rows
are alike, its end is Clopper and Pearson's). A family of tests errs in 5 % of tries as a whole: the
yardstick of a difference, in units of its own spread, is the maximum over the family in each draw.
How often intervals cover and tests err: benchmarks/simulate.py.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256

import numpy as np

from ruler_eval.scoring.scores import Scores
from ruler_report.columns import Column, Name
from ruler_report.frame import Bools, Floats, Ints, RowsOfRun
from ruler_report.resampling import DRAWS, Array, Draws
from ruler_report.typesetting import format_interval, format_signed, with_interval

#: Chance of a family of tests to err, and of an interval to miss.
LEVEL = 0.05

#: Rows of each cell below which nothing is ranked or shown: errors were simulated from here on.
FEWEST = 8

#: Differences that are tested at once: their draws stay in a cache of a megabyte.
BLOCK = 128

_LOW, _HIGH = np.random.Generator(np.random.PCG64(7)).gamma(0.5, size=(2, DRAWS)).astype(np.float32)


@dataclass(frozen=True)
class Estimate:
    """A mean in percent with its 95 % interval; with one row in a cell there is no interval.

    >>> print(Estimate(81.25, 79.04, 83.2))
    81.2 [79.0, 83.2]
    """

    value: float
    low: float | None
    high: float | None

    @property
    def interval(self) -> str:
        """Its ends; empty where there are none."""
        return format_interval(self.low, self.high, ".1f")

    def __str__(self) -> str:
        return with_interval(f"{self.value:.1f}", self.interval)


@dataclass(frozen=True)
class Gap:
    """A difference of two means in percentage points, with its 95 % interval.

    Attributes:
        shown: whether its family shows that it is not 0.

    >>> print(Gap(-7.25, -8.0, -6.5, True))
    -7.2 [-8.0, -6.5]
    """

    value: float
    low: float | None
    high: float | None
    shown: bool

    @property
    def is_clear(self) -> bool:
        """Whether 0 is not in the interval."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high

    @property
    def negated(self) -> "Gap":
        """The difference of the same means the other way round."""
        if self.low is None or self.high is None:
            return replace(self, value=0.0 - self.value)
        return replace(self, value=0.0 - self.value, low=0.0 - self.high, high=0.0 - self.low)

    @property
    def interval(self) -> str:
        """Its ends with their signs; empty where there are none."""
        return format_interval(self.low, self.high, "+.1f")

    def __str__(self) -> str:
        return with_interval(format_signed(self.value), self.interval)


#: Ends of an interval in percent; None where there is none.
Interval = tuple[float | None, float | None]

#: A difference: the name of a mean, the place of a run, and of the run that it is compared with.
Test = tuple[Name, int, int]


def padded(draws: Draws, questions: Floats | float, lowest: float = 0.0) -> Draws:
    """Return draws with one more question at each end of the scale, `lowest` and 1."""
    number = np.asarray(questions, dtype=np.float32)[..., None]
    bottom = np.float32(lowest)
    return np.asarray((number * draws + _HIGH + bottom * _LOW) / (number + _LOW + _HIGH))


@dataclass(frozen=True, eq=False)
class Means:
    """The means of runs in columns.

    Attributes:
        array: values and draws by cell.
        columns: by name.
        identities: equal for a run that is there twice; a run and itself differ by exactly 0.
        times: as if there were so many times the rows and no mean changed.
    """

    array: Array
    columns: Mapping[Name, Column]
    identities: Sequence[Hashable]
    times: float = 1.0

    @cached_property
    def values(self) -> dict[Name, Floats]:
        """Means in percent by run; NaN where a run lacks a cell."""
        by_cell = {cell: self.array.values[:, place] for cell, place in self.array.place.items()}
        return {name: column.value(by_cell) for name, column in self.columns.items()}

    def value(self, name: Name, run: int) -> float | None:
        """Return a mean in percent; None where there is none or the run lacks a cell of it."""
        if name not in self.columns:
            return None
        value = float(self.values[name][run])
        if np.isnan(value):
            return None
        return value

    def estimate(self, name: Name, run: int) -> Estimate | None:
        """Return a mean with its interval; None where there is none or the run lacks a cell."""
        value = self.value(name, run)
        if value is None:
            return None
        if name not in self._intervals:
            self._intervals[name] = self._intervals_of(name)
        low, high = self._intervals[name][run]
        # Where all rows are alike: Clopper and Pearson's end, which a few rows need.
        alike = 100 * (LEVEL / 2) ** (1 / self._questions(name, run))
        if low is not None and value == 100:
            low = min(low, alike)
        if high is not None and value == 0:
            high = max(high, 100 - alike)
        return Estimate(value, low, high)

    @cached_property
    def _intervals(self) -> dict[Name, list[Interval]]:
        return {}

    def _intervals_of(self, name: Name) -> list[Interval]:
        """Return the intervals of a mean of all runs, which are made together."""
        runs = range(len(self.identities))
        questions = np.array([self._questions(name, run) for run in runs])
        draws = padded(self._draws(name, runs), questions)
        return _ends(draws, self.values[name].tolist(), 0.0)

    def difference(self, name: Name, run: int, base: int) -> Gap:
        """Return the mean of a run minus that of a base; if they change places, its sign does."""
        test = name, run, base
        if test not in self._differences:
            self._differences[test] = self._difference_of(name, run, base)
        return self._differences[test]

    @cached_property
    def _differences(self) -> dict[Test, Gap]:
        return {}

    def _difference_of(self, name: Name, run: int, base: int) -> Gap:
        if self.identities[run] == self.identities[base]:
            return Gap(0.0, 0.0, 0.0, shown=False)
        order = self.order(name)
        if order[run] < order[base]:
            return self.difference(name, base, run).negated
        gap = self.minus((name, base), (name, run))
        if order[run] > order[base] or gap.low is None or gap.high is None:
            return gap
        mirrored = self.minus((name, run), (name, base))
        ends = (gap.low, gap.high, mirrored.low or 0.0, mirrored.high or 0.0)
        widest = max(abs(end) for end in ends)
        return Gap(0.0, -widest, widest, shown=False)

    def minus(self, base: tuple[Name, int], new: tuple[Name, int], share: float = 1.0) -> Gap:
        """Return a mean of a run minus a share of another mean, of this run or of another."""
        questions = harmonic(self._questions(*base), self._questions(*new))
        old_draws = self._draws(base[0], [base[1]])
        new_draws = self._draws(new[0], [new[1]])
        value = float(self.values[new[0]][new[1]] - share * self.values[base[0]][base[1]])
        draws = padded(new_draws - np.float32(share) * old_draws, questions, -share)
        low, high = _ends(draws, [value], -share)[0]
        return Gap(value, low, high, shown=False)

    def shown(self, names: Sequence[Name], pairs: Sequence[tuple[int, int]]) -> dict[Test, bool]:
        """Return which differences of a family are shown, two-sided, all together at 5 %.

        The family is all `names` of all `pairs` of runs.
        """
        farthest = np.zeros(DRAWS, dtype=np.float32)
        sizes: dict[Test, float] = {}
        for name in names:
            sample = self._sample(name, {run for pair in pairs for run in pair})
            for start in range(0, len(pairs), BLOCK):
                block = pairs[start : start + BLOCK]
                deviation, size = sample.test(block)
                farthest = np.maximum(farthest, deviation)
                counts = np.where(self._can_be_tested(name, block), size, 0.0)
                for (run, base), counted in zip(block, counts.tolist(), strict=True):
                    sizes[name, run, base] = counted
        yardstick = float(np.quantile(farthest, 1 - LEVEL))
        return {test: size > yardstick for test, size in sizes.items()}

    def lower_than(self, names: Sequence[Name], run: int, base: int, margin: float) -> list[Name]:
        """Return the means of a family that are shown to be lower than a base's by over a margin.

        One-sided, all together at 5 %.
        """
        if self.identities[run] == self.identities[base]:
            return []
        samples = [self._sample(name, {run, base}) for name in names]
        pair = samples[0].places([run]), samples[0].places([base])
        gaps = np.concatenate([sample.gaps(*pair) for sample in samples])
        centre = gaps.mean(axis=1)
        spread = gaps.std(axis=1)
        spread[spread == 0] = np.inf
        lower = (centre[:, None] - gaps) / spread[:, None]
        yardstick = np.quantile(lower.max(axis=0), 1 - LEVEL)
        freedom = np.concatenate([sample.freedom[pair] for sample in samples])
        size = normal((-margin / 100 - centre) / spread, freedom)
        is_below = (gaps >= -margin / 100).mean(axis=1) < LEVEL
        is_shown = is_below & (size > yardstick)
        return [name for name, shown in zip(names, is_shown.tolist(), strict=True) if shown]

    def bounds(self, name: Name, run: int, base: int) -> tuple[float, float]:
        """Return how low and how high a difference may be, in points: each one-sided at 5 %."""
        if self.identities[run] == self.identities[base]:
            return 0.0, 0.0
        sample = self._sample(name, {run, base})
        gaps = sample.gaps(sample.places([run]), sample.places([base]))
        low, high = quantiles(gaps, LEVEL, 1 - LEVEL)
        return 100 * float(low[0]), 100 * float(high[0])

    def with_rows(self, times: float) -> "Means":
        """Return the means as they were with so many times the rows, if no mean changed."""
        return replace(self, times=times)

    def _draws(self, name: Name, runs: Sequence[int]) -> Draws:
        draws = self.array.draws_of(self.columns[name].cells, runs)
        if self.times == 1:
            return draws
        centre = draws.mean(axis=1, keepdims=True)
        return np.asarray(centre + (draws - centre) / np.float32(np.sqrt(self.times)))

    def _questions(self, name: Name, run: int) -> float:
        return self.times * self.array.questions(self.columns[name], run)

    def order(self, name: Name) -> Floats:
        """Return what orders runs: equal in the last digits is equal."""
        return np.asarray(np.round(self.values[name], 9))

    def _sample(self, name: Name, runs: Collection[int]) -> "_Sample":
        """Return the draws of a mean for some runs."""
        chosen = sorted(runs)
        return _Sample(
            runs=np.array(chosen),
            draws=self._draws(name, chosen),
            order=self.order(name)[chosen],
            questions=np.array([self._questions(name, run) for run in chosen]),
            freedom=self.times * self.array.freedom(self.columns[name], chosen),
        )

    def _can_be_tested(self, name: Name, pairs: Sequence[tuple[int, int]]) -> Bools:
        """Return which pairs are two runs with enough rows in each cell."""
        enough = self.times * self.array.fewest(self.columns[name]) >= FEWEST
        return np.array([enough and self.identities[a] != self.identities[b] for a, b in pairs])


@dataclass(frozen=True, eq=False)
class _Sample:
    """The draws of a mean for some runs.

    Attributes:
        runs: their places, rising.
        draws: runs by draws.
        order: what orders the runs.
        questions: behind the mean of each.
        freedom: degrees of freedom of differences, first by second runs.
    """

    runs: Ints
    draws: Draws
    order: Floats
    questions: Floats
    freedom: Floats

    def places(self, runs: Sequence[int]) -> Ints:
        """Return where runs stand in the arrays."""
        return np.searchsorted(self.runs, runs)

    def ahead(self, pairs: Sequence[tuple[int, int]]) -> tuple[Ints, Ints]:
        """Return where the better and the worse run of pairs stand.

        A difference is that of the better run from the other, so the order of runs changes no
        digit or verdict.
        """
        first = self.places([run for run, _ in pairs])
        second = self.places([base for _, base in pairs])
        is_first_better = self.order[first] >= self.order[second]
        better = np.where(is_first_better, first, second)
        worse = np.where(is_first_better, second, first)
        return better, worse

    def gaps(self, runs: Ints, bases: Ints) -> Draws:
        """Return the padded draws of differences, pairs by draws."""
        questions = harmonic(self.questions[runs], self.questions[bases])
        return padded(self.draws[runs] - self.draws[bases], questions, -1.0)

    def test(self, pairs: Sequence[tuple[int, int]]) -> tuple[Draws, Floats]:
        """Return what the differences of pairs of runs are tested by.

        In each draw the farthest that one is from its mean, and for each pair how far 0 is; both in
        units of the difference's spread. Where 0 is in the interval it is not far: 0.
        """
        better, worse = self.ahead(pairs)
        gaps = self.gaps(better, worse)
        centre = gaps.mean(axis=1)
        spread = gaps.std(axis=1)
        varies = np.isfinite(spread) & (spread > 0)
        deviations = np.abs(gaps[varies] - centre[varies, None]) / spread[varies, None]
        wrong_side = np.minimum((gaps <= 0).sum(axis=1), (gaps >= 0).sum(axis=1))
        excludes_zero = wrong_side < LEVEL / 2 * (DRAWS - 1)
        statistic = centre / np.where(varies, spread, np.inf)
        size = normal(statistic, self.freedom[better, worse])
        return deviations.max(axis=0, initial=0.0), np.where(excludes_zero & varies, size, 0.0)


def identities_of(runs: Sequence[Scores], rows: Sequence[RowsOfRun]) -> list[Hashable]:
    """Return what tells runs from others: the same answers to all rows are one run."""
    identities: list[Hashable] = []
    for run, of_run in zip(runs, rows, strict=True):
        digest = sha256()
        for cell in of_run.values():
            for column in (cell.official, cell.exact, cell.questions):
                digest.update(np.ascontiguousarray(column).tobytes())
        if all(cell.is_complete for cell in of_run.values()):
            identities.append((run.fingerprint, digest.digest()))
        else:
            identities.append(object())
    return identities


def normal(statistic: Floats, freedom: Floats) -> Floats:
    """Return the standard normal value as far out as one of Student's t (Wallace 1959)."""
    size = np.sqrt(freedom * np.log1p(np.nan_to_num(statistic) ** 2 / freedom))
    return np.asarray(np.sign(statistic) * size * (8 * freedom + 1) / (8 * freedom + 3))


def harmonic(first: Floats | float, second: Floats | float) -> Floats:
    """Return the number of questions behind a difference: two means of it have its variance."""
    return np.asarray(2 / (1 / np.asarray(first) + 1 / np.asarray(second)))


def _ends(draws: Draws, values: Sequence[float], lowest: float) -> list[Interval]:
    """Return the ends of the intervals of means in percent; a mean is always in its interval.

    `draws` are means by draws, in [lowest, 1]; where one is not finite there is no interval.
    """
    low, high = quantiles(draws, LEVEL / 2, 1 - LEVEL / 2)
    bottoms = 100 * np.clip(low, lowest, 1.0)
    tops = 100 * np.clip(high, lowest, 1.0)
    are_known = np.asarray(np.isfinite(draws).all(axis=1))
    intervals: list[Interval] = []
    for place, value in enumerate(values):
        interval: Interval = None, None
        if are_known[place]:
            interval = min(float(bottoms[place]), value), max(float(tops[place]), value)
        intervals.append(interval)
    return intervals


def quantiles(draws: Draws, *shares: float) -> list[Floats]:
    """Return quantiles of lines of draws as `np.quantile` does, in a tenth of its time.

    >>> quantiles(np.array([[3, 1, 2, 5]], dtype=np.float32), 0.5)
    [array([2.5])]
    """
    ordered = np.sort(draws, axis=1)
    quantiles_of_lines = []
    for share in shares:
        place = (draws.shape[1] - 1) * share
        first = int(place)
        lower = ordered[:, first].astype(np.float64)
        upper = ordered[:, first + 1].astype(np.float64)
        quantiles_of_lines.append(lower + (place - first) * (upper - lower))
    return quantiles_of_lines
