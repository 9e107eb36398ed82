"""What `ruler-eval run --until-decided` costs and how often it is wrong, by simulation.

    python benchmarks/decide.py [--runs N]

A simulated model has a chance to be right in each of 13 tasks. 500 frozen rows of each are drawn
anew for every run and asked in a random order. A run is looked at after every round of 13 rows, as
`running.sequential` does, and stops when its question is decided. Verdicts are compared with the
mean of all 6,500 rows, which is what they are about.
"""

import argparse
from collections.abc import Iterator, Sequence
from itertools import pairwise, product

import numpy as np
from measuring import about, table

from ruler_eval.running.sequential import ALPHA, Floats, interval_of, log_capital

ROWS, TASKS = 500, 13
#: Lengths of a run; each is decided at this share of the chance of an error.
LENGTHS = 6
THRESHOLD = 0.856
MEANS = (97, 95, 91, 80, 75, 65)
NEAR = (90, 89, 88, 87, 86.5, 86, 85.6, 85, 84, 83)
#: How a model's loss is shared by the tasks: equally, or as in published models at long lengths.
SHAPES = {
    "equal tasks": (1.0,) * TASKS,
    "as published": (0, 0, 0.1, 0.3, 0.3, 0.5, 0.6, 0.2, 0.5, 3.0, 1.3, 2.0, 4.2),
}
#: Points by which a run's chances differ from the baseline's, and the margin.
BASELINES, DIFFERENCES, MARGIN = (99, 95, 90), (0, -1, -3, -10), 1.0

#: Tasks of each category, and points that a run loses in each of them against its baseline.
SIZES = {"retrieval": 8, "tracing": 1, "aggregation": 2, "qa": 2}
LOSSES = {
    "nothing": (0, 0, 0, 0),
    "the margin everywhere": (1, 1, 1, 1),
    "the margin in qa": (0, 0, 0, 1),
    "3 points in qa": (0, 0, 0, 3),
}


def chances_of(mean: float, shape: Sequence[float]) -> Floats:
    """Return chances of tasks with a mean, in percent, that lose points in some shape."""
    lost = np.array(shape) / np.mean(shape)
    low, high = 0.0, 100.0
    while high - low > 1e-9:  # tasks that reach 0 lose no more, so the others lose more
        middle = (low + high) / 2
        low, high = (middle, high) if np.clip(1 - middle * lost, 0, 1).mean() > mean / 100 else (
            low, middle)  # fmt: skip
    found: Floats = np.clip(1 - low * lost, 0, 1)
    return found


def scores_of(chances: Floats, rng: np.random.Generator) -> Floats:
    """Return the scores of all rows in random order; vt and cwe score by fives and tens."""
    scores = (rng.random((ROWS, TASKS)) < chances).astype(float)
    for task, parts in ((8, 5), (9, 10)):
        scores[:, task] = rng.binomial(parts, chances[task], ROWS) / parts
    return scores


def stop(scores: Floats, threshold: float, alpha: float) -> tuple[int, str]:
    """Return the rounds after which a side of a threshold is decided, and which."""
    sides = (scores, threshold), (1 - scores, 1 - threshold)
    first = [first_round(*side, alpha) for side in sides]
    if min(first) == ROWS:
        return ROWS, "cannot tell"
    return min(first), "above" if first[0] < first[1] else "below"


def width_round(scores: Floats, half: float) -> int:
    """Return the rounds after which the mean is known within ± `half`, by bisection."""
    low, high = 0, ROWS
    while high - low > 1:
        middle = (low + high) // 2
        bounds = interval_of(scores[:middle], scores[:middle], ROWS, ALPHA)
        low, high = (low, middle) if bounds[1] - bounds[0] <= 2 * half else (middle, high)
    return high


def thresholds(means: Sequence[float], runs: int) -> Iterator[tuple[object, ...]]:
    """Yield rows of the table on a threshold."""
    for shape, lost in SHAPES.items():
        for mean in means:
            rng, rounds, said = np.random.default_rng([runs, int(10 * mean)]), [], []
            for _ in range(runs):
                scores = scores_of(chances_of(mean, lost), rng)
                number, side = stop(scores, THRESHOLD, ALPHA / LENGTHS)
                rounds.append(number)
                right = "above" if scores.mean() >= THRESHOLD else "below"
                said.append("wrong" if side not in (right, "cannot tell") else side)
            counts = [said.count(each) for each in ("above", "below", "cannot tell", "wrong")]
            saved = 100 * (1 - np.mean(rounds) / ROWS)
            yield (shape, mean, f"{np.mean(rounds):.0f}", f"{np.quantile(rounds, 0.95):.0f}",
                   f"{saved:.0f} %", *counts)  # fmt: skip


def differences(runs: int) -> Iterator[tuple[object, ...]]:
    """Yield rows of the table on a baseline: half of its answers are drawn again."""
    for mean, change in product(BASELINES, DIFFERENCES):
        rng, rounds, said = np.random.default_rng([runs, mean, change + 50]), [], []
        for _ in range(runs):
            base = scores_of(chances_of(mean, SHAPES["as published"]), rng)
            other = scores_of(chances_of(mean + 2 * change, SHAPES["as published"]), rng)
            own = np.where(rng.random(base.shape) < 0.5, other, base)
            gap = (own - base + 1) / 2
            number, side = stop(gap, (1 - MARGIN / 100) / 2, ALPHA / LENGTHS)
            rounds.append(number)
            right = "above" if 100 * (own - base).mean() >= -MARGIN else "below"
            said.append("wrong" if side not in (right, "cannot tell") else side)
        counts = [said.count(each) for each in ("above", "below", "cannot tell", "wrong")]
        yield (mean, f"{change:+}", f"{np.mean(rounds):.0f}", *counts)


def gates(runs: int) -> Iterator[tuple[object, ...]]:
    """Yield rows of the table on the question of a gate: each length and each category."""
    chances, alpha = chances_of(BASELINES[-1], SHAPES["as published"]), ALPHA / (LENGTHS + 4)
    limit, ends = (1 - MARGIN / 100) / 2, np.cumsum([0, *SIZES.values()])
    for name, points in LOSSES.items():
        rng, rounds, said = np.random.default_rng([runs, len(name)]), [], []
        lost = 2 * np.repeat(points, [*SIZES.values()]) / 100  # of half of the answers
        for _ in range(runs):
            base, other = (np.array([scores_of(np.clip(shares, 0, 1), rng) for _ in range(LENGTHS)])
                           for shares in (chances, chances - lost))  # fmt: skip
            gap = (np.where(rng.random(base.shape) < 0.5, other, base) - base + 1) / 2
            over = gap.mean(axis=0)
            means = [*gap, *(over[:, start:end] for start, end in pairwise(ends.tolist()))]
            above = max(first_round(mean, limit, ALPHA) for mean in means)
            below = min(first_round(1 - mean, 1 - limit, alpha) for mean in means)
            rounds.append(min(above, below))
            side = "cannot tell" if above == below == ROWS else (
                "not worse" if above < below else "worse")  # fmt: skip
            is_worse = min(mean.mean() for mean in means) < limit
            said.append("wrong" if side == ("not worse" if is_worse else "worse") else side)
        counts = [said.count(each) for each in ("not worse", "worse", "cannot tell", "wrong")]
        yield (name, f"{np.mean(rounds):.0f}", *counts)


def first_round(scores: Floats, threshold: float, alpha: float) -> int:
    """Return the rounds after which a mean is known to be above a threshold; all if it is not."""
    decided = (log_capital(scores, threshold, ROWS) >= -np.log(alpha))[:-1]
    return int(decided.argmax()) + 1 if decided.any() else ROWS


def widths(runs: int) -> Iterator[tuple[object, ...]]:
    """Yield rows of the table on a mean within some points."""
    for shape, lost in SHAPES.items():
        for mean in (97, 91, 80, 65):
            rng, held, rounds = np.random.default_rng([runs, mean, 1]), 0, []
            for _ in range(runs):
                scores = scores_of(chances_of(mean, lost), rng)
                sides = ((scores, scores.mean()), (1 - scores, 1 - scores.mean()))
                limit = -np.log(ALPHA / 2)
                held += not any((log_capital(x, m, ROWS)[:-1] >= limit).any() for x, m in sides)
                rounds.append([width_round(scores, half) for half in (0.01, 0.02)])
            yield (shape, mean, *(f"{each:.0f}" for each in np.mean(rounds, axis=0)),
                   f"{100 * held / runs:.1f} %")  # fmt: skip


def main() -> None:
    """Simulate and print a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=500, help="simulated runs of each line")
    runs = parser.parse_args().runs
    facts = about("numpy")
    print(f"""# Cost and errors of a decision

`python benchmarks/decide.py --runs {runs}` at commit {facts["commit"]}; {facts["machine"]}, \
Python {facts["python"]}, numpy {facts["numpy"]}. Arithmetic only: no model was run. {runs} \
simulated runs of each line, {TASKS} tasks of {ROWS} rows. `rows`: of each task, until decided, on \
average.

## Is the mean at least {100 * THRESHOLD}?

At {100 * ALPHA:.0f} % for {LENGTHS} lengths together. `wrong`: the other side than all rows.
""")
    head = ("losses", "true mean", "rows", "95th percentile", "saved", "above", "below",
            "cannot tell", "wrong")  # fmt: skip
    far = list(thresholds(MEANS, runs))
    print(*table(head, far), "", sep="\n")
    saved = np.mean([float(str(line[4]).split()[0]) for line in far])
    print(f"{saved:.0f} % fewer rows on average. Nearer to the threshold:\n")
    print(*table(head, list(thresholds(NEAR, runs))), sep="\n")
    print(f"""
## Is it not worse than a baseline, by {MARGIN:.0f} point?

Half of the baseline's answers are drawn again. `above`: not worse.
""")
    print(*table(("baseline", "points", "rows", "above", "below", "cannot tell", "wrong"),
                 list(differences(runs))), sep="\n")  # fmt: skip
    print(f"""
## Is no length and no category worse, by {MARGIN:.0f} point?

As `not-worse` asks of {LENGTHS} lengths and {len(SIZES)} categories; the baseline has \
{BASELINES[-1]}.
""")
    print(*table(("lost", "rows", "not worse", "worse", "cannot tell", "wrong"),
                 list(gates(runs))), sep="\n")  # fmt: skip
    few = max(1, runs // 4)
    print(f"""
## The mean within ± 1 and ± 2 points

Of {few} runs each. `held`: runs whose bounds contain the mean of all rows after every round.
""")
    print(*table(("losses", "true mean", "rows for ± 1", "rows for ± 2", "held"),
                 list(widths(few))), sep="\n")  # fmt: skip


if __name__ == "__main__":
    main()
