"""How often the 95 % intervals of scores, differences and effective lengths hold the truth.

    python benchmarks/coverage.py > benchmarks/results/coverage.md
    python benchmarks/coverage.py --draws 200 --rows 20 --profile realistic

Runs of the 13 tasks are drawn whose true means are known, because the distributions they are drawn
from have them. A row of a task with k gold answers scores j/k with the chances of a beta-binomial
distribution. A question has one uniform number for all lengths and models with a chance of one
half, and otherwise a number of its own for each, so that lengths and models are correlated without
a change of the means. From each run come all intervals that `ruler-eval` prints.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
import numpy.typing as npt
from measuring import about, table
from scipy.stats import betabinom
from simulate import BY_TASK

from ruler_report.stats.effective_length import OWN_SHARE, possible_lengths, weights
from ruler_report.stats.intervals import Floats, Mean, Statistic, mean_of, minus
from ruler_report.stats.pairs import rank_intervals

#: Gold answers of each task, in the order of the table of tasks; qa has one score for any of them.
ANSWERS = (1, 1, 1, 1, 1, 1, 4, 4, 5, 10, 3, 1, 1)
#: Tasks of the categories, by their places.
CATEGORIES = (slice(0, 8), slice(8, 9), slice(9, 11), slice(11, 13))
#: Concentration of the scores of questions about their mean: most questions are all or nothing.
CONCENTRATION = 2.0
PHI = np.array(BY_TASK["Phi-3-mini at 4K (issue 71)"]) / 100
ROWS, LENGTHS = (20, 50, 100, 500), (1, 3, 6)
DRAWS, BATCH = 2_000, 100
#: Profiles in which most tasks are so near 100 that few rows fail.
CEILING = ("ceiling", "near ceiling", "uneven")


@dataclass(frozen=True)
class Profile:
    """A model: its chance in each task at the shortest length, and what each length multiplies."""

    chances: Floats
    decay: float

    def means(self, lengths: int) -> Floats:
        """Return the true means, tasks by lengths."""
        return self.chances[:, None] * self.decay ** np.arange(lengths)


PROFILES = {
    "ceiling": Profile(np.full(13, 0.998), 0.999),
    "near ceiling": Profile(np.full(13, 0.97), 0.995),
    "uneven": Profile(np.array([*[0.998] * 11, 0.8, 0.5]), 0.99),
    "high": Profile(np.full(13, 0.9), 0.98),
    "realistic": Profile(np.minimum(PHI, 0.999), 0.97),
    "mid": Profile(np.full(13, 0.5), 0.98),
    "low": Profile(np.full(13, 0.1), 0.9),
}
Scores = dict[str, Floats]
Held = npt.NDArray[np.bool_]


def draw(rng: np.random.Generator, models: Sequence[Floats], draws: int, rows: int) -> list[Scores]:
    """Return scores of models, given their true means, on the same questions.

    Returns:
        For each model the scores by task, shape (draws, questions, lengths).
    """
    runs: list[Scores] = [{} for _ in models]
    for task, answers in enumerate(ANSWERS):
        shape = (draws, rows, models[0].shape[1])
        shared = rng.random((draws, rows, 1), dtype=np.float32)
        for run, means in zip(runs, models, strict=True):
            own, coin = rng.random((2, *shape), dtype=np.float32)
            numbers = np.where(coin < 0.5, shared, own)
            a, b = CONCENTRATION * means[task], CONCENTRATION * (1 - means[task])
            steps = [betabinom.cdf(step, answers, a, b) for step in range(answers)]
            run[str(task)] = sum(numbers > step for step in steps) / np.float64(answers)
    return runs


def coverage(profile: Profile, rows: int, lengths: int, draws: int = DRAWS) -> dict[str, float]:
    """Return by kind of interval the share that holds the truth, in percent."""
    rng = np.random.Generator(np.random.PCG64([rows, lengths]))
    found: dict[str, list[float]] = {}
    for _ in range(draws // BATCH):
        for kind, held in _held(rng, profile.means(lengths), rows):
            found.setdefault(kind, []).append(float(np.mean(held)))
    return {kind: 100 * float(np.mean(held)) for kind, held in found.items()}


def _held(rng: np.random.Generator, truth: Floats, rows: int) -> Iterator[tuple[str, Held]]:
    """Yield kinds of interval, and which of a batch of them hold the truth."""
    lengths = truth.shape[1]
    lower = 0.96 * truth
    first, equal, second = draw(rng, (truth, truth, lower), BATCH, rows)
    (other,) = draw(rng, (lower,), BATCH, rows)
    columns = {name: weights(lengths, name) for name in ("avg", "wavg_inc", "wavg_dec")}
    singles = np.eye(lengths)[sorted({0, lengths - 1})]
    every = slice(0, 13)
    kinds = {
        "cell": [(slice(task, task + 1), one) for task in range(13) for one in singles],
        "task": [(slice(task, task + 1), columns["avg"]) for task in range(13)],
        "category": [(tasks, one) for tasks in CATEGORIES for one in singles],
        "length": [(every, one) for one in singles],
        **{name: [(every, column)] for name, column in columns.items()},
    }
    for kind, parts in kinds.items():
        for tasks, column in parts:
            share = np.full(13, 0.0)
            share[tasks] = 1 / len(share[tasks])
            one, same, two, apart = (
                _mean(run, share, column) for run in (first, equal, second, other)
            )
            mean, gap = (float(share @ means @ column) for means in (truth, lower - truth))
            yield kind, _holds(one, mean)
            if kind in ("cell", "task", "length", "avg"):
                yield f"paired {kind}", _holds(minus(two, one, paired=True), gap)
                yield f"equal {kind}", _holds(minus(same, one, paired=True), 0.0)
                yield f"unpaired {kind}", _holds(minus(apart, one, paired=False), gap)
                kept = np.float64(1 + gap / mean)  # a ratio is kept while 0 is in this interval
                yield f"retention {kind}", _holds(minus(two, one, paired=True, share=kept), 0.0)
    halves = np.array([*[1 / 12] * 6, *[1 / 14] * 7])
    balanced = _mean(first, halves, singles[0])
    yield "balanced", _holds(balanced, float(halves @ truth[:, 0]))
    for kind, task in (("evidence shown", 0), ("evidence shown, 5 pieces a question", 8)):
        shown, questions = first[str(task)][..., 0].mean(axis=1), np.full(BATCH, float(rows))
        by_depth = Statistic(shown, shown * (1 - shown) / questions, questions)
        yield kind, _holds(by_depth, float(truth[task, 0]))
    yield from _effective(first, truth)
    yield "ranks", _ranks([first, equal, second], (1, 1, 3), columns["avg"])


def _effective(run: Scores, truth: Floats) -> Iterator[tuple[str, Held]]:
    """Yield whether sets of effective lengths hold the true one.

    The threshold is half a point below the true mean of the middle length, so that it is hard.
    """
    lengths, share = truth.shape[1], np.full(13, 1 / 13)
    means = [_mean(run, share, column) for column in np.eye(lengths)]
    true = truth.mean(axis=0)
    bar = true[lengths // 2] - 0.005
    own = {
        place: minus(mean, means[0], paired=True, share=OWN_SHARE)
        for place, mean in enumerate(means[1:], 2)
    }
    for kind, tested, passing, at in (
        ("effective", dict(enumerate(means, 1)), true >= bar, bar),
        ("effective, own", own, true >= OWN_SHARE * true[0], 0.0),
    ):
        longest = max(np.flatnonzero(passing) + 1, default=0)
        longest = 0 if kind != "effective" and longest == 1 else longest
        yield (
            kind,
            np.array([longest in possible_lengths(_one(tested, i), at) for i in range(BATCH)]),
        )


def _ranks(runs: Sequence[Scores], true: Sequence[int], column: Floats) -> Held:
    """Return whether the intervals of all ranks hold the true ones; the first two runs are equal.

    The true rank is one more than the number of runs that are truly better.
    """
    means = [_mean(run, np.full(13, 1 / 13), column) for run in runs]
    p, value = np.zeros((2, BATCH, len(runs), len(runs)))
    for i, j in combinations(range(len(runs)), 2):
        gap = minus(means[j], means[i], paired=True)
        p[:, i, j] = 2 * np.minimum(*gap.p_values())
        value[:, i, j] = gap.value
    held = []
    for draw in range(BATCH):
        found = rank_intervals(p[draw], value[draw])
        held.append(all(low <= rank <= high for rank, (low, high) in zip(true, found, strict=True)))
    return np.array(held)


def _one(tested: Mapping[int, Statistic], draw: int) -> dict[int, tuple[Floats, Floats]]:
    """Return the intervals of one of the draws."""
    return {
        place: Statistic(
            one.value[draw],
            one.variance[draw],
            one.rows[draw],
            one.lowest,
            np.asarray(one.added)[draw],
        ).interval()
        for place, one in tested.items()
    }


def _mean(run: Scores, share: Floats, column: Floats) -> Mean:
    tasks, lengths = np.flatnonzero(share), column > 0
    scores = {str(task): run[str(task)][..., lengths] for task in tasks}
    return mean_of(scores, {str(task): share[task] * column[lengths] for task in tasks})


def _holds(statistic: Statistic, truth: float) -> Held:
    low, high = statistic.interval()
    assert np.all(high - low > 0)
    return np.asarray((low <= truth) & (truth <= high))


def page(
    rows: Sequence[int], counts: Sequence[int], names: Sequence[str], draws: int, workers: int
) -> Iterator[str]:
    """Yield the lines of the page."""
    facts = about("numpy", "scipy")
    with ProcessPoolExecutor(workers) as pool:
        futures = {
            (name, n, lengths): pool.submit(coverage, PROFILES[name], n, lengths, draws)
            for name, n, lengths in product(names, rows, counts)
        }
        found = {setting: future.result() for setting, future in futures.items()}
    kinds = list(next(iter(found.values())))
    yield f"""# Coverage of the intervals

`python benchmarks/coverage.py` at commit {facts["commit"]}; Python {facts["python"]}, numpy \
{facts["numpy"]}, scipy {facts["scipy"]}. {draws:,} draws of each profile, number of rows and \
number of lengths ({", ".join(map(str, counts))}). Arithmetic only: no model was run.

Percent of 95 % intervals that hold the truth. Lowest: of all profiles, rows and lengths. Mean: of \
the profiles high, realistic, mid and low. In the others most tasks are at their ceiling: few rows \
fail, and an interval of a few rows cannot but be wide. Effective lengths are sets of whole \
lengths, so they cover more than 95 % except where a mean is just at the threshold.
"""
    heads = ["interval", "lowest", "where", "mean", *(f"mean, {n} rows" for n in rows)]
    lines = []
    for kind in kinds:
        values = {place: one[kind] for place, one in found.items()}
        worst = min(values, key=lambda place: values[place])
        rest = {
            place: value for place, value in values.items() if place[0] not in CEILING
        } or values
        by_rows = [np.mean([v for place, v in rest.items() if place[1] == n]) for n in rows]
        where = f"{worst[0]}, {worst[1]} rows, lengths: {worst[2]}"
        numbers = (f"{value:.1f}" for value in (np.mean(list(rest.values())), *by_rows))
        lines.append([kind, f"{values[worst]:.1f}", where, *numbers])
    yield from table(heads, lines)
    yield "\nLowest over the numbers of lengths, by profile:\n"
    shown = [kind for kind in kinds if kind in SHOWN]
    lines = [
        [
            name,
            str(n),
            *(f"{min(found[name, n, lengths][kind] for lengths in counts):.1f}" for kind in shown),
        ]
        for name in names
        for n in rows
    ]
    yield from table(["profile", "rows", *shown], lines)
    yield (
        """
Profiles: the true mean of the 13 tasks at the shortest length, times a factor for each further \
length. """
        + "; ".join(
            f"{name} {one.chances.mean():.3f} (tasks {one.chances.min():.3f} to "
            f"{one.chances.max():.3f}) x {one.decay}"
            for name, one in PROFILES.items()
        )
        + """.
`equal`: paired differences of two models with equal means, so 100 minus it is how often they are \
told apart. The other differences are of a model whose means are 4 % lower. The thresholds of \
`effective` are half a point below the mean of the middle length. `retention`: a mean in percent \
of another's. `evidence shown`: of a bin of depths, where all pieces of a question count as one. \
`ranks`: of three runs, two of them equal, all at once."""
    )


SHOWN = ("cell", "task", "category", "length", "avg", "paired cell", "equal cell", "paired avg",
         "unpaired cell", "unpaired avg", "balanced", "effective")  # fmt: skip


def main() -> None:
    """Simulate and print the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--profile", nargs="+", choices=PROFILES, default=list(PROFILES))
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    for line in page(
        options.rows, options.lengths, options.profile, options.draws, options.workers
    ):
        print(line)


if __name__ == "__main__":
    main()
