"""The pictures of a report: scores by length, task, depth and a number that varies, differences.

Up to `FEW` runs are lines and dots with their intervals; more are rows of a table in colours, which
stays readable with 25. Depth by length is the canonical picture of the field: the niah tasks alone,
and a row is one observation; a row with several needles counts in the cell of each by its share.
A number that varies is

    ratio 0.25, 0.5, 0.75    an option that runs of one model differ in, e.g. of a cache's press
    step                     in the name of a model or its revision: `checkpoint-500`, `step_1000`
    train_length             a number that the user gave for each model (`--attr`)
    hops 2, 4, 12            a parameter in which the tasks of a suite differ
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from ruler_data.errors import UsageError
from ruler_data.names import counted, parse_config, quote
from ruler_eval.scoring.results import BINS, Param, Scores
from ruler_report.drawing import Dots, Drawing, Heat, Lines, Panel
from ruler_report.frame import Floats
from ruler_report.lineup import Lineup
from ruler_report.means import Point
from ruler_report.runs import options_of
from ruler_report.summary import CATEGORIES, ScoredRun
from ruler_report.typesetting import format_length, shortened

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
        f"{label} " * bool(label) + ", ".join(f"{p.value:.1f} at {x}" for x, p in line.items())
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


#: Rows that a number must be of; depths are pooled until they are.
MIN_ROWS = 8


def retrieval_by_depth(results: Scores, lengths: Sequence[int]) -> Floats:
    """Return the percentage of niah rows that are right, equal bins of depth by lengths.

    There are 10 bins, or 5 or 2 if that gives each number `MIN_ROWS` rows. NaN where there are no
    rows.
    """
    right, rows = np.zeros((2, BINS, len(lengths)))
    for name, config in results.configs.items():
        _, length = parse_config(name)
        if config.family != "niah" or not config.depth or length not in lengths:
            continue
        pieces, shown, count = (
            np.array(getattr(config.depth, aspect), float) for aspect in ("pieces", "shown", "rows")
        )
        weight = count * config.scored / max(count.sum(), 1)
        column = lengths.index(length)
        rows[:, column] += weight
        right[:, column] += weight * np.divide(shown, pieces, out=shown * 0, where=pieces > 0)
    for bins in (BINS, 5, 2):
        pooled = [counts.reshape(bins, -1, len(lengths)).sum(axis=1) for counts in (right, rows)]
        if pooled[1][:, pooled[1].any(axis=0)].min(initial=MIN_ROWS) >= MIN_ROWS:
            break
    with np.errstate(invalid="ignore"):
        return np.where(pooled[1] > 0, 100 * pooled[0] / pooled[1], np.nan)


STEP = "step"

_STEP = re.compile(r"(?:steps?|checkpoint|ckpt|iter)[-_ ]?(\d+)(?![\d.]*[bB])", re.IGNORECASE)


def against(
    field: Lineup, runs: Sequence[ScoredRun], name: str, baseline: ScoredRun | None
) -> Drawing | None:
    """Return the picture of scores against what varies, by name, over the frame of a page.

    A run without the number, e.g. the baseline, is a dashed line.

    Raises:
        UsageError: neither the runs nor their tasks differ in it.
    """
    places = {run.label: place for run in runs if (place := place_of(run, name)) is not None}
    if len({*places.values()}) > 1:
        return _by_run(field, runs, name, places, baseline)
    tasks = {
        parse_config(config)[0]: task.params[name]
        for run in runs
        for config, task in run.results.configs.items()
        if name in task.params
    }
    if len({*tasks.values()}) < 2:
        options = {key for run in runs for key in options_of(run.results.run)}
        options |= {STEP, *(key for run in runs for key in run.results.attributes)}
        varied = [key for key in sorted(options) if len({place_of(run, key) for run in runs}) > 1]
        msg = (
            f"--against {quote(name)}: neither runs nor tasks differ in it; runs differ in "
            f"{', '.join(varied) or 'no number'}"
        )
        raise UsageError(msg)
    return _by_task(runs, name, tasks)


def place_of(run: ScoredRun, name: str) -> float | None:
    """Return the number of a run by which it is drawn; None if it has none."""
    if name in run.results.attributes:
        return run.results.attributes[name]
    if name == STEP:
        info = run.results.run
        match = _STEP.search(info.model) or _STEP.search(info.model_revision or "")
        return float(match[1]) if match else None
    value = options_of(run.results.run).get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _by_run(
    field: Lineup,
    runs: Sequence[ScoredRun],
    name: str,
    places: Mapping[str, float],
    baseline: ScoredRun | None,
) -> Drawing | None:
    full = baseline or next((run for run in runs if run.label not in places), None)
    drawn = [run for run in runs if run.label in places or run is full]
    tasks = field.frame.tasks
    if not tasks:
        return None
    at = {run.label: field.labels.index(run.label) for run in drawn}

    def means(name: str | None) -> dict[str, Point]:
        estimates = {label: field.means.estimate((name, None), run) for label, run in at.items()}
        return {label: mean.point for label, mean in estimates.items() if mean and mean.known}

    def retained(run: ScoredRun) -> Point | None:
        ratio = field.means.ratio((None, None), at[full.label], at[run.label]) if full else None
        return ratio.point if ratio and ratio.known else None

    def lines(of: Callable[[ScoredRun], Point | None]) -> dict[str, dict[float | str, Point]]:
        series: dict[str, dict[float | str, Point]] = {}
        for run in sorted(drawn, key=lambda run: places.get(run.label, 0.0)):
            if run.label in places and (point := of(run)):
                series.setdefault(_series(run, drawn, name), {})[places[run.label]] = point
        return series

    overall = means(None)
    panels = {f"mean of {counted(len(tasks), 'task')}": lines(lambda run: overall.get(run.label))}
    if full:
        panels["retained, in percent"] = lines(retained)
    for category in CATEGORIES:
        if (category, None) in field.means.columns:
            by_label = means(category)
            panels[category] = lines(lambda run, by=by_label: by.get(run.label))  # type: ignore[misc]
    whole = overall.get(full.label) if full else None
    return against_picture(name, panels, whole.value if whole else None)


def _series(run: ScoredRun, runs: Sequence[ScoredRun], name: str) -> str:
    """Return what tells a line from others: the options that differ, but for the one drawn."""
    options = options_of(run.results.run)
    values = {key: {str(options_of(run.results.run).get(key)) for run in runs} for key in options}
    names = [str(options[key]) for key in options if key != name and len(values[key]) > 1]
    return ", ".join(names)


def _by_task(runs: Sequence[ScoredRun], name: str, values: Mapping[str, Param]) -> Drawing | None:
    series: dict[str, dict[float | str, Point]] = {}
    for run in runs:
        for task, value in values.items():
            mean = run.summary.by_task.get(task)
            if mean and mean.known:
                place = value if isinstance(value, str) else float(value)
                series.setdefault(run.label if len(runs) > 1 else "", {})[place] = mean.point
    return against_picture(name, {"mean over lengths": series})
