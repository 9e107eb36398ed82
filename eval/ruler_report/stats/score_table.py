"""A run's scores by task and length, their means, and the intervals of the means."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ruler_data.names import parse_config
from ruler_report.format import format_length, format_share
from ruler_report.results import ConfigResult, Results
from ruler_report.stats.effective_length import OWN_SHARE, effective_length, mean_percent, weights
from ruler_report.stats.resampling import Floats, interval, resample

AVERAGES = ("avg", "wavg_inc", "wavg_dec")
Configs = dict[tuple[str, int], ConfigResult]


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
class EffectiveLength:
    """The longest length whose mean reaches a threshold.

    Attributes:
        threshold: in percent.
        length: in tokens; None if no length reaches the threshold.
        shares: the share of bootstrap samples in which each length is the effective one; length 0
            stands for none.
    """

    threshold: float
    length: int | None
    shares: dict[int, float]

    def format_shares(self, longest: int) -> str:
        """Return how often each length is the effective one, given the longest measured.

        >>> EffectiveLength(85.6, 32768, {16384: 0.031, 32768: 0.969}).format_shares(65536)
        '32K in 97 %, 16K in 3 %'
        """
        shares = sorted(self.shares.items(), key=lambda item: -item[1])
        return ", ".join(
            f"{format_length(length, longest)} in {format_share(share)}" for length, share in shares
        )


@dataclass(frozen=True)
class ScoreTable:
    """The scores of a run, with bootstrap samples of every task's means.

    Attributes:
        configs: those with a scored row, by task and length.
        lengths: in tokens, increasing.
        tasks: in the order of the dataset.
        samples: by task, resamples by lengths, in percent; NaN where the task has no rows.
    """

    configs: Configs
    lengths: tuple[int, ...]
    tasks: tuple[str, ...]
    samples: dict[str, Floats]

    @classmethod
    def of(cls, results: Results) -> "ScoreTable":
        """Return the scores of a run."""
        configs = configs_of(results)
        lengths = tuple(sorted({length for _, length in configs}))
        tasks = tuple(dict.fromkeys(task for task, _ in configs))
        samples = {
            task: 100 * resample(task, score_matrix(configs, task, lengths)) for task in tasks
        }
        return cls(configs, lengths, tasks, samples)

    def of_category(self, category: str) -> tuple[str, ...]:
        """Return the tasks of a category."""
        found = {task for (task, _), config in self.configs.items() if config.category == category}
        return tuple(task for task in self.tasks if task in found)

    def means(self, tasks: Sequence[str]) -> dict[int, Estimate]:
        """Return the mean over tasks at each length that all of them have."""
        samples = self._samples(tasks)
        return {
            length: _estimate(
                self._mean(tasks, length),
                samples[:, place],
                {task: [self.configs[task, length]] for task in tasks},
                np.ones(1),
            )
            for place, length in enumerate(self.lengths)
            if all((task, length) in self.configs for task in tasks)
        }

    def averages(self, tasks: Sequence[str]) -> dict[str, Estimate]:
        """Return the averages over lengths; none unless all lengths have all tasks."""
        wanted = [(task, length) for task in tasks for length in self.lengths]
        if not all(cell in self.configs for cell in wanted) or len(self.lengths) < 2:
            return {}
        parts = {task: [self.configs[task, length] for length in self.lengths] for task in tasks}
        means = np.array([self._mean(tasks, length) for length in self.lengths])
        samples = self._samples(tasks)
        columns = {name: weights(len(self.lengths), name) for name in AVERAGES}
        return {
            name: _estimate(float(means @ column), samples @ column, parts, column)
            for name, column in columns.items()
        }

    def effective(
        self, tasks: Sequence[str], threshold: float, *, own: bool = False
    ) -> EffectiveLength:
        """Return the effective length of the mean over tasks.

        Args:
            tasks: to average.
            threshold: in percent.
            own: whether the threshold is a share of the score at the shortest length; it then
                differs between samples.
        """
        lengths = np.array(list(self.means(tasks)))
        samples = self._samples(tasks)[:, np.isin(self.lengths, lengths)]
        bar = OWN_SHARE * samples[:, :1] if own else np.float64(threshold)
        longest = np.max(lengths * (samples >= bar), axis=1)
        shares = {int(length): float(np.mean(longest == length)) for length in (0, *lengths)}
        means = {int(length): self._mean(tasks, int(length)) for length in lengths}
        return EffectiveLength(
            threshold,
            effective_length(means, threshold),
            {length: share for length, share in shares.items() if share},
        )

    def _mean(self, tasks: Sequence[str], length: int) -> float:
        means = [mean_percent(scores_of(self.configs[task, length])) for task in tasks]
        return sum(means) / len(means)

    def _samples(self, tasks: Sequence[str]) -> Floats:
        return np.asarray(np.mean([self.samples[task] for task in tasks], axis=0))


def configs_of(results: Results) -> Configs:
    """Return the configs of a run that have a scored row, by task and length."""
    return {parse_config(name): config for name, config in results.configs.items() if config.scored}


def score_matrix(configs: Configs, task: str, lengths: Iterable[int]) -> Floats:
    """Return a task's scores in [0, 1], questions by lengths; NaN where a row has none."""
    columns = [configs.get((task, length)) for length in lengths]
    matrix = np.full((max(column.rows for column in columns if column), len(columns)), np.nan)
    for place, column in enumerate(columns):
        if column:
            matrix[: column.rows, place] = [
                np.nan if s is None else s for s in column.headline_scores
            ]
    return matrix


def scores_of(config: ConfigResult) -> list[float]:
    """Return the scores of the scored rows, in order."""
    return [score for score in config.headline_scores if score is not None]


def _estimate(
    value: float, samples: Floats, parts: Mapping[str, Sequence[ConfigResult]], column: Floats
) -> Estimate:
    """Return a mean over tasks with its interval.

    A bootstrap sees no uncertainty in a task whose rows all score alike, so that of each such
    task is added (MOVER: Zou and Donner 2008). Within a task the questions are the same at all
    lengths, so there the uncertainties are summed.

    Args:
        value: the mean.
        samples: bootstrap samples of it.
        parts: the configs of each task.
        column: the weights of these configs.
    """
    low, high = interval(samples)
    unseen = [
        column @ np.array([_unseen_error(scores_of(config)) for config in configs]) / len(parts)
        for configs in parts.values()
    ]
    below = math.hypot(max(value - low, 0.0), *(down for down, _ in unseen))
    above = math.hypot(max(high - value, 0.0), *(up for _, up in unseen))
    every = [config for configs in parts.values() for config in configs]
    return Estimate(
        value,
        max(value - below, 0.0),
        min(value + above, 100.0),
        sum(config.scored for config in every),
        sum(config.rows for config in every),
    )


def _unseen_error(scores: Sequence[float]) -> tuple[float, float]:
    """Return how far below and above its mean a task may be whose rows all score alike.

    In percentage points; 0 where scores differ. Resamples of equal scores are all equal, but n of
    them do not rule out that a share of up to 1 - 0.025^(1/n) would score 0, or 1: the exact
    binomial bound (Clopper and Pearson 1934).
    """
    if min(scores) < max(scores):
        return 0.0, 0.0
    share = 1 - 0.025 ** (1 / len(scores))
    return 100 * share * scores[0], 100 * share * (1 - scores[0])
