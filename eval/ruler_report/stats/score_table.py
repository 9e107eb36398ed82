"""A run's scores by task and length, their means, and the intervals of the means."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from ruler_data.names import parse_config
from ruler_report.results_file import ConfigResult, Results
from ruler_report.stats.effective_length import (
    OWN_SHARE,
    EffectiveLength,
    effective_length,
    mean_percent,
    possible_lengths,
    weights,
)
from ruler_report.stats.intervals import Floats, Mean, mean_of, minus

AVERAGES = ("avg", "wavg_inc", "wavg_dec")
Configs = dict[tuple[str, int], ConfigResult]
Groups = Sequence[Sequence[str]]
#: Task and length; None for the mean over all of them.
Key = tuple[str | None, int | None]


@dataclass(frozen=True)
class Estimate:
    """A mean score in percent with its 95 % interval; `scored` of the `asked` rows are in it.

    >>> print(Estimate(81.25, 79.04, 83.2, 6500, 6500))
    81.2 [79.0, 83.2]
    """

    value: float
    low: float
    high: float
    scored: int
    asked: int

    def __str__(self) -> str:
        return f"{self.value:.1f} [{self.low:.1f}, {self.high:.1f}]"


@dataclass(frozen=True)
class ScoreTable:
    """The scores of a run.

    Attributes:
        configs: those with a scored row, by task and length.
        lengths: in tokens, increasing.
        scores: by task, questions by lengths, in [0, 1]; NaN where a row has no score.
    """

    configs: Configs
    lengths: tuple[int, ...]
    tasks: tuple[str, ...]
    scores: dict[str, Floats]

    @classmethod
    def of(cls, results: Results) -> "ScoreTable":
        """Return the scores of a run."""
        configs = configs_of(results)
        lengths = tuple(sorted({length for _, length in configs}))
        tasks = tuple(dict.fromkeys(task for task, _ in configs))
        scores = {task: score_matrix(configs, task, lengths) for task in tasks}
        return cls(configs, lengths, tasks, scores)

    def of_category(self, category: str) -> tuple[str, ...]:
        """Return the tasks of a category."""
        found = {task for (task, _), config in self.configs.items() if config.category == category}
        return tuple(task for task in self.tasks if task in found)

    def means(self, *groups: Sequence[str]) -> dict[int, Estimate]:
        """Return the mean of the means of groups of tasks, at each length that all tasks have."""
        return {
            length: self.estimate(groups, {length: 1.0})
            for length in self.complete_lengths([task for group in groups for task in group])
        }

    def over_lengths(self, tasks: Sequence[str]) -> Estimate | None:
        """Return the mean over all lengths that all of the tasks have; None without one."""
        lengths = self.complete_lengths(tasks)
        return (
            self.estimate((tasks,), dict.fromkeys(lengths, 1 / len(lengths))) if lengths else None
        )

    def averages(self, tasks: Sequence[str]) -> dict[str, Estimate]:
        """Return the averages over lengths; none unless all lengths have all tasks."""
        if self.complete_lengths(tasks) != self.lengths or len(self.lengths) < 2:
            return {}
        columns = {name: weights(len(self.lengths), name) for name in AVERAGES}
        return {
            name: self.estimate((tasks,), dict(zip(self.lengths, column, strict=True)))
            for name, column in columns.items()
        }

    def effective(
        self, tasks: Sequence[str], threshold: float, *, own: bool = False
    ) -> EffectiveLength:
        """Return the effective length of the mean over tasks.

        A length is excluded if its mean, or that of a longer one, is significantly on the other
        side of the threshold, in percent. If that is the run's `own`, a share of the mean at the
        shortest length, the differences from this share are tested; the shortest always passes.
        """
        lengths = self.complete_lengths(tasks)
        means = {length: self.mean((tasks,), {length: 1.0}) for length in lengths}
        if own:
            shortest = means.pop(lengths[0])
            gaps = {
                length: minus(mean, shortest, paired=True, share=OWN_SHARE)
                for length, mean in means.items()
            }
            possible = [length or lengths[0] for length in possible_lengths(gaps, 0.0)]
        else:
            possible = possible_lengths(means, threshold / 100)
        values = {length: self._value((tasks,), length) for length in lengths}
        longest = effective_length(values, threshold)
        return EffectiveLength(threshold, longest, tuple(sorted(set(possible))))

    def complete_lengths(self, tasks: Sequence[str]) -> tuple[int, ...]:
        """Return the lengths that all of the tasks have."""
        return tuple(
            length
            for length in self.lengths
            if all((task, length) in self.configs for task in tasks)
        )

    def mean(self, groups: Groups, lengths: Mapping[int, float]) -> Mean:
        """Return the mean over lengths, with weights, of the mean over groups of tasks."""
        columns = [self.lengths.index(length) for length in lengths]
        column = np.array(list(lengths.values()))
        shares = {task: column / len(groups) / len(group) for group in groups for task in group}
        scores = {task: self.scores[task][:, columns] for task in shares}
        return mean_of(scores, shares, asks_of(self.configs))

    def _value(self, groups: Groups, length: int) -> float:
        """Return a mean in percent, added up in upstream's order of operations."""
        cells = [[self.configs[task, length] for task in group] for group in groups]
        means = [sum(mean_percent(scores_of(one)) for one in group) / len(group) for group in cells]
        return sum(means) / len(means)

    def estimate(self, groups: Groups, lengths: Mapping[int, float]) -> Estimate:
        """Return the mean over lengths, with weights, of the mean over groups of tasks."""
        mean = self.mean(groups, lengths)
        values = [self._value(groups, length) for length in lengths]
        value = float(np.array(values) @ np.array(list(lengths.values())))
        tasks = [task for group in groups for task in group]
        rows = sum(self.configs[task, length].rows for task in tasks for length in lengths)
        return Estimate(value, *mean.percent()[1:], mean.scored, rows)


@dataclass(frozen=True)
class SharedScores:
    """The tasks that two runs scored at all lengths that both have, and their scores.

    If paired, both matrices of a task have the same questions, with NaN where one run has no score.
    """

    tasks: tuple[str, ...]
    lengths: tuple[int, ...]
    scores: tuple[dict[str, Floats], dict[str, Floats]]
    asks: dict[str, str]

    @classmethod
    def of(cls, first: Results, second: Results, *, paired: bool) -> "SharedScores":
        """Return what two runs share."""
        sides = (configs_of(first), configs_of(second))
        common = [key for key in sides[0] if key in sides[1]]
        every = sorted({length for _, length in common})
        matrices: dict[str, list[Floats]] = {}
        compared: set[tuple[str, int]] = set()
        for task in dict.fromkeys(task for task, _ in common):
            both = [score_matrix(configs, task, every) for configs in sides]
            if paired:
                rows = min(map(len, both))
                missing = np.isnan(both[0][:rows]) | np.isnan(both[1][:rows])
                both = [np.where(missing, np.nan, matrix[:rows]) for matrix in both]
            matrices[task] = both
            found = np.all([(~np.isnan(matrix)).any(axis=0) for matrix in both], axis=0)
            compared |= {(task, every[column]) for column in np.flatnonzero(found)}
        lengths = tuple(sorted({length for _, length in compared}))
        tasks = tuple(task for task in matrices if compared >= set(product([task], lengths)))
        columns = [every.index(length) for length in lengths]
        one, other = ({task: matrices[task][side][:, columns] for task in tasks} for side in (0, 1))
        return cls(tasks, lengths, (one, other), asks_of(sides[0]))

    def cells(self) -> dict[Key, Sequence[str]]:
        """Return all cells, and the means over tasks and lengths, with their tasks."""
        keys = product((*self.tasks, None), (*self.lengths, None))
        return {key: self.tasks if key[0] is None else (key[0],) for key in keys}

    def means(self, tasks: Sequence[str], length: int | None) -> list[Mean]:
        """Return the mean of each run over tasks, at one length or over all."""
        columns = np.array([length in (None, one) for one in self.lengths])
        weights = {task: columns / columns.sum() / len(tasks) for task in tasks}
        return [mean_of(scores, weights, self.asks) for scores in self.scores]


def configs_of(results: Results) -> Configs:
    """Return the configs of a run that have a scored row, by task and length."""
    return {parse_config(name): config for name, config in results.configs.items() if config.scored}


def asks_of(configs: Configs) -> dict[str, str]:
    """Return the tasks that ask the questions of another, which their scores depend on."""
    return {task: one.same_questions_as or task for (task, _), one in configs.items()}


def score_matrix(configs: Configs, task: str, lengths: Iterable[int]) -> Floats:
    """Return a task's scores in [0, 1], questions by lengths; NaN where a row has none."""
    columns = [configs.get((task, length)) for length in lengths]
    matrix = np.full((max(column.rows for column in columns if column), len(columns)), np.nan)
    for place, column in enumerate(columns):
        if column:
            matrix[: column.rows, place] = np.array(column.headline_scores, dtype=np.float64)
    return matrix


def scores_of(config: ConfigResult) -> list[float]:
    """Return the scores of the scored rows, in order."""
    return [score for score in config.headline_scores if score is not None]
