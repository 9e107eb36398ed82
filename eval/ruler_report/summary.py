"""The summary of a run: all its means, effective lengths and rates of false claims.

All in percent, with 95 % intervals, read from the array of a frame. A mean over tasks is the mean
of the tasks' means, as in the paper.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from operator import itemgetter
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, get_args

import numpy as np

from ruler_data.names import counted
from ruler_data.tasks import TASKS, Category
from ruler_eval.scoring.labels import ABSENT, CONTEXT, REFUSAL
from ruler_eval.scoring.results import ConfigScores, Scores
from ruler_report.effective_length import (
    OVERALL,
    OWN,
    OWN_SHARE,
    THRESHOLDS,
    EffectiveLength,
    effective_length_of,
    own_length,
)
from ruler_report.frame import AVERAGES, BALANCED, Cell, Floats, Rows
from ruler_report.lineup import Lineup, lineup
from ruler_report.means import Estimate, Means, mean_percent
from ruler_report.runs import RULER
from ruler_report.typesetting import Printable, Table, format_length, format_number

CATEGORIES: tuple[Category, ...] = get_args(Category)
#: Failures in which an answer names a value although there is none.
HALLUCINATED = (CONTEXT, ABSENT)
Rates = dict[str, dict[int, float]]
CellMeans = dict[str, dict[int, float | None]]


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
        claims: false claims; None where every question has an answer.
        sample_spread: with several samples of each row, the standard deviation of the mean score
            from sample to sample, by task and length; `overall` is that of the mean over tasks.
    """

    lengths: tuple[int, ...]
    tasks: tuple[str, ...]
    group: str
    category_of: dict[str, str]
    cells: dict[str, dict[int, Estimate]]
    official: CellMeans
    exact: CellMeans
    f1: CellMeans
    completed: CellMeans
    categories: dict[str, dict[int, Estimate]]
    overall: dict[int, Estimate]
    by_task: dict[str, Estimate]
    by_category: dict[str, Estimate]
    mean: Estimate | None
    averages: dict[str, Estimate]
    effective: dict[str, EffectiveLength]
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
        """The same as text; with its threshold where that is a share of the run's own score."""
        if (effective := self.headline_length) is None:
            return ""
        text = effective.format_with_possible(self.lengths[-1])
        return text if OVERALL in self.effective else f"{text} at {self._own_share}"

    @property
    def _own_share(self) -> str:
        return f"{100 * OWN_SHARE:.0f} % of its own {format_length(self.lengths[0])}"

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
            own = "" if OVERALL in self.effective else f", {self._own_share}"
            caption = (
                f"effective length {format_length(effective.length, longest)} (mean of at least "
                f"{effective.threshold:.1f}{own}); possible with these "
                f"rows: {effective.format_possible(longest)}"
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
    results: Scores
    summary: Summary
    notes: tuple[str, ...] = ()
    file: Path | None = None

    @property
    def configs(self) -> dict[str, ConfigScores]:
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


def summarize(runs: Lineup | Scores, run: int = 0) -> Summary:
    """Return the statistics of a run, read from the array of its frame; by default its own.

    Unanswered rows take part only in intervals, as 0 to 1. Means over tasks and lengths are of the
    frame; cells and effective lengths of all that the run has.
    """
    runs = lineup([runs]) if isinstance(runs, Scores) else runs
    results, means, line = runs.runs[run], runs.means, runs.frame.lines[run]
    means_own, place = runs.over_cells(run)
    means, run = (means, run) if runs.frame.tasks else (means_own, place)
    table = results.table
    cells_of_run = [*line]
    lengths = tuple(sorted({length for _, length in cells_of_run}))
    tasks = tuple(dict.fromkeys(task for task, _ in cells_of_run))
    group = group_of(results)
    category_of = {task: config.category for (task, _), config in results.cells.items()}
    names = [name for name in CATEGORIES if name in category_of.values()]

    def row(name: str | None, of: Means = means, at: int = run) -> dict[int, Estimate]:
        cells = {n: of.estimate((name, n), at) for n in lengths if (name, n) in of.columns}
        return {length: cell for length, cell in cells.items() if cell}

    def over_lengths(keys: Iterable[str | None]) -> dict[str, Estimate]:
        by_task = {key: means.estimate((key, None), run) for key in keys
                 if (key, None) in means.columns}  # fmt: skip
        return {key or OVERALL: mean for key, mean in by_task.items() if mean}

    overall, mean = row(None), over_lengths([None]).get(OVERALL)
    averages = {"avg": mean, **over_lengths(AVERAGES[1:])} if mean else {}
    return Summary(
        lengths=lengths,
        tasks=tasks,
        group=group,
        category_of=category_of,
        cells={task: row(task, means_own, place) for task in tasks},
        official=_cell_means(results, line, table.official),
        exact=_cell_means(results, line, table.exact),
        f1=_cell_means(results, line, table.f1),
        completed=_cell_means(results, line, np.where(table.truncated, np.nan, table.headline)),
        categories={name: row(name) for name in names},
        overall=overall,
        by_task=over_lengths(tasks),
        by_category=over_lengths(names),
        mean=mean,
        averages=averages if len(averages) == len(AVERAGES) else {},
        effective=dict(_effective_lengths(results, means_own, place)),
        claims=_claims(results, row),
        sample_spread=_sample_spread(results),
    )


def group_of(results: Scores) -> str:
    """Return whose thresholds apply: `base` to plain text, `aligned` where a template is used.

    Rows of upstream's editions can contain the template; they are run with the protocol `base`.
    """
    plain = results.run.protocol == "base" and results.chat_template in ("", "base")
    return "base" if plain else "aligned"


def why_no_score(results: Scores, summary: Summary) -> str:
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


def _cell_means(results: Scores, line: Mapping[Cell, Rows], scores: Floats) -> CellMeans:
    """Return means of other scores by task and length; None where no row is left."""
    means: CellMeans = {}
    for (task, length), rows in sorted(line.items(), key=lambda item: item[0][1]):
        column = scores[results.table.cells[task, length]][rows.places]
        answered = column[~np.isnan(column)].tolist()
        means.setdefault(task, {})[length] = mean_percent(answered) if answered else None
    return means


def _effective_lengths(
    results: Scores, means: Means, run: int
) -> Iterator[tuple[str, EffectiveLength]]:
    """Yield effective lengths by name, where the tasks of the threshold were run."""
    thresholds = THRESHOLDS[group_of(results)]
    is_ruler = results.run.data.suite == RULER
    for name, threshold in thresholds.items():
        key = None if name == OVERALL else name
        column = means.columns.get((key, None))
        paper = {task.name for task in TASKS.values() if key in (None, task.category)}
        if column and is_ruler and {*column.groups[0]} == paper:
            yield name, effective_length_of(means, run, key, threshold)
        if name == OVERALL and (reach := own_length(means, run)):
            yield OWN, reach


def _claims(results: Scores, row: Callable[[str | None], dict[int, Estimate]]) -> Claims | None:
    """Return the false claims of a run; None where every question has an answer."""
    false_none = _rates(results, "possible", (REFUSAL,))
    hallucinated = _rates(results, "true", HALLUCINATED)
    return Claims(false_none, hallucinated, row(BALANCED)) if false_none or hallucinated else None


def _rates(results: Scores, none: str, kinds: Collection[str]) -> Rates:
    """Return the rates of some kinds of failure, by task and length, where the answer may be none.

    `none` is whether the needle may be absent (`possible`), or is (`true`).
    """
    configs = {cell: x for cell, x in results.cells.items() if x.params.get("none") == none}
    rates: Rates = {task: {} for task, _ in configs}
    for (task, length), config in sorted(configs.items(), key=itemgetter(0)):
        if config.scored:
            rows = sum(len(config.failures.get(kind, ())) for kind in kinds)
            rates[task][length] = 100 * rows / config.scored
    return rates


def _sample_spread(results: Scores) -> Rates:
    """Return the standard deviations from sample to sample; none without samples."""
    cells = sorted(results.table.cells)
    configs = {key: results.configs[f"{key[0]}_{key[1]}"] for key in cells}
    samples = {key: config.samples for key, config in configs.items() if config.samples}
    for length in dict.fromkeys(length for _, length in cells):
        tasks = [column for (_, n), column in samples.items() if n == length]
        if tasks:
            samples[OVERALL, length] = tuple(map(fmean, zip(*tasks, strict=True)))
    spreads: Rates = {}
    for (name, length), means in samples.items():
        spreads.setdefault(name, {})[length] = 100 * stdev(means)
    return spreads
