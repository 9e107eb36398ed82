"""Insert needles: segments of a haystack in order, with needles at their depths among them."""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from ruler_builders.rows.packing import choose
from ruler_builders.rows.row_template import Haystack, Needle, Spans
from ruler_builders.rows.segments import Costs, Segments


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
        chosen = choose(segments.costs, room - needle_tokens, totals=segments.before[1:])
    else:
        chosen = numbers[choose(segments.costs[numbers], room - needle_tokens)]
    totals = segments.costs[chosen].cumsum()
    ordered = sorted(needles, key=lambda needle: needle.depth)
    places = spread(slots([needle.depth for needle in ordered], totals), len(chosen))
    runs, marks = _weave(segments, chosen, ordered, places, joiner)
    pieces, evidence = assemble(runs, marks, joiner.encode())
    cost = needle_tokens + (int(totals[-1]) if len(totals) else 0)
    return Haystack(pieces, evidence, cost, len(chosen))


def assemble(
    pieces: Sequence[bytes | memoryview], marks: Sequence[int], joiner: bytes
) -> tuple[list[bytes | memoryview], Spans]:
    """Return pieces with a joiner between them, and the spans (bytes) of the marked ones.

    >>> assemble([b"a", b"bc ", b"d"], [1], b" ")
    ([b'a', b' ', b'bc ', b' ', b'd'], array([[2, 4]]))
    """
    starts = list(accumulate((len(piece) + len(joiner) for piece in pieces), initial=0))
    # vt's assignments end in a space, which is not evidence.
    sizes = [len(bytes(pieces[mark]).rstrip(b" ")) for mark in marks]
    spans = [(starts[mark], starts[mark] + size) for mark, size in zip(marks, sizes, strict=True)]
    woven: list[bytes | memoryview] = [joiner] * (2 * len(pieces) - 1)
    woven[::2] = pieces
    return woven, np.array(spans, dtype=np.int64).reshape(-1, 2)


def slots(depths: Sequence[float], totals: Costs) -> list[int]:
    """Return, for each depth, how many segments stand before the needle.

    Depth is measured in tokens. The haystack counts as one mean segment longer than it is, so
    that the place after the last segment is as likely as any other: with n equal segments the
    answer is floor(depth * (n + 1)).

    Args:
        depths: in [0, 1).
        totals: running totals of the segments' tokens.
    """
    if not len(totals):
        return [0 for _ in depths]
    span = float(totals[-1]) * (len(totals) + 1) / len(totals)
    found: list[int] = totals.searchsorted(np.array(depths) * span, side="right").tolist()
    return found


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
    chosen: NDArray[np.intp],
    needles: Sequence[Needle],
    places: Sequence[int],
    joiner: str,
) -> tuple[list[bytes | memoryview], list[int]]:
    """Return texts with the needles at their places, and the numbers of those that are evidence.

    Neighbouring segments with no needle between them are one text.
    """
    breaks: list[int] = []
    if len(chosen) and chosen[-1] - chosen[0] >= len(chosen):  # with gaps: they rise
        breaks = (np.flatnonzero(np.diff(chosen) != 1) + 1).tolist()
    cuts = sorted({0, len(chosen), *places, *breaks})
    pieces: list[bytes | memoryview] = [*segments.runs(chosen, joiner, np.array(cuts))]
    marks = []
    for before, (needle, place) in enumerate(zip(needles, places, strict=True)):
        at = cuts.index(place) + before
        pieces.insert(at, needle.text.encode())
        if needle.is_evidence:
            marks.append(at)
    return pieces, marks
