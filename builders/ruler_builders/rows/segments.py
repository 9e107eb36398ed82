"""Segments: sentences, lines, documents or words of a haystack, each with its tokens.

Each segment is counted once, between typical neighbours. The length of a prompt is then planned as
a sum, without tokenizing it; `fit` tokenizes the finished prompt.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ruler_data.parquet import int_array, integers, texts_array
from ruler_data.tokenizers import Measure

#: Tokens of each segment, or bytes.
Costs = NDArray[np.int64]

#: The cost of a segment that was not counted yet.
UNKNOWN = -1

#: Segments near the end of a haystack that may be left out or added to fill the room.
SPARE = 32
#: Unused tokens up to which the natural order of segments is kept.
SLACK = 8


@dataclass(frozen=True, eq=False)
class Segments:
    """Texts in order, with the tokens of each.

    Texts are an Arrow array, so that 60,000 words are picked and ordered in one step, and in
    UTF-8, which is what is counted, hashed and written.
    """

    texts: pa.StringArray
    costs: Costs

    @classmethod
    def of(cls, texts: Sequence[str], costs: Costs) -> "Segments":
        """Return texts with their tokens as segments."""
        return cls(texts_array(texts), costs)

    @classmethod
    def joined(cls, runs: Sequence["Segments"]) -> "Segments":
        """Return all segments of the parts, one part after the other."""
        return cls(
            pa.concat_arrays([run.texts for run in runs]),
            np.concatenate([run.costs for run in runs]),
        )

    def __len__(self) -> int:
        return len(self.texts)

    def pick(self, order: Sequence[int] | NDArray[np.intp]) -> "Segments":
        """Return the segments of these numbers, in this order."""
        numbers = np.asarray(order, dtype=np.intp)
        return Segments(self.texts.take(int_array(numbers)), self.costs[numbers])

    def repeated(self, room: int) -> "Segments":
        """Return the segments, repeated until they exceed `room` tokens.

        They are doubled at each step and the result is kept, so that rows of similar lengths
        share it.

        >>> Segments.of(["a", "b"], np.array([2, 3])).repeated(9).texts.to_pylist()
        ['a', 'b', 'a', 'b']
        """
        if room < self.total or not self.total:
            return self
        return self._twice.repeated(room)

    @cached_property
    def _twice(self) -> "Segments":
        return Segments.joined([self, self])

    @cached_property
    def total(self) -> int:
        """Tokens of all segments."""
        return int(self.before[-1])

    @cached_property
    def before(self) -> Costs:
        """Tokens before each segment, and at the end those of all."""
        return np.concatenate([[0], np.cumsum(self.costs)])

    def runs(
        self, numbers: NDArray[np.intp], joiner: str, cuts: NDArray[np.intp]
    ) -> list[memoryview]:
        """Return the segments of these numbers, joined and cut into runs.

        A run is a slice of the text of all segments, so its numbers must be consecutive. `cuts`
        are places in `numbers`: 0, every place where a run ends, and the end.

        >>> units = Segments.of([*"abcd"], np.ones(4))
        >>> [bytes(run) for run in units.runs(np.array([0, 1, 3]), " ", np.array([0, 2, 3]))]
        [b'a b', b'd']
        """
        text, starts, ends = self._joined(joiner)
        firsts = numbers[cuts[:-1]]
        lasts = numbers[cuts[1:] - 1]
        return [
            text[a:b] for a, b in zip(starts[firsts].tolist(), ends[lasts].tolist(), strict=True)
        ]

    def _joined(self, joiner: str) -> tuple[memoryview, Costs, Costs]:
        """Return all texts joined, cached for all rows, and the start and end of each (bytes)."""
        if joiner not in self._texts:
            sizes = integers(pc.binary_length(self.texts))
            ends = np.cumsum(sizes + len(joiner), dtype=np.int64) - len(joiner)
            whole = pa.ListArray.from_arrays(int_array([0, len(self)]), self.texts)
            text = memoryview(pc.binary_join(whole, texts_array([joiner])[0])[0].as_buffer())
            self._texts[joiner] = text, ends - sizes, ends
        return self._texts[joiner]

    @cached_property
    def _texts(self) -> dict[str, tuple[memoryview, Costs, Costs]]:
        return {}


def spell(*columns: tuple[Segments, NDArray[np.intp]]) -> tuple[memoryview, NDArray[np.int64]]:
    """Return segments of several columns joined row by row, and the offsets of all of them.

    Tens of thousands are joined in one step.

    Args:
        columns: segments, and for each row the number of its segment; all of one length.

    Returns:
        The text in UTF-8, and rows x columns + 1 offsets (bytes), the text's end the last.

    >>> words = Segments.of(["one ", "ten "], np.ones(2))
    >>> labels = Segments.of(["1. ", "2. "], np.ones(2))
    >>> text, edges = spell((labels, np.arange(2)), (words, np.array([1, 0])))
    >>> bytes(text), edges.tolist()
    (b'1. ten 2. one ', [0, 3, 7, 10, 14])
    """
    segments = [segment for segment, _ in columns]
    firsts = accumulate(map(len, segments), initial=0)
    picks = np.empty((len(columns[0][1]), len(columns)), dtype=np.intp)
    for column, ((_, order), first) in enumerate(zip(columns, firsts, strict=False)):
        np.add(order, first, out=picks[:, column])
    taken = joined_once(*segments).texts.take(int_array(picks.ravel()))
    _, offsets, text = taken.buffers()
    edges = np.frombuffer(offsets, dtype=np.int32)[: len(taken) + 1].astype(np.int64)
    return memoryview(text or b"")[: int(edges[-1])], edges


@lru_cache(maxsize=4)
def joined_once(*runs: Segments) -> Segments:
    """Return all segments of several runs, cached for the next row."""
    if len(runs) == 1:
        return runs[0]
    return Segments.joined(runs)


def count_segments(tokenizer: Measure, texts: Sequence[str], before: str, after: str) -> Costs:
    """Return the tokens that each text adds between `before` and `after`.

    This is exact if the tokenizer splits the text at both ends of the segment. Neighbours are
    part of the count since a space belongs to the pre-token on its right and line feeds to the one
    on their left.
    """
    if not texts:
        return np.zeros(0, dtype=np.int64)
    between = [before + text + after for text in texts]
    empty, *counts = tokenizer.count([before + after, *between])
    return np.maximum(np.array(counts, dtype=np.int64) - empty, 0)


def count_lines(tokenizer: Measure, lines: Sequence[str]) -> Costs:
    """Return the tokens that each line, with its line feed, adds before the line that follows it.

    A tokenizer may join the end of a line of code, its line feed and the beginning of the next
    line (`}`, then `/*`) into one token, so the next line is part of the count.
    """
    following = ["\n" + line for line in (*lines[1:], "One")]
    pairs = [f"\n{line}{after}" for line, after in zip(lines, following, strict=True)]
    counts = np.array(tokenizer.count([*pairs, *following]), dtype=np.int64)
    costs: Costs = np.maximum(counts[: len(pairs)] - counts[len(pairs) :], 0)
    return costs


#: From this room (tokens) on, rows must be filled to 0.99 of their length.
FULL_FROM = 3_700
#: Least share of such a room; the length is some tokens more than the room. A row short of that by
#: its own segments gets one segment more.
FULL = 1 - 1 / 93


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
        totals: running totals of the costs, if known; unused with labels.

    >>> choose(np.array([10, 10, 30, 4, 1]), room=36).tolist()
    [0, 1, 3, 4]
    """
    if labels is not None:
        totals = (costs + labels[: len(costs)]).cumsum()
    elif totals is None:
        totals = costs.cumsum()
    count = int(totals.searchsorted(room, side="right"))
    free = room
    if count:
        free -= int(totals[count - 1])
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
        place_costs = None if labels is None else labels[stay:]
        unpicked, free = _take(costs, place_costs, picks, spare, free)
        free = _swap(costs, picks, unpicked, free, fixed)
    if room >= FULL_FROM and free > room * (1 - FULL) and labels is None:
        picks = _one_more(costs, picks, range(count, min(count + SPARE, len(costs))), free)
    return np.concatenate([np.arange(stay), np.array(sorted(picks), dtype=np.intp)])


def _take(
    costs: Costs, place_costs: Costs | None, picks: list[int], spare: range, free: int
) -> tuple[list[int], int]:
    """Take spare segments in order while they fit; return the others, and what stays free.

    `place_costs` are the tokens of the places that picks stand at.
    """
    members = set(picks)
    unpicked = list[int]()
    for segment, cost in zip(spare, costs[spare.start : spare.stop].tolist(), strict=True):
        if segment in members:
            continue
        if place_costs is not None:
            cost += int(place_costs[len(picks)])
        if cost <= free:
            picks.append(segment)
            free -= cost
        else:
            unpicked.append(segment)
    return unpicked, free


def _one_more(costs: Costs, picks: list[int], spare: range, free: int) -> list[int]:
    """Return the segments with one more, and long ones swapped for short ones until they fit.

    They are returned unchanged if they would not be fuller.
    """
    head = picks[:-SPARE]
    tail = picks[-SPARE:]
    pool = sorted({*tail, *spare}, key=lambda unit: (int(costs[unit]), unit))
    more = pool[: len(tail) + 1]
    unpicked = pool[len(tail) + 1 :]
    surplus = free + int(costs[tail].sum() - costs[more].sum())
    if surplus < 0 or len(more) == len(tail):
        return picks
    if _swap(costs, more, unpicked, surplus) >= free:
        return picks
    return [*head, *more]


def _swap(costs: Costs, picks: list[int], unpicked: list[int], free: int, fixed: int = 0) -> int:
    """Swap some of the last segments for longer spare ones; return the tokens that stay free.

    The swap that fills the most is made first, until `SLACK` tokens are free. Segments before
    number `fixed` stay.
    """
    while unpicked and free > SLACK:
        tail = [unit for unit in picks[-SPARE:] if unit >= fixed]
        if not tail:
            break
        gains = costs[unpicked] - costs[tail][:, None]
        gains[gains > free] = 0
        best = int(gains.argmax())
        gain = int(gains.flat[best])
        if gain <= 0:
            break
        out = tail[best // len(unpicked)]
        new = unpicked[best % len(unpicked)]
        picks[picks.index(out)] = new
        unpicked[unpicked.index(new)] = out
        free -= gain
    return free
