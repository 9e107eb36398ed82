"""Intervals and p-values of means of scores, and of differences of means.

One construction serves all of them. The beta distribution that gives a share of n answers its exact
binomial interval (Clopper and Pearson 1934) is given an effective number of rows, so that it has
the variance that the scores show (Korn and Graubard 1998, for means over strata). The variance
counts two more rows, one at each end of the range. Without them a few rows that happen to be alike
would claim to know their mean (Bonett and Price 2012, paired; Agresti and Caffo 2000, unpaired).
In a mean over lengths they are two questions, and independent at each length.

    39 of 40 rows right                    97.5 [86.8, 99.9]    the exact binomial interval
    40 rows that all score 3/4             75.0 [71.0, 78.7]    only the two extra rows vary
    40 differences of 0                    +0.0 [-6.9, +6.9]
    40 of 40 minus 36 of 40, unpaired     +10.0 [-1.7, +21.5]

Sources: Clopper, Pearson, Biometrika 26 (1934); Korn, Graubard, Survey Methodology 24 (1998);
Agresti, Caffo, The American Statistician 54 (2000); Bonett, Price, Journal of Educational and
Behavioral Statistics 37 (2012). How often intervals cover: benchmarks/results/coverage.md.

Values may be arrays: leading dimensions of the scores are samples, as in the simulation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, betaincinv

Floats = npt.NDArray[np.float64]
#: Share of intervals that may miss the truth, and the level below which a p-value is significant.
LEVEL = 0.05


@dataclass(frozen=True)
class Statistic:
    """A mean or a difference of means, and what decides on its interval.

    Attributes:
        value: between `lowest` and 1.
        variance: of the value, as estimated from the scores.
        rows: effective number of rows; their number in a mean of one config.
        added: variance of each of the two questions that are added, in that of a row.
    """

    value: Floats
    variance: Floats
    rows: Floats
    lowest: float | Floats = 0.0
    added: float | Floats = 1.0

    def at(self, mask: npt.NDArray[np.bool_]) -> "Statistic":
        """Return those of an array of statistics that a mask selects."""
        parts = (np.asarray(part)[mask] for part in (self.value, self.variance, self.rows))
        value, variance, rows = parts
        return Statistic(value, variance, rows, self.lowest, np.asarray(self.added)[mask])

    def interval(self) -> tuple[Floats, Floats]:
        """Return the ends of the 95 % interval; it always has a width."""
        right, wrong = self._counts()
        low = betaincinv(np.maximum(right, 1e-9), wrong + 1, LEVEL / 2)
        high = 1 - betaincinv(np.maximum(wrong, 1e-9), right + 1, LEVEL / 2)
        perfect = (LEVEL / 2) ** (1 / self.rows)  # no lower end is above that of a perfect score
        low = np.where(right > 0, np.minimum(low, perfect), 0.0)
        high = np.where(wrong > 0, np.maximum(high, 1 - perfect), 1.0)
        span = 1.0 - self.lowest
        return self.lowest + span * low, self.lowest + span * high

    def p_values(self) -> tuple[Floats, Floats]:
        """Return the p-values of the tests whether the truth is above, and below, 0.

        Twice the smaller is below 5 % exactly if the interval leaves out 0.
        """
        right, wrong = self._counts()
        share = 1 + self.lowest / (1.0 - self.lowest)
        below = betainc(np.maximum(wrong, 1e-9), right + 1, share)
        return self.p_above(), np.where(wrong > 0, np.maximum(below, share**self.rows), 1.0)

    def p_above(self) -> Floats:
        """Return the p-values of the test whether the truth is above 0."""
        right, wrong = self._counts()
        share = -self.lowest / (1.0 - self.lowest)
        above = betainc(np.maximum(right, 1e-9), wrong + 1, share)
        return np.where(right > 0, np.maximum(above, share**self.rows), 1.0)

    def _counts(self) -> tuple[Floats, Floats]:
        """Return how many rows right and wrong would measure a mean of 0/1 scores as well."""
        span = 1.0 - self.lowest
        mean = np.clip((self.value - self.lowest) / span, 0.0, 1.0)
        pseudo = self.added * (mean**2 + (1 - mean) ** 2)  # two, one at each end of the range
        spread = self.variance * (self.rows / span) ** 2 + pseudo
        rows = self.rows * (self.rows * mean * (1 - mean) + pseudo) / spread
        return rows * mean, rows * (1 - mean)


@dataclass(frozen=True, kw_only=True)
class Mean(Statistic):
    """A weighted mean of scores over tasks and lengths, in [0, 1].

    `rows` is Kish's (1965) number: n in a mean of n rows or of n questions at several lengths, 13 n
    in a mean of 13 tasks. `added` is 1/6 in a plain mean over 6 lengths.

    Attributes:
        errors: by task, what each question adds to the error of the mean. A question has the same
            index at every length, so its scores at all lengths are one contribution; so are those
            of tasks with the same questions. Other tasks have other, independent questions.
        scored: number of rows with a score and a weight.
    """

    errors: Mapping[str, Floats]
    scored: int


def mean_of(
    scores: Mapping[str, Floats],
    weights: Mapping[str, Floats],
    asks: Mapping[str, str] = MappingProxyType({}),
) -> Mean:
    """Return the mean of all scores.

    Args:
        scores: by task in [0, 1], shape (..., questions, lengths); NaN where a row has no score.
        weights: by task, a weight for each length; all of them add up to 1.
        asks: the tasks whose questions other tasks have, too.

    >>> mean = mean_of({"vt": np.array([[1.0]] * 39 + [[0.0]])}, {"vt": np.ones(1)})
    >>> [round(100 * float(end), 1) for end in mean.interval()]
    [86.8, 99.9]
    """
    value, spread, alone, tasks = np.float64(0), np.float64(0), np.float64(0), 0.0
    errors, count = {}, 0
    groups: dict[str, list[str]] = {}
    for task in weights:
        groups.setdefault(asks.get(task, task), []).append(task)
    for task, alike in groups.items():
        matrix = _side_by_side([scores[name] for name in alike])
        weight = np.concatenate([weights[name] for name in alike])
        unscored = np.isnan(matrix)
        scored, filled = 1.0 - unscored, np.where(unscored, 0.0, matrix)
        count += int(scored[..., weight > 0].sum())
        each = np.ones(matrix.shape[-2])
        counts = each @ scored
        means, shares = each @ filled / counts, weight / counts
        errors[task] = ((filled - means[..., None, :] * scored) @ shares[..., None])[..., 0]
        value = value + means @ weight
        spread = spread + ((scored @ shares[..., None]) ** 2).sum(axis=(-2, -1))
        alone = alone + (scored @ shares[..., None] ** 2).sum(axis=(-2, -1))
        tasks += weight.sum() ** 2
    rows = np.asarray(1 / spread)
    # Each task's own mean costs a degree of freedom; the exact interval allows for the first.
    scale = np.sqrt(rows / (rows - 1 / tasks + 1))
    errors = {task: error * scale[..., None] for task, error in errors.items()}
    return Mean(
        value=np.asarray(value),
        variance=_variance(errors),
        rows=rows,
        added=np.asarray(alone / spread),
        errors=errors,
        scored=count,
    )


def _side_by_side(matrices: Sequence[Floats]) -> Floats:
    """Return matrices of the same questions as one; NaN where one has fewer questions."""
    rows = max(matrix.shape[-2] for matrix in matrices)
    padded = []
    for matrix in matrices:
        missing = np.full((*matrix.shape[:-2], rows - matrix.shape[-2], matrix.shape[-1]), np.nan)
        padded.append(np.concatenate([matrix, missing], axis=-2))
    return np.concatenate(padded, axis=-1) if len(matrices) > 1 else matrices[0]


def minus(second: Mean, first: Mean, *, paired: bool, share: float | Floats = 1.0) -> Statistic:
    """Return the second mean minus a share of the first.

    If paired, both are of the same questions, whose errors are subtracted; otherwise they are
    independent. An array of shares gives an array of differences.
    """
    share = np.asarray(share)
    if paired:
        errors = {
            task: error - share[..., None] * first.errors[task]
            for task, error in second.errors.items()
        }
        variance = _variance(errors)
    else:
        variance = second.variance + share**2 * first.variance
    rows = 2 / (1 / first.rows + 1 / second.rows)
    added = (first.added + second.added) / 2
    return Statistic(second.value - share * first.value, variance, rows, -share, added)


def _variance(errors: Mapping[str, Floats]) -> Floats:
    return np.asarray(sum((error**2).sum(axis=-1) for error in errors.values()))
