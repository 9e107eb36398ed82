"""Heat maps: differences between runs, evidence by depth and length, grids, correlations."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ruler_report.figures.style import INK, Axes, Drawing, ink_on, shades, slug
from ruler_report.format import format_length, shortened
from ruler_report.stats.comparison import Comparison
from ruler_report.stats.correlation import CorrelationStudy
from ruler_report.stats.depth import DepthTable, shown_by_depth
from ruler_report.stats.intervals import Floats
from ruler_report.stats.pairs import CANNOT_TELL, Difference
from ruler_report.stats.summary import ScoredRun
from ruler_report.stats.sweeps import Study, format_value


@dataclass(frozen=True)
class Heat:
    """A panel: a table with its headings as coloured cells; NaN is an empty one.

    White is the middle of the limits if the first is below 0.
    """

    title: str
    values: Floats
    rows: Sequence[str]
    columns: Sequence[str]
    texts: Sequence[Sequence[str]] | None = None
    limits: tuple[float, float] = (0.0, 100.0)

    def __call__(self, axes: Axes) -> None:
        """Draw it."""
        low, high = self.limits
        colours = shades(two_sided=low < 0)
        look = {"cmap": colours, "edgecolors": "face", "linewidth": 0.2}
        axes.pcolormesh(self.values, vmin=low, vmax=high, **look)
        axes.invert_yaxis()
        for (row, column), value in np.ndenumerate(self.values):
            if np.isnan(value):
                continue
            axes.text(
                column + 0.5,
                row + 0.5,
                self.texts[row][column] if self.texts else f"{value:.0f}",
                ha="center",
                va="center",
                fontsize="small",
                linespacing=0.95,
                in_layout=False,  # it is inside the cells; measuring it takes most of the time
                color=ink_on(colours(float(np.clip((value - low) / (high - low), 0, 1)))),
            )
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        axes.set_title(self.title)
        axes.set_xticks(np.arange(len(self.columns)) + 0.5, self.columns)
        axes.set_yticks(np.arange(len(self.rows)) + 0.5, self.rows)


def numbered(runs: Sequence[ScoredRun]) -> list[str]:
    """Return the titles of panels: of several runs they begin with the numbers of the key."""
    many = len(runs) > 1
    return [f"{number} " * many + run.label for number, run in enumerate(runs, 1)]


def differences(base: str, comparisons: Mapping[str, Comparison]) -> Iterator[Drawing]:
    """Yield the differences between runs and a base by task and length, a panel for each title."""
    panels, words = [], []
    for name, one in comparisons.items():
        rows, columns = [*one.tasks, one.all_tasks], [*map(format_length, one.lengths), "mean"]
        keys = [[(task, length) for length in (*one.lengths, None)] for task in (*one.tasks, None)]
        cells = [[one.differences[key] for key in row] for row in keys]
        values = np.array([[one.value if one.points else np.nan for one in row] for row in cells])
        texts = [[_points(cell) for cell in row] for row in cells]
        panels.append(Heat(shortened(name, 30), values, rows, columns, texts, (-50.0, 50.0)))
        words.append(f"{shortened(name)} {one.overall}")
    if panels:
        columns_most = max(len(panel.columns) for panel in panels)
        size = (1.3 + 0.36 * columns_most, 0.45 + 0.19 * max(len(panel.rows) for panel in panels))
        title = f"Minus {shortened(base)}, in percentage points; * significant after correction"
        alt = f"{title}. Means: {'; '.join(words)}."
        yield Drawing("differences", title, alt, panels, size)


def _points(cell: Difference) -> str:
    rounded = round(cell.value)
    return (f"{rounded:+d}" if rounded else "0") + "*" * (cell.verdict != CANNOT_TELL)


def depth_maps(runs: Sequence[ScoredRun]) -> Iterator[Drawing]:
    """Yield the evidence shown by depth and length, all tasks pooled, a panel for each run."""
    panels = []
    for name, run in zip(numbered(runs), runs, strict=True):
        lengths = run.summary.lengths
        columns = [shown_by_depth(run, run.summary.tasks, [length]) for length in lengths]
        bins = min((len(column) for column in columns if column), default=0)
        if bins < 2 or len(lengths) < 2:
            continue
        columns = [shown_by_depth(run, run.summary.tasks, [length], bins) for length in lengths]
        blank = [np.nan] * bins
        values = np.array([[cell.value for cell in column] or blank for column in columns]).T
        edges = [f"{100 * edge // bins}-{100 * (edge + 1) // bins}" for edge in range(bins)]
        panels.append(Heat(name, values, edges, [*map(format_length, lengths)]))
    if panels:
        title = "Evidence shown, in percent, by its depth in the context and by length"
        yield _depths("depth-length", title, panels)


def depth_grid(tables: Mapping[str, DepthTable]) -> Drawing:
    """Return the scores of a task on a grid of depths, a panel for each title."""
    panels = [
        Heat(name, one.values, one.depths, [*map(format_length, one.lengths)])
        for name, one in tables.items()
    ]
    task = next(iter(tables.values())).task
    title = f"{task}: score in percent by depth and length"
    return _depths(f"depth-{slug(task)}", title, panels, " percent")


def _depths(name: str, title: str, panels: Sequence[Heat], unit: str = "") -> Drawing:
    """Return the drawing of percentages by depth and length."""
    words = []
    for one in panels:
        row, column = divmod(int(np.nanargmin(one.values)), len(one.columns))
        words.append(
            f"{shortened(one.title)}: lowest {one.values[row, column]:.0f} at depth "
            f"{one.rows[row]}{unit} and {one.columns[column]}"
        )
    size = (0.8 + 0.4 * len(panels[0].columns), 0.45 + 0.2 * len(panels[0].rows))
    titled = [replace(panel, title=shortened(panel.title, 30)) for panel in panels]
    return Drawing(name, title, f"{title}. {'; '.join(words)}.", titled, size)


def study_grid(runs: Sequence[ScoredRun], study: Study) -> Drawing:
    """Return a study of two parameters: a panel for each run and length."""
    first, second = study.axes
    rows, columns = (list(map(format_value, axis.values)) for axis in study.axes)
    shape = (len(rows), len(columns))
    panels, words = [], []
    for run, length in [(one, length) for one in runs for length in one.summary.lengths]:
        cells = [run.summary.cells[point.task].get(length) for point in study.points]
        values = np.array([cell.value if cell else np.nan for cell in cells]).reshape(shape)
        texts = [f"{c.value:.0f}\n{c.low:.0f}-{c.high:.0f}" if c else "" for c in cells]
        at = f"{shortened(run.label, 24)}, {format_length(length)}"
        panels.append(Heat(at, values, rows, columns, np.array(texts).reshape(shape).tolist()))
        scores = "; ".join(
            f"{row} {', '.join(f'{value:.0f}' for value in line)}"
            for row, line in zip(rows, values, strict=True)
        )
        words.append(f"{at}: {scores}")
    title = f"{study.title}; {first.label} down, {second.label} across, with 95 % intervals"
    size = (1.0 + 0.6 * len(columns), 0.5 + 0.36 * len(rows))
    alt = f"{title}, in percent; columns are {', '.join(columns)}. {'. '.join(words)}."
    return Drawing(f"study-{slug(study.family)}", title, alt, panels, size)


def correlations(study: CorrelationStudy) -> Drawing:
    """Return the matrix of correlations, and above it the tree of clusters."""
    names = study.tasks
    upper = np.triu(np.nan_to_num(study.matrix, nan=-2), 1) - 3 * np.tri(len(names))
    row, column = divmod(int(np.argmax(upper)), len(names))
    strongest = f"{names[row]} with {names[column]}, {study.matrix[row, column]:.2f}"
    return Drawing(
        "correlation",
        f"Correlation of {len(names)} tasks over {study.points} points",
        f"Correlations between {len(names)} tasks, clustered; the strongest is {strongest}.",
        [partial(_draw_correlations, study=study)],
        (1.6 + 0.3 * len(names), 1.2 + 0.3 * len(names)),
    )


def _draw_correlations(axes: Axes, study: CorrelationStudy) -> None:
    names, values = study.tasks, study.matrix
    texts = [[f"{value:.2f}" for value in line] for line in values]
    Heat("", values, names, names, texts, (0.0, 1.0))(axes)
    axes.tick_params(axis="x", rotation=90)
    tree = axes.inset_axes((0, 1.01, 1, 0.15))
    for places, distances in study.branches:
        tree.plot(places, distances, color=INK, linewidth=0.8)
    tree.set_xlim(-0.5, len(names) - 0.5)
    tree.set_ylim(bottom=0)
    tree.axis("off")
