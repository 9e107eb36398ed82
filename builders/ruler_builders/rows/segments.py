"""Counted units: the one notion of size that every task family shares.

A haystack is made of units (sentences, lines, documents, words), each with its cost in tokens.
Costs are counted once per unit, between typical neighbours, so a prompt's length is a sum and a
row is planned without tokenizing it; `fit` then counts the finished prompt for real.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ruler_data.tokenizers import Measure

#: Tokens of each unit, or bytes.
Costs = NDArray[np.int64]

#: Units beside the end of a haystack that may be left out or taken in to use up the room.
SPARE = 32
#: Tokens of unused room that are not worth giving up the natural order of units for.
SLACK = 8


@dataclass(frozen=True, eq=False)
class Segments:
    """Pieces of haystack in their order: the text and the tokens of each.

    Texts are an Arrow array, so that a haystack of 60,000 words is picked and put in order in
    one step, and in UTF-8, which is what is counted, hashed and written in the end.
    """

    texts: pa.StringArray
    costs: Costs

    @classmethod
    def of(cls, texts: Sequence[str], costs: Costs) -> "Segments":
        """Return texts as units."""
        return cls(pa.array(texts, pa.string()), costs)

    @classmethod
    def joined(cls, parts: Sequence["Segments"]) -> "Segments":
        """Return all units of the parts, one part after the other."""
        return cls(
            pa.concat_arrays([part.texts for part in parts]),
            np.concatenate([part.costs for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.texts)

    def pick(self, order: Sequence[int] | NDArray[np.intp]) -> "Segments":
        """Return the units of these numbers, in this order."""
        numbers = np.asarray(order, dtype=np.intp)
        return Segments(self.texts.take(pa.array(numbers)), self.costs[numbers])

    def repeated(self, room: int) -> "Segments":
        """Return the units, from the beginning again until they pass `room` tokens, or longer.

        Rounds are doubled, and what is returned is kept, so that rows of like lengths share it.

        >>> Units.of(["a", "b"], np.array([2, 3])).repeated(9).texts.to_pylist()
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
        """Tokens of all units."""
        return int(self.before[-1])

    def enough(self, room: int, start: int = 0) -> int:
        """Return the end of the units from `start` on that pass `room` tokens, spare ones beyond.

        It is beyond the last unit where they do not.
        """
        before = int(self.before[min(start, len(self))])
        return int(self.before.searchsorted(before + room, side="right")) - 1 + 2 * SPARE

    @cached_property
    def before(self) -> Costs:
        """Tokens before each unit, and last of all."""
        return np.concatenate([[0], np.cumsum(self.costs)])

    def runs(
        self, numbers: NDArray[np.intp], joiner: str, cuts: NDArray[np.intp]
    ) -> list[memoryview]:
        """Return the units of these numbers joined, cut into runs at places of this order.

        Units that follow one another are one slice of all units joined, however many they are;
        so every place where they do not must be among the cuts, as must 0 and the end.

        >>> units = Units.of([*"abcd"], np.ones(4))
        >>> [bytes(run) for run in units.runs(np.array([0, 1, 3]), " ", np.array([0, 2, 3]))]
        [b'a b', b'd']
        """
        text, starts, ends = self._joined(joiner)
        firsts, lasts = numbers[cuts[:-1]], numbers[cuts[1:] - 1]
        return [
            text[a:b] for a, b in zip(starts[firsts].tolist(), ends[lasts].tolist(), strict=True)
        ]

    def _joined(self, joiner: str) -> tuple[memoryview, Costs, Costs]:
        """Return all texts joined, once for all rows, and where each begins and ends (bytes)."""
        if joiner not in self._texts:
            sizes = pc.binary_length(self.texts).to_numpy()
            ends = np.cumsum(sizes + len(joiner), dtype=np.int64) - len(joiner)
            whole = pa.ListArray.from_arrays(pa.array([0, len(self)], pa.int32()), self.texts)
            text = memoryview(pc.binary_join(whole, joiner)[0].as_buffer())
            self._texts[joiner] = text, ends - sizes, ends
        return self._texts[joiner]

    @cached_property
    def _texts(self) -> dict[str, tuple[memoryview, Costs, Costs]]:
        return {}


def spell(*columns: tuple[Segments, NDArray[np.intp]]) -> tuple[memoryview, NDArray[np.int64]]:
    """Return units joined row by row, tens of thousands in one step, and where pieces begin.

    Args:
        columns: units, and the number of the unit that stands in each row; as many in all.

    Returns:
        The text in UTF-8, and rows x columns + 1 offsets (bytes), the text's end the last.

    >>> words = Units.of(["one ", "ten "], np.ones(2))
    >>> labels = Units.of(["1. ", "2. "], np.ones(2))
    >>> text, edges = spell((labels, np.arange(2)), (words, np.array([1, 0])))
    >>> bytes(text), edges.tolist()
    (b'1. ten 2. one ', [0, 3, 7, 10, 14])
    """
    segments = [one for one, _ in columns]
    firsts = accumulate(map(len, segments), initial=0)
    picks = np.empty((len(columns[0][1]), len(columns)), dtype=np.intp)
    for column, ((_, order), first) in enumerate(zip(columns, firsts, strict=False)):
        np.add(order, first, out=picks[:, column])
    taken = _together(*segments).take(pa.array(picks.ravel()))
    _, offsets, text = taken.buffers()
    edges = np.frombuffer(offsets, dtype=np.int32)[: len(taken) + 1].astype(np.int64)
    return memoryview(text or b"")[: int(edges[-1])], edges


@lru_cache(maxsize=2)
def _together(*segments: Segments) -> pa.StringArray:
    """Return the texts of units as one array, kept for the next row."""
    return segments[0].texts if len(segments) == 1 else Segments.joined(segments).texts


def count_segments(tokenizer: Measure, texts: Sequence[str], before: str, after: str) -> Costs:
    """Return the tokens that each text adds between `before` and `after`.

    Exact where both seams are boundaries of the tokenizer's pre-tokens in that company, which
    is why neighbours are part of the count: a leading space belongs to the piece on its right,
    line feeds to the piece on their left.
    """
    if not texts:
        return np.zeros(0, dtype=np.int64)
    between = [before + text + after for text in texts]
    empty, *counts = tokenizer.count([before + after, *between])
    return np.maximum(np.array(counts, dtype=np.int64) - empty, 0)


def count_lines(tokenizer: Measure, lines: Sequence[str]) -> Costs:
    """Return the tokens that each line, with its line feed, adds before the line that follows it.

    A sign at the end of a line of code may be joined, line feed and all, with one that begins the
    next (`}`, then `/*`), so what follows is part of the count, and stays where it is.
    """
    following = ["\n" + line for line in (*lines[1:], "One")]
    pairs = [f"\n{line}{after}" for line, after in zip(lines, following, strict=True)]
    counts = np.array(tokenizer.count([*pairs, *following]), dtype=np.int64)
    costs: Costs = np.maximum(counts[: len(pairs)] - counts[len(pairs) :], 0)
    return costs
