"""The tables of a report; every form of it shows the same ones, read from its conclusion."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from ruler_data.names import counted
from ruler_data.tasks import Category
from ruler_eval.scoring.labels import MEANINGS
from ruler_eval.scoring.scores import Scores
from ruler_report.columns import AVERAGES, MEAN, Name, weights
from ruler_report.conclusion import Conclusion, group_of
from ruler_report.effective_length import EffectiveLength, ranks
from ruler_report.means import Estimate, Gap
from ruler_report.procedures import LENGTHS, MEASURED_ON, PAPER, Published, published
from ruler_report.typesetting import (
    Cell,
    Number,
    Table,
    format_length,
    format_number,
    format_share,
    format_signed,
    visible,
)
from ruler_report.words import format_ranks

CATEGORIES: tuple[Category, ...] = get_args(Category)
#: Tables of the paper that a run is shown beside, by what they are the mean of.
PUBLISHED = {
    "aligned": {None: "3"} | {name: str(n) for n, name in enumerate(CATEGORIES, 13)},
    "base": {None: "12"} | {name: str(n) for n, name in enumerate(CATEGORIES, 13)},
}
AVERAGE_HEADS = ("Avg.", "wAvg. (inc)", "wAvg. (dec)")
#: Runs that stand side by side; more stand below each other.
SIDE_BY_SIDE = 6
#: Behind a difference that its family shows.
STAR = "*"


def number(
    estimate: Estimate | None, beside: float | None = None, *, digits: int = 1, shaded: bool = False
) -> Cell:
    """Return a mean as a cell, the other score beside it; empty where there is none."""
    if estimate is None:
        return ""
    interval = ""
    if estimate.low is not None and estimate.high is not None:
        interval = f"{estimate.low:.1f}, {estimate.high:.1f}"
    level = estimate.value if shaded else None
    return Number(
        format_number(estimate.value, digits), interval, format_number(beside, digits), level
    )


def plain_number(value: float | None, beside: float | None, *, digits: int) -> Cell:
    """Return a mean without its interval as a shaded cell; empty where there is none."""
    if value is None:
        return ""
    return Number(format_number(value, digits), "", format_number(beside, digits), level=value)


def scores(conclusion: Conclusion) -> Table:
    """Return the first table of a page: tasks by lengths of one run, or a line for each run."""
    return _grid(conclusion, 0) if len(conclusion.runs) == 1 else _lines(conclusion)


def _grid(conclusion: Conclusion, run: int) -> Table:
    """Return the scores of a run by task and length, the other score beside them."""
    lengths = conclusion.frame.lengths
    rows: list[tuple[Cell, ...]] = []
    for task in conclusion.frame.tasks:
        cells = (_value(conclusion, (task, length), run, digits=0) for length in lengths)
        rows.append((task, *cells))
    names: list[Name] = [(None, length) for length in lengths]
    first = (plain_number(conclusion.value(name, run), None, digits=1) for name in names)
    beside = (format_number(conclusion.value_beside(name, run), 1) for name in names)
    rows.append(("mean", *first))
    rows.append((f"mean, {conclusion.beside_name}", *beside))
    caption = f"{conclusion.score_name.capitalize()} score, beside it the {conclusion.beside_name} "
    caption += f"score ({SCORES[conclusion.beside_name]}), in percent by length in tokens"
    head = ("task", *map(format_length, lengths))
    return Table("scores", caption, head, tuple(rows), (len(rows) - 2, len(rows) - 1))


#: What a score is.
SCORES = {
    "exact": "all gold answers and nothing else of their kind",
    "official": "upstream's: the share of the gold answers that the answer contains",
}


def _value(conclusion: Conclusion, name: Name, run: int, *, digits: int) -> Cell:
    value = conclusion.value(name, run)
    return plain_number(value, conclusion.value_beside(name, run), digits=digits)


def _lines(conclusion: Conclusion) -> Table:
    """Return rank, mean, effective length and means by length of every run."""
    lengths = conclusion.frame.lengths
    head = (
        "run",
        "rank",
        "mean",
        conclusion.beside_name,
        "effective",
        *map(format_length, lengths),
    )
    rows: list[tuple[Cell, ...]] = []
    for run in conclusion.order:
        effective = conclusion.effective(run)
        rows.append(
            (
                conclusion.names[run],
                format_ranks(conclusion.ranks.get(run)) or "none",
                number(conclusion.estimate(MEAN, run)),
                format_number(conclusion.value_beside(MEAN, run), 1),
                _reach(effective),
                *(_mean(conclusion, length, run) for length in lengths),
            )
        )
    other = conclusion.beside_name
    caption = (
        f"Mean {conclusion.score_name} score of {counted(len(conclusion.frame.tasks), 'task')} in "
        f"percent, overall and by length in tokens, beside it the {other} score "
        f"({SCORES[other]}); ranks are all that the differences of the means leave open"
    )
    if any(reach and reach.is_own for reach in map(conclusion.effective, conclusion.order)):
        caption += "; effective length at 85 % of the run's own score at its shortest length"
    return Table("scores", caption, head, tuple(rows))


def _mean(conclusion: Conclusion, length: int, run: int) -> Cell:
    return plain_number(conclusion.value((None, length), run), None, digits=1)


def _reach(effective: EffectiveLength | None) -> Cell:
    """Return an effective length, behind it what else is not excluded."""
    if effective is None:
        return ""
    text = format_length(effective.length, effective.longest)
    return Number(text, "" if text == effective.open_lengths else effective.open_lengths)


def task_means(conclusion: Conclusion) -> Table:
    """Return the scores of tasks and categories of every run, means over lengths."""
    names: list[Name] = [(task, None) for task in conclusion.frame.tasks]
    names += [(category, None) for category in conclusion.categories]
    names.append(MEAN)
    heads = [_head(conclusion, name) for name in names]
    grid: list[tuple[Cell, ...]] = []
    for name, head in zip(names, heads, strict=True):
        cells = [_value(conclusion, name, run, digits=1) for run in conclusion.order]
        grid.append((head, *cells))
    columns: tuple[str, ...] = ("task", *(conclusion.names[run] for run in conclusion.order))
    marked = tuple(range(len(conclusion.frame.tasks), len(grid)))
    if len(conclusion.runs) > SIDE_BY_SIDE:
        columns = ("run", *heads)
        grid = [
            (conclusion.names[run], *(row[place] for row in grid))
            for place, run in enumerate(conclusion.order, 1)
        ]
        marked = ()
    caption = (
        f"Score of each task, mean over its lengths, in percent; beside it the "
        f"{conclusion.beside_name} score"
    )
    return Table("tasks", caption, columns, tuple(grid), marked)


def _head(conclusion: Conclusion, name: Name) -> str:
    """Return what a mean is called in the first column of a table."""
    if name == MEAN:
        return f"mean of {counted(len(conclusion.frame.tasks), 'task')}"
    if name[0] in conclusion.frame.tasks:
        return str(name[0])
    return f"mean: {name[0]}"


def by_task(conclusion: Conclusion, run: int) -> Table:
    """Return the scores of every task and category of a run, with intervals."""
    lengths = conclusion.frame.lengths
    names: list[Name] = [(task, None) for task in conclusion.frame.tasks]
    names += [(category, None) for category in conclusion.categories]
    names.append(MEAN)
    rows = []
    for name in names:
        cells = [number(conclusion.estimate((name[0], length), run)) for length in lengths]
        exact = format_number(conclusion.value_beside(name, run), 1)
        mean = number(conclusion.estimate(name, run))
        rows.append((_head(conclusion, name), *cells, mean, exact))
    head = ("task", *map(format_length, lengths), "mean", conclusion.beside_name)
    caption = "Score by task and length, in percent, with 95 % intervals"
    marked = tuple(range(len(conclusion.frame.tasks), len(rows)))
    return Table("by-task", caption, head, tuple(rows), marked)


def comparison(conclusion: Conclusion, run: int) -> Table:
    """Return the differences of a run from the base by task and length."""
    lengths = conclusion.frame.lengths
    rows = []
    for task in (*conclusion.frame.tasks, None):
        names: list[Name] = [(task, None), *((task, length) for length in lengths)]
        cells = [gap_cell(conclusion.gap(name, run)) for name in names]
        rows.append((task or "mean", *cells))
    base = conclusion.names[conclusion.base]
    paired = "paired" if conclusion.is_paired(run) else "unpaired"
    caption = (
        f"{conclusion.names[run]} minus {base}, {paired}, in percentage points, with 95 % "
        "intervals; * shown: the mean in the family of all means, everything else in a family of "
        "its own, each of which errs in 5 %"
    )
    head = ("task", "mean", *map(format_length, lengths))
    return Table("comparison", caption, head, tuple(rows), (len(rows) - 1,))


def gap_cell(gap: Gap | None) -> Cell:
    """Return a difference as a cell; a star if it is shown."""
    if gap is None:
        return ""
    interval = ""
    if gap.low is not None and gap.high is not None:
        interval = f"{gap.low:+.1f}, {gap.high:+.1f}"
    return Number(format_signed(gap.value), interval, mark=STAR if gap.shown else "")


def retention(conclusion: Conclusion, run: int) -> Table:
    """Return the scores of a run in percent of the base's, by task and length."""
    lengths = conclusion.frame.lengths
    rows = []
    for task in (*conclusion.frame.tasks, None):
        cells = [number(conclusion.retention((task, length), run)) for length in (None, *lengths)]
        rows.append((task or "mean", *cells))
    base = conclusion.names[conclusion.base]
    caption = f"{conclusion.names[run]} in percent of {base}, with 95 % intervals"
    head = ("task", "mean", *map(format_length, lengths))
    return Table("retention", caption, head, tuple(rows), (len(rows) - 1,))


def effective_lengths(conclusion: Conclusion) -> Table:
    """Return the effective lengths of every run, with their uncertainty."""
    rows = []
    for run in conclusion.order:
        window = [format_length(n) if n else "" for n in conclusion.runs[run].window]
        for reach in (conclusion.paper_length(run), conclusion.own_length(run)):
            if reach is None:
                continue
            shortest = format_length(conclusion.frame.lengths[0])
            threshold = f"85 % of its own {shortest}" if reach.is_own else "the paper's"
            length = format_length(reach.length, reach.longest)
            numbers = (f"{reach.threshold:.1f}", length, reach.open_lengths)
            rows.append((conclusion.names[run], threshold, *numbers, *window))
    caption = (
        "Effective lengths: the longest at which the mean of all tasks reaches a threshold, in "
        "percent; beside them the window that the model declares, and the one that it was trained "
        "on, where known"
    )
    head = ("run", "threshold", "percent", "length", "not excluded", "declared", "trained")
    return Table("effective", caption, head, tuple(rows))


def failure_shares(conclusion: Conclusion) -> Table:
    """Return the share of answers that failed in each way, of every run."""
    counts = {run: conclusion.failures(run).sum() for run in conclusion.order}
    answers = {run: max(1, len(conclusion.lines(run))) for run in conclusion.order}
    kinds = [kind for kind in MEANINGS if any(kind in count for count in counts.values())]
    rows: list[tuple[Cell, ...]] = []
    for kind in kinds:
        shares = (100 * counts[run].get(kind, 0) / answers[run] for run in conclusion.order)
        rows.append((kind, *(Number(f"{share:.1f}", level=share) for share in shares)))
    head = ("kind", *(conclusion.names[run] for run in conclusion.order))
    caption = (
        "Answers that lost points or named more than the gold answers, by kind, in percent of all"
    )
    return Table("kinds", caption, head, tuple(rows))


def failures(conclusion: Conclusion, run: int) -> Table:
    """Return how many answers failed in which way, by task and length."""
    counts = conclusion.failures(run)
    kinds = [kind for kind in MEANINGS if kind in counts.columns]
    rows = []
    for task, length in conclusion.frame.cells:
        if (task, length) in counts.index:
            numbers = (str(counts.loc[(task, length), kind] or "") for kind in kinds)
            rows.append((task, format_length(length), *numbers))
    caption = "Answers that lost points or named more than the gold answers, by kind of failure"
    return Table("failures", caption, ("task", "length", *kinds), tuple(rows))


def costs(conclusion: Conclusion) -> Table:
    """Return scores beside what the answers cost, as far as their records tell."""
    rows = []
    for run in conclusion.order:
        cost = conclusion.cost(run)
        speed = cost.tokens / cost.seconds if cost.tokens and cost.seconds else None
        rows.append(
            (
                conclusion.names[run],
                format_number(conclusion.value(MEAN, run), 1),
                format_number(conclusion.value_beside(MEAN, run), 1),
                f"{cost.lines:,}",
                format_share(cost.truncated),
                format_share(cost.empty),
                "" if cost.tokens is None else f"{cost.tokens:,.0f}",
                format_number(cost.seconds, 2),
                "" if speed is None else f"{speed:,.0f}",
                format_number(cost.money, 4),
            )
        )
    head = (
        "run", conclusion.score_name, conclusion.beside_name, "answers", "cut off", "empty",
        "tokens", "seconds", "tokens per second", "cost",
    )  # fmt: skip
    caption = (
        "Scores in percent beside what the answers cost: answers cut off and empty; tokens (read "
        "and generated) and seconds of an answer, and tokens a second of one request, also where "
        "several ran at the same time; cost of all answers, as the server states it"
    )
    return Table("cost", caption, head, tuple(rows))


def beside_published(conclusion: Conclusion) -> Iterator[Table]:
    """Yield tables of published scores with the runs that can be compared with them, ranked."""
    if {*conclusion.frame.lengths}.isdisjoint(LENGTHS):
        return
    for group, tables in PUBLISHED.items():
        runs = [
            run
            for run in conclusion.order
            if group_of(conclusion.runs[run]) == group and conclusion.paper_length(run)
        ]
        for category, table in tables.items():
            if runs:
                yield _beside(conclusion, runs, group, category, table)


def _beside(
    conclusion: Conclusion, runs: Sequence[int], group: str, category: str | None, table: str
) -> Table:
    """Return a table of the paper with some runs in it."""
    data = [conclusion.runs[run].run.data for run in runs]
    on_other_rows = {(info.edition, info.sample) for info in data} != {(MEASURED_ON[PAPER], False)}
    lines = _paper_lines(group, table)
    ours = [_published_line(conclusion, run, group, category, table) for run in runs]
    lines += ours
    lines.sort(key=lambda line: -line.averages.get("wavg_inc", -1))
    rows: list[tuple[Cell, ...]] = []
    for line in lines:
        cells = _published_cells(line, lines)
        if line in ours and on_other_rows:
            cells[0] += ", on other rows"
        if category is None:
            reach = format_length(line.effective, max(line.scores))
            cells.append(reach.replace("none", "<4K"))
        rows.append(tuple(cells))
    where = "on other rows" if on_other_rows else "on rows of this edition with other questions"
    title = category or "13 tasks"
    caption = (
        f"{title[0].upper()}{title[1:]}, beside the paper's {group} models (Table {table} of "
        f"arXiv 2404.06654v3, most likely measured on {MEASURED_ON[PAPER]}); the runs are {where}, "
        "so neither paired nor with intervals; by wAvg. (inc), ranks in brackets"
    )
    head = ("model", *map(format_length, LENGTHS), *AVERAGE_HEADS)
    if category is None:
        head = (*head, "effective")
    marked = tuple(place for place, line in enumerate(lines) if line in ours)
    return Table(f"published-{group}-{table}", caption, head, tuple(rows), marked)


def _paper_lines(group: str, table: str) -> list[Published]:
    """Return the lines of a table of the paper, for its base or its aligned models."""
    of_table = [line for line in published(PAPER) if line.table == table and line.group == group]
    return [line for line in of_table if line.averages]


def _published_cells(line: Published, lines: Sequence[Published]) -> list[str]:
    """Return the cells of a line: its model, its scores and its averages with their ranks."""
    scores_of_line = [format_number(line.scores.get(length), 1) for length in LENGTHS]
    averages = [_average_with_rank(line, average, lines) for average in AVERAGES]
    return [line.model, *scores_of_line, *averages]


def _published_line(
    conclusion: Conclusion, run: int, group: str, category: str | None, table: str
) -> Published:
    """Return a run as a line of a table of the paper."""
    means = {length: conclusion.value((category, length), run) for length in LENGTHS}
    means_of_run = {length: mean for length, mean in means.items() if mean is not None}
    averages = {}
    if tuple(means_of_run) == LENGTHS and conclusion.frame.lengths == LENGTHS:
        for kind in AVERAGES:
            shares = weights(len(LENGTHS), kind).tolist()
            products = zip(shares, means_of_run.values(), strict=True)
            averages[kind] = sum(share * mean for share, mean in products)
    reach = conclusion.paper_length(run)
    effective = reach.length if reach else None
    return Published(table, group, conclusion.names[run], effective, means_of_run, averages, {})


def _average_with_rank(line: Published, name: str, lines: Sequence[Published]) -> str:
    """Return an average over lengths with its rank; empty where a run lacks a length."""
    if name not in line.averages:
        return ""
    value = line.averages[name]
    rivals = [rival.averages[name] for rival in lines if name in rival.averages]
    rank = ranks([value, *rivals])[0]
    return f"{value:.1f}" if name == "avg" else f"{value:.1f} ({rank})"


def facts(run: Scores) -> Table:
    """Return everything that determined the scores of a run."""
    info = run.run
    data = info.data
    seed = "a private seed" if data.seed < 0 else str(data.seed)
    without_context = ", without context" if info.no_context else ""
    lines: dict[str, Any] = {
        "model": info.model,
        "model revision": info.model_revision or "not known",
        "protocol": f"{info.protocol}{without_context}",
        "engine": info.engine,
    }
    if run.validity.hardware:
        lines["hardware"] = ", ".join(run.validity.hardware)
    lines |= {f"engine: {name}": value for name, value in sorted(info.engine_info.items())}
    lines |= {f"sampling: {name}": value for name, value in sorted(info.sampling.items())}
    lines |= {
        "data": data.repo or "a folder",
        "data revision": data.revision or "none",
        "data version": data.data_version + (", sample corpus" if data.sample else ""),
        "edition": data.edition,
        "suite and seed": f"{data.suite}, {seed}",
        "lengths counted in": f"{data.tokenizer} ({data.tokenizer_fingerprint[:16]})",
        "answers": f"{run.answered:,} of {run.rows:,} scored",
        "run": run.fingerprint,
        "scorer": run.scorer,
    }
    rows = tuple((visible(name), _plain(value)) for name, value in lines.items())
    return Table("facts", "What determined these scores", ("what", "value"), rows)


def _plain(value: Any) -> str:  # noqa: ANN401 - any JSON value
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_plain(item)}" for key, item in sorted(value.items()))
    if isinstance(value, list | tuple):
        return ", ".join(map(_plain, value))
    return visible(str(value))[:200]
