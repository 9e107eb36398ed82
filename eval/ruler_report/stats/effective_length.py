"""The paper's averages over lengths, its effective length and its ranks.

Source: RULER, arXiv 2404.06654, section 4 and the captions of its Tables 3 and 12-16. The
weights 1 to 6 are not printed there; they reproduce every printed wAvg (test_published.py).
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ruler_report.stats.intervals import Floats

#: The suite of the paper's results.
RULER = "ruler"
#: Name of the threshold on the mean over all 13 tasks; others are named by their category.
OVERALL = "overall"
#: Name of the threshold at 85 % of the model's own score at its shortest length.
OWN = "own"

#: Score of Llama-2-7B at 4,096 tokens, in percent: the chat model (Tables 3 and 13-16), and the
#: base model for base models (Tables 12-16).
THRESHOLDS: dict[str, dict[str, float]] = {
    "aligned": {
        OVERALL: 85.6,
        "retrieval": 96.9,
        "multi-hop tracing": 89.7,
        "aggregation": 84.8,
        "question answering": 49.7,
    },
    "base": {
        OVERALL: 79.4,
        "retrieval": 90.9,
        "multi-hop tracing": 58.8,
        "aggregation": 73.1,
        "question answering": 48.6,
    },
}
#: Share of a model's own score at its shortest length that still counts as effective.
OWN_SHARE = 0.85


def weights(lengths: int, kind: str) -> Floats:
    """Return the weights of lengths, shortest first; they add up to 1.

    Args:
        lengths: the number of lengths.
        kind: `avg`, `wavg_inc` (linearly increasing) or `wavg_dec` (decreasing).

    >>> weights(3, "wavg_inc") * 6
    array([1., 2., 3.])
    """
    rising = np.arange(1, lengths + 1, dtype=np.float64)
    columns: dict[str, Floats] = {
        "avg": np.ones(lengths),
        "wavg_inc": rising,
        "wavg_dec": rising[::-1],
    }
    return np.asarray(columns[kind] / columns[kind].sum())


def effective_length(means: Mapping[int, float], threshold: float) -> int | None:
    """Return the longest length whose score reaches the threshold, in tokens; None if none does.

    As in the paper, a shorter length may fail: Mixtral in Table 15 passes at 4K and 16K but not
    at 8K. A score equal to the threshold passes, as Qwen3-32B's 85.6 does upstream.

    >>> effective_length({4096: 91.7, 8192: 82.7, 16384: 85.7, 32768: 69.9}, 84.8)
    16384
    """
    return max((length for length, mean in means.items() if mean >= threshold), default=None)


def ranks(values: Sequence[float]) -> list[int]:
    """Return the rank of each value, the largest first; equal values share the better rank.

    >>> ranks([70.0, 90.0, 70.0, 60.0])
    [2, 1, 2, 4]
    """
    return [1 + sum(other > value for other in values) for value in values]


def mean_percent(scores: Sequence[float]) -> float:
    """Return the mean of scores in [0, 1] in percent, in upstream's order of operations.

    Upstream prints `round(..., 2)` of this; another order of operations could round a tie the
    other way.

    >>> mean_percent([1.0, 0.0, 1.0])
    66.66666666666666
    """
    return sum(scores) / len(scores) * 100
