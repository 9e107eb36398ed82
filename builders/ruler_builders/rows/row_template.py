"""What a task family returns: the question of a row, and how its haystack fills a room."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from ruler_builders.prompts import PromptTemplate
from ruler_builders.rows.segments import Costs, Segments, choose

#: Start and end of spans of a text, shape (spans, 2), in bytes of its UTF-8 until the row is
#: finished.
Spans = NDArray[np.int64]


@dataclass(frozen=True)
class Haystack:
    """A haystack with its needles in place.

    Attributes:
        pieces: its text in UTF-8, to be joined.
        evidence: spans of the text that the answer rests on, in order.
        cost: planned tokens.
        segments: number of segments beyond the necessary ones; 0 for the smallest haystack.
        exhausted: which source ran out, and what was done; empty for none.
    """

    pieces: Sequence[bytes | memoryview]
    evidence: Spans
    cost: int
    segments: int
    exhausted: str = ""


@dataclass(frozen=True)
class RowTemplate:
    """A row before its haystack. All but `fill` is the same at every length and tokenizer.

    Attributes:
        prompt: the text around the haystack, with the in-context example.
        outputs: gold answers.
        fill: returns the fullest haystack planned within a room of tokens, else the smallest.
    """

    prompt: PromptTemplate
    outputs: tuple[str, ...]
    fill: Callable[[int], Haystack]


@dataclass(frozen=True)
class Needle:
    """A text to insert at a relative depth in [0, 1); a distractor is no evidence."""

    text: str
    depth: float
    is_evidence: bool = True


def insert_needles(
    segments: Segments,
    needles: Sequence[Needle],
    needle_tokens: int,
    room: int,
    *,
    joiner: str,
    numbers: NDArray[np.intp] | None = None,
) -> Haystack:
    """Fill a room with segments and insert the needles at their depths, none side by side.

    Args:
        segments: the haystack.
        needles: if there are too few segments to keep them apart, they keep their depths.
        needle_tokens: tokens of all needles.
        room: tokens for all of it.
        joiner: text between segments.
        numbers: of the segments to choose from, in order; all of them by default.
    """
    if numbers is None:
        picks = choose(segments.costs, room - needle_tokens, totals=segments.before[1:])
    else:
        picks = numbers[choose(segments.costs[numbers], room - needle_tokens)]
    costs = segments.costs[picks]
    totals = costs.cumsum()
    ordered = sorted(needles, key=lambda needle: needle.depth)
    places = spread(slots([needle.depth for needle in ordered], totals), len(picks))
    pieces, evidence = _weave(segments, picks, ordered, places, joiner)
    return Haystack(pieces, evidence, needle_tokens + int(costs.sum()), len(picks))


def slots(depths: Sequence[float], totals: Costs) -> list[int]:
    """Return, for each depth, how many segments stand before the needle.

    Depth is measured in tokens. The haystack counts as one mean segment longer than it is, so
    that the place after the last segment is as likely as any other: with n equal segments the
    answer is floor(depth * (n + 1)).

    Args:
        depths: in [0, 1).
        totals: running totals of the segments' tokens.

    >>> slots([0.0, 0.24, 0.26, 0.99], np.array([10, 20, 30]))
    [0, 0, 1, 3]
    """
    if not len(totals):
        return [0 for _ in depths]
    span = float(totals[-1]) * (len(totals) + 1) / len(totals)
    counts: list[int] = totals.searchsorted(np.array(depths) * span, side="right").tolist()
    return counts


def spread(places: Sequence[int], last: int) -> list[int]:
    """Return rising places, moved as little as possible so that they all differ, up to `last`.

    If there are more needles than places, they are returned unchanged.

    >>> spread([0, 3, 3, 9, 9], last=9)
    [0, 3, 4, 8, 9]
    """
    if len(places) > last + 1:
        return list(places)
    up = list(accumulate(places, lambda before, place: max(before + 1, place)))
    limits = range(last - len(up) + 1, last + 1)
    return [min(place, limit) for place, limit in zip(up, limits, strict=True)]


def _weave(
    segments: Segments,
    picks: NDArray[np.intp],
    needles: Sequence[Needle],
    places: Sequence[int],
    joiner: str,
) -> tuple[list[bytes | memoryview], Spans]:
    """Return texts with the needles at their places, joined, and the spans (bytes) of evidence.

    Neighbouring segments with no needle between them are one text.
    """
    breaks: list[int] = []
    if len(picks) and picks[-1] - picks[0] >= len(picks):  # with gaps: they rise
        breaks = (np.flatnonzero(np.diff(picks) != 1) + 1).tolist()
    cuts = sorted({0, len(picks), *places, *breaks})
    pieces: list[bytes | memoryview] = [*segments.runs(picks, joiner, np.array(cuts))]
    marks = [cuts.index(place) + before for before, place in enumerate(places)]
    for mark, needle in zip(marks, needles, strict=True):
        pieces.insert(mark, needle.text.encode())
    starts = [0, *accumulate(len(piece) + len(joiner) for piece in pieces)]
    spans = [
        # vt's assignments end in a space, which is not evidence.
        (starts[mark], starts[mark] + len(needle.text.rstrip(" ").encode()))
        for mark, needle in zip(marks, needles, strict=True)
        if needle.is_evidence
    ]
    sequence: list[bytes | memoryview] = [joiner.encode()] * (2 * len(pieces) - 1)
    sequence[::2] = pieces
    return sequence, np.array(spans, dtype=np.int64).reshape(-1, 2)
