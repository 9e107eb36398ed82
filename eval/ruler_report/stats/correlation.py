"""Correlations between the 18 tasks of the paper's appendix C, clustered.

A task is the vector of its scores at every length of every run. Tasks are ordered by agglomerative
clustering with average linkage; the distance is 1 minus Pearson's correlation. The paper does not
name its linkage.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ruler_report.stats.intervals import Floats
from ruler_report.stats.summary import ScoredRun

#: The number of tasks in the paper's study; fewer are not analysed.
MIN_TASKS = 18
#: With fewer points tasks correlate by chance.
MIN_POINTS = 4

Branches = tuple[tuple[list[float], list[float]], ...]


@dataclass(frozen=True)
class CorrelationStudy:
    """Correlations between tasks, in the order of their clusters, over lengths of all runs.

    The matrix has NaN for a task whose score is constant. Each branch of the cluster tree is four
    points: positions among the tasks, and distances.
    """

    tasks: tuple[str, ...]
    points: int
    matrix: Floats
    branches: Branches


def correlation_study(runs: Sequence[ScoredRun]) -> CorrelationStudy | None:
    """Return the correlations of the tasks that all runs have; None if there are too few."""
    tasks = [
        task for task in runs[0].summary.tasks if all(task in run.summary.tasks for run in runs)
    ]
    points = [
        {task: run.summary.cells[task][length].value for task in tasks}
        for run in runs
        for length in run.summary.lengths
        if all(run.summary.official[task].get(length) is not None for task in tasks)
    ]
    if len(tasks) < MIN_TASKS or len(points) < MIN_POINTS:
        return None
    return clustered(points)


def clustered(points: Sequence[Mapping[str, float]]) -> CorrelationStudy:
    """Return the correlations between tasks over points, in the order of their clusters."""
    import pandas as pd
    from scipy.cluster.hierarchy import dendrogram, linkage
    from scipy.spatial.distance import squareform

    matrix = pd.DataFrame(points).corr()
    distance = 1 - matrix.fillna(0).to_numpy()
    np.fill_diagonal(distance, 0)
    tree = dendrogram(
        linkage(squareform(distance.clip(0, 2), checks=False), "average"), no_plot=True
    )
    branches = tuple(
        ([(place - 5) / 10 for place in places], distances)  # scipy's leaves are at 5, 15, 25 ...
        for places, distances in zip(tree["icoord"], tree["dcoord"], strict=True)
    )
    matrix = matrix.iloc[tree["leaves"], tree["leaves"]]
    return CorrelationStudy(tuple(matrix.columns), len(points), matrix.to_numpy(), branches)
