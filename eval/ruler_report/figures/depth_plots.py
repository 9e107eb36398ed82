"""Scores by where the evidence stands: depth by length, the classic picture of needles.

Tasks whose needles stand anywhere are cut into ten cells of the context; those of a grid of depths
have a line for each depth of the grid, and rows of exactly that depth in it.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ruler_data.names import parse_config
from ruler_report.figures.model_plots import slug
from ruler_report.figures.style import Picture, canvas, heat
from ruler_report.results import BINS, ConfigResult
from ruler_report.stats.resampling import Floats
from ruler_report.tables.format import length_words
from ruler_report.tables.tables import Scored, Table

Columns = Mapping[int, ConfigResult]
#: Depths of a grid at the most (`ruler_data.tasks.Niah`).
DEEPEST = 101


def depth_pictures(run: Scored, prefix: str) -> Iterator[Picture]:
    """Yield a map of every task that has evidence."""
    for task in run.summary.tasks:
        columns = {length: one for length, one in _columns(run, task).items() if one.depth}
        if not columns:
            continue
        name = f"{prefix}depth-{slug(task)}"
        grid = bool(_depths(columns))
        values, rows = grid_cells(columns) if grid else _binned(columns)
        yield depth_map(name, task, list(columns), values, rows, grid=grid)


def depth_tables(run: Scored) -> Iterator[Table]:
    """Yield a table of every task that stands on a grid of depths."""
    for task in run.summary.tasks:
        columns = _columns(run, task)
        if not _depths(columns):
            continue
        values, rows = grid_cells(columns)
        lines = tuple(
            (f"{depth:.3g}", *(_cell(value, n) for value, n in zip(line, counts, strict=True)))
            for depth, line, counts in zip(_labels(len(values)), values, rows, strict=True)
        )
        caption = f"{task}: score in percent by depth in percent and by length, and rows of it"
        head = ("depth", *map(length_words, columns))
        yield Table(f"grid-{task}", caption, head, lines)


def grid_cells(columns: Columns) -> tuple[Floats, Floats]:
    """Return mean scores in percent and numbers of scored rows, depths by lengths.

    Row i stands at depth i mod D of a grid of D depths (`ruler_data.tasks.Niah`).
    """
    depths = _depths(columns)
    values, rows = np.full((2, depths, len(columns)), np.nan)
    for column, config in enumerate(columns.values()):
        for depth in range(depths):
            scores = [score for score in config.scores[depth::depths] if score is not None]
            rows[depth, column] = len(scores)
            values[depth, column] = 100 * np.mean(scores) if scores else np.nan
    return values, rows


def depth_map(
    name: str, task: str, lengths: Sequence[int], values: Floats, rows: Floats, *, grid: bool
) -> Picture:
    """Draw a table of percents by depth and length, with the number of rows in each cell.

    Args:
        name: of the picture.
        task: that it shows.
        lengths: of the columns, in tokens.
        values: cells by lengths, in percent.
        rows: in each cell.
        grid: whether cells are depths of a grid, and not equal parts of the context.
    """
    cells = len(values)
    notes = [[f"n={n:.0f}" if n else "" for n in line] for line in rows]
    with canvas(1.0 + 0.6 * len(lengths), 0.6 + 0.33 * cells) as (axes, finish):
        heat(axes, values, notes)
        axes.set_xticks(range(len(lengths)), [length_words(length) for length in lengths])
        if grid:
            axes.set_yticks(range(cells), [f"{depth:.3g}" for depth in _labels(cells)])
        else:
            axes.set_yticks(np.arange(BINS + 1) - 0.5, [f"{10 * cell}" for cell in range(BINS + 1)])
        axes.set_xlabel("length in tokens")
        axes.set_ylabel("depth in percent")
        return finish(name, task, _alt(task, lengths, values, grid=grid))


def _alt(task: str, lengths: Sequence[int], values: Floats, *, grid: bool) -> str:
    row, column = divmod(int(np.nanargmin(values)), len(lengths))
    if grid:
        what, where = "score in percent", f"{_labels(len(values))[row]:.3g}"
    else:
        what = "percent of the evidence that answers show"
        where = f"{10 * row} to {10 * row + 10}"
    return (
        f"{task}: {what}, by depth and length; lowest {values[row, column]:.0f} at depth {where} "
        f"percent and {length_words(lengths[column])}."
    )


def _binned(columns: Columns) -> tuple[Floats, Floats]:
    """Return the shares of evidence shown in percent, and rows, cells by lengths."""
    found = [config.depth for config in columns.values() if config.depth]
    pieces, shown = (np.array([getattr(one, name) for one in found]).T
                     for name in ("pieces", "shown"))  # fmt: skip
    shares = np.divide(100.0 * shown, pieces, np.full(pieces.shape, np.nan), where=pieces > 0)
    return shares, np.array([one.rows for one in found], dtype=np.float64).T


def _columns(run: Scored, task: str) -> dict[int, ConfigResult]:
    """Return the scored configs of a task by length, rising."""
    named = {parse_config(name): config for name, config in run.results.configs.items()}
    return {length: named[task, length] for length in run.summary.lengths
            if (task, length) in named and named[task, length].scored}  # fmt: skip


def _depths(columns: Columns) -> int:
    """Return how many depths the grid of a task has; 0 where it has none."""
    grids = {config.params.get("depths", 0) for config in columns.values()}
    depths = grids.pop() if len(grids) == 1 else 0
    return depths if isinstance(depths, int) and 1 < depths <= DEEPEST else 0


def _labels(depths: int) -> list[float]:
    return [100 * depth / (depths - 1) for depth in range(depths)]


def _cell(value: float, rows: float) -> str:
    return f"{value:.1f} (n={rows:.0f})" if rows else ""
