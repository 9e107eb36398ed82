"""The summary of a run: all its means, effective lengths, sweeps and rates of false claims.

All in percent, with 95 % intervals (`intervals.py`). A mean over tasks is the mean of the tasks'
means, as in the paper.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, get_args

from ruler_data.names import counted, parse_config
from ruler_data.suites import packaged_suite
from ruler_data.tasks import TASKS, Category
from ruler_report.failures import ABSENT, CONTEXT, REFUSAL
from ruler_report.format import format_length, format_number
from ruler_report.results_file import ConfigResult, Results
from ruler_report.stats.effective_length import (
    OVERALL,
    OWN,
    OWN_SHARE,
    RULER,
    THRESHOLDS,
    EffectiveLength,
    effective_length,
    mean_percent,
    possible_lengths,
    weights,
)
from ruler_report.stats.intervals import Statistic, minus
from ruler_report.stats.scores import Estimate, Groups, ScoreStack
from ruler_report.stats.sweeps import Spread, Study, spreads_of, studies_of
from ruler_report.table import Printable, Table

AVERAGES = ("avg", "wavg_inc", "wavg_dec")
CATEGORIES: tuple[Category, ...] = get_args(Category)
#: Failures in which an answer names a value although there is none.
HALLUCINATED = (CONTEXT, ABSENT)
Rates = dict[str, dict[int, float]]
Means = dict[str, dict[int, float | None]]


@dataclass(frozen=True)
class Claims:
    """False claims where a question may have no answer, in percent of the scored rows.

    Attributes:
        false_none: the answer says none although the needle is there; by task and length.
        hallucinated: the answer names a value although there is none; by task and length.
        balanced: by length, the mean of the score where the needle is there and of the score where
            it is not. Always or never saying none gives at most 50.
    """

    false_none: Rates
    hallucinated: Rates
    balanced: dict[int, Estimate]


@dataclass(frozen=True, repr=False)
class Summary(Printable):
    """The statistics of a run; it prints as the table of `ruler-eval score`.

    Attributes:
        lengths: in tokens, increasing.
        tasks: in the order of the dataset.
        group: whose thresholds apply, `aligned` or `base`.
        category_of: by task.
        cells: mean scores by task and length.
        official: likewise, of upstream's scores.
        exact: likewise, of the exact scores.
        f1: likewise, of the F1 of the answers.
        completed: likewise, over rows whose answer was not truncated.
        categories: means over the tasks of a category, by length.
        overall: mean over all tasks, by length.
        by_task: mean over the lengths of each task.
        by_category: mean over lengths and tasks.
        mean: likewise over all tasks; None if no length has all tasks.
        averages: `avg`, `wavg_inc` and `wavg_dec` over lengths; empty where the lengths do not
            have the same tasks.
        effective: effective lengths by `overall`, `own` (85 % of the score at the shortest length)
            and category; absent unless exactly the tasks of the threshold were run.
        error: by how much `overall` may differ from the benchmark's, in percentage points, if the
            suite is a small version of it that states so.
        studies: what the suite varies.
        spreads: how much the scores of the same questions depend on their prompt.
        claims: false claims; None where every question has an answer.
        sample_spread: with several samples of each row, the standard deviation of the mean score
            from sample to sample, by task and length; `overall` is that of the mean over tasks.
    """

    lengths: tuple[int, ...]
    tasks: tuple[str, ...]
    group: str
    category_of: dict[str, str]
    cells: dict[str, dict[int, Estimate]]
    official: Means
    exact: Means
    f1: Means
    completed: Means
    categories: dict[str, dict[int, Estimate]]
    overall: dict[int, Estimate]
    by_task: dict[str, Estimate]
    by_category: dict[str, Estimate]
    mean: Estimate | None
    averages: dict[str, Estimate]
    effective: dict[str, EffectiveLength]
    error: float | None = None
    studies: tuple[Study, ...] = ()
    spreads: tuple[Spread, ...] = ()
    claims: Claims | None = None
    sample_spread: Rates = field(default_factory=dict)

    def display_parts(self) -> tuple[Table, ...]:
        """Return the tables of scores and of exact scores, by task and length."""
        exact = self.exact_table()
        return (self.table(), exact) if exact.rows else (self.table(),)

    def to_record(self) -> dict[str, Any]:
        """Return the statistics as plain values."""
        return asdict(self)

    @property
    def headline_length(self) -> EffectiveLength | None:
        """The effective length by the mean over all tasks, at the paper's threshold or its own."""
        return self.effective.get(OVERALL) or self.effective.get(OWN)

    @property
    def headline_reach(self) -> str:
        """The same as text; with its threshold where that is the run's own."""
        if (effective := self.headline_length) is None:
            return ""
        text = effective.format_with_possible(self.lengths[-1])
        return text if OVERALL in self.effective else f"{text} at {effective.threshold:.1f}"

    def table(self) -> Table:
        """Return the scores by task and length; means over tasks with their intervals."""
        several = len(self.tasks) > 1

        def cell(task: str, length: int) -> str:
            mean = self.cells[task].get(length)
            if mean is None or not mean.scored:
                return str(mean or "")
            return format_number(mean.value) + self.format_spread(task, length)

        rows = [(task, *(cell(task, length) for length in self.lengths)) for task in self.cells]
        caption = "Score in percent by length in tokens"
        if self.sample_spread and several:
            spreads = (self.format_spread(OVERALL, length).strip() for length in self.lengths)
            rows.append(("mean, from sample to sample", *spreads))
        rows += [(name, *self.row(cells)) for name, cells in self.categories.items()]
        if several:
            rows.append((f"mean of {len(self.tasks)} tasks", *self.row(self.overall)))
        if effective := self.headline_length:
            longest = self.lengths[-1]
            caption = (
                f"effective length {format_length(effective.length, longest)} (mean of at least "
                f"{effective.threshold:.1f}); cannot be excluded: "
                f"{effective.format_possible(longest)}"
            )
        caption += "; ± standard deviation from sample to sample" if self.sample_spread else ""
        head = ("task", *map(format_length, self.lengths))
        return Table("summary", caption, head, tuple(rows), (len(rows) - 1,) * several)

    def exact_table(self) -> Table:
        """Return the exact scores and F1 by task and length; no rows in results without them."""

        def cell(task: str, length: int) -> str:
            exact, f1 = self.exact[task].get(length), self.f1[task].get(length)
            return "" if exact is None or f1 is None else f"{exact:.1f} / {f1:.1f}"

        rows = [(task, *(cell(task, length) for length in self.lengths)) for task in self.tasks]
        caption = "Exact score (all gold answers, and no other of their kind) / F1, in percent"
        head = ("task", *map(format_length, self.lengths))
        return Table("exact", caption, head, tuple(row for row in rows if any(row[1:])))

    def format_spread(self, task: str, length: int) -> str:
        """Return the spread from sample to sample as it follows a mean; empty without samples."""
        spread = self.sample_spread.get(task, {}).get(length)
        return "" if spread is None else f" ±{spread:.1f}"

    def row(self, cells: dict[int, Estimate]) -> tuple[str, ...]:
        """Return means with their intervals as table cells; empty where a length has none."""
        return tuple(str(cells[length]) if length in cells else "" for length in self.lengths)


@dataclass(frozen=True, repr=False)
class ScoredRun(Printable):
    """A run with its summary and its name in a report; it prints as the table of its scores.

    Attributes:
        file: that the results were written to.
    """

    label: str
    results: Results
    summary: Summary
    notes: tuple[str, ...] = ()
    file: Path | None = None

    @property
    def configs(self) -> dict[str, ConfigResult]:
        """The results of each config."""
        return self.results.configs

    def display_parts(self) -> tuple[Table | str, ...]:
        """Return the tables of scores, and where they were written."""
        count = f"{self.results.scored:,} of {self.results.rows:,} rows scored"
        lines = [self.results.validity_line, f"{self.file}: {count}" if self.file else count]
        return (*self.summary.display_parts(), *lines)

    @property
    def exit_status(self) -> int:
        """1 if the answers cannot carry a score (`Validity.errors`)."""
        return self.results.validity.exit_status if self.results.validity else 0

    @property
    def failure(self) -> str:
        """Why they cannot; empty if they can."""
        return "; ".join(self.results.validity.errors) if self.results.validity else ""

    def to_record(self) -> dict[str, Any]:
        """Return the statistics and the validity as plain values."""
        validity = self.results.validity.to_record() if self.results.validity else None
        return {**self.summary.to_record(), "validity": validity}

    def to_records(self) -> list[dict[str, Any]]:
        """Return a flat record for each config, with its means in [0, 1]."""
        return self.results.to_records()


def counted_tasks(runs: Iterable[ScoredRun]) -> str:
    """Return how many tasks runs have, e.g. `1 or 13 tasks`."""
    *fewer, most = sorted({len(run.summary.tasks) for run in runs})
    return " or ".join([*map(str, fewer), counted(most, "task")])


class RunScores(ScoreStack):
    """The scores of one run."""

    def __init__(self, results: Results) -> None:
        """Take the scores of a run."""
        super().__init__([results])
        self.run, self.suite = self.configs[0], results.run.data.suite
        category_of = {task: config.category for (task, _), config in self.run.items()}
        self.category_of = {task: category_of[task] for task in self.tasks}

    def of_category(self, category: str) -> tuple[str, ...]:
        """Return the tasks of a category."""
        return tuple(task for task in self.tasks if self.category_of[task] == category)

    def mean(self, groups: Groups, lengths: Sequence[int], kind: str = "avg") -> Estimate | None:
        """Return the mean over lengths of the mean over groups of tasks; None if it lacks a part.

        `kind` is that of the weights of the lengths.
        """
        shares = weights(len(lengths), kind).tolist()
        (estimate,) = self.estimates(groups, dict(zip(lengths, shares, strict=True)))
        return estimate

    def by_length(self, *groups: Sequence[str]) -> dict[int, Estimate]:
        """Return the mean of the means of groups of tasks, at each length that all tasks have."""
        means = {length: self.mean(groups, (length,)) for length in self.lengths}
        return {length: mean for length, mean in means.items() if mean}

    def over_lengths(self, names: Mapping[str, Sequence[str]]) -> dict[str, Estimate]:
        """Return by name the mean of its tasks over all lengths that all of them have, if any."""
        lengths = {name: tuple(self.by_length(tasks)) for name, tasks in names.items()}
        means = {name: self.mean((names[name],), some) for name, some in lengths.items() if some}
        return {name: mean for name, mean in means.items() if mean}

    def of_ruler(self, threshold: float) -> EffectiveLength | None:
        """Return the effective length of the 13 tasks; None for other tasks or suites."""
        is_ruler = self.suite == RULER and {*self.tasks} == {*TASKS}
        whole = is_ruler and self.by_length(self.tasks)
        return self.effective(self.tasks, threshold) if whole else None

    def effective(
        self, tasks: Sequence[str], threshold: float, *, own: bool = False
    ) -> EffectiveLength:
        """Return the effective length of the mean over tasks.

        A length is excluded if its mean, or that of a longer one, is significantly on the other
        side of the threshold, in percent. If that is the run's `own`, a share of the mean at the
        shortest length, the differences from this share are tested; the shortest always passes.
        """
        values, bounds = {}, {}
        (this,) = self.alike
        for length in self.lengths:
            (value,) = self.lowest(tasks, {length: 1.0})
            means = self.bounds(this, this, (tasks,), {length: 1.0})
            if means and value is not None:
                values[length], bounds[length] = value, means[:2]
        ends: dict[int, tuple[Statistic, Statistic]] = {**bounds}
        shortest, bar = min(values), threshold / 100
        if own:
            bar, (first_low, first_high) = 0.0, bounds[shortest]
            ends = {
                length: (
                    minus(low, first_high, paired=True, share=OWN_SHARE),
                    minus(high, first_low, paired=True, share=OWN_SHARE),
                )
                for length, (low, high) in bounds.items()
                if length > shortest
            }
        possible = possible_lengths(
            {n: (low.interval()[0], high.interval()[1]) for n, (low, high) in ends.items()}, bar
        )
        longest = effective_length(values, threshold)
        if own:
            possible = [length or shortest for length in possible]
            longest = longest or shortest
        return EffectiveLength(threshold, longest, tuple(sorted(set(possible))))


def summarize(results: Results) -> Summary:
    """Return the statistics of a run; unscored rows take part only in intervals, as 0 to 1."""
    table = RunScores(results)
    tasks, lengths, group = tuple(table.tasks), tuple(table.lengths), group_of(results)
    categories: dict[str, tuple[str, ...]] = {
        name: some for name in CATEGORIES if (some := table.of_category(name))
    }
    overall, averages = table.by_length(tasks), dict[str, Estimate]()
    if tuple(overall) == lengths and len(lengths) > 1:
        means = {name: table.mean((tasks,), lengths, name) for name in AVERAGES}
        averages = {name: mean for name, mean in means.items() if mean}
    return Summary(
        lengths=lengths,
        tasks=tasks,
        group=group,
        category_of=table.category_of,
        cells={task: table.by_length((task,)) for task in tasks},
        official=_means(table, lambda config: config.scores),
        exact=_means(table, lambda config: config.scores_of("exact")),
        f1=_means(table, lambda config: config.scores_of("f1")),
        completed=_means(table, _completed),
        categories={name: table.by_length(some) for name, some in categories.items()},
        overall=overall,
        by_task=table.over_lengths({task: (task,) for task in tasks}),
        by_category=table.over_lengths(categories),
        mean=table.over_lengths({OVERALL: tasks}).get(OVERALL),
        averages=averages,
        effective=dict(_effective_lengths(table, group, overall)),
        error=stated_error(results),
        studies=studies_of(table.run),
        spreads=tuple(spreads_of(table.run)),
        claims=_claims(table),
        sample_spread=_sample_spread(table),
    )


def group_of(results: Results) -> str:
    """Return whose thresholds apply: `base` to plain text, `aligned` where a template is used.

    Rows of upstream's editions can contain the template; they are run with the protocol `base`.
    """
    plain = results.run.protocol == "base" and results.chat_template in ("", "base")
    return "base" if plain else "aligned"


def stated_error(results: Results) -> float | None:
    """Return the error that a suite states for its means over tasks.

    In percentage points, at one length, against RULER's 500 rows, in 95 of 100 runs. The number
    stands in the suite (`ruler_data/suites/mini.yaml`) and holds for runs of all its tasks and
    rows.

    Returns:
        None where the suite states none, or a task or rows are missing.
    """
    suite = packaged_suite(results.run.data.suite)
    if suite is None or suite.error is None:
        return None
    tasks = {parse_config(name)[0] for name in results.configs}
    whole = all(config.scored >= suite.rows for config in results.configs.values())
    return suite.error if whole and tasks == TASKS.keys() else None


def why_no_score(results: Results, summary: Summary) -> str:
    """Return why the means of a run are no scores of RULER; empty if they are."""
    run, data = results.run, results.run.data
    reasons = {
        "its rows are of the sample corpus": data.sample,
        f"its suite is {data.suite}, not {RULER}": data.suite != RULER,
        "it was run without context": run.no_context,
        f"{results.scored:,} of {results.rows:,} rows are scored": results.scored < results.rows,
        "it does not have exactly the 13 tasks": {*summary.tasks} != {*TASKS},
        "it has no length with all 13 tasks": not summary.overall,
    }
    return next((why for why, holds in reasons.items() if holds), "")


def _completed(config: ConfigResult) -> list[float | None]:
    """Return the scores of a config, with None also for truncated answers."""
    cut = set(config.truncated)
    return [None if i in cut else score for i, score in enumerate(config.headline_scores)]


def _means(table: RunScores, scores: Callable[[ConfigResult], Iterable[float | None]]) -> Means:
    """Return means of other scores by task and length; None where no row is left."""
    means: Means = {task: {} for task in table.tasks}
    for (task, length), config in sorted(table.run.items()):
        scored = [score for score in scores(config) if score is not None]
        means[task][length] = mean_percent(scored) if scored else None
    return means


def _effective_lengths(
    table: RunScores, group: str, means: Mapping[int, Estimate]
) -> Iterator[tuple[str, EffectiveLength]]:
    """Yield effective lengths by name, where the tasks of the threshold were run."""
    thresholds = THRESHOLDS[group]
    if reach := table.of_ruler(thresholds[OVERALL]):
        yield OVERALL, reach
    if len(means) > 1 and means[min(means)].known:
        threshold = OWN_SHARE * means[min(means)].value
        yield OWN, table.effective(table.tasks, threshold, own=True)
    for category in CATEGORIES:
        tasks = table.of_category(category)
        paper = {task.name for task in TASKS.values() if task.category == category}
        if table.suite == RULER and set(tasks) == paper and table.by_length(tasks):
            yield category, table.effective(tasks, thresholds[category])


def _claims(table: RunScores) -> Claims | None:
    """Return the false claims of a run; None where every question has an answer."""
    kinds = {task: config.params.get("none") for (task, _), config in table.run.items()}
    present, absent = (
        [task for task, kind in kinds.items() if kind == name] for name in ("possible", "true")
    )
    if not (present or absent):
        return None
    return Claims(
        false_none=_rates(table, present, (REFUSAL,)),
        hallucinated=_rates(table, absent, HALLUCINATED),
        balanced=table.by_length(present, absent) if present and absent else {},
    )


def _rates(table: RunScores, tasks: Collection[str], kinds: Collection[str]) -> Rates:
    """Return the rates of some kinds of failure, by task and length."""
    rates: Rates = {task: {} for task in tasks}
    for (task, length), config in sorted(table.run.items()):
        if task in rates and config.scored:
            rows = sum(len(config.failures.get(kind, ())) for kind in kinds)
            rates[task][length] = 100 * rows / config.scored
    return rates


def _sample_spread(table: RunScores) -> Rates:
    """Return the standard deviations from sample to sample; none without samples."""
    samples = {key: one.samples for key, one in sorted(table.run.items()) if one.samples}
    for length in table.lengths:
        tasks = [samples[task, length] for task in table.tasks if (task, length) in samples]
        if tasks:
            samples[OVERALL, length] = tuple(map(fmean, zip(*tasks, strict=True)))
    spreads: Rates = {}
    for (name, length), means in samples.items():
        spreads.setdefault(name, {})[length] = 100 * stdev(means)
    return spreads
