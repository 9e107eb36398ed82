"""The pictures of a report: scores by length, depth and a number that varies, differences.

Up to `FEW` runs are lines with the other score beside them, up to `MANY` lines alone; more are rows
of a table in colours, which stays readable with 25. A number that varies is

    ratio 0.25, 0.5, 0.75    an option that runs of one model differ in, e.g. of a cache's press
    step                     in the name of a model or its revision: `checkpoint-500`, `step_1000`
    train_length             a number that the user gave for each model (`--attr`)
"""

import math
import re
from collections.abc import Sequence

import numpy as np

from ruler_data.names import counted
from ruler_report.columns import MEAN
from ruler_report.conclusion import Conclusion
from ruler_report.drawing import Drawing, Heat, Lines, Point
from ruler_report.means import Estimate, Gap
from ruler_report.names import SHORT, shortened
from ruler_report.typesetting import format_length, format_number

#: Runs whose lines can be told apart beside lines of the other score, and without them.
FEW, MANY = 6, 12
#: Name of the number of a checkpoint.
STEP = "step"
_STEP = re.compile(r"(?:steps?|checkpoint|ckpt|iter)[-_ ]?(\d+)(?![\d.]*[bB])", re.IGNORECASE)
#: Title of the axis of lengths.
ACROSS = "length, tokens"
#: Differences of the darkest colours, in percentage points.
POINTS = (-50.0, 50.0)
#: Title of the axis of depth.
DEPTH = "depth of the needle, %"


def short_names(conclusion: Conclusion) -> list[str]:
    """Return the names of the runs in their order on the page, short and told apart."""
    short = shortened(conclusion.names, SHORT)
    return [short[run] for run in conclusion.order]


def point_of(estimate: Estimate) -> Point:
    """Return a mean as pictures draw it; without an interval its ends are the mean."""
    if estimate.low is None or estimate.high is None:
        return Point(estimate.value, estimate.value, estimate.value)
    return Point(estimate.value, estimate.low, estimate.high)


def lengths_picture(conclusion: Conclusion) -> Drawing | None:
    """Return the mean of all tasks by length; None for one length."""
    lengths = conclusion.frame.lengths
    if len(lengths) < 2:
        return None
    names = short_names(conclusion)
    up = f"mean of {counted(len(conclusion.frame.tasks), 'task')}, %"
    alt = f"Score by length, {up}: {_means_in_words(conclusion, names)}."
    if len(names) > MANY:
        heat = _heat_by_length(conclusion, names)
        return Drawing("lengths", f"Score by length, {up}", alt, [heat], heat.size)
    title = "Score by length"
    beside = []
    if len(names) <= FEW:
        beside = [_line_beside(conclusion, run) for run in conclusion.order]
        title += f"; dotted: {conclusion.beside_name} score"
    key = None
    if len(names) == 1:
        key = conclusion.score_name, conclusion.beside_name
    threshold = _threshold(conclusion)
    if threshold is not None:
        title += f"; dashed: {threshold:g}"
    panel = Lines(
        title="",
        lines=[_line(conclusion, None, run) for run in conclusion.order],
        ticks=_ticks(lengths),
        across=ACROSS,
        up=up,
        threshold=threshold,
        beside=beside,
        key=key,
    )
    return Drawing("lengths", title, alt, [panel], (4.3, 2.35), _series(names))


def _heat_by_length(conclusion: Conclusion, names: Sequence[str]) -> Heat:
    """Return the means of many runs by length, a line for each run."""
    lengths = conclusion.frame.lengths
    values = np.full((len(names), len(lengths)), math.nan)
    for line, run in zip(values, conclusion.order, strict=True):
        line[:] = [conclusion.means.values[None, length][run] for length in lengths]
    return Heat("", values, names, [*map(format_length, lengths)], ACROSS)


def tasks_picture(conclusion: Conclusion) -> Drawing | None:
    """Return the score of each task by length; None for one length or many runs."""
    lengths = conclusion.frame.lengths
    names = short_names(conclusion)
    if len(lengths) < 2 or len(names) > FEW or len(conclusion.frame.tasks) < 2:
        return None
    panels = []
    for task in conclusion.frame.tasks:
        lines = [_line(conclusion, task, run) for run in conclusion.order]
        panels.append(Lines(task, lines, _ticks(lengths), ACROSS))
    title = "Score of each task by length, with 95 % intervals"
    alt = f"{title}; the numbers stand in the tables."
    return Drawing("tasks", title, alt, panels, (2.3, 1.9), _series(names))


def _line(conclusion: Conclusion, name: str | None, run: int) -> dict[float, Point]:
    """Return the points of a mean by the logarithm of the length."""
    points = {}
    for length in conclusion.frame.lengths:
        estimate = conclusion.estimate((name, length), run)
        if estimate is not None:
            points[math.log2(length)] = point_of(estimate)
    return points


def _line_beside(conclusion: Conclusion, run: int) -> dict[float, float]:
    """Return the means of the other score by the logarithm of the length."""
    values = {}
    for length in conclusion.frame.lengths:
        value = conclusion.value_beside((None, length), run)
        if value is not None:
            values[math.log2(length)] = value
    return values


def _ticks(lengths: Sequence[int]) -> dict[float, str]:
    return {math.log2(length): format_length(length) for length in lengths}


def _series(names: Sequence[str]) -> Sequence[str]:
    """Return the names of a key; one run needs none."""
    if len(names) > 1:
        return names
    return ()


def _threshold(conclusion: Conclusion) -> float | None:
    """Return the paper's threshold if it is that of all runs."""
    reaches = [conclusion.paper_length(run) for run in conclusion.order]
    thresholds = {reach.threshold for reach in reaches if reach}
    if len(thresholds) != 1:
        return None
    return thresholds.pop()


def _means_in_words(conclusion: Conclusion, names: Sequence[str]) -> str:
    texts = []
    for name, run in zip(names, conclusion.order, strict=True):
        numbers = []
        for length in conclusion.frame.lengths:
            value = format_number(conclusion.value((None, length), run), 1)
            numbers.append(f"{value} at {format_length(length)}")
        texts.append(f"{name} {', '.join(numbers)}")
    return "; ".join(texts)


def depth_picture(conclusion: Conclusion) -> Drawing | None:
    """Return retrieval by depth and length, a panel for each run; None without such a task."""
    panels = []
    words = []
    names = short_names(conclusion)
    for name, run in zip(names, conclusion.order, strict=True):
        grid = conclusion.depth(run)
        if not grid.size:
            continue
        values = grid.to_numpy(dtype=float)
        depths = depth_labels(len(values))
        row, column = divmod(int(np.nanargmin(values)), values.shape[1])
        lowest = f"lowest {values[row, column]:.0f} at depth {depths[row]} % and "
        words.append(f"{name}: {lowest}{format_length(grid.columns[column])}")
        heads = [format_length(length) for length in grid.columns]
        title = name if len(names) > 1 else ""
        panels.append(Heat(title, values, depths, heads, ACROSS, DEPTH))
    if not panels:
        return None
    title = "Retrieval (niah): needles that answers name, in percent, by depth and length"
    return Drawing("depth", title, f"{title}. {'; '.join(words)}.", panels, panels[0].size)


def depth_by_run(conclusion: Conclusion) -> Drawing | None:
    """Return retrieval by depth over all lengths, a row for each run; None without such a task."""
    grids = [conclusion.depth(run) for run in conclusion.order]
    bins = max(len(grid) for grid in grids)
    if not bins:
        return None
    rows = np.full((len(grids), bins), math.nan)
    for row, grid in zip(rows, grids, strict=True):
        if len(grid) == bins:  # a run with too few rows has fewer bins
            row[:] = grid.mean(axis=1)
    panel = Heat("", rows, short_names(conclusion), depth_labels(bins), DEPTH)
    title = "Retrieval (niah): needles that answers name, in percent, by depth"
    return Drawing("depths", title, f"{title}; the numbers stand in it.", [panel], panel.size)


def depth_labels(bins: int) -> list[str]:
    """Return the names of equal bins of depth.

    >>> depth_labels(2)
    ['0-50', '50-100']
    """
    return [f"{100 * row // bins}-{100 * (row + 1) // bins}" for row in range(bins)]


def differences_picture(conclusion: Conclusion) -> Drawing | None:
    """Return the differences of runs from the base, in percentage points; None without a run."""
    compared = conclusion.compared
    if not compared:
        return None
    short = shortened(conclusion.names, SHORT)
    tasks = [*conclusion.frame.tasks, None]
    titles = [*conclusion.frame.tasks, "mean"]
    panels = []
    if len(compared) > FEW:
        lines = [[conclusion.gap((task, None), run) for task in tasks] for run in compared]
        panels.append(_heat_of_gaps("", lines, [short[run] for run in compared], titles, "task"))
    else:
        lengths = [*conclusion.frame.lengths, None]
        heads = [*map(format_length, conclusion.frame.lengths), "mean"]
        for run in compared:
            lines = [[conclusion.gap((task, length), run) for length in lengths] for task in tasks]
            panels.append(_heat_of_gaps(short[run], lines, titles, heads, ACROSS))
    title = f"Minus {short[conclusion.base]}, in percentage points; * shown by its tests"
    means = [f"{short[run]} {conclusion.gap(MEAN, run)}" for run in compared]
    alt = f"{title}. Means: {'; '.join(means)}."
    return Drawing("differences", title, alt, panels, panels[0].size)


def _heat_of_gaps(
    title: str,
    lines: Sequence[Sequence[Gap | None]],
    rows: Sequence[str],
    columns: Sequence[str],
    across: str,
) -> Heat:
    """Return differences as coloured cells."""
    values = np.full((len(rows), len(columns)), math.nan)
    texts = [[""] * len(columns) for _ in rows]
    for row, line in enumerate(lines):
        for column, gap in enumerate(line):
            if gap is not None:
                values[row, column] = gap.value
                texts[row][column] = signed(gap)
    return Heat(title, values, rows, columns, across, texts=texts, limits=POINTS)


def signed(gap: Gap) -> str:
    """Return a difference as a whole number with its sign; a star if it is shown."""
    text = "0"
    rounded = round(gap.value)
    if rounded:
        text = f"{rounded:+d}"
    if gap.shown:
        text += "*"
    return text
