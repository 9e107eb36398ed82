"""Whether the needles of a config are uniformly distributed over depth.

All depths together are tested by Kolmogorov and Smirnov. That each is the one of the seed, whose
depths are stratified over rows, is checked elsewhere (`audit.source_check`).

The depth of a needle by itself is uniform. Needles also never stand side by side: one that would
moves to the next free place, as in linear probing of a hash table. With a share `a` of all places
taken, a needle moves by a / 2(1 - a) places on average (Knuth, The Art of Computer Programming,
volume 3, section 6.4), always towards the end. From a = 2/3 that is more than one place, which is
the resolution of a haystack of whole lines: depths in such a row cannot be uniform, so it is left
out of the test.
"""

import math
import re
from statistics import fmean

from ruler_data.row import Row, Span
from ruler_data.tasks import Cwe, Fwe, Niah, Qa, Task, Vt
from tests.proof.task_parameters import template_of

#: Probability that the test rejects uniform depths.
ALPHA = 1e-4

#: Largest share of the places of a haystack that needles may take if depths are to be uniform.
CROWDED = 2 / 3

#: Marks rows that were left out, in the result of the test.
UNTESTED = "not tested"

#: Characters beside a needle that are searched for the end of a sentence.
LONGEST = 1000
_END = re.compile(r"[.?!][\"')\]]*\s")


class Depths:
    """The relative depths of the needles of a config, collected row by row."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._pieces = _kept_apart(task)
        self._found: list[float] = []
        self._grains: list[float] = []
        self._crowded: list[int] = []  # places of the rows left out

    def add(self, row: Row) -> None:
        """Add the depths of a row."""
        found, grain, places = row_depths(self._task, row)
        if found and self._pieces > max(CROWDED * places, 1):
            self._crowded.append(places)
        elif found:
            self._found += found
            self._grains.append(grain)

    def verdict(self) -> tuple[str, list[str]]:
        """Return the result of the test, which may be empty, and the findings."""
        left_out = ""
        if self._crowded:
            places = min(self._crowded)
            left_out = f"{UNTESTED}: {self._pieces} pieces apart in about {places} places"
        if not self._found:
            return left_out, []
        size = len(self._found)
        distance, limit = uniformity(self._found), ks_limit(size) + fmean(self._grains)
        result = f"KS {distance:.4f} <= {limit:.4f}, {size} gold pieces"
        result += f"; rows {left_out}: {len(self._crowded)}" if left_out else ""
        findings = []
        if distance > limit:
            findings.append(
                f"gold depth is not uniform: KS {distance:.4f} over {size} pieces, "
                f"limit {limit:.4f}"
            )
        return result, findings


def uniformity(depths: list[float]) -> float:
    """Return the Kolmogorov-Smirnov distance of depths from the uniform distribution on [0, 1].

    >>> uniformity([0.25, 0.75])
    0.25
    """
    ordered, size = sorted(depths), len(depths)
    return max(max((i + 1) / size - depth, depth - i / size) for i, depth in enumerate(ordered))


def ks_limit(size: int) -> float:
    """Return the distance that `size` uniform depths exceed with probability `ALPHA`.

    The Dvoretzky-Kiefer-Wolfowitz bound with Massart's constant (1990), valid for every size.
    """
    return min(math.sqrt(math.log(2 / ALPHA) / (2 * size)), 1.0)


def _kept_apart(task: Task) -> int:
    """Return how many needles of a row must not stand side by side; 1 if there is no such rule."""
    params = task.params
    if isinstance(params, Vt):
        return params.chains * (params.hops + 1)
    if isinstance(params, Niah):
        sentences = 2 if params.wording == "split" else 1
        return (params.keys + params.lookalikes) * params.values * sentences
    return 1


def row_depths(task: Task, row: Row) -> tuple[list[float], float, int]:
    """Return the relative depths of the needles, their grain, and the number of places.

    The grain is the relative distance of two places. By so much, even evenly chosen places differ
    from the uniform distribution.
    """
    if not row.evidence or isinstance(task.params, Cwe | Fwe):
        return [], 0.0, 0
    head = template_of(task, row).head
    find = row.context.rfind if isinstance(task.params, Vt) else row.context.find  # vt: an example
    start = find(head) + len(head)
    if start < len(head):  # no instruction: the solver reports it
        return [], 0.0, 0
    last = row.evidence[-1]
    gold = sum(span.end - span.start for span in row.evidence)
    free = max(len(row.context) - start - gold, 1)
    depths, before = [], 0
    for span in row.evidence:
        depths.append(min(max((span.start - start - before) / free, 0.0), 1.0))
        before += span.end - span.start
    return depths, _grain(task, row, free, last), free // _unit(task) + 1


def _grain(task: Task, row: Row, free: int, last: Span) -> float:
    """Return the share of the haystack that a segment beside a needle takes."""
    if isinstance(task.params, Qa):
        return 1.0 / max(row.context.count("Document "), 1)
    if isinstance(task.params, Niah) and task.params.haystack in ("essays", "domains"):
        grid = 1.0 / task.params.depths if task.params.depths else 0.0
        return min(_sentence_beside(row) / free + grid, 1.0)
    return min((last.end - last.start + _unit(task)) / free, 1.0)


def _sentence_beside(row: Row) -> int:
    """Return the characters of the longest sentence beside a needle, up to `LONGEST`."""
    sizes = []
    for span in row.evidence:
        before = row.context[max(span.start - LONGEST, 0) : span.start].rstrip()
        behind = row.context[span.end : span.end + LONGEST].lstrip()
        sizes += [len(_END.split(before)[-1]), len(_END.split(behind, maxsplit=1)[0])]
    return max(sizes)


def _unit(task: Task) -> int:
    """Return roughly the characters of a segment of the haystack: a line or a sentence."""
    sentences = isinstance(task.params, Niah) and task.params.haystack in ("essays", "domains")
    return 150 if sentences else 100
