"""How often intervals, ranks and margins of reports err, and what they show: simulated runs.

    python benchmarks/simulate.py [--tries 2000 --draws 400]

Every number comes from the functions that a report uses (`ruler_report`: frame, resampling, means,
margin). A question has one difficulty at all lengths, shared by the runs, and longer contexts are
harder; a run is right with the chance that follows.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
from measuring import about, table
from scipy.stats import binom

from ruler_report.columns import MEAN, columns_of
from ruler_report.frame import Cell, CellRows, Digests, frame_of
from ruler_report.margin import NOT_WORSE, WORSE, decide
from ruler_report.means import Means
from ruler_report.resampling import Array

Floats = npt.NDArray[np.float64]
TASKS = 13
#: Tries in one array.
BATCH = 20
#: Sets of questions of a cell whose coverage is exact.
SETS = 12
#: Equal runs: their number, rows a task and lengths.
EQUAL = ((2, 8, 3), (5, 8, 3), (10, 8, 3), (2, 50, 3), (5, 50, 3), (10, 30, 2), (2, 500, 2))
#: A run that is better: rows a task, lengths and percentage points.
BETTER = ((50, 3, 2.0), (100, 3, 1.5), (100, 6, 1.0))
#: Chances of the 13 tasks: near the ceiling, of a small model, all alike, near the floor.
SKEWED = {
    "ceiling": (1, 1, 1, 0.99, 0.99, 0.98, 0.99, 0.99, 0.97, 0.9, 0.95, 0.8, 0.6),
    "mixed": (1, 1, 1, 0.99, 0.96, 0.46, 0.97, 0.84, 0.45, 0.08, 0.59, 0.34, 0.2),
    "equal": (0.5,) * 13,
    "floor": (0.9, 0.8, 0.5, 0.3, 0.1, 0.05, 0.2, 0.1, 0.02, 0.01, 0.2, 0.2, 0.1),
}
#: Rows a task and lengths of which intervals are tried.
DESIGNS = ((4, 1), (4, 6), (8, 6), (20, 6), (100, 1))
#: Share of the rows that a length has in common with a draw for all, and that two runs have.
ALIKE, SHARED = 0.8, 0.5


@dataclass
class Design:
    """What runs are drawn over: questions of 13 tasks, the same at every length."""

    rng: np.random.Generator
    rows: int
    lengths: int

    def questions(self) -> list[Digests]:
        """Draw the questions of each task."""
        return [self.rng.integers(1 << 62, size=self.rows).astype(np.uint64) for _ in range(TASKS)]

    def chances(self) -> Floats:
        """Draw the chance of a right answer: tasks by rows by lengths."""
        task = self.rng.normal(1.0, 1.2, (TASKS, 1, 1))
        question = self.rng.normal(0, 1.0, (TASKS, self.rows, 1))
        logit = task + question - np.linspace(0, 1.5, self.lengths)
        return np.asarray(1 / (1 + np.exp(-logit)))

    def answers(self, chances: Floats) -> Floats:
        """Draw which answers are right."""
        return (self.rng.random(chances.shape) < chances).astype(float)


def rows_of_run(scores: Floats, questions: Sequence[Digests]) -> dict[Cell, CellRows]:
    """Return scores (tasks by rows by lengths) as the rows of a run."""
    cells = {}
    for task, of_task in enumerate(scores):
        for place, column in enumerate(of_task.T):
            index = np.arange(len(column))
            cells[f"t{task}", 4096 << place] = CellRows(index, questions[task], column, column)
    return cells


def means_of(runs: Sequence[dict[Cell, CellRows]]) -> Means:
    """Return the means of runs, all different."""
    frame = frame_of(runs, {}, partial=False)
    category_of = {task: f"c{place % 4}" for place, task in enumerate(frame.tasks)}
    return Means(Array(frame, "official"), columns_of(frame, category_of), range(len(runs)))


def equal_runs(number: int, rows: int, lengths: int, tries: int) -> list[str]:
    """Return how often equal runs show a difference: of the mean, and of any cell, in percent."""
    design = Design(np.random.default_rng([number, rows, lengths]), rows, lengths)
    wrong = np.zeros(2)
    for _ in range(tries // BATCH):
        questions = design.questions()
        runs = []
        for _ in range(BATCH):
            chances = design.chances()
            runs += [rows_of_run(design.answers(chances), questions) for _ in range(number)]
        means = means_of(runs)
        cells = [name for name in means.columns if name != MEAN]
        for first in range(0, len(runs), number):
            pairs = [*combinations(range(first, first + number), 2)]
            of_mean = means.shown([MEAN], [(run, base) for base, run in pairs])
            rivals = range(first + 1, first + number)
            of_cells = means.shown(cells, [(run, first) for run in rivals])
            wrong += any(of_mean.values()), any(of_cells.values())
    return [f"{share:.1f}" for share in 100 * wrong / tries]


def power(rows: int, lengths: int, points: float, tries: int) -> list[str]:
    """Return how often a better run is shown by its mean: in one family with all cells, and now."""
    design = Design(np.random.default_rng([rows, lengths, int(10 * points)]), rows, lengths)
    found = np.zeros(3)
    for _ in range(tries // BATCH):
        questions = design.questions()
        runs = []
        for _ in range(BATCH):
            chances = design.chances()
            better = np.clip(chances + points / 100, 0, 1)
            runs.append(rows_of_run(design.answers(chances), questions))
            runs.append(rows_of_run(design.answers(better), questions))
        means = means_of(runs)
        for first in range(0, len(runs), 2):
            test = MEAN, first + 1, first
            pair = [(first + 1, first)]
            of_all, of_mean = means.shown([*means.columns], pair), means.shown([MEAN], pair)
            found += of_all[test], of_mean[test], means.difference(*test).is_clear
    return [f"{share:.0f}" for share in 100 * found / tries]


def redrawn(design: Design, share: float) -> tuple[Floats, Floats]:
    """Return the answers of a run, and of an equal one of which a share is drawn anew."""
    chances = design.chances()
    answers = design.answers(chances)
    is_redrawn = design.rng.random(answers.shape) < share
    return answers, np.where(is_redrawn, design.answers(chances), answers)


def lost_everywhere(design: Design, points: float) -> tuple[Floats, Floats]:
    """Return the answers of a run, and of one that loses so many points of the mean."""
    answers = design.answers(design.chances())
    is_lost = design.rng.random(answers.shape) < points / 100 / answers.mean()
    return answers, np.where(is_lost, 0.0, answers)


def lost_at_one_length(design: Design, points: float) -> tuple[Floats, Floats]:
    """Return the answers of a run, and of one that loses so many points at the third length."""
    answers = design.answers(design.chances())
    worse = answers.copy()
    third = answers[..., 2]
    is_lost = design.rng.random(third.shape) < points / 100 / third.mean()
    worse[..., 2] = np.where(is_lost, 0.0, third)
    return answers, worse


Draw = Callable[[Design], tuple[Floats, Floats]]
MARGINS: tuple[tuple[str, int, int, Draw], ...] = (
    ("equal, 2 % of the answers redrawn", 500, 3, lambda design: redrawn(design, 0.02)),
    ("equal, 10 % redrawn", 500, 3, lambda design: redrawn(design, 0.1)),
    ("equal, all redrawn", 500, 3, lambda design: redrawn(design, 1.0)),
    ("1 point worse", 500, 3, lambda design: lost_everywhere(design, 1.0)),
    ("1 point worse", 50, 3, lambda design: lost_everywhere(design, 1.0)),
    ("1 point worse", 8, 6, lambda design: lost_everywhere(design, 1.0)),
    ("10 points lost at one length of six", 500, 6, lambda design: lost_at_one_length(design, 10)),
)


def margins(place: int, tries: int) -> list[str]:
    """Return how often a margin of 1 point says *not worse*, *worse* and *cannot tell*."""
    _, rows, lengths, draw = MARGINS[place]
    design = Design(np.random.default_rng([7, place]), rows, lengths)
    counts = np.zeros(3)
    for _ in range(tries // BATCH):
        questions = design.questions()
        runs = []
        for _ in range(BATCH):
            runs += [rows_of_run(answers, questions) for answers in draw(design)]
        means = means_of(runs)
        for base in range(0, len(runs), 2):
            verdict, _ = decide(means, base + 1, base, 1.0)
            counts += verdict == NOT_WORSE, verdict == WORSE, verdict not in (NOT_WORSE, WORSE)
    return [f"{share:.1f}" for share in 100 * counts / tries]


def holds(low: float | None, high: float | None, truth: float) -> bool:
    """Whether an interval holds the truth."""
    return low is not None and high is not None and low - 1e-9 <= truth <= high + 1e-9


def levels(design: Design, shape: tuple[int, int, int]) -> Floats:
    """Return how hard each row is; lengths of a question are alike."""
    alike = design.rng.random(shape[:2])[..., None]
    return np.where(design.rng.random(shape) < ALIKE, alike, design.rng.random(shape))


def coverage(name: str, rows: int, lengths: int, draws: int) -> list[str]:
    """Return how often intervals of means, paired and unpaired differences hold the truth."""
    chances = np.array(SKEWED[name])
    truth = 100 * float(chances.mean())
    design = Design(np.random.default_rng([1, rows, lengths]), rows, lengths)
    shape = (TASKS, rows, lengths)
    hits = np.zeros(3)
    for _ in range(draws // BATCH):
        runs = []
        for _ in range(BATCH):
            questions = design.questions()
            common = levels(design, shape)
            for _ in range(2):
                is_shared = design.rng.random((TASKS, rows, 1)) < SHARED
                drawn = np.where(is_shared, common, levels(design, shape))
                runs.append(rows_of_run((drawn < chances[:, None, None]).astype(float), questions))
        means = means_of(runs)
        for place in range(0, len(runs), 2):
            mean = means.estimate(MEAN, place)
            paired = means.difference(MEAN, place + 1, place)
            unpaired = means.difference(MEAN, (place + 3) % len(runs), place)
            hits += (
                mean is not None and holds(mean.low, mean.high, truth),
                holds(paired.low, paired.high, 0.0),
                holds(unpaired.low, unpaired.high, 0.0),
            )
    return [f"{share:.1f}" for share in 100 * hits / draws]


def cell_coverage(rows: int) -> list[str]:
    """Return how often intervals of a cell hold the truth: on average over chances, at worst.

    By the binomial distribution of the number of right rows, with twelve sets of questions.
    """
    chances = np.arange(1, 100)
    held = np.zeros((rows + 1, len(chances)))
    for seed in range(SETS):
        rng = np.random.default_rng([2, seed])
        questions = [rng.integers(1 << 62, size=rows).astype(np.uint64)]
        runs = []
        for right in range(rows + 1):
            scores = (np.arange(rows) < right).astype(float)
            runs.append(rows_of_run(scores[None, :, None], questions))
        means = means_of(runs)
        for right in range(rows + 1):
            mean = means.estimate(MEAN, right)
            if mean is not None:
                held[right] += [holds(mean.low, mean.high, chance) for chance in chances.tolist()]
    chance_of = binom.pmf(np.arange(rows + 1)[:, None], rows, chances / 100)
    covered = (chance_of * held).sum(axis=0) / SETS
    return [f"{100 * float(share):.1f}" for share in (covered.mean(), covered.min())]


def page(tries: int, draws: int) -> Iterator[str]:
    """Yield the page of results."""
    facts = about("numpy")
    yield f"""# Errors of intervals, ranks and margins

`python benchmarks/simulate.py --tries {tries} --draws {draws}` at commit {facts["commit"]}; \
{facts["machine"]}, Python {facts["python"]}, numpy {facts["numpy"]}. Arithmetic \
only: no model was run. 13 tasks; numbers are in percent.

Equal runs, {tries:,} tries: any difference of means shown (all pairs), and any cell, task, length
or category (each run against the first); each family is to err in at most 5 %.
"""
    rows = [[*design, *equal_runs(*design, tries)] for design in EQUAL]
    yield from table(["runs", "rows a task", "lengths", "mean", "cells"], rows)
    yield f"""
A run that is better by some points, {tries:,} tries: its mean is shown in one family with all cells
(as before 1.0.0), in a family of its own (as now), and 0 is outside the interval.
"""
    rows = [
        [points, n, lengths, *power(n, lengths, points, tries)] for n, lengths, points in BETTER
    ]
    head = ["points", "rows a task", "lengths", "one family", "own family", "interval"]
    yield from table(head, rows)
    yield f"\nA margin of 1 point, {tries:,} tries:\n"
    rows = []
    for place, (name, n, lengths, _) in enumerate(MARGINS):
        rows.append([name, n, lengths, *margins(place, tries)])
    head = ["run", "rows a task", "lengths", "not worse", "worse", "cannot tell"]
    yield from table(head, rows)
    yield f"""
Intervals of 95 % that hold the truth, {draws:,} draws; {ALIKE:.0%} of a question's rows are alike,
runs share {SHARED:.0%} of their rows: mean of all tasks and lengths, paired and unpaired
differences of equal runs.
"""
    rows = [
        [name, n, lengths, *coverage(name, n, lengths, draws)]
        for name in SKEWED
        for n, lengths in DESIGNS
    ]
    yield from table(["chances", "rows a task", "lengths", "mean", "paired", "unpaired"], rows)
    yield "\nIntervals of one cell, over chances of 0.01 to 0.99, exactly:\n"
    rows = [[n, *cell_coverage(n)] for n in (4, 8, 20, 100)]
    yield from table(["rows", "average", "worst chance"], rows)


def main() -> None:
    """Simulate and print a page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--tries", type=int, default=2000, help="of equal runs, gaps and margins")
    parser.add_argument("--draws", type=int, default=400, help="of intervals")
    options = parser.parse_args()
    for line in page(options.tries, options.draws):
        print(line, flush=True)


if __name__ == "__main__":
    main()
