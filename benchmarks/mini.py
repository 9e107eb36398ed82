"""How many rows a small suite needs: the error of its mean of the 13 tasks, by simulation.

    python benchmarks/mini.py [--error 3.7] [--out results/mini.md]

A score profile says how a model does on each task. Every row is drawn right or wrong with its
task's chance, 500 rows of each task; the first n of them are the small suite's. Its error is the
distance between the two means over the 13 tasks; what is reported is the error that 95 draws in 100
do not exceed. That is the worst that a profile can do in two ways: a score between 0 and 1 varies
less than right or wrong of the same mean; and tasks that share a mean vary the most together where
all have that mean, so that the published means of categories bound what their tasks can do.
"""

import argparse
import itertools
import platform
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ruler_report.published import published

Floats = npt.NDArray[np.float64]
FULL = 500
#: Rows fall evenly over depth in every aligned run of so many (ruler_builders.rows.randomness).
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
        """Return the error that 95 draws in 100 do not exceed, in percent points."""
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
    best = (13 * FULL, (FULL,) * 4)
    for rows in itertools.product(range(GRAIN, 200, GRAIN), repeat=4):
        total = int(tasks @ rows)
        if total < best[0]:
            lost = 1 / np.array(rows) - 1 / FULL
            if 196 * np.sqrt((spread @ lost).max()) / 13 <= error:
                best = (total, rows)
    return best


def main() -> None:
    """Measure, choose and print."""
    parser = argparse.ArgumentParser(description="Rows of a small suite, and its error.")
    parser.add_argument("--error", type=float, default=3.7, help="percent points to stay within")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    known = list(profiles())
    lines = [*_about(known), *_table(known)]
    worst = {
        n: max(one.error(n, SURE) for one in _hardest(known)) for n in range(GRAIN, 210, GRAIN)
    }
    chosen = min(n for n, error in worst.items() if error <= asked.error)
    total, rows = shared_out(known, asked.error)
    lines += [
        "",
        f"Within {asked.error} points whatever the profile: {chosen} rows of each task,"
        f" {13 * chosen:,} of {13 * FULL:,} rows of a length, the fewest in tens: the error of the"
        f" hardest profiles is {worst[chosen]:.2f} ({SURE:,} draws), and with {GRAIN} rows less"
        f" {worst[chosen - GRAIN]:.2f}.",
        f"With other numbers of rows for each category (in tens) it would take {total} rows, at"
        f" {', '.join(map(str, rows))} of a task: retrieval, vt, aggregation, qa. Every category is"
        " near 50 in some profile, so equal numbers are as good.",
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    if asked.out:
        asked.out.write_text(text, encoding="utf-8")


def _hardest(known: list[Profile]) -> list[Profile]:
    """Return the profiles of the greatest spread, which need the most rows."""
    return sorted(known, key=lambda one: -float(np.sum(one.chances * (1 - one.chances))))[:5]


def _about(known: list[Profile]) -> list[str]:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                            check=True).stdout.strip()  # fmt: skip
    return [
        "# Error of a small suite's mean", "",
        f"`python benchmarks/mini.py` at commit {commit}; {platform.machine()}, Python"
        f" {platform.python_version()}, numpy {version('numpy')}. Nothing but arithmetic: no model"
        " was run.", "",
        f"{len(known)} profiles: {len(known) - len(BY_TASK) - 1} of the paper's models at a length"
        f" (means of categories, Tables 13 to 16), {len(BY_TASK)} by task, and all tasks at 50."
        f" {DRAWS:,} draws of each, {SURE:,} of single ones. Error: distance of the mean over 13"
        f" tasks from that of all {FULL} rows, in percent points, which 95 draws in 100 do"
        " not exceed.", "",
    ]  # fmt: skip


def _table(known: list[Profile]) -> Iterator[str]:
    yield "| rows of each task | rows of a length | every task at 50 | hardest published | median of the published | Phi-3-mini at 4K, by task |"  # noqa: E501
    yield "|---:|---:|---:|---:|---:|---:|"
    *rest, worst = known
    theirs, single = rest[: -len(BY_TASK)], rest[-len(BY_TASK)]
    for rows in SIZES:
        errors = [profile.error(rows) for profile in theirs]
        cells = (worst.error(rows, SURE), max(errors), float(np.median(errors)),
                 single.error(rows, SURE))  # fmt: skip
        yield f"| {rows} | {13 * rows:,} | {' | '.join(f'{cell:.2f}' for cell in cells)} |"


if __name__ == "__main__":
    main()
