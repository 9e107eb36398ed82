"""Ranks of runs with intervals: which ranks the pairwise tests do not exclude.

A run's rank is between 1 plus the number of runs that are significantly better, and the number of
runs minus those that are significantly worse. All pairs are tested with Holm's correction, so the
intervals of all runs hold together in 95 % of the cases (Mogstad, Romano, Shaikh, Wilhelm, Review
of Economic Studies 91 (2024); Klein, Wright, Wieczorek, JRSS A 183 (2020)).
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from ruler_report.results_file import Results
from ruler_report.stats.comparability import comparability
from ruler_report.stats.comparison import holm
from ruler_report.stats.intervals import LEVEL, Statistic, minus
from ruler_report.stats.score_table import ScoreTable


class Ranking:
    """The scores of runs that can be compared, to rank them by several means."""

    def __init__(self, results: Sequence[Results]) -> None:
        self.tables = [ScoreTable.of(one) for one in results]
        missing = [
            {
                (task, length): np.isnan(table.scores[task][:, column]).tobytes()
                for task in table.tasks
                for column, length in enumerate(table.lengths)
            }
            for table in self.tables
        ]
        #: By pair of runs, the cells of which both scored the same rows; none if not paired.
        self._alike = {
            (i, j): {cell for cell, one in missing[i].items() if missing[j].get(cell) == one}
            if comparability(results[i], results[j]).paired
            else set()
            for i, j in combinations(range(len(results)), 2)
        }

    def ranks(
        self, tasks: Sequence[str], lengths: Mapping[int, float]
    ) -> list[tuple[int, int] | None]:
        """Return the interval of each run's rank by a mean; None for runs without all of it.

        The mean is over tasks, and over lengths with weights that add up to 1. Two runs are paired
        if they asked the same and scored the same rows, else unpaired.
        """
        cells = {(task, length) for task in tasks for length in lengths}
        means = {
            place: table.mean((tasks,), lengths)
            for place, table in enumerate(self.tables)
            if table.configs.keys() >= cells
        }
        gaps = [
            minus(means[i], means[j], paired=self._alike[i, j] >= cells)
            for i, j in combinations(means, 2)
        ]
        found = dict(zip(means, rank_intervals(len(means), gaps), strict=True))
        return [found.get(place) for place in range(len(self.tables))]


def rank_intervals(number: int, gaps: Sequence[Statistic]) -> list[tuple[int, int]]:
    """Return the interval of the rank of each of so many runs.

    `gaps` are the differences of all pairs, first minus second, in the order of `combinations`.
    """
    pairs = dict(zip(combinations(range(number), 2), gaps, strict=True))
    adjusted = holm({pair: 2 * float(min(gap.p_values())) for pair, gap in pairs.items()})
    ranks = [[1, number] for _ in range(number)]
    for pair, p in adjusted.items():
        if p < LEVEL:
            winner, loser = pair if pairs[pair].value > 0 else pair[::-1]
            ranks[loser][0] += 1
            ranks[winner][1] -= 1
    return [(low, high) for low, high in ranks]


def format_ranks(ranks: tuple[int, int] | None) -> str:
    """Return an interval of ranks.

    >>> format_ranks((1, 1)), format_ranks((2, 4)), format_ranks(None)
    ('1', '2-4', '')
    """
    if ranks is None:
        return ""
    low, high = ranks
    return f"{low}" if low == high else f"{low}-{high}"
