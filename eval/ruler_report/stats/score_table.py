"""A run's scores by task and length, their means, and the intervals of the means."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ruler_data.names import parse_config
from ruler_report.format import format_length
from ruler_report.results import ConfigResult, Results
from ruler_report.stats.effective_length import OWN_SHARE, effective_length, mean_percent, weights
from ruler_report.stats.intervals import Floats, Mean, Statistic, mean_of, minus

AVERAGES = ("avg", "wavg_inc", "wavg_dec")
Configs = dict[tuple[str, int], ConfigResult]
Groups = Sequence[Sequence[str]]


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
        possible: the lengths that the intervals of the means do not exclude, increasing; 0 stands
            for none.
    """

    threshold: float
    length: int | None
    possible: tuple[int, ...]

    def format_possible(self, longest: int) -> str:
        """Return the lengths that are not excluded, given the longest measured.

        >>> EffectiveLength(85.6, 32768, (16384, 32768, 65536)).format_possible(65536)
        '16K, 32K or ≥64K'
        """
        *others, last = (format_length(length, longest) for length in self.possible)
        return f"{', '.join(others)} or {last}" if others else last

    def format_with_possible(self, longest: int) -> str:
        """Return the length, and in brackets what else is not excluded.

        >>> EffectiveLength(85.6, 32768, (32768, 65536)).format_with_possible(131072)
        '32K (32K or 64K)'
        """
        text = format_length(self.length, longest)
        possible = self.format_possible(longest)
        return text if text == possible else f"{text} ({possible})"


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
        side of the threshold.

        Args:
            tasks: to average.
            threshold: in percent.
            own: whether the threshold is a share of the mean at the shortest length; then the
                differences from this share are tested, and it passes by definition.
        """
        lengths = self.complete_lengths(tasks)
        means = {length: self.mean((tasks,), {length: 1.0}) for length in lengths}
        tested, bar = {length: mean.statistic for length, mean in means.items()}, threshold / 100
        if own:
            first, bar = means[lengths[0]], 0.0
            tested = {
                length: minus(mean, first, paired=True, share=OWN_SHARE)
                for length, mean in means.items()
                if mean is not first
            }
        values = {length: self._value((tasks,), length) for length in lengths}
        possible = possible_lengths(tested, bar)
        return EffectiveLength(
            threshold,
            effective_length(values, threshold),
            tuple(sorted({length or (lengths[0] if own else 0) for length in possible})),
        )

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
        low, high = self.mean(groups, lengths).statistic.interval()
        values = [self._value(groups, length) for length in lengths]
        every = [
            self.configs[task, length] for group in groups for task in group for length in lengths
        ]
        return Estimate(
            float(np.array(values) @ np.array(list(lengths.values()))),
            100 * float(low),
            100 * float(high),
            sum(config.scored for config in every),
            sum(config.rows for config in every),
        )


def possible_lengths(tested: Mapping[int, Statistic], bar: float) -> list[int]:
    """Return the effective lengths that intervals do not exclude; 0 stands for none.

    Args:
        tested: the statistic of each length, by increasing length.
        bar: the value that the effective length reaches and no longer length does.
    """
    found = []
    for length in sorted((0, *tested), reverse=True):
        low, high = tested[length].interval() if length else (-1.0, np.inf)
        if high >= bar:
            found.append(length)
        if low >= bar:
            break
    return found


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
            matrix[: column.rows, place] = [
                np.nan if s is None else s for s in column.headline_scores
            ]
    return matrix


def scores_of(config: ConfigResult) -> list[float]:
    """Return the scores of the scored rows, in order."""
    return [score for score in config.headline_scores if score is not None]
