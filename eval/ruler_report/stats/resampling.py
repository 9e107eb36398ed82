"""Random resamples, sign flips and label permutations of scores.

Every draw comes from a generator that is seeded by a name, e.g. `bootstrap/vt`. The same results
therefore give the same statistics in any process and in any order, for a given version of numpy.
"""

import hashlib

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
#: Bootstrap resamples; about 50 of them lie beyond each end of a 95 % interval.
RESAMPLES = 2000
#: Sign flips or permutations of a test; the smallest p-value that they can give is 1e-4.
FLIPS = 10_000
#: Draws per batch, which bounds memory.
BATCH = 200


def generator(*name: str) -> np.random.Generator:
    """Return the random generator of a name."""
    digest = hashlib.sha256("/".join(("ruler-eval", "1", *name)).encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "big")))


def resample(task: str, scores: Floats) -> Floats:
    """Return bootstrap means of a task's scores, by resampling its questions.

    A question has the same index at every length, and its scores at two lengths are correlated.
    So questions are drawn, and each contributes its scores at all lengths.

    Args:
        task: names the draws.
        scores: questions by lengths; NaN where a row has no score.

    Returns:
        Resamples by lengths; NaN where a resample has no scored row.
    """
    scored = ~np.isnan(scores)
    filled, counted = np.where(scored, scores, 0.0), scored.astype(np.float64)
    rng = generator("bootstrap", task)
    means = np.empty((RESAMPLES, scores.shape[1]))
    for start in range(0, RESAMPLES, BATCH):
        counts = _draw_counts(rng, len(scores))
        with np.errstate(invalid="ignore"):
            means[start : start + BATCH] = (counts @ filled) / (counts @ counted)
    return means


def _draw_counts(rng: np.random.Generator, questions: int) -> Floats:
    """Return how often each question is drawn, resamples of one batch by questions."""
    draws = rng.integers(0, questions, (BATCH, questions))
    draws += np.arange(BATCH)[:, None] * questions
    counts = np.bincount(draws.ravel(), minlength=BATCH * questions)
    return counts.reshape(BATCH, questions).astype(np.float64)


def flip(task: str, parts: Floats) -> Floats:
    """Return sums of parts under random signs, one sign per question.

    Args:
        task: names the draws.
        parts: questions by statistics; what each question adds to each statistic.

    Returns:
        Flips by statistics.
    """
    rng = generator("permutation", task)
    sums = np.empty((FLIPS, parts.shape[1]))
    for start in range(0, FLIPS, BATCH):
        signs = rng.integers(0, 2, (BATCH, parts.shape[0]), dtype=np.int8)
        sums[start : start + BATCH] = (2.0 * signs - 1.0) @ parts
    return sums


def permute_labels(task: str, first: Floats, second: Floats, permutations: int = FLIPS) -> Floats:
    """Return differences of means after random reassignments of questions to two runs.

    Args:
        task: names the draws.
        first: questions by lengths; NaN where a row has no score.
        second: likewise, other questions.
        permutations: how many to draw.

    Returns:
        Permutations by lengths: the mean of as many questions as `first` has, minus the mean of
        the rest.
    """
    scores = np.concatenate([first, second])
    kinds, times = np.unique(np.where(np.isnan(scores), -1.0, scores), axis=0, return_counts=True)
    counted = (kinds >= 0).astype(np.float64)
    filled = kinds * counted
    rng = generator("deal", task)
    differences = np.empty((permutations, scores.shape[1]))
    for start in range(0, permutations, BATCH):
        size = min(BATCH, permutations - start)
        # Questions with equal scores are interchangeable, so it suffices to draw their numbers.
        drawn = rng.multivariate_hypergeometric(times, len(first), size)
        with np.errstate(invalid="ignore"):
            one, rest = (side @ filled / (side @ counted) for side in (drawn, times - drawn))
        differences[start : start + size] = np.nan_to_num(one - rest)
    return differences


def interval(samples: Floats) -> tuple[float, float]:
    """Return the 95 % percentile interval of samples; NaN samples are ignored."""
    low, high = np.quantile(samples[~np.isnan(samples)], [0.025, 0.975])
    return float(low), float(high)
