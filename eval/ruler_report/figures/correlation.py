"""Which tasks tell the same: correlations of the 18 tasks of the paper's appendix C.

A task is the vector of its scores at every length of every run; tasks are ordered by agglomerative
clustering (average linkage) with 1 less Pearson's correlation as distance. The paper does not name
the linkage.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ruler_data.errors import UsageError
from ruler_report.figures.style import INK, Picture, canvas, heat
from ruler_report.stats.resampling import Floats
from ruler_report.tables.tables import Scored, Table

#: Tasks of the study, and so what it takes to repeat it.
TASKS = 18
#: Fewer points than this would correlate by chance.
POINTS = 4


@dataclass(frozen=True)
class CorrelationStudy:
    """Correlations of tasks, in the order of their clusters.

    Attributes:
        tasks: names.
        points: lengths of runs that they were correlated over.
        matrix: Pearson's correlations; NaN for a task that never changes.
        branches: of the tree, four points each: places among the tasks, and distances.
    """

    tasks: tuple[str, ...]
    points: int
    matrix: Floats
    branches: tuple[tuple[list[float], list[float]], ...]


def correlation_study(runs: Sequence[Scored]) -> CorrelationStudy | None:
    """Return the correlations of the tasks that all runs have; None unless 18 of them were run.

    Raises:
        UsageError: scipy is not installed.
    """
    tasks = [task for task in runs[0].summary.tasks
             if all(task in run.summary.tasks for run in runs)]  # fmt: skip
    vectors = _vectors(runs, tasks)
    if len(tasks) < TASKS or vectors.shape[1] < POINTS:
        return None
    matrix, order, branches = clustered(vectors)
    names = tuple(tasks[place] for place in order)
    return CorrelationStudy(names, vectors.shape[1], matrix[np.ix_(order, order)], branches)


def correlation_picture(study: CorrelationStudy) -> Picture:
    """Draw the matrix, and above it the tree of its clusters."""
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
        strongest = _strongest(study.matrix, names)
        return finish(
            "correlation",
            f"Correlation of {len(names)} tasks over {study.points} points",
            f"Correlations between {len(names)} tasks, clustered; the strongest is {strongest}.",
        )


def correlation_table(study: CorrelationStudy) -> Table:
    """Return the matrix as a table."""
    rows = tuple(
        (task, *("" if np.isnan(value) else f"{value:.2f}" for value in line))
        for task, line in zip(study.tasks, study.matrix, strict=True)
    )
    caption = f"Correlations of {len(study.tasks)} tasks over {study.points} points, clustered"
    return Table("correlations", caption, ("task", *study.tasks), rows)


def clustered(
    vectors: Floats,
) -> tuple[Floats, list[int], tuple[tuple[list[float], list[float]], ...]]:
    """Return the correlations of rows, their order, and the branches of their tree.

    Raises:
        UsageError: scipy is not installed.
    """
    try:
        from scipy.cluster.hierarchy import dendrogram, linkage
        from scipy.spatial.distance import squareform
    except ImportError as error:
        msg = "clustering needs scipy: pip install 'ruler-data[report]', or give --no-pictures"
        raise UsageError(msg) from error
    with warnings.catch_warnings(), np.errstate(invalid="ignore", divide="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        matrix = np.corrcoef(vectors)
    distance = np.clip(1 - np.nan_to_num(matrix), 0, 2)
    np.fill_diagonal(distance, 0)
    symmetric = (distance + distance.T) / 2
    tree = dendrogram(linkage(squareform(symmetric, checks=False), "average"), no_plot=True)
    branches = tuple(
        ([(place - 5) / 10 for place in places], distances)  # scipy's leaves stand at 5, 15, 25 ...
        for places, distances in zip(tree["icoord"], tree["dcoord"], strict=True)
    )
    return np.asarray(matrix), [int(place) for place in tree["leaves"]], branches


def _vectors(runs: Sequence[Scored], tasks: Sequence[str]) -> Floats:
    """Return tasks by points: a point is a length of a run at which it has every task."""
    points = [
        [run.summary.cells[task][length].value for task in tasks]
        for run in runs
        for length in run.summary.lengths
        if all(length in run.summary.cells[task] for task in tasks)
    ]
    return np.array(points, dtype=np.float64).reshape(len(points), len(tasks)).T


def _strongest(matrix: Floats, names: Sequence[str]) -> str:
    upper = np.triu(np.nan_to_num(matrix, nan=-2), 1) - 3 * np.tri(len(names))
    row, column = divmod(int(np.argmax(upper)), len(names))
    return f"{names[row]} with {names[column]}, {matrix[row, column]:.2f}"
