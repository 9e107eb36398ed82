"""Scores by the depth of the evidence: its position in the context, in percent.

Tasks whose evidence can be at any depth are counted in ten equal bins of the context. A task on a
grid of depths has an exact depth for each row: row i is at depth i mod D of D.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ruler_data.names import parse_config
from ruler_report.results import BINS, ConfigResult
from ruler_report.stats.intervals import Floats
from ruler_report.stats.summary import ScoredRun

#: The largest grid of depths (`ruler_data.tasks.Niah`).
MAX_DEPTHS = 101


@dataclass(frozen=True)
class DepthTable:
    """Percentages of a task by depth and length.

    Attributes:
        task: its name.
        lengths: of the columns, in tokens.
        values: depths by lengths: mean scores on a grid, else shares of the evidence that answers
            show. NaN where there are no rows.
        rows: the number of rows in each cell.
        grid: whether the rows of the table are exact depths; otherwise they are bins.
    """

    task: str
    lengths: tuple[int, ...]
    values: Floats
    rows: Floats
    grid: bool

    @property
    def depths(self) -> list[str]:
        """The depths of the grid, or the edges of the bins, in percent."""
        if self.grid:
            return [
                f"{100 * depth / (len(self.values) - 1):.3g}" for depth in range(len(self.values))
            ]
        return [f"{100 * edge // BINS}" for edge in range(BINS + 1)]


def depth_tables(run: ScoredRun) -> list[DepthTable]:
    """Return the table of every task that has evidence or a grid of depths."""
    named = {parse_config(name): config for name, config in run.results.configs.items()}
    tables = []
    for task in run.summary.tasks:
        columns = {
            length: named[task, length]
            for length in run.summary.lengths
            if (task, length) in named and named[task, length].scored
        }
        depths = _grid_depths(columns)
        if not depths:
            columns = {length: config for length, config in columns.items() if config.depth}
        if columns:
            values, rows = _grid_cells(columns, depths) if depths else _binned(columns)
            tables.append(DepthTable(task, tuple(columns), values, rows, bool(depths)))
    return tables


def _grid_depths(columns: Mapping[int, ConfigResult]) -> int:
    """Return the number of depths in the grid of a task; 0 where it has none."""
    grids = {config.params.get("depths", 0) for config in columns.values()}
    depths = grids.pop() if len(grids) == 1 else 0
    return depths if isinstance(depths, int) and 1 < depths <= MAX_DEPTHS else 0


def _grid_cells(columns: Mapping[int, ConfigResult], depths: int) -> tuple[Floats, Floats]:
    values, rows = np.full((2, depths, len(columns)), np.nan)
    for column, config in enumerate(columns.values()):
        for depth in range(depths):
            scores = [score for score in config.headline_scores[depth::depths] if score is not None]
            rows[depth, column] = len(scores)
            values[depth, column] = 100 * np.mean(scores) if scores else np.nan
    return values, rows


def _binned(columns: Mapping[int, ConfigResult]) -> tuple[Floats, Floats]:
    bins = [config.depth for config in columns.values() if config.depth]
    pieces, shown = (
        np.array([getattr(one, name) for one in bins]).T for name in ("pieces", "shown")
    )
    shares = np.divide(100.0 * shown, pieces, np.full(pieces.shape, np.nan), where=pieces > 0)
    return shares, np.array([one.rows for one in bins], dtype=np.float64).T
