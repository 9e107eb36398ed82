"""When a run may stop: a test that stays valid however often it is looked at.

A round is one row of each of K tasks, each task in a random order of its own (`order_of`). After
every round the scores so far bound the mean of the K task means over *all* N frozen rows of each:

    rounds of N = 500    scores so far    bounds at 95 %
                  20             97.3      90.7 to 99.3
                 100             97.1      94.7 to 98.5
                 500             97.0      97.0 to 97.0

The bounds hold at all rounds together, so a run may stop at the first that decides its question.
They come from betting against a mean m (Waudby-Smith and Ramdas 2024, JRSS-B 86(1): bets on a grid,
sampling without replacement). If m were true, the rows left would have the mean
l = (N·m - sum so far) / rows left. Every task k gets an offer e_k, fixed before the round, with a
mean of l over the tasks, and a round multiplies a stake by the product of 1 + b·(score_k - e_k).
The scores of a round are independent, and the mean of what is expected of them is at most l, so by
the inequality of arithmetic and geometric means the product is at most 1 in expectation. Capital
that grows to 1/alpha then has a chance of at most alpha (Ville's inequality), and m is rejected.
Offers follow each task's scores so far, so that differences between tasks cost nothing, as in
stratified sampling (Spertus, Sridhar and Stark 2024, arXiv 2409.06680, on such tests in general).
"""

from hashlib import sha256
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

#: On which side of a threshold a mean is; None: not decided.
Side = Literal["above", "below"] | None

#: Chance of any wrong statement.
ALPHA = 0.05

#: Bets, as shares of the largest that cannot lose everything; the stake is spread evenly over them.
_BETS = np.geomspace(0.01, 0.95, 10)
#: Rows of the mean over tasks that each task's offer starts from.
_PRIOR = 4.0
#: What sums of scores may differ by rounding.
_ROUNDING = 1e-9


def order_of(task: str, rows: int) -> list[int]:
    """Return the indices of a task's rows in the order in which they are run.

    A permutation by hash: depths follow the index, so rows in their own order would not be a random
    sample. It depends on the name of the task alone: all runs begin with the same rows, and pair.

    >>> order_of("vt", 8)
    [7, 6, 5, 4, 2, 1, 3, 0]
    """
    return sorted(range(rows), key=lambda index: sha256(f"{task}/{index}".encode()).digest())


def log_capital(scores: Floats, mean: float, rows: int) -> Floats:
    """Return the log of the capital won, after each round, against a mean of at most `mean`.

    Args:
        scores: of rounds by tasks, in [0, 1], in the order of `order_of`.
        mean: the hypothesis, in [0, 1].
        rows: of each task in all, at least as many as rounds.
    """
    after = scores.cumsum(axis=0)
    before = after - scores
    rounds = np.arange(len(scores))
    left = (rows * mean - before.mean(axis=1)) / (rows - rounds)
    pooled = before.mean(axis=1, keepdims=True)
    share = _PRIOR / np.maximum(rounds, 1)[:, None]
    guess = (before + share * pooled) / (rounds[:, None] + _PRIOR)
    offer = left[:, None] + guess - guess.mean(axis=1, keepdims=True)
    highest = np.maximum(offer.max(axis=1), _ROUNDING)
    gains = np.zeros((len(scores), len(_BETS)))
    for column, price in zip(scores.T, offer.T, strict=True):
        gains += np.log1p(np.outer((column - price) / highest, _BETS))
    capital = np.logaddexp.reduce(gains.cumsum(axis=0), axis=1) - np.log(len(_BETS))
    impossible = after.mean(axis=1) > rows * mean + _ROUNDING  # even if all other rows score 0
    return np.where(np.maximum.accumulate(impossible), np.inf, capital)


def is_above(scores: Floats, mean: float, rows: int, alpha: float) -> bool:
    """Whether the mean of all rows is proved to be above `mean`, at any round so far."""
    return bool((log_capital(scores, mean, rows) >= -np.log(alpha)).any())


def side_of(
    low: Floats, high: Floats, threshold: float, rows: int, alpha: float, above: float | None = None
) -> Side:
    """Return on which side of a threshold the mean of all rows is.

    A wrong side has a chance of at most `alpha`, over all rounds together: only one can be wrong.

    Args:
        low: scores of rounds by tasks, in [0, 1], with 0 for a row without an answer.
        high: the same with 1 for such a row.
        threshold: in [0, 1].
        rows: of each task in all.
        alpha: the chance.
        above: that of a wrong `above`, if another.
    """
    if is_above(low, threshold, rows, above or alpha):
        return "above"
    return "below" if is_above(1 - high, 1 - threshold, rows, alpha) else None


def interval_of(low: Floats, high: Floats, rows: int, alpha: float) -> tuple[float, float]:
    """Return bounds for the mean of all rows that hold at all rounds together.

    With all rows answered both are the mean. Arguments as of `side_of`.
    """
    return _lower(low, rows, alpha / 2), 1 - _lower(1 - high, rows, alpha / 2)


def _lower(scores: Floats, rows: int, alpha: float) -> float:
    """Return the largest mean that is rejected as too small, to 1e-6, by bisection.

    A larger mean never has more capital against it, because its offers are higher.
    """
    if len(scores) == rows:
        return float(scores.mean())
    low, high = 0.0, float(scores.mean()) if len(scores) else 0.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        if is_above(scores, middle, rows, alpha):
            low = middle
        else:
            high = middle
    return low
