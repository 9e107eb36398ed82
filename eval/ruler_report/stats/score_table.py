"""A run's scores by task and length, with their bootstrap samples."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ruler_data.names import parse_config
from ruler_report.results import ConfigResult, Results
from ruler_report.stats.effective_length import OWN_SHARE, effective_length, mean_percent, weights
from ruler_report.stats.resampling import Floats, interval, resample

AVERAGES = ("avg", "wavg_inc", "wavg_dec")
Configs = dict[tuple[str, int], ConfigResult]


@dataclass(frozen=True)
class Figure:
    """A mean in percent with its 95 % interval, over so many of the rows asked."""

    value: float
    low: float
    high: float
    scored: int
    asked: int


@dataclass(frozen=True)
class Effective:
    """An effective length: the longest whose mean reaches a threshold.

    Attributes:
        threshold: in percent.
        length: in tokens; None if no length reaches it.
        shares: share of the bootstrap samples in which each length is the effective one; 0 is
            for none.
    """

    threshold: float
    length: int | None
    shares: dict[int, float]


@dataclass(frozen=True)
class Pool:
    """Scores to be averaged.

    Attributes:
        configs: those with a score, by task and length.
        lengths: in tokens, rising.
        tasks: in the order of the dataset.
        samples: of each task, resamples by lengths, in percent; NaN where it has no rows.
    """

    configs: Configs
    lengths: tuple[int, ...]
    tasks: tuple[str, ...]
    samples: dict[str, Floats]

    def of_category(self, category: str) -> tuple[str, ...]:
        """Return the tasks of a category."""
        found = {task for (task, _), config in self.configs.items() if config.category == category}
        return tuple(task for task in self.tasks if task in found)

    def means(self, tasks: Sequence[str]) -> dict[int, Figure]:
        """Return the mean over tasks at each length that all of them have."""
        samples = self._samples(tasks)
        found = {}
        for place, length in enumerate(self.lengths):
            if all((task, length) in self.configs for task in tasks):
                parts = {task: [self.configs[task, length]] for task in tasks}
                value = self._mean(tasks, length)
                found[length] = _figure(value, samples[:, place], parts, np.ones(1))
        return found

    def averages(self, tasks: Sequence[str]) -> dict[str, Figure]:
        """Return the averages over lengths; none unless all lengths have all tasks."""
        wanted = [(task, length) for task in tasks for length in self.lengths]
        if not all(cell in self.configs for cell in wanted) or len(self.lengths) < 2:
            return {}
        parts = {task: [self.configs[task, length] for length in self.lengths] for task in tasks}
        means = np.array([self._mean(tasks, length) for length in self.lengths])
        samples = self._samples(tasks)
        columns = {name: weights(len(self.lengths), name) for name in AVERAGES}
        return {
            name: _figure(float(means @ column), samples @ column, parts, column)
            for name, column in columns.items()
        }

    def effective(self, tasks: Sequence[str], threshold: float, *, own: bool = False) -> Effective:
        """Return the effective length of the mean over tasks.

        Args:
            tasks: to average.
            threshold: in percent.
            own: whether the threshold is a share of the score at the shortest length, and so
                differs from sample to sample.
        """
        lengths = np.array(list(self.means(tasks)))
        samples = self._samples(tasks)[:, np.isin(self.lengths, lengths)]
        bar = OWN_SHARE * samples[:, :1] if own else np.float64(threshold)
        found = np.max(lengths * (samples >= bar), axis=1)
        shares = {int(length): float(np.mean(found == length)) for length in (0, *lengths)}
        means = {int(length): self._mean(tasks, int(length)) for length in lengths}
        return Effective(
            threshold,
            effective_length(means, threshold),
            {length: share for length, share in shares.items() if share},
        )

    def _mean(self, tasks: Sequence[str], length: int) -> float:
        means = [mean_percent(scores_of(self.configs[task, length])) for task in tasks]
        return sum(means) / len(means)

    def _samples(self, tasks: Sequence[str]) -> Floats:
        return np.asarray(np.mean([self.samples[task] for task in tasks], axis=0))


def pool_of(results: Results) -> Pool:
    """Return the scores of a run and their bootstrap samples."""
    configs = configs_of(results)
    lengths = tuple(sorted({length for _, length in configs}))
    tasks = tuple(dict.fromkeys(task for task, _ in configs))
    samples = {task: 100 * resample(task, score_table(configs, task, lengths)) for task in tasks}
    return Pool(configs, lengths, tasks, samples)


def configs_of(results: Results) -> Configs:
    """Return the configs of a run that have a score, by task and length."""
    return {parse_config(name): config for name, config in results.configs.items() if config.scored}


def score_table(configs: Configs, task: str, lengths: Iterable[int]) -> Floats:
    """Return a task's scores in [0, 1], questions by lengths; NaN where a row has none."""
    columns = [configs.get((task, length)) for length in lengths]
    table = np.full((max(column.rows for column in columns if column), len(columns)), np.nan)
    for place, column in enumerate(columns):
        if column:
            table[: column.rows, place] = [np.nan if s is None else s for s in column.scores]
    return table


def scores_of(config: ConfigResult) -> list[float]:
    """Return the scores of the rows that have one, in order."""
    return [score for score in config.scores if score is not None]


def _figure(
    value: float, samples: Floats, parts: Mapping[str, Sequence[ConfigResult]], column: Floats
) -> Figure:
    """Return a mean over tasks, of each of which the parts count by the column's weights.

    To the bootstrap's distances from the mean come those to which it is blind, each task's own
    (MOVER: Zou and Donner 2008). At all lengths a task has the same questions, so within it they
    are added up.
    """
    low, high = interval(samples)
    blind = [
        column @ np.array([_blind(scores_of(part)) for part in of_task]) / len(parts)
        for of_task in parts.values()
    ]
    below = math.hypot(max(value - low, 0.0), *(down for down, _ in blind))
    above = math.hypot(max(high - value, 0.0), *(up for _, up in blind))
    every = [part for of_task in parts.values() for part in of_task]
    return Figure(
        value,
        max(value - below, 0.0),
        min(value + above, 100.0),
        sum(part.scored for part in every),
        sum(part.rows for part in every),
    )


def _blind(scores: Sequence[float]) -> tuple[float, float]:
    """Return how far below and above its mean a task may be whose rows all score alike, in percent.

    Such rows resample to themselves. What n of them leave open is that a share of up to
    1 - 0.025^(1/n), the exact binomial bound (Clopper and Pearson 1934), would score 0, or 1.
    """
    if min(scores) < max(scores):
        return 0.0, 0.0
    share = 1 - 0.025 ** (1 / len(scores))
    return 100 * share * scores[0], 100 * share * (1 - scores[0])
