"""Lines and dots: scores by length, depth, step and parameter, a line for each run."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from statistics import fmean

from scipy.optimize import isotonic_regression

from ruler_data.names import counted
from ruler_report.figures.style import (
    GRID,
    INK,
    Axes,
    Drawing,
    names_of,
    slug,
    stroke,
)
from ruler_report.format import format_length, shortened
from ruler_report.results_file import Cost, Param
from ruler_report.stats.baseline import retention
from ruler_report.stats.comparison import options_of
from ruler_report.stats.cost import cost_of
from ruler_report.stats.depth import shown_by_depth
from ruler_report.stats.effective_length import OVERALL, THRESHOLDS
from ruler_report.stats.scores import Estimate, ScoreStack
from ruler_report.stats.summary import CATEGORIES, ScoredRun, counted_tasks
from ruler_report.stats.sweeps import Study, format_value

#: An axis is logarithmic if its largest value is at least this many times its smallest.
WIDE = 8
#: Characters of a name on an axis.
SHORT = 20
#: Runs whose intervals still stand apart in one row of dots.
FEW = 3
#: Lines beside which intervals only hide each other, and whose numbers stand in two columns.
MANY = 12
#: A training step in the name or revision of a model, `checkpoint-500` or `step_1000`.
STEP = re.compile(r"(?:steps?|checkpoint|ckpt|iter)[-_ ]?(\d+)(?![\d.]*[bB])", re.IGNORECASE)
#: The scores of a run by their place on the x axis, in rising order.
Line = Mapping[float, Estimate]


@dataclass(frozen=True)
class Lines:
    """A panel: lines with their intervals, each labelled with its number at its end.

    The threshold is dashed and the floor, what answers score that ignore the question, dotted.
    Beyond the place up to which a model was `trained`, if known, its line is dashed and its dots
    are hollow, as in the paper's Figure 4.
    """

    title: str
    lines: Sequence[Line]
    ticks: Mapping[float, str]
    threshold: float | None = None
    floor: float | None = None
    top: float = 100
    trained: Sequence[float | None] = ()

    def __call__(self, axes: Axes) -> None:
        """Draw it."""
        places, many = [*self.ticks], len(self.lines)
        span = (places[-1] - places[0]) or 1.0
        axes.set_title(self.title)
        axes.grid(axis="y")
        for height, dashes in ((self.threshold, (4, 3)), (self.floor, (1, 3))):
            if height is not None:
                axes.axhline(height, color=INK, linewidth=0.7, linestyle=(0, dashes))
        for number, line in enumerate(self.lines):
            # Shifted a little, so that intervals of different lines do not overlap.
            shift = (number - (many - 1) / 2) * min(0.015, 0.09 / many) * span
            xs, cells = [place + shift for place in line], line.values()
            look = stroke(number)
            if many <= MANY:
                ends = [cell.low for cell in cells], [cell.high for cell in cells]
                axes.vlines(xs, *ends, color=look["color"], linewidth=0.8, alpha=0.5)
            limit = self.trained[number] if self.trained else None
            within = sum(limit is None or place <= limit for place in line)
            values = [cell.value for cell in cells]
            axes.plot(xs[:within], values[:within], **look)
            beyond = {**look, "linestyle": (0, (3, 2)), "markerfacecolor": "none"}
            first = max(within - 1, 0)
            start = {"markevery": slice(within - first, None), "markeredgewidth": 0.8}
            if within < len(xs):
                axes.plot(xs[first:], values[first:], **{**beyond, **start})
        axes.set_xticks(places, self.ticks.values())
        axes.set_xlim(places[0] - 0.08 * span, places[-1] + 0.08 * span)
        if self.top == 100:
            axes.set_yticks(range(0, 101, 25))
        axes.set_ylim(-0.04 * self.top, 1.04 * self.top)
        if many > 1:
            self._number_ends(axes)

    def _number_ends(self, axes: Axes) -> None:
        ends = {n: [*line.values()][-1].value for n, line in enumerate(self.lines) if line}
        points = axes.get_window_extent().height / axes.figure.dpi * 72
        columns = 1 + (len(self.lines) > MANY)
        places = apart(ends, 1.08 * self.top * 6.5 / points / columns)
        for rank, (number, y) in enumerate(places.items()):
            axes.annotate(
                str(number + 1),
                (1, y),
                (3 + 10 * (rank % columns), 0),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                va="center",
                fontsize="small",
                fontweight="bold",
                annotation_clip=False,
            )


def apart(ends: Mapping[int, float], gap: float) -> dict[int, float]:
    """Return the heights of labels, moved as little as possible so that they are a gap apart.

    Each height less its rank in gaps must not fall: this is isotonic regression.

    >>> apart({0: 50.0, 1: 52.0, 2: 90.0}, gap=6.0)
    {0: 48.0, 1: 54.0, 2: 90.0}
    """
    order = sorted(ends, key=lambda number: ends[number])
    fitted = isotonic_regression([ends[n] - gap * rank for rank, n in enumerate(order)]).x
    return {n: float(fitted[rank] + gap * rank) for rank, n in enumerate(order)}


def _values(line: Line, labels: Mapping[float, str]) -> str:
    return ", ".join(f"{cell.value:.1f} at {labels[x]}" for x, cell in line.items())


def by_length(runs: Sequence[ScoredRun]) -> Iterator[Drawing]:
    """Yield the scores of every task by length, if there are several lengths."""
    lengths = sorted({length for run in runs for length in run.summary.lengths})
    if len(lengths) < 2:
        return
    ticks = {math.log2(length): format_length(length) for length in lengths}
    groups = {run.summary.group for run in runs if OVERALL in run.summary.effective}
    threshold = THRESHOLDS[groups.pop()][OVERALL] if len(groups) == 1 else None

    def lines(columns: Iterable[Mapping[int, Estimate]]) -> list[Line]:
        return [{math.log2(n): one[n] for n in sorted(one) if one[n].known} for one in columns]

    trained = [limit and math.log2(limit) for limit in (r.results.trained_length for r in runs)]
    tasks, overall = tasks_of(runs), lines(run.summary.overall for run in runs)
    panels = [
        Lines(task, lines(run.summary.cells.get(task, {}) for run in runs), ticks, trained=trained)
        for task in tasks
    ]
    if len(tasks) > 1 and any(overall):
        mean = Lines(f"mean of {counted_tasks(runs)}", overall, ticks, threshold, trained=trained)
        panels.insert(0, mean)
    scores = (
        f"{shortened(run.label)} {_values(line, ticks)}"
        for run, line in zip(runs, overall, strict=True)
    )
    title = "Score in percent by length in tokens" + _intervals(runs)
    title += "; dashed and hollow: longer than the model was trained on" * any(trained)
    alt = f"Mean score over all tasks, in percent: {'; '.join(scores)}."
    yield Drawing("lengths", title, alt, panels, series=names_of(runs))


def _intervals(lines: Sized) -> str:
    return ", with 95 % intervals" * (len(lines) <= MANY)


def tasks_of(runs: Sequence[ScoredRun]) -> list[str]:
    """Return the tasks of all runs, in the order of the first."""
    return list(dict.fromkeys(task for run in runs for task in run.summary.tasks))


def dots(runs: Sequence[ScoredRun]) -> Iterator[Drawing]:
    """Yield the scores of every task as dots, those of a task joined: a dumbbell of two runs."""
    rows = {
        task: [_known(run.summary.by_task.get(task)) for run in runs] for task in tasks_of(runs)
    }
    tasks = {task: cells for task, cells in rows.items() if any(cells)}
    names = ", ".join(shortened(run.label) for run in runs)
    scores = (
        f"{task} " + " and ".join(f"{cell.value:.1f}" for cell in cells if cell)
        for task, cells in tasks.items()
    )
    title = "Score of each task in percent, mean over its lengths, " + (
        "with 95 % intervals" if len(runs) <= FEW else "from the lowest run to the highest"
    )
    alt = f"Score in percent, by run ({names}): {'; '.join(scores)}."
    size = (4.6, 0.5 + 0.24 * len(tasks))
    if tasks:
        draw = partial(_draw_dots, tasks=tasks)
        yield Drawing("tasks", title, alt, [draw], size, names_of(runs))


def _draw_dots(axes: Axes, tasks: Mapping[str, Sequence[Estimate | None]]) -> None:
    for place, row in enumerate(tasks.values()):
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
    ticks = {float(depth): str(depth) for depth in range(0, 101, 25)}
    panels, words = [], []
    for category in CATEGORIES:
        lines: list[Line] = []
        for run in runs:
            tasks = [t for t in run.summary.tasks if run.summary.category_of[t] == category]
            cells = shown_by_depth(run, tasks, run.summary.lengths)
            lines.append({(i + 0.5) * 100 / len(cells): cell for i, cell in enumerate(cells)})
            if cells:
                worst = min(range(len(cells)), key=lambda i: cells[i].value)
                words.append(
                    f"{category}, {shortened(run.label)}: lowest {cells[worst].value:.0f} at "
                    f"depth {100 * worst // len(cells)} to {100 * (worst + 1) // len(cells)}"
                )
        if any(lines):
            panels.append(Lines(category, lines, ticks))
    if panels:
        title = "Evidence shown, in percent, by its depth in the context (0 is its beginning)"
        alt = f"{title}. {'; '.join(words)}."
        yield Drawing("depth", title, alt, panels, (2.6, 1.9), names_of(runs))


def by_number(runs: Sequence[ScoredRun], baseline: ScoredRun | None = None) -> Iterator[Drawing]:
    """Yield score, retention and cost against the training step, or against an option.

    An option is a number among those of the engine, e.g. a compression ratio, that differs between
    runs of one model; other options that differ make a line each, e.g. a method. The baseline, or
    else a run without the option, is a dashed line, that of full attention, of which the others
    retain a share. Means, and what is retained, are over the configs that all runs have. Beside a
    baseline, runs without the number are left out.
    """
    name = "training step"
    places = {id(run): float(step) for run in runs if (step := step_of(run)) is not None}
    if not places:
        name = _option_of(runs)
        places = {id(run): value for run in runs if (value := _option(run, name)) is not None}
    values = sorted({*places.values()})
    if baseline:
        runs = [run for run in runs if id(run) in places or run is baseline]
    rest = [run for run in runs if id(run) not in places and run is not baseline]
    full = baseline or next(iter(rest), None)
    if len(values) < 2 or len(rest) > (name != "training step"):
        return
    stack = ScoreStack([run.results for run in runs])
    tasks, lengths = stack.shared()
    if not tasks:
        return
    groups: dict[str, dict[float, ScoredRun]] = {}
    for run in sorted((run for run in runs if id(run) in places), key=lambda run: places[id(run)]):
        groups.setdefault(_method(run, runs, name), {})[places[id(run)]] = run
    marks = values if len(values) <= 6 else values[:: -(-len(values) // 5)]
    ticks = {value: f"{value:,g}" for value in dict.fromkeys((*marks, values[-1]))}

    def lines(of: Callable[[ScoredRun], Estimate | None]) -> list[Line]:
        every = [{x: _known(of(run)) for x, run in group.items()} for group in groups.values()]
        return [{x: cell for x, cell in line.items() if cell} for line in every]

    def means(some: Sequence[str]) -> Callable[[ScoredRun], Estimate | None]:
        estimates = stack.estimates((some,), dict.fromkeys(lengths, 1 / len(lengths)))
        estimate_of = dict(zip(map(id, runs), estimates, strict=True))
        return lambda run: estimate_of[id(run)]

    mean = means(tasks)
    overall, whole = lines(mean), _known(mean(full)) if full else None
    floors = [stack.configs[0][key].floor for key in product(tasks, lengths)]
    floor = 100 * fmean(one.score for one in floors if one) if all(floors) else None
    dashed = whole.value if whole else None
    panels = [Lines(f"mean of {counted(len(tasks), 'task')}", overall, ticks, dashed, floor)]
    if full and whole:
        names = [f"{task}_{length}" for task, length in product(tasks, lengths)]
        retained = lines(lambda run: _retained(run, full, names))
        top = max([100.0, *(cell.value for line in retained for cell in line.values())])
        panels.append(Lines("retained, in percent", retained, ticks, 100, top=top))
    for category in CATEGORIES:
        some = [task for task in tasks if runs[0].summary.category_of[task] == category]
        panels += [Lines(category, lines(means(some)), ticks)] if some else []
    for title, speed in SPEEDS.items():
        part = lines(lambda run, of=speed: _exactly(of(cost_of(run.results))))  # type: ignore[misc]
        if highest := max((cell.value for line in part for cell in line.values()), default=0):
            panels.append(Lines(title, part, ticks, top=highest))
    labels = {value: f"{'step ' if name == 'training step' else ''}{value:,g}" for value in values}
    scores = "; ".join(
        f"{series} {_values(line, labels)}".strip()
        for series, line in zip(groups, overall, strict=True)
    )
    title = f"Score in percent by {name}, mean over lengths{_intervals(groups)}"
    title += f"; dashed: {shortened(full.label)}" if full and whole else ""
    title += "; dotted: floor" * (floor is not None)
    series = [*groups] if len(groups) > 1 else ()
    kind = "steps" if name == "training step" else f"option-{slug(name)}"
    yield Drawing(kind, title, f"Mean score: {scores}.", panels, (2.9, 1.9), series)


def _retained(run: ScoredRun, full: ScoredRun, names: Iterable[str]) -> Estimate | None:
    parts = [
        replace(one.results, configs={n: one.configs[n] for n in names}) for one in (run, full)
    ]
    ratio = retention(*parts)[None, None]
    if ratio.value is None:
        return None
    return Estimate(ratio.value, ratio.low, ratio.high, 1, 1)


#: What a panel shows of the cost of a run; None if its journals do not tell.
SPEEDS: Mapping[str, Callable[[Cost], float | None]] = {
    "seconds a row": lambda cost: cost.seconds / cost.rows if cost.rows else None,
    "tokens a second": lambda cost: cost.tokens / cost.seconds if cost.seconds else None,
}


def _exactly(value: float | None) -> Estimate | None:
    return None if value is None else Estimate(value, value, value, 1, 1)


def _known(cell: Estimate | None) -> Estimate | None:
    return cell if cell and cell.known else None


def by_cost(runs: Sequence[ScoredRun]) -> Iterator[Drawing]:
    """Yield the mean score of every run against its seconds a row and tokens a second."""
    columns = {
        title: [value(cost_of(run.results)) or None for run in runs]
        for title, value in SPEEDS.items()
    }
    yield from _against("cost", "cost, of one request", runs, columns)


def by_attribute(runs: Sequence[ScoredRun]) -> Iterator[Drawing]:
    """Yield the mean score of every run against the attributes that the user gave (`--attr`)."""
    keys = dict.fromkeys(key for run in runs for key in run.results.attributes)
    columns = {key: [run.results.attributes.get(key) for run in runs] for key in keys}
    yield from _against("attributes", "attributes of the models", runs, columns)


def _against(
    kind: str,
    what: str,
    runs: Sequence[ScoredRun],
    columns: Mapping[str, Sequence[float | None]],
) -> Iterator[Drawing]:
    """Yield the mean score of every run against numbers, a panel for each name of them."""
    parts, words = [], []
    for title, costs in columns.items():
        points = [(cost, run.summary.mean) for cost, run in zip(costs, runs, strict=True)]
        if sum(cost is not None and mean is not None for cost, mean in points) > 1:
            parts.append(partial(_draw_points, title=title, points=points))
            words += [
                f"{shortened(run.label)} {mean.value:.1f} at {cost:,.2f} {title}"
                for run, (cost, mean) in zip(runs, points, strict=True)
                if cost is not None and mean
            ]
    if parts:
        title = f"Mean score in percent against {what}, with 95 % intervals"
        yield Drawing(kind, title, f"{title}: {'; '.join(words)}.", parts, (3.2, 2.1),
                      names_of(runs))  # fmt: skip


def _draw_points(
    axes: Axes, title: str, points: Sequence[tuple[float | None, Estimate | None]]
) -> None:
    for number, (cost, mean) in enumerate(points):
        if cost is not None and mean:
            look = stroke(number)
            axes.vlines(cost, mean.low, mean.high, color=look["color"], linewidth=0.8, alpha=0.5)
            axes.plot(cost, mean.value, **look)
            axes.annotate(str(number + 1), (cost, mean.value), (4, 2), textcoords="offset points",
                          fontsize="small", fontweight="bold")  # fmt: skip
    axes.set_title(title)
    axes.set_ylim(-4, 104)
    known = [0.0, *(cost for cost, _ in points if cost is not None)]
    axes.set_xlim(1.12 * min(known), 1.12 * max(known) or 1)
    axes.grid()


def _option(run: ScoredRun, name: str) -> float | None:
    value = options_of(run.results.run).get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _option_of(runs: Sequence[ScoredRun]) -> str:
    """Return the option with most numbers among runs of one model; empty for none."""
    if len({run.results.run.model for run in runs}) > 1:
        return ""
    names = sorted({name for run in runs for name in options_of(run.results.run)})
    counts = {name: len({_option(run, name) for run in runs} - {None}) for name in names}
    return max((name for name in names if counts[name] > 1), key=lambda n: counts[n], default="")


def _method(run: ScoredRun, runs: Sequence[ScoredRun], name: str) -> str:
    """Return what tells a line from others: the options that differ, but for the one drawn."""
    options = options_of(run.results.run)
    differ = [
        n for n in options if len({str(options_of(run.results.run).get(n)) for run in runs}) > 1
    ]
    return ", ".join(str(options[one]) for one in differ if one != name)


def step_of(run: ScoredRun) -> int | None:
    """Return the training step that the name of a model, or its revision, tells; else None."""
    info = run.results.run
    match = STEP.search(info.model) or STEP.search(info.model_revision or "")
    return int(match[1]) if match else None


def study_lines(runs: Sequence[ScoredRun], study: Study) -> Drawing:
    """Return scores against the parameter that varies: the paper's Figures 2 and 3 for any sweep.

    Of one run, a line for each length; of several, a panel for each length and a line for each run.
    """
    (axis,) = study.axes
    positions = axis_positions(axis.values)
    labels = dict(zip(positions, map(format_value, axis.values), strict=True))
    ticks = {x: shortened(label, SHORT) for x, label in labels.items()}
    lengths = sorted({length for run in runs for length in run.summary.lengths})
    table = {
        format_length(length): [
            {
                x: cells[length]
                for x, point in zip(labels, study.points, strict=True)
                if length in (cells := run.summary.cells[point.task])
            }
            for run in runs
        ]
        for length in lengths
    }
    scores = (
        f"{length} {_values(line, labels)}" for length, lines in table.items() for line in lines
    )
    if len(runs) == 1:
        series, parts = [*table], {axis.label: [line for (line,) in table.values()]}
    else:
        series = names_of(runs)
        parts = {f"{length} tokens": lines for length, lines in table.items()}
    panels = [Lines(title, lines, ticks) for title, lines in parts.items()]
    alt = f"{study.title}, in percent, by length: {'; '.join(scores)}."
    return Drawing(f"study-{slug(study.family)}", study.title, alt, panels, (3.2, 2.1), series)


def axis_positions(values: Sequence[Param]) -> list[float]:
    """Return the places of values on an axis: numbers to scale, words after them at equal steps.

    >>> axis_positions([2, 4, 12]), axis_positions([1, 2, 8, "full"])
    ([2.0, 4.0, 12.0], [0.0, 1.0, 3.0, 4.5])
    """
    numbers = [float(value) for value in values if not isinstance(value, str)]
    if numbers and min(numbers) > 0 and max(numbers) >= WIDE * min(numbers):
        numbers = [math.log2(number) for number in numbers]
    step = (numbers[-1] - numbers[0]) / (len(numbers) - 1) if len(numbers) > 1 else 1.0
    last, words = (numbers[-1] if numbers else -1.0), len(values) - len(numbers)
    return [*numbers, *(last + step * place for place in range(1, words + 1))]
