"""Two simulations of models that are right with a given chance in each of the 13 tasks.

    python benchmarks/simulate.py mini [--error 3.7]
    python benchmarks/simulate.py contamination

mini: how many rows a small suite needs. Every row is drawn right or wrong with the chance of its
task, 500 rows of each task; the first n of them are the small suite. Its error is the distance
between the two means over the 13 tasks; reported is the error that 95 draws in 100 do not exceed.
No score profile can be worse, for two reasons: a score between 0 and 1 varies less than right or
wrong with the same mean; and tasks that share a mean vary most together if all have that mean, so
the published means of categories bound what their tasks can do.

contamination: how often the test for contamination flags a clean model, and how often it finds a
leak. At one length, seen rows raise every chance by the same number of points, to 100 at most.
There are as many public as fresh rows. Each simulation is tested as `ruler-eval compare
--contamination` tests the mean over all tasks.
"""

import argparse
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from measuring import about, table

from ruler_report.published import published
from ruler_report.stats.intervals import mean_of, minus

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


PROFILES = {
    "every task at 50": np.full(13, 0.5),
    "every task at 80": np.full(13, 0.8),
    **{name: np.array(percents) / 100 for name, percents in BY_TASK.items() if "16K" in name},
}
LEAK_ROWS = (50, 100, 500)
GAPS = (0, 1, 2, 3, 5, 8)
SIMULATIONS = 2000


def leak_found(chances: Floats, rows: int, gap: float) -> tuple[float, float]:
    """Return how often a gap is found at 5 %, and how large it is, in percentage points."""
    rng = np.random.Generator(np.random.PCG64([rows, int(gap)]))
    seen = np.minimum(1.0, chances + gap / 100)
    shares = {str(task): np.full(1, 1 / len(chances)) for task in range(len(chances))}
    public, fresh = (
        mean_of(
            {
                task: (rng.random((SIMULATIONS, rows, 1)) < model[int(task)]).astype(float)
                for task in shares
            },
            shares,
        )
        for model in (seen, chances)
    )
    greater, _ = minus(public, fresh, paired=False).p_values()
    return float(np.mean(greater < 0.05)), float(100 * np.mean(seen - chances))


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


def contamination() -> Iterator[str]:
    """Yield the page on the errors of the test for contamination."""
    yield f"""# Errors of the test for contamination

{_facts("contamination")} {SIMULATIONS:,} simulations per cell; 13 tasks at one length.

Share of simulations in which the mean over all tasks is found greater on public rows, at the 5 % \
level, by how many points seen rows raise it:
"""
    rows = []
    for name, chances in PROFILES.items():
        for number in LEAK_ROWS:
            cells = [leak_found(chances, number, gap) for gap in GAPS]
            shown = (
                f"{share:.2f}" + (f" ({rise:.1f})" if abs(rise - gap) > 0.05 else "")
                for (share, rise), gap in zip(cells, GAPS, strict=True)
            )
            rows.append([name, number, *shown])
    yield from table(["profile", "rows of each task", *(f"+{gap}" for gap in GAPS)], rows)
    yield "\nIn brackets: the rise of the mean if tasks near 100 cannot rise as much."


def _facts(name: str) -> str:
    facts = about("numpy")
    return (
        f"`python benchmarks/simulate.py {name}` at commit {facts['commit']}; {facts['machine']},"
        f" Python {facts['python']}, numpy {facts['numpy']}. Arithmetic only: no model was run."
    )


def main() -> None:
    """Simulate and print a page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", choices=("mini", "contamination"))
    parser.add_argument("--error", type=float, default=3.7, help="mini: percentage points")
    options = parser.parse_args()
    for line in mini(options.error) if options.what == "mini" else contamination():
        print(line)


if __name__ == "__main__":
    main()
