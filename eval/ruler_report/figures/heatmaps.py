"""Heat maps: scores by depth and length, by the parameters of a grid, and correlations."""

import numpy as np

from ruler_report.figures.style import (
    INK,
    Picture,
    canvas,
    heat,
    length_ticks,
    slug,
)
from ruler_report.format import format_length
from ruler_report.stats.correlation import CorrelationStudy
from ruler_report.stats.depth import DepthTable
from ruler_report.stats.summary import ScoredRun
from ruler_report.stats.sweeps import Study, format_value


def depth_picture(table: DepthTable, prefix: str) -> Picture:
    """Draw percentages by depth and length, with the number of rows in each cell."""
    lengths, cells = table.lengths, len(table.values)
    notes = [[f"n={n:.0f}" if n else "" for n in line] for line in table.rows]
    with canvas(1.0 + 0.6 * len(lengths), 0.6 + 0.33 * cells) as (axes, finish):
        heat(axes, table.values, notes)
        length_ticks(axes, lengths, range(len(lengths)))
        ticks = np.arange(len(table.depths)) - (0.0 if table.grid else 0.5)
        axes.set_yticks(ticks, table.depths)
        axes.set_ylabel("depth in percent")
        return finish(f"{prefix}depth-{slug(table.task)}", table.task, _depth_alt(table))


def _depth_alt(table: DepthTable) -> str:
    row, column = divmod(int(np.nanargmin(table.values)), len(table.lengths))
    what = "score in percent" if table.grid else "percent of the evidence that answers show"
    depth = table.depths[row] if table.grid else f"{table.depths[row]} to {table.depths[row + 1]}"
    return (
        f"{table.task}: {what}, by depth and length; lowest {table.values[row, column]:.0f} at "
        f"depth {depth} percent and {format_length(table.lengths[column])}."
    )


def grid_picture(run: ScoredRun, study: Study, name: str) -> Picture:
    """Draw a study of two parameters: one against the other, or all pairs against lengths."""
    lengths, (first, second) = run.summary.lengths, study.axes
    wide = len(second.values)
    cells = [
        [run.summary.cells[point.task].get(length) for length in lengths] for point in study.points
    ]
    if len(lengths) == 1:
        cells = [[row[0] for row in cells[at : at + wide]] for at in range(0, len(cells), wide)]
        rows, columns = (list(map(format_value, axis.values)) for axis in study.axes)
        labels = (second.label, first.label)
    else:
        rows = [" / ".join(map(format_value, point.values)) for point in study.points]
        columns = list(map(format_length, lengths))
        labels = ("length in tokens", f"{first.label} / {second.label}")
    values = np.array([[cell.value if cell else np.nan for cell in row] for row in cells])
    notes = [[f"{cell.low:.0f}-{cell.high:.0f}" if cell else "" for cell in row] for row in cells]
    with canvas(1.0 + 0.75 * len(columns), 0.9 + 0.42 * len(rows)) as (axes, finish):
        heat(axes, values, notes)
        axes.set_xticks(range(len(columns)), columns)
        axes.set_yticks(range(len(rows)), rows)
        axes.set_xlabel(labels[0])
        axes.set_ylabel(labels[1])
        for edge in range(wide, len(rows), wide) if len(lengths) > 1 else ():
            axes.axhline(edge - 0.5, color=INK, linewidth=1)
        scores = "; ".join(
            f"{row} {', '.join(f'{value:.0f}' for value in line)}"
            for row, line in zip(rows, values, strict=True)
        )
        alt = f"{study.title}, in percent; columns are {', '.join(columns)}: {scores}."
        return finish(name, study.title, alt)


def correlation_picture(study: CorrelationStudy) -> Picture:
    """Draw the matrix of correlations, and above it the tree of clusters."""
    names = study.tasks
    with canvas(1.6 + 0.36 * len(names), 1.2 + 0.36 * len(names)) as (axes, finish):
        heat(axes, study.matrix, (), top=1.0)
        axes.set_xticks(range(len(names)), names, rotation=90)
        axes.set_yticks(range(len(names)), names)
        tree = axes.inset_axes((0, 1.01, 1, 0.15))
        for places, distances in study.branches:
            tree.plot(places, distances, color=INK, linewidth=1)
        tree.set_xlim(-0.5, len(names) - 0.5)
        tree.set_ylim(bottom=0)
        tree.axis("off")
        upper = np.triu(np.nan_to_num(study.matrix, nan=-2), 1) - 3 * np.tri(len(names))
        row, column = divmod(int(np.argmax(upper)), len(names))
        strongest = f"{names[row]} with {names[column]}, {study.matrix[row, column]:.2f}"
        return finish(
            "correlation",
            f"Correlation of {len(names)} tasks over {study.points} points",
            f"Correlations between {len(names)} tasks, clustered; the strongest is {strongest}.",
        )
