"""Randomness of the statistics: named, as everywhere in this project.

The same name gives the same draws in every run and for every pair of runs, so a result can be
computed again; names and numpy's version decide on them, no clock and no order of execution.
"""

import hashlib

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
#: Resamples of a bootstrap: their 2.5 % and 97.5 % points have about 50 resamples beyond them.
RESAMPLES = 2000
#: Sign flips of a permutation test: the smallest p-value that they can give is 1e-4.
FLIPS = 10_000
#: Of either, drawn at once; more would only cost memory.
STEP = 200


def generator(*name: str) -> np.random.Generator:
    """Return the generator of a name."""
    digest = hashlib.sha256("/".join(("ruler-eval", "1", *name)).encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "big")))


def resample(task: str, scores: Floats) -> Floats:
    """Return bootstrap means of a task, resampling its questions.

    A question has the same index at every length, and scores at two lengths are alike; so
    questions are drawn, and each brings its scores at all lengths along.

    Args:
        task: names the draws.
        scores: questions by lengths; NaN where a row has no score.

    Returns:
        Resamples by lengths; NaN where a resample has no scored row.
    """
    there = ~np.isnan(scores)
    filled, counted = np.where(there, scores, 0.0), there.astype(np.float64)
    rng = generator("bootstrap", task)
    means = np.empty((RESAMPLES, scores.shape[1]))
    for start in range(0, RESAMPLES, STEP):
        times = _times(rng, len(scores))
        with np.errstate(invalid="ignore"):
            means[start : start + STEP] = (times @ filled) / (times @ counted)
    return means


def _times(rng: np.random.Generator, questions: int) -> Floats:
    """Return how often each question is drawn, for a step of resamples."""
    draws = rng.integers(0, questions, (STEP, questions))
    draws += np.arange(STEP)[:, None] * questions
    counts = np.bincount(draws.ravel(), minlength=STEP * questions)
    return counts.reshape(STEP, questions).astype(np.float64)


def flip(task: str, parts: Floats) -> Floats:
    """Return sums of parts under random signs, one sign for each question.

    Args:
        task: names the draws.
        parts: questions by statistics; what each question adds to each statistic.

    Returns:
        Flips by statistics.
    """
    rng = generator("permutation", task)
    sums = np.empty((FLIPS, parts.shape[1]))
    for start in range(0, FLIPS, STEP):
        signs = rng.integers(0, 2, (STEP, parts.shape[0]), dtype=np.int8)
        sums[start : start + STEP] = (2.0 * signs - 1.0) @ parts
    return sums


def permute_labels(task: str, ours: Floats, theirs: Floats, deals: int = FLIPS) -> Floats:
    """Return gaps between means when the questions of two runs are dealt anew at random.

    Args:
        task: names the draws.
        ours: questions by lengths; NaN where a row has no score.
        theirs: likewise, other questions.
        deals: how many.

    Returns:
        Deals by lengths: mean of as many questions as `ours`, less the mean of the rest.
    """
    scores = np.concatenate([ours, theirs])
    alike, times = np.unique(np.where(np.isnan(scores), -1.0, scores), axis=0, return_counts=True)
    counted = (alike >= 0).astype(np.float64)
    filled = alike * counted
    rng = generator("deal", task)
    gaps = np.empty((deals, scores.shape[1]))
    for start in range(0, deals, STEP):  # how many of each kind are dealt says all of a deal
        size = min(STEP, deals - start)
        dealt = rng.multivariate_hypergeometric(times, len(ours), size)
        with np.errstate(invalid="ignore"):
            first, rest = (side @ filled / (side @ counted) for side in (dealt, times - dealt))
        gaps[start : start + size] = np.nan_to_num(first - rest)
    return gaps


def interval(samples: Floats) -> tuple[float, float]:
    """Return the 95 % percentile interval of samples, less those that drew no row."""
    low, high = np.quantile(samples[~np.isnan(samples)], [0.025, 0.975])
    return float(low), float(high)
