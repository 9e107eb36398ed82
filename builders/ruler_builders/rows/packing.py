"""Packing: which segments fill a room of tokens best."""

import numpy as np
from numpy.typing import NDArray

from ruler_builders.rows.segments import SLACK, SPARE, Costs

#: From this room (tokens) on, rows must be filled to 0.99 of their length, which is some tokens
#: more than the room. A row short of that by its own segments gets one segment more.
FULL_FROM, FULL = 3_700, 1 - 1 / 93


def choose(
    costs: Costs,
    room: int,
    labels: Costs | None = None,
    first: int = 0,
    totals: Costs | None = None,
) -> NDArray[np.intp]:
    """Return the numbers of the segments that fill a room (tokens) best, rising; maybe none.

    Segments are taken in order while they fit. If more than `SLACK` tokens are then free, shorter
    segments that follow are taken as well, and then some of the last segments are swapped for
    longer ones. If that leaves a row of a length with a promised fill too short (long lines, e.g.
    two UUIDs of a tokenizer with a token per digit), one more segment is taken and others are
    swapped for shorter ones.

    Args:
        costs: tokens of each segment.
        room: tokens for all of them.
        labels: tokens that depend on the place instead of the segment (numbers of a list).
        first: number of segments that are preferred; later ones are used only if no choice among
            the first fills the room.
        totals: running totals of costs and labels, if known.

    >>> choose(np.array([10, 10, 30, 4, 1]), room=36).tolist()
    [0, 1, 3, 4]
    """
    if totals is None:
        totals = (costs if labels is None else costs + labels[: len(costs)]).cumsum()
    count = int(totals.searchsorted(room, side="right"))
    free = room - (int(totals[count - 1]) if count else 0)
    if free <= SLACK:
        return np.arange(count)
    stay = max(count - SPARE, 0)  # those before are never swapped
    picks = list(range(stay, count))
    after = max(count, first)
    later = range(after, min(after + SPARE, len(costs)))
    # Take preferred segments, then later ones without replacing any preferred one, then with.
    stages = dict.fromkeys([(range(count, min(first, len(costs))), 0), (later, first), (later, 0)])
    for spare, fixed in stages:
        if free <= SLACK:
            break
        members, unpicked = set(picks), list[int]()
        for unit, cost in zip(spare, costs[spare.start : spare.stop].tolist(), strict=True):
            if unit in members:
                continue
            place = 0 if labels is None else int(labels[stay + len(picks)])
            if cost + place <= free:
                picks.append(unit)
                free -= cost + place
            else:
                unpicked.append(unit)
        free = _swap(costs, picks, unpicked, free, fixed)
    if room >= FULL_FROM and free > room * (1 - FULL) and labels is None:
        picks = _one_more(costs, picks, range(count, min(count + SPARE, len(costs))), free)
    return np.concatenate([np.arange(stay), np.array(sorted(picks), dtype=np.intp)])


def _one_more(costs: Costs, picks: list[int], spare: range, free: int) -> list[int]:
    """Return the segments with one more, and long ones swapped for short ones until they fit.

    They are returned unchanged if they would not be fuller.
    """
    head, tail = picks[:-SPARE], picks[-SPARE:]
    pool = sorted({*tail, *spare}, key=lambda unit: (int(costs[unit]), unit))
    more, unpicked = pool[: len(tail) + 1], pool[len(tail) + 1 :]
    surplus = free + int(costs[tail].sum() - costs[more].sum())
    if surplus < 0 or len(more) == len(tail):
        return picks
    return [*head, *more] if _swap(costs, more, unpicked, surplus) < free else picks


def _swap(costs: Costs, picks: list[int], unpicked: list[int], free: int, fixed: int = 0) -> int:
    """Swap some of the last segments for longer spare ones; return the tokens that stay free.

    The swap that fills the most is made first, until `SLACK` tokens are free. Segments before
    number `fixed` stay.
    """
    while (
        unpicked and free > SLACK and (tail := [unit for unit in picks[-SPARE:] if unit >= fixed])
    ):
        gains = costs[unpicked] - costs[tail][:, None]
        gains[gains > free] = 0
        best = int(gains.argmax())
        gain = int(gains.flat[best])
        if gain <= 0:
            break
        out, new = tail[best // len(unpicked)], unpicked[best % len(unpicked)]
        picks[picks.index(out)], unpicked[unpicked.index(new)] = new, out
        free -= gain
    return free
