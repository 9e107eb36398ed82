"""The pictures of a report: scores by length, depth and a number that varies, differences.

Up to `FEW` runs are lines with the other score beside them, up to `MANY` lines alone; more are rows
of a table in colours, which stays readable with 25. A number that varies is

    ratio 0.25, 0.5, 0.75    an option that runs of one model differ in, e.g. of a cache's press
    step                     in the name of a model or its revision: `checkpoint-500`, `step_1000`
    train_length             a number that the user gave for each model (`--attr`)
"""

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from ruler_data.errors import UsageError
from ruler_data.names import counted, quote
from ruler_report.columns import MEAN, Name
from ruler_report.conclusion import Conclusion
from ruler_report.drawing import Drawing, Heat, Lines, Panel, Point
from ruler_report.frame import Floats
from ruler_report.means import Estimate
from ruler_report.names import SHORT, options_of, shortened
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


def point_of(estimate: Estimate | None) -> Point | None:
    """Return a mean as pictures draw it; without an interval its ends are the mean."""
    if estimate is None:
        return None
    low = estimate.value if estimate.low is None else estimate.low
    high = estimate.value if estimate.high is None else estimate.high
    return Point(estimate.value, low, high)


def lengths_picture(conclusion: Conclusion) -> Drawing | None:
    """Return the mean of all tasks by length; None for one length."""
    lengths = conclusion.frame.lengths
    if len(lengths) < 2:
        return None
    names = short_names(conclusion)
    up = f"mean of {counted(len(conclusion.frame.tasks), 'task')}, %"
    title = "Score by length"
    alt = f"{title}, {up}: {_means_in_words(conclusion, names)}."
    if len(names) > MANY:
        grid = np.array(
            [
                [_number(conclusion.value((None, length), run)) for length in lengths]
                for run in conclusion.order
            ]
        )
        heads = [format_length(length) for length in lengths]
        panel = Heat("", grid, names, heads, ACROSS)
        return Drawing("lengths", f"{title}, {up}", alt, [panel], panel.size)
    lines = [_line(conclusion, None, run) for run in conclusion.order]
    beside = []
    if len(names) <= FEW:
        beside = [_line_beside(conclusion, run) for run in conclusion.order]
        title += f"; dotted: {conclusion.beside_name} score"
    key = (conclusion.score_name, conclusion.beside_name) if len(names) == 1 else None
    panel_of_lines = Lines(
        title="",
        lines=lines,
        ticks=_ticks(lengths),
        across=ACROSS,
        up=up,
        threshold=_threshold(conclusion),
        beside=beside,
        key=key,
    )
    if panel_of_lines.threshold is not None:
        title += f"; dashed: {panel_of_lines.threshold:g}"
    return Drawing("lengths", title, alt, [panel_of_lines], (4.3, 2.35), _series(names))


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
        point = point_of(conclusion.estimate((name, length), run))
        if point is not None:
            points[math.log2(length)] = point
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
    return names if len(names) > 1 else ()


def _threshold(conclusion: Conclusion) -> float | None:
    """Return the paper's threshold if it is that of all runs."""
    reaches = [conclusion.paper_length(run) for run in conclusion.order]
    thresholds = {reach.threshold for reach in reaches if reach}
    return thresholds.pop() if len(thresholds) == 1 else None


def _means_in_words(conclusion: Conclusion, names: Sequence[str]) -> str:
    texts = []
    for name, run in zip(names, conclusion.order, strict=True):
        numbers = []
        for length in conclusion.frame.lengths:
            value = format_number(conclusion.value((None, length), run), 1)
            numbers.append(f"{value} at {format_length(length)}")
        texts.append(f"{name} {', '.join(numbers)}")
    return "; ".join(texts)


def _number(value: float | None) -> float:
    return math.nan if value is None else value


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
    names = [short[run] for run in compared]
    tasks: list[str | None] = [*conclusion.frame.tasks, None]
    lengths: list[int | None] = [*conclusion.frame.lengths, None]
    rows = [task or "mean" for task in tasks]
    if len(compared) > FEW:  # a row for each run, its differences over all lengths
        cells: list[list[Name]] = [[(task, None) for task in tasks]]
        values, texts = _differences(conclusion, compared, cells)
        words = [line[0] for line in texts]
        panels = [Heat("", values[:, 0], names, rows, "task", texts=words, limits=POINTS)]
    else:
        columns = [format_length(length) if length else "mean" for length in lengths]
        cells = [[(task, length) for length in lengths] for task in tasks]
        values, texts = _differences(conclusion, compared, cells)
        panels = []
        for name, grid, words_of_run in zip(names, values, texts, strict=True):
            heat = Heat(name, grid, rows, columns, ACROSS, texts=words_of_run, limits=POINTS)
            panels.append(heat)
    title = f"Minus {short[conclusion.base]}, in percentage points; * shown in its family"
    means = [f"{short[run]} {conclusion.gap(MEAN, run)}" for run in compared]
    alt = f"{title}. Means: {'; '.join(means)}."
    return Drawing("differences", title, alt, panels, panels[0].size)


def _differences(
    conclusion: Conclusion, runs: Sequence[int], cells: Sequence[Sequence[Name]]
) -> tuple[Floats, list[list[list[str]]]]:
    """Return differences of runs and their texts: runs by rows by columns."""
    values = np.full((len(runs), len(cells), len(cells[0])), math.nan)
    texts = []
    for place, run in enumerate(runs):
        words = []
        for y, line in enumerate(cells):
            words.append([""] * len(line))
            for x, name in enumerate(line):
                gap = conclusion.gap(name, run)
                if gap is not None:
                    values[place, y, x] = gap.value
                    words[y][x] = signed(gap.value, shown=gap.shown)
        texts.append(words)
    return values, texts


def signed(value: float, *, shown: bool) -> str:
    """Return a difference as a whole number with its sign; a star if it is shown."""
    rounded = round(value)
    text = f"{rounded:+d}" if rounded else "0"
    return f"{text}*" if shown else text


def against(
    conclusion: Conclusion, name: str, attributes: Sequence[Mapping[str, float]]
) -> Drawing | None:
    """Return the picture of scores against a number in which runs differ.

    A run without the number, e.g. the baseline, is a dashed line.

    Raises:
        UsageError: the runs do not differ in it.
    """
    places = _places(conclusion, name, attributes)
    if MEAN not in conclusion.columns:
        return None
    without = [run for run in conclusion.order if run not in places]
    whole = conclusion.value(MEAN, without[0]) if without else None
    names: list[str | None] = [None, *conclusion.categories]
    panels: list[Panel] = []
    series: list[str] = []
    ticks = _ticks_of_numbers(sorted({*places.values()}))
    for category in names:
        means = {run: conclusion.estimate((category, None), run) for run in places}
        lines = _lines_against(conclusion, name, places, means)
        series = [*lines]
        title = category or f"mean of {counted(len(conclusion.frame.tasks), 'task')}"
        threshold = whole if category is None else None
        panels.append(Lines(title, [*lines.values()], ticks, name, threshold=threshold))
    title = f"Score in percent by {name}, with 95 % intervals"
    texts = [
        f"{format_number(conclusion.value(MEAN, run), 1)} at {places[run]:g}" for run in places
    ]
    alt = f"{title}: {', '.join(texts)}."
    return Drawing("against", title, alt, panels, (2.9, 2.0), _series(series))


def _places(
    conclusion: Conclusion, name: str, attributes: Sequence[Mapping[str, float]]
) -> dict[int, float]:
    """Return the numbers of the runs that have one; see `against`."""
    places = {}
    for run in conclusion.order:
        place = place_of(conclusion, run, name, attributes[run])
        if place is not None:
            places[run] = place
    if len({*places.values()}) > 1:
        return places
    if places:
        reason = f"all runs that have it have {next(iter(places.values())):g}; give one of another"
    else:
        varied = ", ".join(_varying(conclusion, attributes))
        reason = f"no run has such a number; runs differ in {varied or 'no number'}"
    raise UsageError(f"--against {quote(name)}", reason)


def _lines_against(
    conclusion: Conclusion,
    name: str,
    places: Mapping[int, float],
    means: Mapping[int, Estimate | None],
) -> dict[str, dict[float, Point]]:
    """Return the points of each series by their places on the axis."""
    positions = axis_positions(sorted({*places.values()}))
    lines: dict[str, dict[float, Point]] = {}
    for run, value in sorted(places.items(), key=lambda item: item[1]):
        point = point_of(means[run])
        if point is not None:
            line = lines.setdefault(_series_of(conclusion, run, [*places], name), {})
            line[positions[value]] = point
    return lines


def axis_positions(numbers: Sequence[float]) -> dict[float, float]:
    """Return the places of rising numbers.

    The axis is logarithmic if the largest number is at least 8 times the smallest.

    >>> axis_positions([2, 4, 12]), axis_positions([1, 2, 8])
    ({2: 2.0, 4: 4.0, 12: 12.0}, {1: 0.0, 2: 1.0, 8: 3.0})
    """
    if min(numbers) > 0 and max(numbers) >= 8 * min(numbers):
        return {number: math.log2(number) for number in numbers}
    return {number: float(number) for number in numbers}


def _ticks_of_numbers(numbers: Sequence[float]) -> dict[float, str]:
    positions = axis_positions(numbers)
    step = max(1, len(numbers) // 5)
    return {positions[number]: f"{number:,g}" for number in numbers[::step]}


def place_of(
    conclusion: Conclusion, run: int, name: str, attributes: Mapping[str, float]
) -> float | None:
    """Return the number of a run by which it is drawn; None if it has none."""
    if name in attributes:
        return attributes[name]
    info = conclusion.runs[run].run
    if name == STEP:
        match = _STEP.search(info.model) or _STEP.search(info.model_revision or "")
        return float(match[1]) if match else None
    value = options_of(info).get(name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None  # type: ignore[arg-type]


def _varying(conclusion: Conclusion, attributes: Sequence[Mapping[str, float]]) -> list[str]:
    """Return the names of the numbers in which runs differ."""
    names = {STEP}
    for run in conclusion.order:
        names |= {*attributes[run]} | {*options_of(conclusion.runs[run].run)}
    varying = []
    for name in sorted(names):
        values = {place_of(conclusion, run, name, attributes[run]) for run in conclusion.order}
        if len(values) > 1:
            varying.append(name)
    return varying


def _series_of(conclusion: Conclusion, run: int, runs: Sequence[int], name: str) -> str:
    """Return what tells a line from others: the options that differ, but for the one drawn."""
    texts = []
    for key, value in options_of(conclusion.runs[run].run).items():
        values = {str(options_of(conclusion.runs[other].run).get(key)) for other in runs}
        if key != name and len(values) > 1:
            texts.append(str(value))
    return ", ".join(texts)
