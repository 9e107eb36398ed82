"""Lines and dots: scores by length, depth, step and parameter, a line for each run."""

import math
import re
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from ruler_report.figures.style import COLOURS, GRID, INK, Axes, Drawing, shown_name, slug, stroke
from ruler_report.format import format_length
from ruler_report.results import Param
from ruler_report.stats.depth import shown_by_depth
from ruler_report.stats.effective_length import OVERALL, THRESHOLDS
from ruler_report.stats.score_table import Estimate
from ruler_report.stats.summary import CATEGORIES, ScoredRun
from ruler_report.stats.sweeps import Study, format_value

#: An axis is logarithmic if its largest value is at least this many times its smallest.
WIDE = 8
#: Characters of a name on an axis.
SHORT = 20
#: Runs whose intervals still stand apart in one row of dots.
FEW = 3
#: A training step in the name or revision of a model, `checkpoint-500` or `step_1000`.
STEP = re.compile(r"(?:steps?|checkpoint|ckpt|iter)[-_ ]?(\d+)(?![\d.]*[bB])", re.IGNORECASE)
#: A point on each line, at a place on the x axis.
Line = Sequence[tuple[float, Estimate]]
Ticks = Sequence[tuple[float, str]]


def draw_lines(
    axes: Axes, title: str, lines: Sequence[Line], ticks: Ticks, threshold: float | None = None
) -> None:
    """Draw lines with their intervals, each labelled with its number at its end."""
    places = [place for place, _ in ticks]
    span = (places[-1] - places[0]) or 1.0
    axes.set_title(title)
    axes.grid(axis="y")
    if threshold is not None:
        axes.axhline(threshold, color=INK, linewidth=0.7, linestyle=(0, (4, 3)))
    for number, line in enumerate(lines):
        # Shifted a little, so that intervals of different lines do not overlap.
        shift = (number - (len(lines) - 1) / 2) * min(0.015, 0.09 / len(lines)) * span
        xs, cells = [place + shift for place, _ in line], [cell for _, cell in line]
        lows, highs = [cell.low for cell in cells], [cell.high for cell in cells]
        look = stroke(number)
        axes.vlines(xs, lows, highs, color=look["color"], linewidth=0.8, alpha=0.5)
        axes.plot(xs, [cell.value for cell in cells], **look)
    axes.set_xticks(places, [text for _, text in ticks])
    axes.set_xlim(places[0] - 0.08 * span, places[-1] + 0.08 * span)
    axes.set_yticks(range(0, 101, 25))
    axes.set_ylim(-4, 104)
    if len(lines) > 1:
        ends = {number: line[-1][1].value for number, line in enumerate(lines) if line}
        height = axes.get_window_extent().height / axes.figure.dpi * 72  # in points
        for number, y in apart(ends, 108 * 6.5 / height).items():
            axes.annotate(
                str(number + 1),
                (1, y),
                (3, 0),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                va="center",
                fontsize="small",
                fontweight="bold",
                color=COLOURS[number % len(COLOURS)],
                annotation_clip=False,
            )


def apart(ends: dict[int, float], gap: float) -> dict[int, float]:
    """Return the heights of labels, moved so that neighbours are a gap apart.

    >>> apart({0: 50.0, 1: 52.0, 2: 90.0}, gap=6.0)
    {0: 48.0, 1: 54.0, 2: 90.0}
    """
    groups = [([number], y) for number, y in sorted(ends.items(), key=lambda end: end[1])]
    place = 0
    while place + 1 < len(groups):  # labels that would touch are centred on their mean
        (below, low), (above, high) = groups[place : place + 2]
        if high - low >= gap * (len(below) + len(above)) / 2:
            place += 1
            continue
        middle = (low * len(below) + high * len(above)) / (len(below) + len(above))
        groups[place : place + 2] = [(below + above, middle)]
        place = max(0, place - 1)
    return {
        number: middle + gap * (rank - (len(members) - 1) / 2)
        for members, middle in groups
        for rank, number in enumerate(members)
    }


def by_length(runs: Sequence[ScoredRun]) -> Iterator[Drawing]:
    """Yield the scores of every task by length, if there are several lengths."""
    lengths = sorted({length for run in runs for length in run.summary.lengths})
    if len(lengths) < 2:
        return
    ticks = [(math.log2(length), format_length(length)) for length in lengths]
    groups = {run.summary.group for run in runs if OVERALL in run.summary.effective}
    threshold = THRESHOLDS[groups.pop()][OVERALL] if len(groups) == 1 else None
    tasks = tasks_of(runs)
    panels = [
        partial(draw_lines, title=task, lines=_at_lengths(columns), ticks=ticks)
        for task in tasks
        if (columns := [run.summary.cells.get(task, {}) for run in runs])
    ]  # fmt: skip
    if len(tasks) > 1 and any(run.summary.overall for run in runs):
        lines = _at_lengths([run.summary.overall for run in runs])
        title = f"mean of {len(tasks)} tasks"
        panels.insert(
            0, partial(draw_lines, title=title, lines=lines, ticks=ticks, threshold=threshold)
        )
    yield Drawing(
        "lengths",
        "Score in percent by length in tokens, with 95 % intervals",
        _words("Mean score over all tasks", runs, [run.summary.overall for run in runs]),
        panels,
        series=names_of(runs),
    )


def _at_lengths(columns: Sequence[dict[int, Estimate]]) -> list[Line]:
    return [[(math.log2(x), cell) for x, cell in sorted(column.items())] for column in columns]


def _words(what: str, runs: Sequence[ScoredRun], columns: Sequence[dict[int, Estimate]]) -> str:
    scores = (
        f"{shown_name(run.label)} "
        + ", ".join(f"{cell.value:.1f} at {format_length(x)}" for x, cell in sorted(column.items()))
        for run, column in zip(runs, columns, strict=True)
    )
    return f"{what}, in percent: {'; '.join(scores)}."


def names_of(runs: Sequence[ScoredRun]) -> list[str]:
    """Return the names of series; none for one run, which needs no key."""
    return [run.label for run in runs] if len(runs) > 1 else []


def tasks_of(runs: Sequence[ScoredRun]) -> list[str]:
    """Return the tasks of all runs, in the order of the first."""
    return list(dict.fromkeys(task for run in runs for task in run.summary.tasks))


def dots(runs: Sequence[ScoredRun]) -> Drawing:
    """Return the scores of every task as dots, those of a task joined: a dumbbell of two runs."""
    tasks = tasks_of(runs)
    columns = [[run.summary.by_task.get(task) for task in tasks] for run in runs]
    names = [shown_name(run.label) for run in runs]
    pairs = (
        f"{task} " + " and ".join(f"{cell.value:.1f}" for cell in row if cell)
        for task, row in zip(tasks, zip(*columns, strict=True), strict=True)
    )
    return Drawing(
        "tasks",
        "Score of each task in percent, mean over its lengths"
        + (", with 95 % intervals" if len(runs) <= FEW else ", from the lowest run to the highest"),
        f"Score in percent, by run ({', '.join(names)}): {'; '.join(pairs)}.",
        [partial(_draw_dots, tasks=tasks, columns=columns)],
        (4.6, 0.5 + 0.24 * len(tasks)),
        names_of(runs),
    )


def _draw_dots(
    axes: Axes, tasks: Sequence[str], columns: Sequence[Sequence[Estimate | None]]
) -> None:
    for place, row in enumerate(zip(*columns, strict=True)):
        values = [cell.value for cell in row if cell]
        axes.hlines(place, min(values), max(values), color=GRID, linewidth=3)
        for number, cell in enumerate(row):
            if cell is None:
                continue
            y = place + (0.22 * (number - (len(row) - 1) / 2) if len(row) <= FEW else 0)
            look = stroke(number)
            if len(row) <= FEW:
                axes.hlines(y, cell.low, cell.high, color=look["color"], linewidth=0.9, alpha=0.6)
            axes.plot(cell.value, y, **{**look, "markersize": 4.6}, alpha=0.9)
    axes.set_yticks(range(len(tasks)), tasks)
    axes.set_ylim(len(tasks) - 0.5, -0.5)
    axes.set_xlim(-2, 102)
    axes.grid(axis="x")


def by_depth(runs: Sequence[ScoredRun]) -> Iterator[Drawing]:
    """Yield the evidence shown by depth, a panel for each category, pooled over lengths."""
    panels, words = [], []
    for category in CATEGORIES:
        lines: list[Line] = []
        for run in runs:
            tasks = [t for t in run.summary.tasks if run.summary.category_of[t] == category]
            cells = shown_by_depth(run, tasks, run.summary.lengths)
            middles = (np.arange(len(cells)) + 0.5) * 100 / max(1, len(cells))
            lines.append(list(zip(middles.tolist(), cells, strict=True)))
            if cells:
                worst = min(range(len(cells)), key=lambda i: cells[i].value)
                words.append(
                    f"{category}, {shown_name(run.label)}: lowest {cells[worst].value:.0f} at "
                    f"depth {100 * worst // len(cells)} to {100 * (worst + 1) // len(cells)}"
                )
        if any(lines):
            ticks = [(float(depth), str(depth)) for depth in range(0, 101, 25)]
            panels.append(partial(draw_lines, title=category, lines=lines, ticks=ticks))
    if panels:
        title = "Evidence shown, in percent, by its depth in the context (0 is its beginning)"
        yield Drawing(
            "depth", title, f"{title}. {'; '.join(words)}.", panels, (2.6, 1.9), names_of(runs)
        )


def by_step(runs: Sequence[ScoredRun]) -> Iterator[Drawing]:
    """Yield the mean of each category against the training step, of runs that name theirs."""
    steps = {step: run for run in runs if (step := step_of(run)) is not None}
    if len(steps) < 2 or len(steps) < len(runs):
        return
    marks = sorted(steps)
    shown = marks if len(marks) <= 6 else marks[:: -(-len(marks) // 5)]
    ticks = [(float(step), f"{step:,}") for step in shown]
    if shown[-1] != marks[-1]:
        ticks.append((float(marks[-1]), f"{marks[-1]:,}"))
    columns = {"all tasks": {s: run.summary.mean for s, run in steps.items() if run.summary.mean}}
    for category in CATEGORIES:
        columns[category] = {
            step: run.summary.by_category[category]
            for step, run in steps.items()
            if category in run.summary.by_category
        }
    panels = [
        partial(draw_lines, title=name, ticks=ticks,
                lines=[[(float(step), cell) for step, cell in sorted(column.items())]])
        for name, column in columns.items() if column
    ]  # fmt: skip
    scores = ", ".join(
        f"{cell.value:.1f} at step {step:,}" for step, cell in sorted(columns["all tasks"].items())
    )
    title = "Score in percent by training step, mean over lengths, with 95 % intervals"
    yield Drawing("steps", title, f"Mean score over all tasks: {scores}.", panels, (2.9, 1.9))


def step_of(run: ScoredRun) -> int | None:
    """Return the training step that the name of a model, or its revision, tells; else None."""
    info = run.results.run
    found = STEP.search(info.model) or STEP.search(info.model_revision or "")
    return int(found[1]) if found else None


def study_lines(runs: Sequence[ScoredRun], study: Study) -> Drawing:
    """Return scores against the parameter that varies: the paper's Figures 2 and 3 for any sweep.

    Of one run, a line for each length; of several, a panel for each length and a line for each run.
    """
    (axis,) = study.axes
    lengths = sorted({length for run in runs for length in run.summary.lengths})
    labels = [format_value(value) for value in axis.values]
    places = places_of(axis.values)

    def line(run: ScoredRun, length: int) -> Line:
        cells = [run.summary.cells[point.task].get(length) for point in study.points]
        return [(x, cell) for x, cell in zip(places, cells, strict=True) if cell]

    table = {length: [line(run, length) for run in runs] for length in lengths}
    ticks = [(x, shown_name(text, SHORT)) for x, text in zip(places, labels, strict=True)]
    named = {x: label for x, label in zip(places, labels, strict=True)}
    scores = (
        f"{format_length(length)} "
        + ", ".join(f"{cell.value:.1f} at {named[x]}" for x, cell in one)
        for length, lines in table.items() for one in lines
    )  # fmt: skip
    if len(runs) == 1:
        series = [format_length(length) for length in lengths]
        alone = [lines[0] for lines in table.values()]
        panels = [partial(draw_lines, title=axis.label, lines=alone, ticks=ticks)]
    else:
        series = names_of(runs)
        panels = [
            partial(draw_lines, title=f"{format_length(length)} tokens", lines=lines, ticks=ticks)
            for length, lines in table.items()
        ]
    alt = f"{study.title}, in percent, by length: {'; '.join(scores)}."
    return Drawing(f"study-{slug(study.family)}", study.title, alt, panels, (3.2, 2.1), series)


def places_of(values: Sequence[Param]) -> list[float]:
    """Return the places of values on an axis: numbers to scale, words after them at equal steps.

    >>> places_of([2, 4, 12]), places_of([1, 2, 8, "full"])
    ([2.0, 4.0, 12.0], [0.0, 1.0, 3.0, 4.5])
    """
    numbers = [float(value) for value in values if not isinstance(value, str)]
    if numbers and min(numbers) > 0 and max(numbers) >= WIDE * min(numbers):
        numbers = [math.log2(number) for number in numbers]
    step = (numbers[-1] - numbers[0]) / (len(numbers) - 1) if len(numbers) > 1 else 1.0
    last, words = (numbers[-1] if numbers else -1.0), len(values) - len(numbers)
    return [*numbers, *(last + step * place for place in range(1, words + 1))]
