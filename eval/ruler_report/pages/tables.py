"""The tables of a report; every form of the report shows the same ones."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ruler_data.manifest import BALANCED, IMPORTED
from ruler_data.names import parse_config
from ruler_report.failures import MEANINGS
from ruler_report.format import format_length, format_number, format_share, visible
from ruler_report.published import LENGTHS, MEASURED_ON, published
from ruler_report.results import Results
from ruler_report.stats.correlation import CorrelationStudy
from ruler_report.stats.depth import DepthTable
from ruler_report.stats.effective_length import OVERALL, OWN, ranks
from ruler_report.stats.score_table import AVERAGES
from ruler_report.stats.summary import ScoredRun, Summary
from ruler_report.stats.sweeps import Spread, Study, format_value
from ruler_report.table import Table

AVERAGE_HEADS = ("Avg.", "wAvg. (inc)", "wAvg. (dec)")
#: The published file and table that a run is shown beside, by group.
PUBLISHED = {"aligned": ("paper-2024-08", "3"), "base": ("paper-2024-04", "12")}


def headline(runs: Sequence[ScoredRun]) -> Table:
    """Return the means over all tasks of every run."""
    lengths = sorted({length for run in runs for length in run.summary.lengths})
    head = ("model", *map(format_length, lengths), *AVERAGE_HEADS, "effective", "85 % of own")
    rows = []
    for run in runs:
        overall, averages = run.summary.overall, run.summary.averages
        estimates = [*map(overall.get, lengths), *map(averages.get, AVERAGES)]
        effective = (_effective(run.summary, name) for name in (OVERALL, OWN))
        rows.append((run.label, *(str(one) if one else "" for one in estimates), *effective))
    tasks = " or ".join(map(str, sorted({len(run.summary.tasks) for run in runs})))
    caption = f"Mean score over {tasks} tasks by length in tokens, in percent, with 95 % intervals"
    return Table("headline", caption, head, tuple(rows))


def _effective(summary: Summary, name: str) -> str:
    effective = summary.effective.get(name)
    if effective is None:
        return ""
    return effective.format_with_possible(summary.lengths[-1])


def effective_lengths(runs: Sequence[ScoredRun]) -> Table:
    """Return the effective lengths of every run by threshold, with their uncertainty."""
    means = {OVERALL: "all tasks", OWN: "all tasks, 85 % of its own shortest"}
    rows = tuple(
        (
            run.label,
            means.get(name, name),
            f"{effective.threshold:.1f}",
            format_length(effective.length, run.summary.lengths[-1]),
            effective.format_possible(run.summary.lengths[-1]),
        )
        for run in runs
        for name, effective in run.summary.effective.items()
    )
    caption = "Effective lengths: the longest at which the mean reaches a threshold, in percent"
    return Table(
        "effective", caption, ("model", "mean over", "threshold", "length", "not excluded"), rows
    )


def beside_published(runs: Sequence[ScoredRun]) -> Iterator[Table]:
    """Yield a table of published scores with the runs that can be compared with them, ranked."""
    for group in PUBLISHED:
        comparable = [
            run
            for run in runs
            if run.summary.group == group
            and OVERALL in run.summary.effective
            and set(run.summary.overall) & set(LENGTHS)
        ]
        if comparable:
            yield _beside(group, comparable)


def _beside(group: str, runs: Sequence[ScoredRun]) -> Table:
    file, number = PUBLISHED[group]
    lines: list[tuple[str, dict[int, float], dict[str, float], int | None]] = [
        (line.model, line.scores, line.averages, line.effective)
        for line in published(file)
        if line.table == number and line.ranks
    ]
    for run in runs:
        whole = run.summary.lengths == LENGTHS
        averages = {name: one.value for name, one in run.summary.averages.items() if whole}
        means = {length: one.value for length, one in run.summary.overall.items()}
        lines.append((run.label, means, averages, run.summary.effective[OVERALL].length))
    lines.sort(key=lambda line: -line[2].get("wavg_inc", -1))
    head = ("model", *map(format_length, LENGTHS), *AVERAGE_HEADS, "effective")
    rows = tuple(
        (
            name,
            *(format_number(scores.get(length), 1) for length in LENGTHS),
            *_ranked(averages, [line[2] for line in lines]),
            format_length(effective, max(scores)).replace("none", "<4K"),
        )
        for name, scores, averages, effective in lines
    )
    labels = {run.label for run in runs}
    marked = tuple(place for place, line in enumerate(lines) if line[0] in labels)
    editions = {run.results.run.data.edition for run in runs}
    rows_are = "other rows" if editions & {BALANCED, IMPORTED} else "rows of a like kind"
    caption = (
        f"Beside the paper's {group} models (arXiv 2404.06654, most likely measured on "
        f"{MEASURED_ON[file]}; {rows_are}, so neither paired nor with intervals), by "
        "wAvg. (inc); ranks in brackets"
    )
    return Table(f"published-{group}", caption, head, rows, marked)


def _ranked(averages: dict[str, float], every: Sequence[dict[str, float]]) -> Iterator[str]:
    for name in AVERAGES:
        if name not in averages:
            yield ""
            continue
        values = [line[name] for line in every if name in line]
        rank = ranks([averages[name], *values])[0]
        yield f"{averages[name]:.1f}" + (f" ({rank})" if name != "avg" else "")


def correlations(study: CorrelationStudy) -> Table:
    """Return the correlations between tasks."""
    rows = tuple(
        (task, *("" if np.isnan(value) else f"{value:.2f}" for value in line))
        for task, line in zip(study.tasks, study.matrix, strict=True)
    )
    caption = f"Correlations of {len(study.tasks)} tasks over {study.points} points, clustered"
    return Table("correlations", caption, ("task", *study.tasks), rows)


def by_task(run: ScoredRun) -> Table:
    """Return the scores of every task and category."""
    summary = run.summary
    rows = [(task, *summary.row(cells)) for task, cells in summary.cells.items()]
    tasks = len(rows)
    rows += [(f"mean: {name}", *summary.row(cells)) for name, cells in summary.categories.items()]
    rows.append((f"mean of {len(summary.tasks)} tasks", *summary.row(summary.overall)))
    head = ("task", *map(format_length, summary.lengths))
    caption = "Score by task and length, in percent, with 95 % intervals"
    return Table("tasks", caption, head, tuple(rows), tuple(range(tasks, len(rows))))


def answers(run: ScoredRun) -> Table:
    """Return every score of a config; rows cut off, empty, unscored."""
    heads = ("score", "strict", "exact", "F1", "completed only", "cut off", "empty", "unscored")
    summary, rows = run.summary, []
    columns = (summary.official, summary.strict, summary.exact, summary.f1, summary.completed)
    for name, config in run.results.configs.items():
        task, length = parse_config(name)
        means = (format_number(column.get(task, {}).get(length)) for column in columns)
        cut_off, empty = (
            format_share(len(some) / config.scored) if some else ""
            for some in (config.truncated, config.empty)
        )
        scored, unscored = f"{config.scored:,} of {config.rows:,}", config.rows - config.scored
        rows.append((task, format_length(length), scored, *means, cut_off, empty, f"{unscored:,}"))
    caption = (
        "Upstream's score, strict score (whole words; yes and no only first; reasoning stripped), "
        "exact score (all gold answers, and no other of their kind), F1, and score of the answers "
        "that were not cut off, in percent"
    )
    return Table("answers", caption, ("task", "length", "rows", *heads), tuple(rows))


def floors(run: ScoredRun) -> Table:
    """Return what answers score that ignore the question, beside the run's scores."""
    rows = []
    for name, config in run.results.configs.items():
        task, length = parse_config(name)
        if config.floor:
            is_exact = config.headline == "exact"
            means = run.summary.exact if is_exact else run.summary.official
            score = format_number(means.get(task, {}).get(length))
            floor, listing = (f"{100 * x:.1f}" for x in (config.floor.score, config.floor.listing))
            strategy = visible(config.floor.strategy)
            rows.append((task, format_length(length), score, floor, strategy, listing))
    caption = (
        "Score (official, or exact where that is the suite's headline) beside the floor, in "
        "percent: what the best strategy scores that never uses the question, and what listing "
        "every candidate scores"
    )
    head = ("task", "length", "score", "floor", "strategy", "listing")
    return Table("floors", caption, head, tuple(rows))


def failures(run: ScoredRun) -> Table:
    """Return how many rows failed in which way, by task and length."""
    present = {kind for config in run.results.configs.values() for kind in config.failures}
    kinds = [kind for kind in MEANINGS if kind in present] + sorted(present - set(MEANINGS))
    rows = []
    for name, config in run.results.configs.items():
        if config.failures:
            task, length = parse_config(name)
            counts = (str(len(config.failures.get(kind, ())) or "") for kind in kinds)
            rows.append((task, format_length(length), *counts))
    caption = "Rows that lost points or named more than the gold answers, by kind of failure"
    return Table("failures", caption, ("task", "length", *kinds), tuple(rows))


def study(run: ScoredRun, study: Study) -> Table:
    """Return the tasks of a study with the parameters that vary, and their scores."""
    head = (*(axis.label for axis in study.axes), "task", *map(format_length, run.summary.lengths))
    rows = tuple(
        (
            *map(format_value, point.values),
            point.task,
            *run.summary.row(run.summary.cells[point.task]),
        )
        for point in study.points
    )
    caption = f"{study.title}: score in percent by length in tokens, with 95 % intervals"
    return Table(f"study-{study.family}", caption, head, rows)


def spread(run: ScoredRun) -> Table:
    """Return how much the scores of the same questions depend on their prompt."""

    def extreme(one: Spread, place: int) -> str:
        return f"{format_number(one.means[place], 1)} ({one.tasks[place]})"

    head = ("length", "questions", "lowest", "highest", "spread", "p")
    rows = tuple(
        (
            format_length(one.length),
            str(one.rows),
            *(extreme(one, 0), extreme(one, -1)),
            *(format_number(one.points, 1), f"{one.p_value:.4f}"),
        )
        for one in run.summary.spreads
    )
    caption = (
        "Spread over prompts: tasks with the same questions, their lowest and highest score in "
        "percent, and the difference in percentage points; p is how often it is as great if each "
        "question's scores are assigned to the tasks at random"
    )
    return Table("spread", caption, head, rows)


def claims(run: ScoredRun) -> Iterator[Table]:
    """Yield the rates of false claims, where a question may have no answer."""
    claims, lengths = run.summary.claims, run.summary.lengths
    if claims is None:
        return

    def row(task: str, what: str, rates: dict[int, float]) -> tuple[str, ...]:
        return (task, what, *(format_number(rates.get(length), 1) for length in lengths))

    rows = [row(task, "present; says none", rates) for task, rates in claims.false_none.items()]
    rows += [
        row(task, "absent; names a value", rates) for task, rates in claims.hallucinated.items()
    ]
    balanced = run.summary.row(claims.balanced)
    rows.append(("balanced score", "mean of present and absent", *balanced))
    caption = (
        "False claims in percent of the rows, by length in tokens; and the balanced score, which "
        "is at most 50 for always or never saying none"
    )
    head = ("task", "needle; false claim", *map(format_length, lengths))
    yield Table("claims", caption, head, tuple(rows), (len(rows) - 1,))


def depth_grid(table: DepthTable) -> Table:
    """Return the scores of a task by depth and length, from a grid of depths."""
    rows = []
    for depth, values, counts in zip(table.depths, table.values, table.rows, strict=True):
        cells = zip(values, counts, strict=True)
        rows.append((depth, *(f"{value:.1f} (n={n:.0f})" if n else "" for value, n in cells)))
    caption = f"{table.task}: score in percent by depth in percent and by length; n is its rows"
    return Table(
        f"grid-{table.task}", caption, ("depth", *map(format_length, table.lengths)), tuple(rows)
    )


def facts(results: Results) -> Table:
    """Return everything that determined the scores of a run."""
    run, data = results.run, results.run.data
    lines = {
        "model": run.model,
        "model revision": run.model_revision or "not known",
        "protocol": run.protocol + (", without context" if run.no_context else ""),
        "engine": run.engine,
        **{f"engine: {name}": value for name, value in sorted(run.engine_info.items())},
        **{f"sampling: {name}": value for name, value in sorted(run.sampling.items())},
        "data": data.repo or "a folder",
        "data revision": data.revision or "none",
        "data version": data.data_version + (", sample corpus" if data.sample else ""),
        "edition": visible(data.edition),
        "suite and seed": f"{data.suite}, {data.seed if data.seed >= 0 else 'a private seed'}",
        "lengths counted in": f"{data.tokenizer} ({data.tokenizer_fingerprint[:16]})",
        "rows": f"{results.scored:,} of {results.rows:,} scored, in {len(results.configs)} configs",
        "run": results.fingerprint,
        "scored with": f"ruler-data {results.package_version}",
    }
    rows = tuple((name, _plain(value)) for name, value in lines.items())
    return Table("facts", "What determined these scores", ("what", "value"), rows)


def _plain(value: Any) -> str:  # noqa: ANN401 - any JSON value
    if isinstance(value, dict):
        return ", ".join(f"{key}={_plain(item)}" for key, item in sorted(value.items()))
    if isinstance(value, list | tuple):
        return ", ".join(map(_plain, value))
    return visible(str(value))[:200]
