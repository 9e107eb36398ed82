"""A run's scores by task and length, their means, and the intervals of the means."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

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
from ruler_report.stats.intervals import Floats, Mean, Statistic, mean_of, minus

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
class Bounds:
    """A mean, or a difference, where unanswered rows count as 0, and where they count as 1."""

    low: Statistic
    high: Statistic

    def interval(self) -> tuple[Floats, Floats]:
        """Return the lower end of the lower bound, and the upper end of the upper one."""
        return self.low.interval()[0], self.high.interval()[1]


@dataclass(frozen=True)
class ScoreTable:
    """The scores of a run.

    Attributes:
        configs: those with a scored row, by task and length.
        lengths: in tokens, increasing.
        low: by task, questions by lengths, in [0, 1]; NaN where a row was not asked. Unanswered
            rows are 0; in `high` they are 1.
    """

    configs: Configs
    lengths: tuple[int, ...]
    tasks: tuple[str, ...]
    low: dict[str, Floats]
    high: dict[str, Floats]

    @classmethod
    def of(cls, results: Results) -> "ScoreTable":
        """Return the scores of a run."""
        configs = {key: config for key, config in configs_of(results).items() if config.scored}
        lengths = tuple(sorted({length for _, length in configs}))
        tasks = tuple(dict.fromkeys(task for task, _ in configs))
        low, high = (
            {task: score_matrix(configs, task, lengths, unanswered) for task in tasks}
            for unanswered in (0.0, 1.0)
        )
        return cls(configs, lengths, tasks, low, high)

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
        means = {length: self.bounds((tasks,), {length: 1.0}) for length in lengths}
        values = {length: self._value((tasks,), length) for length in lengths}
        for length, (low, high) in means.items():
            if low is not high:  # unanswered rows count against the length
                values[length] = 100 * float(low.value)
        tested = {length: Bounds(*ends) for length, ends in means.items()}
        if own:
            first_low, first_high = means[lengths[0]]
            gaps = {
                length: Bounds(
                    minus(low, first_high, paired=True, share=OWN_SHARE),
                    minus(high, first_low, paired=True, share=OWN_SHARE),
                )
                for length, (low, high) in means.items()
                if length != lengths[0]
            }
            possible = [length or lengths[0] for length in possible_lengths(gaps, 0.0)]
        else:
            possible = possible_lengths(tested, threshold / 100)
        longest = effective_length(values, threshold)
        return EffectiveLength(threshold, longest, tuple(sorted(set(possible))))

    def complete_lengths(self, tasks: Sequence[str]) -> tuple[int, ...]:
        """Return the lengths that all of the tasks have."""
        return tuple(
            length
            for length in self.lengths
            if all((task, length) in self.configs for task in tasks)
        )

    def bounds(self, groups: Groups, lengths: Mapping[int, float]) -> tuple[Mean, Mean]:
        """Return the mean over lengths, with weights, of the mean over groups of tasks.

        Unanswered rows count as 0 in the first and as 1 in the second; the same object where all
        rows are answered.
        """
        columns = [self.lengths.index(length) for length in lengths]
        column = np.array(list(lengths.values()))
        shares = {task: column / len(groups) / len(group) for group in groups for task in group}
        asks = asks_of(self.configs)
        low = mean_of({task: self.low[task][:, columns] for task in shares}, shares, asks)
        if all(self.configs[task, length].is_complete for task in shares for length in lengths):
            return low, low
        return low, mean_of({task: self.high[task][:, columns] for task in shares}, shares, asks)

    def _value(self, groups: Groups, length: int) -> float:
        """Return a mean in percent, added up in upstream's order of operations."""
        cells = [[self.configs[task, length] for task in group] for group in groups]
        means = [sum(mean_percent(scores_of(one)) for one in group) / len(group) for group in cells]
        return sum(means) / len(means)

    def estimate(self, groups: Groups, lengths: Mapping[int, float]) -> Estimate:
        """Return the mean over lengths, with weights, of the mean over groups of tasks."""
        bounds = self.bounds(groups, lengths)
        values = [self._value(groups, length) for length in lengths]
        value = float(np.array(values) @ np.array(list(lengths.values())))
        cells = [self.configs[task, n] for group in groups for task in group for n in lengths]
        low, high = (100 * float(end) for end in Bounds(*bounds).interval())
        scored = sum(cell.scored for cell in cells)
        return Estimate(value, low, high, scored, sum(cell.rows for cell in cells))


def configs_of(results: Results) -> Configs:
    """Return the configs of a run, by task and length."""
    return {parse_config(name): config for name, config in results.configs.items()}


def asks_of(configs: Configs) -> dict[str, str]:
    """Return the tasks that ask the questions of another, which their scores depend on."""
    return {task: one.same_questions_as or task for (task, _), one in configs.items()}


def score_matrix(
    configs: Configs, task: str, lengths: Iterable[int], unanswered: float = np.nan
) -> Floats:
    """Return a task's scores in [0, 1], questions by lengths; NaN where a row was not asked."""
    columns = [configs.get((task, length)) for length in lengths]
    matrix = np.full((max(column.rows for column in columns if column), len(columns)), np.nan)
    for place, column in enumerate(columns):
        if column:
            scores = np.array(column.headline_scores, dtype=np.float64)
            matrix[: column.rows, place] = np.where(np.isnan(scores), unanswered, scores)
    return matrix


def scores_of(config: ConfigResult) -> list[float]:
    """Return the scores of the scored rows, in order."""
    return [score for score in config.headline_scores if score is not None]
