"""Scores by the depth of the evidence: its position in the context, in percent.

Tasks whose evidence can be at any depth are counted in ten equal bins of the context. Few rows have
evidence in one bin at one length, so bins, lengths and tasks are pooled until each number is of
`MIN_ROWS` rows. A task on a grid of depths has an exact depth for each row: row i is at depth
i mod D of D.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from ruler_data.names import parse_config
from ruler_report.results_file import BINS
from ruler_report.stats.intervals import Floats, Statistic
from ruler_report.stats.scores import Estimate, configs_of
from ruler_report.stats.summary import ScoredRun

#: The largest grid of depths (`ruler_data.tasks.Niah`).
MAX_DEPTHS = 101
#: Rows that a number must be of; fewer are pooled.
MIN_ROWS = 20


@dataclass(frozen=True)
class DepthTable:
    """Mean scores of a task, depths by lengths, in percent, and the number of rows in each cell.

    A value is NaN where there are no rows; lengths are in tokens.
    """

    task: str
    lengths: tuple[int, ...]
    values: Floats
    rows: Floats

    @property
    def depths(self) -> list[str]:
        """The depths of the grid, in percent."""
        return [f"{100 * depth / (len(self.values) - 1):.3g}" for depth in range(len(self.values))]


def depth_grids(run: ScoredRun) -> list[DepthTable]:
    """Return the table of every task that has a grid of depths."""
    configs = configs_of(run.results)
    tables = []
    for task in run.summary.tasks:
        columns = {n: configs[task, n] for n in run.summary.lengths if (task, n) in configs}
        grids = {config.params.get("depths", 0) for config in columns.values()}
        depths = grids.pop()
        if grids or not isinstance(depths, int) or not 1 < depths <= MAX_DEPTHS:
            continue
        values, rows = np.full((2, depths, len(columns)), np.nan)
        for column, config in enumerate(columns.values()):
            for depth in range(depths):
                scores = config.headline_scores[depth::depths]
                known = [score for score in scores if score is not None]
                rows[depth, column] = len(known)
                values[depth, column] = 100 * np.mean(known) if known else np.nan
        if rows.any():
            tables.append(DepthTable(task, tuple(columns), values, rows))
    return tables


def shown_by_depth(
    run: ScoredRun, tasks: Collection[str], lengths: Collection[int], most: int = BINS
) -> list[Estimate]:
    """Return the percentage of the evidence that answers show, in equal bins of depth.

    There are `most` bins, or 5, 2 or 1 if that gives each `MIN_ROWS` rows; none without evidence.
    The interval takes each question as one observation, however many pieces and lengths it has.
    """
    cells = {
        key: config.depth
        for name, config in run.results.configs.items()
        if config.depth and (key := parse_config(name))[0] in tasks and key[1] in lengths
    }
    if not cells:
        return []
    pieces, hits, rows = (
        np.sum([getattr(cell, name) for cell in cells.values()], axis=0)
        for name in ("pieces", "shown", "rows")
    )
    for bins in (bins for bins in (BINS, 5, 2, 1) if bins <= most):
        total, right, count = (
            np.asarray(column).reshape(bins, -1).sum(axis=1) for column in (pieces, hits, rows)
        )
        if min(count) >= MIN_ROWS or bins == 1:
            break
    if not min(total):
        return []
    several = len({length for _, length in cells})
    share, questions = right / total, np.maximum(1.0, count / several)
    low, high = Statistic(share, share * (1 - share) / questions, questions).interval()
    columns = zip(*(100 * end for end in (share, low, high)), count, strict=True)
    return [
        Estimate(float(value), float(under), float(over), int(n), int(n))
        for value, under, over, n in columns
    ]
