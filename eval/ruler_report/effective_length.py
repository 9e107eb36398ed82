"""The paper's effective length.

Source: RULER, arXiv 2404.06654, section 4 and the captions of its Tables 3 and 12-16.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ruler_data.tasks import TASKS
from ruler_report.means import Estimate, Gap, Means
from ruler_report.typesetting import format_length

#: The suite of the paper's results.
RULER = "ruler"
#: Mean over the 13 tasks of Llama-2-7B at 4,096 tokens, in percent: the chat model (Tables 3 and
#: 13-16), and the base model for base models (Tables 12-16).
THRESHOLDS = {"aligned": 85.6, "base": 79.4}
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
        longest: measured.
        is_own: whether the threshold is a share of the model's own score at its shortest length.
    """

    threshold: float
    length: int | None
    possible: tuple[int, ...]
    longest: int
    is_own: bool = False

    @property
    def open_lengths(self) -> str:
        """The lengths that are not excluded.

        >>> EffectiveLength(85.6, 32768, (16384, 32768, 65536), 65536).open_lengths
        '16K, 32K or ≥64K'
        """
        *shorter, last = (format_length(length, self.longest) for length in self.possible)
        if shorter:
            return f"{', '.join(shorter)} or {last}"
        return last

    @property
    def text(self) -> str:
        """The length, as it is shown."""
        return format_length(self.length, self.longest)

    @property
    def alternatives(self) -> str:
        """The lengths that are not excluded; empty if there is no other."""
        if self.open_lengths == self.text:
            return ""
        return self.open_lengths

    def __str__(self) -> str:
        """Return the length, and in brackets what else is not excluded.

        >>> print(EffectiveLength(85.6, 32768, (32768, 65536), 131072))
        32K (32K or 64K)
        """
        if self.alternatives:
            return f"{self.text} ({self.alternatives})"
        return self.text


def effective_length(means: Mapping[int, float], threshold: float) -> int | None:
    """Return the longest length whose score reaches the threshold, in tokens; None if none does.

    As in the paper, a shorter length may fail: Mixtral in Table 15 passes at 4K and 16K but not
    at 8K. A score equal to the threshold passes, as Qwen3-32B's 85.6 does upstream.

    >>> effective_length({4096: 91.7, 8192: 82.7, 16384: 85.7, 32768: 69.9}, 84.8)
    16384
    """
    return max((length for length, mean in means.items() if mean >= threshold), default=None)


def possible_lengths(means: Mapping[int, Estimate | Gap], bar: float) -> list[int]:
    """Return the effective lengths that the intervals of means by length do not exclude.

    An effective length reaches the bar, in percent, and no longer length does; 0 stands for none.
    """
    possible = []
    for length in sorted(means, reverse=True):
        mean = means[length]
        if mean.high is None or mean.high >= bar:
            possible.append(length)
        if mean.low is not None and mean.low >= bar:
            return possible
    return [*possible, 0]


def paper_length(means: Means, run: int, threshold: float) -> EffectiveLength | None:
    """Return the effective length of a run by the paper's threshold; None for other tasks."""
    lengths = lengths_of(means, run)
    if not lengths or {*means.columns[None, None].tasks} != {*TASKS}:
        return None
    means_of_run = {}
    for length in lengths:
        mean = means.estimate((None, length), run)
        if mean is not None:
            means_of_run[length] = mean
    reached = effective_length({n: mean.value for n, mean in means_of_run.items()}, threshold)
    possible = sorted(possible_lengths(means_of_run, threshold))
    return EffectiveLength(threshold, reached, tuple(possible), lengths[-1])


def own_length(means: Means, run: int) -> EffectiveLength | None:
    """Return the effective length at a share of the run's mean at its shortest length.

    The differences from this share are tested; the shortest length always passes. None for one
    length, or where the run lacks one.
    """
    lengths = lengths_of(means, run)
    if len(lengths) < 2:
        return None
    shortest = lengths[0]
    values = {length: float(means.values[None, length][run]) for length in lengths}
    threshold = OWN_SHARE * values[shortest]
    gaps = {}
    for length in lengths[1:]:
        gaps[length] = means.minus(((None, shortest), run), ((None, length), run), OWN_SHARE)
    possible = {length or shortest for length in possible_lengths(gaps, 0.0)}
    length = effective_length(values, threshold) or shortest
    return EffectiveLength(threshold, length, tuple(sorted(possible)), lengths[-1], is_own=True)


def lengths_of(means: Means, run: int) -> list[int]:
    """Return the lengths of the frame, rising; none where a run lacks one."""
    lengths = sorted(length for name, length in means.columns if name is None and length)
    if any(means.value((None, length), run) is None for length in lengths):
        return []
    return lengths
