"""Two simulations of models that are right with a given chance in each of the 13 tasks.

    python benchmarks/simulate.py mini [--error 3.7]
    python benchmarks/simulate.py frame [--draws 400 --few 100]

mini: how many rows a small suite needs. Every row is drawn right or wrong with the chance of its
task, 500 rows of each task; the first n of them are the small suite. Its error is the distance
between the two means over the 13 tasks; reported is the error that 95 draws in 100 do not exceed.
No score profile can be worse, for two reasons: a score between 0 and 1 varies less than right or
wrong with the same mean; and tasks that share a mean vary most together if all have that mean, so
the published means of categories bound what their tasks can do.

frame: how often intervals of `ruler_report.frame` hold the truth, and how often ranks and gates
err.
"""

import argparse
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from measuring import about, table
from scipy.stats import binom

from ruler_report.baseline import NOT_WORSE, WORSE, verdicts_of
from ruler_report.frame import Cell, Digests, columns_of, frame_of
from ruler_report.means import Means
from ruler_report.procedures import published
from ruler_report.resampling import resample

Floats = npt.NDArray[np.float64]
FULL = 500
#: Rows spread evenly over depth in every aligned group of this many (rows/randomness.py).
GRAIN = 10
#: Tasks of each category, by the table of the paper that has its means.
CATEGORIES = {"13": 8, "14": 1, "15": 2, "16": 2}
SIZES = (10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 150, 200)
DRAWS, SURE = 4_000, 40_000
#: Scores by task, in the order of the table of tasks; from github.com/NVIDIA/RULER/issues.
BY_TASK = {
    "Phi-3-mini at 4K (issue 71)":
        (100, 100, 100, 96.6, 99.6, 99.6, 92.2, 98.5, 97.1, 91.9, 85.1, 83.8, 54.2),
    "Phi-3-mini at 8K (issue 71)":
        (100, 100, 100, 96.6, 100, 99.4, 95.2, 98.5, 99.3, 88.6, 83.4, 75.8, 53.0),
    "Phi-3-mini at 16K (issue 71)":
        (100, 100, 100, 95.4, 100, 98.6, 92.8, 98.0, 99.3, 78.7, 86.7, 78.8, 50.2),
    "GPT-4 at 4K (issue 63)":
        (100, 100, 100, 100, 100, 100, 99.5, 100, 100, 100, 98.0, 88.0, 70.0),
}  # fmt: skip
WORST = "every task at 50"


@dataclass(frozen=True)
class Profile:
    """A model's chance to be right in each of the 13 tasks."""

    name: str
    chances: Floats

    def error(self, rows: int, draws: int = DRAWS) -> float:
        """Return the error that 95 draws in 100 do not exceed, in percentage points."""
        rng = np.random.Generator(np.random.PCG64([rows, draws]))
        right = rng.binomial(FULL, self.chances, (draws, len(self.chances)))
        ours = rng.hypergeometric(right, FULL - right, rows)
        gaps = (ours / rows - right / FULL).mean(axis=1)
        return float(100 * np.quantile(np.abs(gaps), 0.95))


def profiles() -> Iterator[Profile]:
    """Yield published profiles, those of single tasks, and the worst that there can be."""
    found: dict[tuple[str, int], dict[str, float]] = {}
    for line in published("paper-2024-04"):
        if line.table in CATEGORIES:
            for length, score in line.scores.items():
                found.setdefault((line.model, length), {})[line.table] = score
    for (model, length), scores in found.items():
        if len(scores) == len(CATEGORIES):
            means = [scores[table] for table in CATEGORIES]
            chances = np.repeat(means, list(CATEGORIES.values())) / 100
            yield Profile(f"{model} at {length // 1024}K", chances)
    for name, percents in BY_TASK.items():
        yield Profile(name, np.array(percents) / 100)
    yield Profile(WORST, np.full(13, 0.5))


def shared_out(known: list[Profile], error: float) -> tuple[int, tuple[int, ...]]:
    """Return the fewest rows that reach an error with different rows for each category.

    By the normal approximation; rows of the categories in tens.
    """
    tasks = np.array(list(CATEGORIES.values()))
    starts = np.cumsum(tasks) - tasks
    chances = np.array([profile.chances for profile in known])
    spread = np.add.reduceat(chances * (1 - chances), starts, axis=1)
    best: tuple[int, tuple[int, ...]] = (13 * FULL, (FULL,) * 4)
    for rows in itertools.product(range(GRAIN, 200, GRAIN), repeat=4):
        total = int(tasks @ rows)
        if total < best[0]:
            lost = 1 / np.array(rows) - 1 / FULL
            if 196 * np.sqrt((spread @ lost).max()) / 13 <= error:
                best = (total, rows)
    return best


#: Chances of the 13 tasks: near the ceiling, of a small model, all alike, near the floor.
SKEWED = {
    "ceiling": (1, 1, 1, 0.99, 0.99, 0.98, 0.99, 0.99, 0.97, 0.9, 0.95, 0.8, 0.6),
    "mixed": (1, 1, 1, 0.99, 0.96, 0.46, 0.97, 0.84, 0.45, 0.08, 0.59, 0.34, 0.2),
    "equal": (0.5,) * 13,
    "floor": (0.9, 0.8, 0.5, 0.3, 0.1, 0.05, 0.2, 0.1, 0.02, 0.01, 0.2, 0.2, 0.1),
}
#: Share of the rows that a length has in common with a draw for all, and that two models have.
ALIKE, SHARED = 0.8, 0.5
#: Rows of a task, and lengths.
DESIGNS = ((4, 1), (4, 6), (8, 6), (20, 6), (100, 1))
#: Draws in one array.
BATCH = 20
#: Percentage points of a gate, and sets of questions of a cell.
MARGIN, SETS = 5.0, 12


class Draw:
    """Runs that are drawn: models with shared questions, right with a chance at each length."""

    def __init__(self, seed: int, rows: int, lengths: int) -> None:
        """Start without runs."""
        self.rng = np.random.Generator(np.random.PCG64([seed, rows, lengths]))
        self.rows, self.lengths = rows, [4096 << place for place in range(lengths)]
        self.asked: list[dict[Cell, Digests]] = []
        self.scores: list[dict[Cell, Floats]] = []

    def models(self, chances: list[Floats]) -> None:
        """Add models that answer one draw of questions; they share `SHARED` of their rows."""
        asked: dict[Cell, Digests] = {}
        scores: list[dict[Cell, Floats]] = [{} for _ in chances]
        shape = (len(self.lengths), self.rows)
        for task in range(len(chances[0])):
            questions = self.rng.integers(1 << 62, size=self.rows).astype(np.uint64)
            common = self._levels(shape)
            for place, chance in enumerate(chances):
                own = np.where(self.rng.random(self.rows) < SHARED, common, self._levels(shape))
                for length, levels in zip(self.lengths, own, strict=True):
                    asked[f"t{task}", length] = questions
                    scores[place][f"t{task}", length] = (levels < chance[task]).astype(float)
        self.asked += [asked] * len(chances)
        self.scores += scores

    def _levels(self, shape: tuple[int, int]) -> Floats:
        """Return how hard each row is; lengths of a question are alike."""
        return np.where(self.rng.random(shape) < ALIKE, self.rng.random(shape[1]),
                        self.rng.random(shape))  # fmt: skip

    def means(self, *, cells: bool = False) -> Means:
        """Return the means of all runs."""
        frame = frame_of(self.asked)
        category_of = {task: f"c{place % 4}" for place, task in enumerate(frame.tasks)}
        return resample(frame, self.scores, columns_of(frame, category_of, cells=cells))


def holds(low: float | None, high: float | None, truth: float) -> bool:
    """Whether an interval holds the truth."""
    return low is not None and high is not None and low - 1e-9 <= truth <= high + 1e-9


def coverage(name: str, rows: int, lengths: int, draws: int) -> list[str]:
    """Return how often intervals of means, paired and unpaired differences hold the truth."""
    chances, hits, overall = np.array(SKEWED[name]), np.zeros(3), (None, None)
    for batch in range(draws // BATCH):
        draw = Draw(100 + batch, rows, lengths)
        for _ in range(BATCH):
            draw.models([chances, chances])
        means, truth = draw.means(), 100 * float(chances.mean())
        for place in range(0, 2 * BATCH, 2):
            mean = means.estimate(overall, place)
            paired = means.difference(overall, place, place + 1)
            unpaired = means.difference(overall, place, (place + 3) % (2 * BATCH))
            hits += (
                mean is not None and holds(mean.low, mean.high, truth),
                holds(paired.low, paired.high, 0.0),
                holds(unpaired.low, unpaired.high, 0.0),
            )
    return [f"{100 * share:.1f}" for share in hits / draws]


def cell_coverage(rows: int) -> list[str]:
    """Return how often intervals of a cell hold the truth: on average over chances, at worst.

    By the binomial distribution of the number of right rows, with twelve sets of questions.
    """
    right, chances, held = range(rows + 1), range(1, 100), np.zeros((rows + 1, 99))
    for seed in range(SETS):
        draw = Draw(seed, rows, 1)
        draw.models([np.array([0.5])] * len(right))
        for number, scores in zip(right, draw.scores, strict=True):
            scores |= dict.fromkeys(scores, (np.arange(rows) < number).astype(float))
        means = draw.means()
        for number in right:
            mean = means.estimate((None, None), number)
            held[number] += [mean is not None and holds(mean.low, mean.high, p) for p in chances]
    chance_of = binom.pmf(np.array(right)[:, None], rows, np.array(chances) / 100)
    covered = (chance_of * held).sum(axis=0) / SETS
    return [f"{100 * float(share):.1f}" for share in (covered.mean(), covered.min())]


def false_ranks(name: str, rows: int, draws: int, *, cells: bool) -> float:
    """Return how often ten equal models show any difference that is not there."""
    wrong = 0
    for number in range(draws):
        draw = Draw(3 + number, rows, 6)
        draw.models([np.array(SKEWED[name])] * 10)
        wrong += bool(draw.means(cells=cells).better.any())
    return 100 * wrong / draws


def gate_errors(rows: int, lengths: int, draws: int) -> list[str]:
    """Return how often a gate at its margin says *not worse*, and *worse*."""
    base, passed, worse = np.full(13, 0.8), 0, 0
    for batch in range(draws // BATCH):
        draw = Draw(500 + batch, rows, lengths)
        for _ in range(BATCH):
            draw.models([base, base - MARGIN / 100])
        means = draw.means()
        for place in range(0, 2 * BATCH, 2):
            verdicts = {*verdicts_of(means, MARGIN, place, place + 1).values()}
            worse += WORSE in verdicts
            passed += verdicts == {NOT_WORSE}
    return [f"{100 * passed / draws:.1f}", f"{100 * worse / draws:.1f}"]


def frame(draws: int, few: int) -> Iterator[str]:
    """Yield the page on the intervals, ranks and gates of the frame."""
    yield f"""# Errors of intervals, ranks and gates

{_facts("frame")} 13 tasks; at six lengths,
{ALIKE:.0%} of a question's rows are alike; models share {SHARED:.0%} of their rows. Numbers are
in percent.

Intervals of 95 % that hold the truth ({draws} draws): mean of all tasks and lengths, paired and
unpaired differences of equal models.
"""
    rows = [[name, n, lengths, *coverage(name, n, lengths, draws)]
            for name in SKEWED for n, lengths in DESIGNS]  # fmt: skip
    yield from table(["chances", "rows a task", "lengths", "mean", "paired", "unpaired"], rows)
    yield "\nIntervals of one cell, over chances of 0.01 to 0.99, exactly:\n"
    cells = [[n, *cell_coverage(n)] for n in (4, 8, 20, 100)]
    yield from table(["rows", "average", "worst chance"], cells)
    yield f"\nTen equal models, 8 rows a task at six lengths, any false difference ({few} draws):\n"
    ranks = [
        [name, *(f"{false_ranks(name, 8, few, cells=whole):.1f}" for whole in (False, True))]
        for name in SKEWED
    ]
    yield from table(["chances", "on a board", "on a page"], ranks)
    yield f"\nA gate exactly at its margin of {MARGIN:g} points, six lengths ({draws} draws):\n"
    gates = [[n, *gate_errors(n, 6, draws)] for n in (8, 50)]
    yield from table(["rows a task", "not worse", "worse"], gates)


def _hardest(known: list[Profile]) -> list[Profile]:
    """Return the profiles of the greatest spread, which need the most rows."""
    return sorted(known, key=lambda one: -float(np.sum(one.chances * (1 - one.chances))))[:5]


def _errors(known: list[Profile]) -> Iterator[str]:
    yield "| rows of each task | rows of a length | every task at 50 | hardest published | median of the published | Phi-3-mini at 4K, by task |"  # noqa: E501
    yield "|---:|---:|---:|---:|---:|---:|"
    *rest, worst = known
    published_profiles, single = rest[: -len(BY_TASK)], rest[-len(BY_TASK)]
    for rows in SIZES:
        errors = [profile.error(rows) for profile in published_profiles]
        cells = (worst.error(rows, SURE), max(errors), float(np.median(errors)),
                 single.error(rows, SURE))  # fmt: skip
        yield f"| {rows} | {13 * rows:,} | {' | '.join(f'{cell:.2f}' for cell in cells)} |"


def mini(error: float) -> Iterator[str]:
    """Yield the page on the size of a small suite."""
    known = list(profiles())
    worst = {
        n: max(one.error(n, SURE) for one in _hardest(known)) for n in range(GRAIN, 210, GRAIN)
    }
    chosen = min(n for n, found in worst.items() if found <= error)
    total, rows = shared_out(known, error)
    yield f"""# Error of a small suite's mean

{_facts("mini")}

{len(known)} profiles: {len(known) - len(BY_TASK) - 1} of the paper's models at a length (means of \
categories, Tables 13 to 16), {len(BY_TASK)} by task, and all tasks at 50. {DRAWS:,} draws of \
each, {SURE:,} of single ones. Error: distance between the mean over 13 tasks and that of all \
{FULL} rows, in percentage points, which 95 draws in 100 do not exceed.
"""
    yield from _errors(known)
    yield f"""
Within {error} points whatever the profile: {chosen} rows of each task, {13 * chosen:,} of \
{13 * FULL:,} rows of a length, the smallest multiple of ten. The error of the hardest profiles is \
{worst[chosen]:.2f} ({SURE:,} draws), and {worst[chosen - GRAIN]:.2f} with {GRAIN} rows fewer.
With different numbers of rows for each category (in tens) it would take {total} rows: \
{", ".join(map(str, rows))} of a task of retrieval, vt, aggregation and qa. Every category is near \
50 in some profile, so equal numbers are as good."""


def _facts(name: str) -> str:
    facts = about("numpy")
    return (
        f"`python benchmarks/simulate.py {name}` at commit {facts['commit']}; {facts['machine']},"
        f" Python {facts['python']}, numpy {facts['numpy']}. Arithmetic only: no model was run."
    )


def main() -> None:
    """Simulate and print a page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", choices=("mini", "frame"))
    parser.add_argument("--error", type=float, default=3.7, help="mini: percentage points")
    parser.add_argument("--draws", type=int, default=400, help="frame: of intervals and gates")
    parser.add_argument("--few", type=int, default=100, help="frame: of ten models")
    options = parser.parse_args()
    is_mini = options.what == "mini"
    for line in mini(options.error) if is_mini else frame(options.draws, options.few):
        print(line, flush=True)


if __name__ == "__main__":
    main()
