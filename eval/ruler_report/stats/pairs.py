"""One table of pairs: the difference of any two runs, from which every conclusion is read.

Rows pair by what they ask: task, length, and the digest of the row's question. So a subset pairs
with the whole, `mini` with `ruler`, and one tokenizer with another. Runs that share no question
(another seed) are compared unpaired.

A row that a run was asked and did not answer counts as 0 in the lower bound of its mean, and as 1
in the upper one (Horowitz, Manski, JASA 95 (2000)). Intervals and p-values are those of
`intervals.py`, each of the bound that hurts: an interval leaves out 0 exactly if the p-value is
below 5 %. Ranks follow from the p-values after Holm's correction (Holm 1979) over all pairs
(Mogstad, Romano, Shaikh, Wilhelm, Review of Economic Studies 91 (2024)).
"""

import warnings
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ruler_report.results_file import ConfigResult, Results
from ruler_report.stats.intervals import LEVEL, Floats, Mean, Statistic, mean_of
from ruler_report.stats.score_table import Configs, asks_of, configs_of

K = TypeVar("K", bound=Hashable)
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
#: By task, questions by lengths.
Masks = Mapping[str, Bools]
#: The interval of a rank; None for a run that lacks part of the mean.
Ranks = tuple[int, int] | None


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
        """The two-sided p-values."""
        return np.asarray(np.minimum(1.0, 2 * np.minimum(self.above, self.above.T)))

    @cached_property
    def interval(self) -> tuple[Floats, Floats]:
        """The ends of the 95 % intervals."""
        low = np.where(self.same, 0.0, self.lower.interval()[0])
        return low, 0.0 - low.T

    def ranks(self, without: Collection[int] = ()) -> list[Ranks]:
        """Return the interval of each run's rank; None for those that are left out.

        It begins after the runs that are better, and ends before those that are worse, after Holm's
        correction over all pairs.
        """
        known = ~np.isnan(np.diag(self.value))
        known[[*without]] = False
        present = np.flatnonzero(known)
        where = np.ix_(present, present)
        found: list[Ranks] = [None] * len(self.value)
        for run, ends in zip(
            present, rank_intervals(self.p[where], self.value[where]), strict=True
        ):
            found[run] = ends
        return found


def rank_intervals(p: Floats, value: Floats) -> list[tuple[int, int]]:
    """Return the interval of the rank of each run, from the table of their pairs."""
    adjusted = np.ones_like(p)
    upper = np.triu_indices(len(p), 1)
    adjusted[upper] = holm_of(p[upper])
    told = np.minimum(adjusted, adjusted.T) < LEVEL
    better, worse = (told & (value > 0)).sum(axis=1), (told & (value < 0)).sum(axis=1)
    return [(1 + int(n), len(p) - int(m)) for n, m in zip(better, worse, strict=True)]


class ScoreStack:
    """The scores of runs, their rows aligned by what they ask.

    Attributes:
        configs: of each run by task and length, all that it was asked.
        lengths: of all runs, increasing; `tasks` likewise.
        low: by task, runs by questions by lengths, in [0, 1]. Unanswered rows are 0, rows that a
            run was not asked NaN; in `high` unanswered rows are 1.
    """

    def __init__(self, results: Sequence[Results], *, apart: bool = False) -> None:
        """Align the rows of runs; `apart` pairs none, although digests may be equal."""
        self.apart = apart
        self.configs = [configs_of(one) for one in results]
        self.lengths = sorted({length for configs in self.configs for _, length in configs})
        self.tasks = list(dict.fromkeys(task for configs in self.configs for task, _ in configs))
        self.asks = {task: base for one in self.configs for task, base in asks_of(one).items()}
        self.noise = np.array([one.noise for one in results])
        places, questions = _places(self.configs)
        shape = (len(results), questions, len(self.lengths))
        self.low = {task: np.full(shape, np.nan) for task in self.tasks}
        for run, configs in enumerate(self.configs):
            for (task, length), config in configs.items():
                scores = np.array(config.headline_scores, dtype=np.float64)
                where = places[run][task, length]
                unanswered_as = np.nan_to_num(scores, nan=-1.0)
                self.low[task][run, where, self.lengths.index(length)] = unanswered_as
        self.answered = {task: matrix >= 0 for task, matrix in self.low.items()}
        self.complete = not any((matrix < 0).any() for matrix in self.low.values())
        self.high = self.low
        if not self.complete:
            self.high = {task: np.where(x < 0, 1.0, x) for task, x in self.low.items()}
            self.low = {task: np.where(x < 0, 0.0, x) for task, x in self.low.items()}
        self._alike = self._asked_alike()
        self.same = np.eye(len(results), dtype=bool)
        if not apart:
            self.same = np.array([[_same(one, other) for other in results] for one in results])

    def _asked_alike(self) -> list[Ints]:
        """Return the runs in groups that were asked the same rows."""
        if self.apart:
            return [np.array([run]) for run in range(len(self.configs))]
        groups: dict[bytes, list[int]] = {}
        for run in range(len(self.configs)):
            asked = b"".join(np.isnan(self.low[task][run]).tobytes() for task in self.tasks)
            groups.setdefault(asked, []).append(run)
        return [np.array(group) for group in groups.values()]

    def asked(self, run: int) -> Masks:
        """Return which rows a run was asked, by task, questions by lengths."""
        return {task: ~np.isnan(matrix[run]) for task, matrix in self.low.items()}

    def paired(self, first: int, second: int) -> bool:
        """Whether two runs share a question."""
        if self.apart and first != second:
            return False
        asked, others = self.asked(first), self.asked(second)
        return any((asked[task] & others[task]).any() for task in self.tasks)

    def shared_rows(self, first: int, second: int) -> int:
        """Return the number of rows that both runs were asked."""
        asked, others = self.asked(first), self.asked(second)
        return sum(int((asked[task] & others[task]).sum()) for task in self.tasks)

    def lowest(self, tasks: Sequence[str], lengths: Mapping[int, float]) -> Floats:
        """Return each run's mean, in [0, 1], unanswered rows counted as 0."""
        columns = [self.lengths.index(length) for length in lengths]
        means = [np.nanmean(self.low[task][:, :, columns], axis=1) for task in tasks]
        return np.asarray(np.mean(means, axis=0) @ np.array([*lengths.values()]))

    def each(
        self, tasks: Sequence[str], lengths: Mapping[int, float]
    ) -> list[tuple[float, float, float]]:
        """Return each run's mean of its answered rows, in [0, 1], and its interval."""
        columns = [self.lengths.index(length) for length in lengths]
        shares = dict.fromkeys(tasks, np.array([*lengths.values()]) / len(tasks))
        found = np.full((len(self.configs), 3), np.nan)
        for runs in self._alike:
            masks = self._masks(int(runs[0]), int(runs[0]), tasks, columns)
            if masks is None:
                continue
            low, high = (
                self._means(scores, runs, columns, masks[0], shares)
                for scores in (self.low, self.high)
            )
            value = low.value
            if not self.complete:
                cells = [
                    np.where(self.answered[t], self.low[t], np.nan)[runs][..., columns]
                    for t in tasks
                ]
                middle = (low.value + high.value) / 2
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", RuntimeWarning)  # no answered row
                    means = np.mean([np.nanmean(cell, axis=1) for cell in cells], axis=0)
                value = means @ np.array([*lengths.values()])
                value = np.where(np.isnan(value), middle, value)
            found[runs] = np.transpose([value, low.interval()[0], high.interval()[1]])
        return [(float(a), float(b), float(c)) for a, b, c in found]

    def pairs(self, tasks: Sequence[str], lengths: Mapping[int, float]) -> Pairs:
        """Return the differences of a mean over tasks and lengths; weights of lengths add to 1."""
        count = len(self.configs)
        columns = [self.lengths.index(length) for length in lengths]
        shares = dict.fromkeys(tasks, np.array([*lengths.values()]) / len(tasks))
        rows, value, lower, variance, size, added = np.full((6, count, count), np.nan)
        for one, other in product(self._alike, self._alike):
            masks = self._masks(int(one[0]), int(other[0]), tasks, columns)
            if masks is None:
                continue
            where = np.ix_(one, other)
            first = self._means(self.high, one, columns, masks[0], shares)
            second = self._means(self.low, other, columns, masks[1], shares)
            spread = first.variance[:, None] + second.variance
            if masks[0] is masks[1]:
                spread -= 2 * sum(first.errors[k] @ second.errors[k].T for k in first.errors)
            floors = (self.noise[one] / first.rows)[:, None] + self.noise[other] / second.rows
            variance[where] = np.maximum(spread, 0) + floors
            lower[where] = second.value - first.value[:, None]
            size[where] = 2 / (1 / first.rows[:, None] + 1 / second.rows)
            added[where] = (np.asarray(first.added)[:, None] + second.added) / 2
            if self.complete:
                value[where], rows[where] = lower[where], sum(x.sum() for x in masks[1].values())
            else:
                value[where], rows[where] = self._answered(one, other, columns, masks, shares)
        value = np.clip(value, lower, -lower.T)
        return Pairs(
            rows, value, Statistic(lower, variance, size, -1.0, added), self.same & ~np.isnan(value)
        )

    def ends(
        self, first: int, second: int, tasks: Sequence[str], lengths: Mapping[int, float]
    ) -> tuple[Mean, Mean, bool]:
        """Return a mean of two runs that is best for the first and worst for the second.

        That is, unanswered rows count for the first, and against the second; and whether both are
        of the same questions.
        """
        columns = [self.lengths.index(length) for length in lengths]
        shares = dict.fromkeys(tasks, np.array([*lengths.values()]) / len(tasks))
        masks = self._masks(first, second, tasks, columns)
        if masks is None:
            raise ValueError(tasks, lengths)
        sides = zip((self.high, self.low), (first, second), masks, strict=True)
        one, other = (
            self._means(scores, np.array([run]), columns, mask, shares)
            for scores, run, mask in sides
        )
        return one, other, masks[0] is masks[1]

    def _masks(
        self, first: int, second: int, tasks: Sequence[str], columns: Sequence[int]
    ) -> tuple[Masks, Masks] | None:
        """Return the rows of two runs that are compared; None if a config has none."""
        asked = self.asked(first), self.asked(second)
        sides = [{task: one[task][:, columns] for task in tasks} for one in asked]
        if self.paired(first, second):
            both = {task: sides[0][task] & sides[1][task] for task in tasks}
            sides = [both, both]
        has_all = all(side[task].any(axis=0).all() for side in sides for task in tasks)
        return (sides[0], sides[1]) if has_all else None

    def _means(
        self,
        scores: Mapping[str, Floats],
        runs: Ints,
        columns: Sequence[int],
        masks: Masks,
        shares: Mapping[str, Floats],
    ) -> Mean:
        """Return the means of runs over the rows of a mask."""
        chosen = {
            task: np.where(mask, scores[task][runs][:, :, columns], np.nan)
            for task, mask in masks.items()
        }
        return mean_of(chosen, shares, self.asks)

    def _answered(
        self,
        first: Ints,
        second: Ints,
        columns: Sequence[int],
        masks: tuple[Masks, Masks],
        shares: Mapping[str, Floats],
    ) -> tuple[Floats, Floats]:
        """Return the differences over answered rows, and their number.

        A config without any counts as the middle of its bounds.
        """
        value, number = np.zeros((2, len(first), len(second)))
        is_paired = masks[0] is masks[1]
        for task, weights in shares.items():
            for at, column in enumerate(columns):
                known, low, high = (
                    [
                        scores[task][runs][:, mask[task][:, at], column]
                        for runs, mask in zip((first, second), masks, strict=True)
                    ]
                    for scores in (self.answered, self.low, self.high)
                )
                a, b = (one.astype(np.float64) for one in known)
                middle = [(x + y).mean(axis=1) / 2 for x, y in zip(low, high, strict=True)]
                if is_paired:
                    both = a @ b.T
                    total = a @ (low[1] * b).T - (low[0] * a) @ b.T
                    gap = middle[1] - middle[0][:, None]
                    value += weights[at] * np.divide(total, both, out=gap, where=both > 0)
                    number += both
                else:
                    means = [
                        np.divide((x * n).sum(axis=1), n.sum(axis=1), out=m, where=n.any(axis=1))
                        for x, n, m in zip(low, (a, b), middle, strict=True)
                    ]
                    value += weights[at] * (means[1] - means[0][:, None])
                    number += b.sum(axis=1)
        return value, number

    def shared(self) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Return the lengths of which all runs have a task, and the tasks that all have at each.

        Paired runs have a config if they share a row of it.
        """
        found = np.zeros((len(self.tasks), len(self.lengths)), dtype=bool)
        for place, task in enumerate(self.tasks):
            cells = [~np.isnan(self.low[task][group[0]]) for group in self._alike]
            found[place] = np.all([cell.any(axis=0) for cell in cells], axis=0)
            for at, group in enumerate(self._alike):
                for to, other in enumerate(self._alike[:at]):
                    if self.paired(group[0], other[0]):
                        found[place] &= (cells[at] & cells[to]).any(axis=0)
        columns = np.flatnonzero(found.any(axis=0))
        if not len(columns):
            return (), ()
        tasks = tuple(t for t, has in zip(self.tasks, found, strict=True) if has[columns].all())
        return tasks, tuple(self.lengths[column] for column in columns)


def _same(one: Results, other: Results) -> bool:
    """Whether two results are of the same answers."""
    return one is other or (one.fingerprint == other.fingerprint and one.configs == other.configs)


def _places(runs: Sequence[Configs]) -> tuple[list[dict[tuple[str, int], Ints]], int]:
    """Return where each row of each run's configs stands among the questions, and their number.

    A question stands at its index; other questions of the same index follow in blocks. So a
    question has one place at all lengths, and in all tasks that ask the same.
    """
    recorded: dict[str, str] = {}
    for config in (config for configs in runs for config in configs.values()):
        for digest in filter(None, (config.digest, config.question_digest)):
            recorded[digest] = max(recorded.get(digest, ""), config.questions, key=len)
    block = max((config.rows for configs in runs for config in configs.values()), default=0)
    versions: dict[tuple[str, int], list[dict[str, int]]] = {}
    known: dict[tuple[object, ...], Ints] = {}

    def places_of(key: tuple[str, int], config: ConfigResult) -> Ints:
        rows, digest = config.rows, config.question_digest or config.digest
        found = config.questions or recorded[digest]
        name = (key, found or digest, rows)
        if name not in known:
            seen = versions.setdefault(key, [])
            seen += [{} for _ in range(rows - len(seen))]
            ids = [found[16 * row : 16 * (row + 1)] or name[1] for row in range(rows)]
            which = [at.setdefault(one, len(at)) for at, one in zip(seen, ids, strict=False)]
            known[name] = np.arange(rows) + block * np.array(which, dtype=np.int64)
        return known[name]

    places = [{key: places_of(key, one) for key, one in configs.items()} for configs in runs]
    most = max((int(where.max()) for where in known.values() if len(where)), default=0)
    return places, block * (most // block + 1) if block else 0


def holm_of(p: Floats) -> Floats:
    """Return Holm's corrected p-values of a family of tests."""
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    steps = np.minimum(1.0, p[order] * (len(p) - np.arange(len(p))))
    adjusted[order] = np.maximum.accumulate(steps)
    return adjusted


def holm(values: Mapping[K, float]) -> dict[K, float]:
    """Return Holm's corrected p-values by name.

    >>> holm({"a": 0.03, "b": 0.02})
    {'a': 0.04, 'b': 0.04}
    """
    found = holm_of(np.array([*values.values()], dtype=np.float64))
    return dict(zip(values, found.tolist(), strict=True))


def format_ranks(ranks: Ranks) -> str:
    """Return an interval of ranks.

    >>> format_ranks((1, 1)), format_ranks((2, 4)), format_ranks(None)
    ('1', '2-4', '')
    """
    if ranks is None:
        return ""
    low, high = ranks
    return f"{low}" if low == high else f"{low}-{high}"
