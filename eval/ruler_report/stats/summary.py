"""The figures of a run: what its report prints and what a paper cites.

All in percent. A mean over tasks is the mean of the tasks' means, as in the paper; an interval
is a 95 % bootstrap over questions, drawn anew within each task (`draws.resample`).
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, get_args

from ruler_data.tasks import TASKS, Category
from ruler_report.results import ConfigResult, Results
from ruler_report.stats.effective_length import (
    OVERALL,
    OWN,
    OWN_SHARE,
    RULER,
    THRESHOLDS,
    mean_percent,
    stated_error,
)
from ruler_report.stats.false_claims import Claims, claims_of
from ruler_report.stats.score_table import Effective, Figure, Pool, pool_of
from ruler_report.stats.sweeps import Study, studies_of

CATEGORIES: tuple[Category, ...] = get_args(Category)


@dataclass(frozen=True)
class Summary:
    """The figures of a run.

    Attributes:
        lengths: in tokens, rising.
        tasks: in the order of the dataset.
        group: whose thresholds apply, `aligned` or `base`.
        cells: by task and length.
        strict: likewise, strictly scored.
        completed: likewise, over rows whose answer was not cut off.
        categories: means over the tasks of a category, by length.
        overall: mean over all tasks, by length.
        averages: `avg`, `wavg_inc` and `wavg_dec` over lengths; empty where the lengths do not
            have the same tasks.
        effective: by `overall`, `own` (85 % of the score at the shortest length) and category;
            absent where tasks are missing that its threshold was measured on.
        error: by how much `overall` may be off from the benchmark's, in percent points, where the
            suite is a small one of it that states so.
        studies: what the suite varies.
        claims: false claims where a question may have no answer; None where none may.
    """

    lengths: tuple[int, ...]
    tasks: tuple[str, ...]
    group: str
    cells: dict[str, dict[int, Figure]]
    strict: dict[str, dict[int, float | None]]
    completed: dict[str, dict[int, float | None]]
    categories: dict[str, dict[int, Figure]]
    overall: dict[int, Figure]
    averages: dict[str, Figure]
    effective: dict[str, Effective]
    error: float | None = None
    studies: tuple[Study, ...] = ()
    claims: Claims | None = None

    def to_record(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        return asdict(self)


def summarize(results: Results) -> Summary:
    """Return the figures of a run; rows without a score take no part in any of them."""
    pool = pool_of(results)
    group = "base" if results.run.protocol == "base" else "aligned"
    categories = {category: pool.of_category(category) for category in CATEGORIES}
    return Summary(
        lengths=pool.lengths,
        tasks=pool.tasks,
        group=group,
        cells={task: pool.means((task,)) for task in pool.tasks},
        strict=_column(pool, lambda config: list(config.strict)),
        completed=_column(pool, completed_scores),
        categories={name: pool.means(tasks) for name, tasks in categories.items() if tasks},
        overall=pool.means(pool.tasks),
        averages=pool.averages(pool.tasks),
        effective=dict(_effective_lengths(pool, group, results.run.data.suite)),
        error=stated_error(results),
        studies=studies_of(pool.configs),
        claims=claims_of(pool),
    )


def completed_scores(config: ConfigResult) -> list[float | None]:
    """Return the scores of a config, None for answers that were cut off as well."""
    cut = set(config.truncated)
    return [None if index in cut else score for index, score in enumerate(config.scores)]


def _column(
    pool: Pool, scores: Callable[[ConfigResult], list[float | None]]
) -> dict[str, dict[int, float | None]]:
    """Return means of another score, by task and length; None where no row is left."""
    table: dict[str, dict[int, float | None]] = {task: {} for task in pool.tasks}
    for (task, length), config in sorted(pool.configs.items()):
        there = [score for score in scores(config) if score is not None]
        table[task][length] = mean_percent(there) if there else None
    return table


def _effective_lengths(pool: Pool, group: str, suite: str) -> Iterator[tuple[str, Effective]]:
    """Yield effective lengths by name, where the thresholds' own tasks were run."""
    thresholds = THRESHOLDS[group]
    if suite == RULER and set(pool.tasks) == set(TASKS):
        yield OVERALL, pool.effective(pool.tasks, thresholds[OVERALL])
    means = pool.means(pool.tasks)
    if len(means) > 1:
        yield OWN, pool.effective(pool.tasks, OWN_SHARE * means[min(means)].value, own=True)
    for category in CATEGORIES:
        tasks = pool.of_category(category)
        paper = {task.name for task in TASKS.values() if task.category == category}
        if suite == RULER and set(tasks) == paper:
            yield category, pool.effective(tasks, thresholds[category])
