"""The pictures of a report: scores by length and by task, retrieval by depth, differences.

Up to `FEW` runs are lines and dots with their intervals; more are rows of a table in colours, which
stays readable with 25. Every number comes from the summary of the runs; nothing is computed here.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ruler_report.drawing import Dots, Drawing, Heat, Lines, Panel, Point
from ruler_report.format import format_length, shortened

#: Runs whose lines can be told apart in one panel.
FEW = 6
#: Scores of a run by length in tokens.
Cells = Mapping[int, Point]


def lengths_picture(
    labels: Sequence[str],
    overall: Sequence[Cells],
    tasks: Mapping[str, Sequence[Cells]],
    threshold: float | None = None,
) -> Drawing | None:
    """Return the scores by length: the mean of all tasks, then each task; None for one length.

    Args:
        labels: of the runs.
        overall: the mean over all tasks of each run.
        tasks: the scores of each run, by task.
        threshold: of the effective length; None draws none.
    """
    lengths = sorted({length for cells in overall for length in cells})
    if len(lengths) < 2:
        return None
    mean = f"mean of {len(tasks)} tasks"
    values = "; ".join(
        f"{shortened(label)} "
        + ", ".join(f"{point.value:.1f} at {format_length(n)}" for n, point in cells.items())
        for label, cells in zip(labels, overall, strict=True)
    )
    title, alt = "Score in percent by length in tokens", f"{mean}, in percent: {values}."
    if len(labels) > FEW:
        grid = _grid([[cells.get(length) for length in lengths] for cells in overall])
        heads = [format_length(length) for length in lengths]
        panel = Heat(mean, grid, [shortened(label) for label in labels], heads)
        return Drawing("lengths", title, alt, [panel], panel.size)
    ticks = {math.log2(length): format_length(length) for length in lengths}

    def lines(runs: Iterable[Cells]) -> list[dict[float, Point]]:
        return [{math.log2(n): cells[n] for n in sorted(cells)} for cells in runs]

    panels = [Lines(task, lines(runs), ticks) for task, runs in tasks.items()]
    if len(tasks) > 1:
        panels.insert(0, Lines(mean, lines(overall), ticks, threshold))
    title += ", with 95 % intervals"
    return Drawing("lengths", title, alt, panels, series=labels if len(labels) > 1 else ())


def tasks_picture(
    labels: Sequence[str], tasks: Mapping[str, Sequence[Point | None]]
) -> Drawing | None:
    """Return the score of each task, mean over its lengths; None without a score."""
    rows = {task: points for task, points in tasks.items() if any(points)}
    if not rows:
        return None
    values = "; ".join(
        f"{task} " + " and ".join(f"{point.value:.1f}" for point in points if point)
        for task, points in rows.items()
    )
    title = "Score of each task in percent, mean over its lengths"
    alt = f"{title}, by run ({', '.join(map(shortened, labels))}): {values}."
    if len(labels) > FEW:
        grid = _grid([list(column) for column in zip(*rows.values(), strict=True)])
        panel = Heat("", grid, [shortened(label) for label in labels], list(rows))
        return Drawing("tasks", title, alt, [panel], panel.size)
    size = (4.6, 0.5 + (0.2 + 0.04 * len(labels)) * len(rows))
    series = labels if len(labels) > 1 else ()
    return Drawing("tasks", f"{title}, with 95 % intervals", alt, [Dots(rows)], size, series)


def depth_picture(
    labels: Sequence[str], lengths: Sequence[int], grids: Sequence[np.ndarray]
) -> Drawing | None:
    """Return retrieval by depth and length, a panel for each run; None without such a task.

    Args:
        labels: of the runs.
        lengths: in tokens, the columns of the grids.
        grids: percent of the rows of the niah tasks that are right, depths by lengths; a row is one
            observation. NaN where there are no rows.
    """
    panels, words = [], []
    for label, grid in zip(labels, grids, strict=True):
        if not grid.size or np.isnan(grid).all():
            continue
        bins = len(grid)
        depths = [f"{100 * row // bins}-{100 * (row + 1) // bins} %" for row in range(bins)]
        row, column = divmod(int(np.nanargmin(grid)), len(lengths))
        lowest = f"lowest {grid[row, column]:.0f} at depth {depths[row]} and "
        words.append(f"{shortened(label)}: {lowest}{format_length(lengths[column])}")
        heads = [format_length(length) for length in lengths]
        panels.append(Heat(shortened(label, 30), grid, depths, heads))
    if not panels:
        return None
    title = "Retrieval: score of the niah tasks in percent, by depth of the needle and by length"
    alt = f"{title}. {'; '.join(words)}."
    return Drawing("depth-length", title, alt, panels, panels[0].size)


def differences_picture(
    base: str,
    labels: Sequence[str],
    tasks: Sequence[str],
    lengths: Sequence[int],
    values: np.ndarray,
    stars: np.ndarray,
) -> Drawing | None:
    """Return the differences between runs and a base, in percentage points; None without a run.

    Args:
        base: the label of the base.
        labels: of the other runs.
        tasks: the last row of a panel is their mean.
        lengths: in tokens; the last column of a panel is their mean.
        values: runs by tasks and mean by lengths and mean; NaN is an empty cell.
        stars: which of these differences are significant.
    """
    if not len(labels):
        return None
    texts = np.vectorize(_signed, otypes=[object])(values, stars)
    rows, columns = [*tasks, "mean"], [*map(format_length, lengths), "mean"]
    if len(labels) > FEW:  # a row for each run, its differences over all lengths
        names = [shortened(label) for label in labels]
        panels = [Heat("", values[:, :, -1], names, rows, texts[:, :, -1].tolist(), (-50.0, 50.0))]
    else:
        panels = [
            Heat(shortened(label, 30), grid, rows, columns, cells.tolist(), (-50.0, 50.0))
            for label, grid, cells in zip(labels, values, texts, strict=True)
        ]
    title = f"Minus {shortened(base)}, in percentage points; * significant after correction"
    means = zip(map(shortened, labels), texts[:, -1, -1], strict=True)
    alt = f"{title}. Means: {'; '.join(f'{label} {mean}' for label, mean in means)}."
    return Drawing("differences", title, alt, panels, panels[0].size)


def against_picture(
    name: str,
    panels: Mapping[str, Mapping[str, Mapping[float | str, Point]]],
    threshold: float | None = None,
) -> Drawing | None:
    """Return scores against an option of the runs or a parameter of the tasks.

    Args:
        name: of what varies.
        panels: by title, then by series, the points at each value; numbers stand to scale, words
            after them at equal steps.
        threshold: of the first panel, e.g. the score of full attention.
    """
    values = {value for lines in panels.values() for line in lines.values() for value in line}
    if len(values) < 2:
        return None
    words = sorted(value for value in values if isinstance(value, str))
    numbers = sorted(value for value in values if not isinstance(value, str))
    places = dict(zip((*numbers, *words), axis_positions(numbers, len(words)), strict=True))
    marked = [*numbers[:: max(1, len(numbers) // 5)], *words]
    ticks = {places[value]: value if isinstance(value, str) else f"{value:,g}" for value in marked}
    series = list(dict.fromkeys(series for lines in panels.values() for series in lines))
    drawn: list[Panel] = []
    for title, lines in panels.items():
        moved = [{places[x]: point for x, point in lines.get(s, {}).items()} for s in series]
        top = max([100.0, *(point.value for line in moved for point in line.values())])
        drawn.append(Lines(title, moved, ticks, None if drawn else threshold, top))
    first = next(iter(panels.values()))
    alt = "; ".join(
        f"{label} " + ", ".join(f"{point.value:.1f} at {x}" for x, point in line.items())
        for label, line in first.items()
    )
    title = f"Score in percent by {name}, with 95 % intervals"
    names = series if len(series) > 1 else ()
    return Drawing("against", title, f"{title}: {alt}.", drawn, (2.9, 1.9), names)


def axis_positions(numbers: Sequence[float], words: int = 0) -> list[float]:
    """Return the places of rising numbers, and of words after them at equal steps.

    The axis is logarithmic if the largest number is at least 8 times the smallest.

    >>> axis_positions([2, 4, 12]), axis_positions([1, 2, 8], words=1)
    ([2.0, 4.0, 12.0], [0.0, 1.0, 3.0, 4.5])
    """
    places = [float(number) for number in numbers]
    if places and min(places) > 0 and max(places) >= 8 * min(places):
        places = [math.log2(number) for number in places]
    step = (places[-1] - places[0]) / (len(places) - 1) if len(places) > 1 else 1.0
    last = places[-1] if places else -1.0
    return [*places, *(last + step * place for place in range(1, words + 1))]


def _grid(rows: Sequence[Sequence[Point | None]]) -> np.ndarray:
    """Return the values of points; NaN where there is none."""
    return np.array([[point.value if point else np.nan for point in row] for row in rows])


def _signed(value: float, significant: bool) -> str:
    """Return a difference as a whole number with its sign; a star if it is significant."""
    if np.isnan(value):
        return ""
    rounded = round(value)
    return (f"{rounded:+d}" if rounded else "0") + "*" * bool(significant)
