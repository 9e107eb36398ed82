"""Ranks of runs with intervals: which ranks the pairwise tests do not exclude.

A run's rank is between 1 plus the number of runs that are significantly better, and the number of
runs minus those that are significantly worse. All pairs are tested with Holm's correction, so the
intervals of all runs hold together in 95 % of the cases (Mogstad, Romano, Shaikh, Wilhelm, Review
of Economic Studies 91 (2024); Klein, Wright, Wieczorek, JRSS A 183 (2020)).
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from ruler_report.results import Results
from ruler_report.stats.comparability import comparability
from ruler_report.stats.comparison import holm
from ruler_report.stats.intervals import LEVEL, Statistic, minus
from ruler_report.stats.score_table import ScoreTable


class Ranking:
    """The scores of runs that can be compared, to rank them by several means."""

    def __init__(self, results: Sequence[Results]) -> None:
        self.tables = [ScoreTable.of(one) for one in results]
        self._paired = {
            (i, j): comparability(results[i], results[j]).paired
            for i, j in combinations(range(len(results)), 2)
        }
        self._missing = [
            {
                (task, length): np.isnan(table.scores[task][:, column]).tobytes()
                for task in table.tasks
                for column, length in enumerate(table.lengths)
            }
            for table in self.tables
        ]

    def ranks(
        self, tasks: Sequence[str], lengths: Mapping[int, float]
    ) -> list[tuple[int, int] | None]:
        """Return the interval of each run's rank by a mean; None for runs without all of it.

        Two runs are paired if they asked the same and scored the same rows, else unpaired.

        Args:
            tasks: to average.
            lengths: with their weights, which add up to 1.
        """
        cells = [(task, length) for task in tasks for length in lengths]
        whole = [
            place for place, table in enumerate(self.tables) if table.configs.keys() >= set(cells)
        ]
        means = {place: self.tables[place].mean((tasks,), lengths) for place in whole}
        gaps = [
            minus(means[i], means[j], paired=self._paired[i, j] and all(
                self._missing[i][cell] == self._missing[j][cell] for cell in cells
            ))
            for i, j in combinations(whole, 2)
        ]  # fmt: skip
        found = dict(zip(whole, rank_intervals(len(whole), gaps), strict=True))
        return [found.get(place) for place in range(len(self.tables))]


def rank_intervals(number: int, gaps: Sequence[Statistic]) -> list[tuple[int, int]]:
    """Return the interval of the rank of each of so many runs.

    `gaps` are the differences of all pairs, first minus second, in the order of `combinations`.
    """
    value, variance, rows, added = (
        np.array([getattr(gap, name) for gap in gaps], dtype=np.float64)
        for name in ("value", "variance", "rows", "added")
    )
    above, below = Statistic(value, variance, rows, -1.0, added=added).p_values()
    pairs = list(combinations(range(number), 2))
    adjusted = holm(dict(zip(pairs, 2 * np.minimum(above, below), strict=True)))
    ranks = [[1, number] for _ in range(number)]
    for gap, pair in zip(gaps, pairs, strict=True):
        if adjusted[pair] < LEVEL:
            winner, loser = pair if gap.value > 0 else pair[::-1]
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
