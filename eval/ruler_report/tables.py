"""The tables of a report; every form of the report shows the same ones."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ruler_data.names import parse_config
from ruler_eval.scoring.labels import MEANINGS
from ruler_eval.scoring.results import ConfigScores, Param, Scores
from ruler_report.effective_length import OVERALL, OWN, ranks
from ruler_report.frame import AVERAGES, Name, weights
from ruler_report.means import Estimate
from ruler_report.procedures import LENGTHS, MEASURED_ON, PAPER, Published, published
from ruler_report.runs import RULER
from ruler_report.summary import CATEGORIES, ScoredRun, counted_tasks
from ruler_report.typesetting import Table, format_length, format_number, format_share, visible

FAILED = "Rows that lost points or named more than the gold answers,"

AVERAGE_HEADS = ("Avg.", "wAvg. (inc)", "wAvg. (dec)")

#: Tables of the paper that a run is shown beside, by group and by what they are the mean of.
PUBLISHED: dict[tuple[str, str], str] = {
    ("aligned", OVERALL): "3",
    ("base", OVERALL): "12",
    **{
        (group, category): str(number)
        for number, category in enumerate(CATEGORIES, 13)
        for group in ("aligned", "base")
    },
}

#: Labels of the runs that none is shown to be better than, by column; empty where all are.
Best = Mapping[Name, Collection[str]]

BOLD = "no run is shown to be better than those in bold"

#: Runs that stand side by side; more stand below each other.
SIDE_BY_SIDE = 6


def headline(runs: Sequence[ScoredRun], ranks: Sequence[str], best: Best) -> Table:
    """Return the means over all tasks of every run by length, as in the paper's Table 3."""
    lengths = sorted({length for run in runs for length in run.summary.lengths})
    ranked = any(ranks)
    head = ("model", *["rank"] * ranked, "effective", *map(format_length, lengths), *AVERAGE_HEADS)
    rows, grid = [], []
    for run, rank in zip(runs, ranks, strict=True):
        means = _means(run.summary.overall, lengths) + _means(run.summary.averages, AVERAGES)
        grid.append(means)
        reach = run.summary.headline_reach
        rows.append((run.label, *[rank] * ranked, reach, *_texts(means)))
    tasks = counted_tasks(runs)
    caption = f"Mean score over {tasks} by length in tokens, in percent, with 95 % intervals"
    caption += "; ranks, of runs with the same tasks and lengths, by their mean" * ranked
    start = len(head) - len(lengths) - len(AVERAGE_HEADS)
    bars = tuple(range(start, start + len(lengths)))
    reaching = frozenset(
        (y, x)
        for y, (run, means) in enumerate(zip(runs, grid, strict=True), 1)
        for x, mean in zip(bars, means, strict=False)
        if mean
        and mean.scored == mean.asked
        and (effective := run.summary.headline_length)
        and (mean.value or 0.0) >= effective.threshold
    )
    names: list[Name] = [*((None, length) for length in lengths), (None, None)]
    names += [(name, None) for name in AVERAGES[1:]]
    bold = frozenset(
        (y, x)
        for y, (run, means) in enumerate(zip(runs, grid, strict=True), 1)
        for x, (name, mean) in enumerate(zip(names, means, strict=True), start)
        if mean and run.label in best.get(name, ())
    )
    return Table("headline", caption, head, tuple(rows), (), bars, bold, BOLD, reaching)


def _means(means: Mapping[Any, Estimate], keys: Iterable[Any]) -> list[Estimate | None]:
    return [means.get(key) for key in keys]


def _texts(means: Iterable[Estimate | None]) -> tuple[str, ...]:
    """Return means as cells; empty where there is none."""
    return tuple("" if mean is None else str(mean) for mean in means)


def task_means(runs: Sequence[ScoredRun]) -> Table:
    """Return the scores of tasks and categories of every run, means over lengths."""
    columns: list[dict[Name, Estimate]] = [
        {
            **{(task, None): cell for task, cell in run.summary.by_task.items()},
            **{(name, None): cell for name, cell in run.summary.by_category.items()},
            **({(None, None): run.summary.mean} if run.summary.mean else {}),
        }
        for run in runs
    ]
    names = list(dict.fromkeys(name for column in columns for name in column))
    names.sort(key=lambda name: (name[0] is None, name[0] in CATEGORIES))
    heads = [
        "mean" if name is None else f"mean: {name}" if name in CATEGORIES else name
        for name, _ in names
    ]
    grid = [(head, *_texts(column.get(name) for column in columns))
            for head, name in zip(heads, names, strict=True)]  # fmt: skip
    head: tuple[str, ...] = ("task", *(run.label for run in runs))
    marked = tuple(place for place, (name, _) in enumerate(names) if name in (None, *CATEGORIES))
    if len(runs) > SIDE_BY_SIDE:
        head, *grid = zip(*[("model", *head[1:]), *grid], strict=True)
        marked = ()
    caption = "Score of each task, mean over its lengths, in percent, with 95 % intervals"
    return Table("scores", caption, head, tuple(grid), marked)


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
            *(format_length(n) if n else "" for n in run.results.window),
        )
        for run in runs
        for name, effective in run.summary.effective.items()
    )
    caption = (
        "Effective lengths: the longest at which the mean reaches a threshold, in percent; beside "
        "them the window that the model declares, and the one that it was trained on, where known"
    )
    head = ("model", "mean over", "threshold", "length", "not excluded", "declared", "trained")
    return Table("effective", caption, head, rows)


def failure_shares(runs: Sequence[ScoredRun]) -> Table:
    """Return the share of rows that failed in each way, of every run."""
    kinds = _kinds([config for run in runs for config in run.configs.values()])
    rows = []
    for kind in kinds:
        counts = (
            sum(len(config.failures.get(kind, ())) for config in run.configs.values())
            for run in runs
        )
        shares = (100 * n / run.results.scored for n, run in zip(counts, runs, strict=True))
        rows.append((kind, *(f"{share:.1f}" for share in shares)))
    head = ("kind", *(run.label for run in runs))
    bars = tuple(range(1, len(head)))
    return Table("kinds", f"{FAILED} by kind, in percent of all", head, tuple(rows), bars=bars)


def _kinds(configs: Iterable[ConfigScores]) -> list[str]:
    """Return the kinds of failure that occur, in their order; those of other versions last."""
    kinds = {kind for config in configs for kind in config.failures}
    return [kind for kind in MEANINGS if kind in kinds] + sorted(kinds - MEANINGS.keys())


def beside_published(runs: Sequence[ScoredRun]) -> Iterator[Table]:
    """Yield tables of published scores with the runs that can be compared with them, ranked."""
    for (group, column), number in PUBLISHED.items():
        columns = [
            (run, run.summary.overall if column == OVERALL else run.summary.categories[column])
            for run in runs
            if run.summary.group == group and column in run.summary.effective
        ]
        means = [
            (run, {n: mean for n, mean in by.items() if mean.scored == mean.asked})
            for run, by in columns
        ]
        if comparable := [(run, mean) for run, mean in means if {*mean} & {*LENGTHS}]:
            yield _beside(group, column, number, comparable)


def _beside(
    group: str, column: str, number: str, runs: Sequence[tuple[ScoredRun, Mapping[int, Estimate]]]
) -> Table:
    editions = {(run.results.run.data.edition, run.results.run.data.sample) for run, _ in runs}
    on_other_rows = editions != {(MEASURED_ON[PAPER], False)}
    paper = [
        line
        for line in published(PAPER)
        if (line.table, line.group) == (number, group) and line.averages
    ]
    lines = [*paper]
    for run, means in runs:
        scores = {length: mean.value or 0.0 for length, mean in means.items() if length in LENGTHS}
        whole = tuple(means) == LENGTHS
        averages = {
            name: float(weights(len(LENGTHS), name) @ np.array([*scores.values()]))
            for name in AVERAGES
            if whole
        }
        name = f"{run.label}, on other rows" if on_other_rows else run.label
        effective = run.summary.effective[column].length
        lines.append(Published(number, group, name, effective, scores, averages, {}))
    lines.sort(key=lambda line: -line.averages.get("wavg_inc", -1))
    rows = tuple(
        (
            line.model,
            *(format_number(line.scores.get(length), 1) for length in LENGTHS),
            *(_average_with_rank(line, name, lines) for name in AVERAGES),
            format_length(line.effective, max(line.scores)).replace("none", "<4K"),
        )
        for line in lines
    )
    where = "on other rows" if on_other_rows else "on rows of this edition with other questions"
    title = "13 tasks" if column == OVERALL else column
    caption = (
        f"{title[0].upper()}{title[1:]}, beside the paper's {group} models (Table {number} of "
        f"arXiv 2404.06654v3, most likely measured on {MEASURED_ON[PAPER]}); the runs are {where}, "
        "so neither paired nor with intervals; by wAvg. (inc), ranks in brackets"
    )
    head = ("model", *map(format_length, LENGTHS), *AVERAGE_HEADS, "effective")
    marked = tuple(place for place, line in enumerate(lines) if line not in paper)
    return Table(f"published-{group}-{number}", caption, head, rows, marked)


def _average_with_rank(line: Published, name: str, lines: Sequence[Published]) -> str:
    """Return an average over lengths with its rank; empty where a run lacks a length."""
    if name not in line.averages:
        return ""
    value = line.averages[name]
    (rank, *_) = ranks(
        [value, *(line_below.averages[name] for line_below in lines if name in line_below.averages)]
    )
    return f"{value:.1f}" + (f" ({rank})" if name != "avg" else "")


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
    heads = (
        "score", "floor", "listing", "exact", "F1", "completed only", "cut off", "empty",
        "unscored",
    )  # fmt: skip
    summary, rows = run.summary, []
    columns = (summary.official, summary.exact, summary.f1, summary.completed)
    for name, config in run.results.configs.items():
        task, length = parse_config(name)
        score, *means = (format_number(column.get(task, {}).get(length)) for column in columns)
        floors = ["", ""]
        if floor := config.floor:
            best = f"{100 * floor.score:.1f} ({visible(floor.strategy)})"
            floors = [best, f"{100 * floor.listing:.1f}"]
        shares = (
            format_share(len(answers_of_kind) / config.scored) if answers_of_kind else ""
            for answers_of_kind in (config.truncated, config.empty)
        )
        scored, unscored = f"{config.scored:,} of {config.rows:,}", config.rows - config.scored
        names = (task, format_length(length), scored)
        rows.append((*names, score, *floors, *means, *shares, f"{unscored:,}"))
    caption = (
        "Upstream's score, the floor of the headline score (best strategy without the question), "
        "what listing every candidate scores, exact score (all gold answers, and no other of "
        "their kind), F1, and score of the answers that were not cut off, in percent"
    )
    return Table("answers", caption, ("task", "length", "rows", *heads), tuple(rows))


def failures(run: ScoredRun) -> Table:
    """Return how many rows failed in which way, by task and length."""
    kinds = _kinds(run.results.configs.values())
    rows = []
    for name, config in run.results.configs.items():
        if config.failures:
            task, length = parse_config(name)
            counts = (str(len(config.failures.get(kind, ())) or "") for kind in kinds)
            rows.append((task, format_length(length), *counts))
    head = ("task", "length", *kinds)
    return Table("failures", f"{FAILED} by kind of failure", head, tuple(rows))


def varied(run: ScoredRun) -> Iterator[Table]:
    """Yield the tasks of each family with the parameters in which they differ, and their scores."""
    families: dict[str, dict[str, Mapping[str, Param]]] = {}
    for task in () if run.results.run.data.suite == RULER else run.summary.cells:
        configs = (config for name, config in run.results.configs.items()
                   if parse_config(name)[0] == task)  # fmt: skip
        config = next(configs)
        families.setdefault(config.family, {})[task] = config.params
    for family, tasks in families.items():
        names = {name for params in tasks.values() for name in params}
        varying = [name for name in sorted(names)
                   if len({str(params.get(name)) for params in tasks.values()}) > 1]  # fmt: skip
        if not varying:
            continue
        rows = tuple(
            (
                *(visible(str(params.get(name, ""))) for name in varying),
                task,
                *run.summary.row(run.summary.cells[task]),
            )
            for task, params in tasks.items()
        )
        head = (*map(visible, varying), "task", *map(format_length, run.summary.lengths))
        caption = f"Tasks of {visible(family)}: score in percent by length, with 95 % intervals"
        yield Table(f"varied-{family}", caption, head, rows)


def claims(run: ScoredRun) -> Iterator[Table]:
    """Yield the rates of false claims, where a question may have no answer."""
    claims, lengths = run.summary.claims, run.summary.lengths
    if claims is None:
        return

    rows = [
        (task, kind, *(format_number(by.get(length), 1) for length in lengths))
        for kind, rates in (
            ("present; says none", claims.false_none),
            ("absent; names a value", claims.hallucinated),
        )
        for task, by in rates.items()
    ]
    balanced = run.summary.row(claims.balanced)
    rows.append(("balanced score", "mean of present and absent", *balanced))
    caption = (
        "False claims in percent of the rows, by length in tokens; and the balanced score, which "
        "is at most 50 for always or never saying none"
    )
    head = ("task", "needle; false claim", *map(format_length, lengths))
    yield Table("claims", caption, head, tuple(rows), (len(rows) - 1,))


def facts(results: Scores) -> Table:
    """Return everything that determined the scores of a run."""
    run, data = results.run, results.run.data
    hardware = results.validity.hardware if results.validity else {}
    lines = {
        "model": run.model,
        "model revision": run.model_revision or "not known",
        "protocol": run.protocol + (", without context" if run.no_context else ""),
        "engine": run.engine,
        **({"hardware": ", ".join(hardware)} if hardware else {}),
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
