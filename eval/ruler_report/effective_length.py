"""The paper's effective length and its ranks.

Source: RULER, arXiv 2404.06654, section 4 and the captions of its Tables 3 and 12-16.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ruler_report.frame import Name
from ruler_report.means import Means
from ruler_report.typesetting import format_length

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


@dataclass(frozen=True)
class EffectiveLength:
    """The longest length whose mean reaches a threshold.

    Attributes:
        threshold: in percent.
        length: in tokens; None if no length reaches the threshold.
        possible: the lengths that the intervals of the means do not exclude, increasing; 0 stands
            for none.
    """

    threshold: float
    length: int | None
    possible: tuple[int, ...]

    def format_possible(self, longest: int) -> str:
        """Return the lengths that are not excluded, given the longest measured.

        >>> EffectiveLength(85.6, 32768, (16384, 32768, 65536)).format_possible(65536)
        '16K, 32K or ≥64K'
        """
        *shorter, last = (format_length(length, longest) for length in self.possible)
        return f"{', '.join(shorter)} or {last}" if shorter else last

    def format_with_possible(self, longest: int) -> str:
        """Return the length, and in brackets what else is not excluded.

        >>> EffectiveLength(85.6, 32768, (32768, 65536)).format_with_possible(131072)
        '32K (32K or 64K)'
        """
        text = format_length(self.length, longest)
        possible = self.format_possible(longest)
        return text if text == possible else f"{text} ({possible})"


def effective_length(means: Mapping[int, float], threshold: float) -> int | None:
    """Return the longest length whose score reaches the threshold, in tokens; None if none does.

    As in the paper, a shorter length may fail: Mixtral in Table 15 passes at 4K and 16K but not
    at 8K. A score equal to the threshold passes, as Qwen3-32B's 85.6 does upstream.

    >>> effective_length({4096: 91.7, 8192: 82.7, 16384: 85.7, 32768: 69.9}, 84.8)
    16384
    """
    return max((length for length, mean in means.items() if mean >= threshold), default=None)


def possible_lengths(intervals: Mapping[int, tuple[float, float]], bar: float) -> list[int]:
    """Return the effective lengths that intervals of means do not exclude; 0 stands for none.

    An effective length reaches the bar, and no longer length does.
    """
    possible = []
    for length in sorted((0, *intervals), reverse=True):
        low, high = intervals[length] if length else (-np.inf, np.inf)
        if high >= bar:
            possible.append(length)
        if low >= bar:
            break
    return possible


def ranks(values: Sequence[float]) -> list[int]:
    """Return the rank of each value, the largest first; equal values share the better rank.

    >>> ranks([70.0, 90.0, 70.0, 60.0])
    [2, 1, 2, 4]
    """
    return [1 + sum(rival > value for rival in values) for value in values]


def effective_length_of(
    means: Means, run: int, name: str | None, threshold: float
) -> EffectiveLength:
    """Return the effective length of a run by a mean, given the threshold in percent.

    A length is excluded if its interval, or that of a longer one, is on the other side.
    """
    ends, values = {}, {}
    for length in sorted(n for key, n in means.columns if key == name and n):
        mean = means.estimate((name, length), run)
        if mean:
            low, high = mean.low, mean.high
            ends[length] = (0.0 if low is None else low, 100.0 if high is None else high)
            values[length] = float(means.lowest[means.place[name, length], run])
    possible = possible_lengths(ends, threshold)
    return EffectiveLength(
        threshold, effective_length(values, threshold), tuple(sorted({*possible}))
    )


def own_length(means: Means, run: int) -> EffectiveLength | None:
    """Return the effective length at a share of the run's mean at its shortest length.

    The differences from this share are tested; the shortest length always passes. None for one
    length, or without a mean at the shortest.
    """
    lengths = sorted(n for key, n in means.columns if key is None and n)
    shortest = means.estimate((None, lengths[0]), run) if len(lengths) > 1 else None
    if shortest is None or shortest.value is None:
        return None
    threshold = OWN_SHARE * shortest.value
    base: Name = (None, lengths[0])
    gaps = {n: means.minus((base, run), ((None, n), run), OWN_SHARE) for n in lengths[1:]}
    ends = {
        n: (-100.0 if gap.low is None else gap.low, 100.0 if gap.high is None else gap.high)
        for n, gap in gaps.items()
    }
    possible = {length or lengths[0] for length in possible_lengths(ends, 0.0)}
    values = {n: float(means.lowest[means.place[None, n], run]) for n in lengths}
    longest = effective_length(values, threshold) or lengths[0]
    return EffectiveLength(threshold, longest, tuple(sorted(possible)))
