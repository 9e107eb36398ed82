"""The tables of a report; every form of it shows the same ones, read from its conclusion."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ruler_data.names import counted
from ruler_eval.scoring.labels import MEANINGS
from ruler_eval.scoring.scores import Scores
from ruler_report.columns import MEAN, Name
from ruler_report.conclusion import Conclusion
from ruler_report.effective_length import EffectiveLength
from ruler_report.means import Estimate, Gap
from ruler_report.typesetting import (
    Cell,
    Number,
    Table,
    format_length,
    format_number,
    format_share,
    format_signed,
    name_of,
    visible,
)
from ruler_report.words import format_ranks

#: Runs that stand side by side; more stand below each other.
SIDE_BY_SIDE = 6
#: What facts of the rows leave out: a line for each config.
DIGESTS = ("digests", "rows")
#: Behind a difference that its family shows.
STAR = "*"


def number(estimate: Estimate | None) -> Cell:
    """Return a mean with its interval as a cell; empty where there is none."""
    if estimate is None:
        return ""
    return Number(format_number(estimate.value, 1), estimate.interval)


def value_cell(conclusion: Conclusion, name: Name, run: int, *, digits: int) -> Cell:
    """Return a mean as a shaded cell, the other score beside it; empty where there is none."""
    value = conclusion.value(name, run)
    beside = format_number(conclusion.value_beside(name, run), digits)
    return _shaded(value, digits, beside)


def _shaded(value: float | None, digits: int, beside: str = "") -> Cell:
    if value is None:
        return ""
    return Number(format_number(value, digits), beside=beside, level=value)


def _beside(conclusion: Conclusion, name: Name, run: int) -> str:
    """Return a mean of the other score; empty where there is none."""
    return format_number(conclusion.value_beside(name, run), 1)


def scores(conclusion: Conclusion) -> Table:
    """Return the first table of a page: tasks by lengths of one run, or a line for each run."""
    if len(conclusion.runs) == 1:
        return _grid(conclusion, 0)
    return _lines(conclusion, "scores", [(None, length) for length in conclusion.frame.lengths])


def board(conclusion: Conclusion) -> Table:
    """Return a line for each run, with its categories, however many runs; a page sorts it."""
    names: list[Name] = [(None, length) for length in conclusion.frame.lengths]
    names += [(category, None) for category in conclusion.categories]
    return _lines(conclusion, "board", names)


#: What a score is.
SCORES = {
    "exact": "all gold answers and nothing else of their kind",
    "official": "upstream's: the share of the gold answers that the answer contains",
}


def _grid(conclusion: Conclusion, run: int) -> Table:
    """Return the scores of a run by task and length, the other score beside them."""
    lengths = conclusion.frame.lengths
    rows: list[tuple[Cell, ...]] = []
    for task in conclusion.frame.tasks:
        cells = [value_cell(conclusion, (task, length), run, digits=0) for length in lengths]
        rows.append((task, *cells))
    names: list[Name] = [(None, length) for length in lengths]
    rows.append(("mean", *(_shaded(conclusion.value(name, run), 1) for name in names)))
    score_beside = conclusion.beside_name
    rows.append((f"mean, {score_beside}", *(_beside(conclusion, name, run) for name in names)))
    caption = (
        f"{conclusion.score_name.capitalize()} score, beside it the {score_beside} score "
        f"({SCORES[score_beside]}), in percent by length in tokens"
    )
    head = ("task", *map(format_length, lengths))
    return Table("scores", caption, head, tuple(rows), (len(rows) - 2, len(rows) - 1))


def _lines(conclusion: Conclusion, title: str, names: Sequence[Name]) -> Table:
    """Return rank, mean, effective length and some more means of every run."""
    score_beside = conclusion.beside_name
    head = ("run", "rank", "mean", score_beside, "effective", *map(name_of, names))
    rows: list[tuple[Cell, ...]] = []
    for run in conclusion.order:
        cells: list[Cell] = [
            conclusion.names[run],
            format_ranks(conclusion.ranks.get(run)) or "none",
            number(conclusion.estimate(MEAN, run)),
            _beside(conclusion, MEAN, run),
            _reach(conclusion.effective(run)),
        ]
        cells += [_shaded(conclusion.value(name, run), 1) for name in names]
        rows.append(tuple(cells))
    caption = (
        f"Mean {conclusion.score_name} score of {counted(len(conclusion.frame.tasks), 'task')} in "
        f"percent, over all lengths and at each length in tokens; {score_beside}: "
        f"{SCORES[score_beside]}; rank: the ranks that the differences of the means do not exclude"
    )
    if any(reach and reach.is_own for reach in map(conclusion.effective, conclusion.order)):
        caption += "; effective: length at 85 % of the run's own score at its shortest length"
    return Table(title, caption, head, tuple(rows))


def _reach(effective: EffectiveLength | None) -> Cell:
    """Return an effective length, behind it what else is not excluded."""
    if effective is None:
        return ""
    return Number(effective.text, effective.alternatives, order=effective.length or 0)


def _names_by_task(conclusion: Conclusion) -> dict[str, Name]:
    """Return tasks, then categories and the mean over all, by what they are called in a table."""
    tasks = conclusion.frame.tasks
    names: dict[str, Name] = {task: (task, None) for task in tasks}
    names |= {f"mean: {category}": (category, None) for category in conclusion.categories}
    names[f"mean of {counted(len(tasks), 'task')}"] = MEAN
    return names


def task_means(conclusion: Conclusion) -> Table:
    """Return the scores of tasks and categories of every run, means over lengths."""
    names = _names_by_task(conclusion)
    lines: list[tuple[Cell, ...]] = []
    for run in conclusion.order:
        cells = [value_cell(conclusion, name, run, digits=1) for name in names.values()]
        lines.append((conclusion.names[run], *cells))
    caption = (
        f"Score of each task in percent, the mean over its lengths; in brackets the "
        f"{conclusion.beside_name} score"
    )
    if len(lines) > SIDE_BY_SIDE:
        return Table("tasks", caption, ("run", *names), tuple(lines))
    rows = tuple(zip(names, *(line[1:] for line in lines), strict=True))
    head = ("task", *(conclusion.names[run] for run in conclusion.order))
    return Table("tasks", caption, head, rows, _below_tasks(conclusion, rows))


def _below_tasks(conclusion: Conclusion, rows: Sequence[object]) -> tuple[int, ...]:
    """Return the places of the lines below those of the tasks."""
    return tuple(range(len(conclusion.frame.tasks), len(rows)))


def by_task(conclusion: Conclusion, run: int) -> Table:
    """Return the scores of every task and category of a run, with intervals."""
    lengths = conclusion.frame.lengths
    rows = []
    for title, name in _names_by_task(conclusion).items():
        names: list[Name] = [*((name[0], length) for length in lengths), name]
        cells = [number(conclusion.estimate(of_length, run)) for of_length in names]
        rows.append((title, *cells, _beside(conclusion, name, run)))
    head = ("task", *map(format_length, lengths), "mean", conclusion.beside_name)
    caption = "Score by task and length, in percent, with 95 % intervals"
    return Table("by-task", caption, head, tuple(rows), _below_tasks(conclusion, rows))


def comparison(conclusion: Conclusion, run: int) -> Table:
    """Return the differences of a run from the base by task and length."""
    paired = "paired"
    if not conclusion.is_paired(run):
        paired = "unpaired"
    caption = (
        f"{conclusion.names[run]} minus {conclusion.names[conclusion.base]}, {paired}, in "
        "percentage points, with 95 % intervals; a star: the difference is shown; the mean is "
        "tested with the means of all pairs, the other differences together, and each family errs "
        "in 5 %"
    )

    def cell(name: Name) -> Cell:
        return gap_cell(conclusion.gap(name, run))

    return _by_length(conclusion, "comparison", caption, cell)


def _by_length(
    conclusion: Conclusion, name: str, caption: str, cell: Callable[[Name], Cell]
) -> Table:
    """Return a table of tasks and their mean, over all lengths and by length."""
    lengths = conclusion.frame.lengths
    rows = []
    for task in (*conclusion.frame.tasks, None):
        cells = [cell((task, length)) for length in (None, *lengths)]
        rows.append((task or "mean", *cells))
    head = ("task", "mean", *map(format_length, lengths))
    return Table(name, caption, head, tuple(rows), (len(rows) - 1,))


def gap_cell(gap: Gap | None) -> Cell:
    """Return a difference as a cell; a star if it is shown."""
    if gap is None:
        return ""
    mark = ""
    if gap.shown:
        mark = STAR
    return Number(format_signed(gap.value), gap.interval, mark=mark)


def effective_lengths(conclusion: Conclusion) -> Table:
    """Return the effective lengths of every run, with their uncertainty."""
    rows = []
    for run in conclusion.order:
        window = [format_length(n) if n else "" for n in conclusion.runs[run].window]
        for reach in (conclusion.paper_length(run), conclusion.own_length(run)):
            if reach is None:
                continue
            shortest = format_length(conclusion.frame.lengths[0])
            threshold = f"85 % of its own score at {shortest}" if reach.is_own else "the paper's"
            numbers = (f"{reach.threshold:.1f}", reach.text, reach.open_lengths)
            rows.append((conclusion.names[run], threshold, *numbers, *window))
    caption = (
        "Effective lengths: the longest at which the mean of all tasks reaches a threshold in "
        "percent; then the window that the model declares, and the window that it was trained on, "
        "where known"
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
    rows: list[tuple[Cell, ...]] = []
    for run in conclusion.order:
        cost = conclusion.cost(run)
        cells: list[Cell] = [
            conclusion.names[run],
            format_number(conclusion.value(MEAN, run), 1),
            _beside(conclusion, MEAN, run),
            f"{cost.lines:,}",
            format_share(cost.truncated),
            format_share(cost.empty),
            format_number(cost.tokens, 0),
            format_number(cost.seconds, 2),
            format_number(cost.speed, 0),
            format_number(cost.money, 4),
        ]
        rows.append(tuple(cells))
    head = (
        "run", conclusion.score_name, conclusion.beside_name, "answers", "cut off", "empty",
        "tokens", "seconds", "tokens per second", "cost",
    )  # fmt: skip
    caption = (
        "Scores in percent, and what the answers cost: the shares that were cut off or empty; "
        "tokens (read and generated) and seconds of an answer; tokens per second of one request, "
        "even where several ran at the same time; the cost of all answers, as the server states it"
    )
    return Table("cost", caption, head, tuple(rows))


def facts(run: Scores) -> Table:
    """Return everything that determined the scores of a run."""
    values: dict[str, Any] = {}
    for name, value in asdict(run.run).items():
        if isinstance(value, Mapping):
            values |= {f"{name}: {key}": item for key, item in value.items() if key not in DIGESTS}
        else:
            values[name] = value
    values |= {"hardware": [*run.validity.hardware], "run": run.fingerprint, "scorer": run.scorer}
    values["answers"] = f"{run.answered:,} of {run.rows:,} scored"
    rows = [(visible(name), _plain(value)) for name, value in values.items()]
    known = tuple((name, text) for name, text in rows if text)
    return Table("facts", "What determined these scores", ("what", "value"), known)


def _plain(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return a value as one line; nothing for what is not known."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_plain(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_plain, value))
    return visible(str(value))[:200]
