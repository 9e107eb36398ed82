"""Passages: lines of text in an order that makes sense, of which a haystack is one stretch.

Unlike sentences of essays, lines of code or of a table cannot be left out one by one. A haystack is
therefore a stretch of neighbouring lines, and what is chosen so that it uses up its room is where
it begins: at that passage, of those tried, behind which the room ends close to the end of a line.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from ruler_builders.randomness import shuffled
from ruler_builders.units import SLACK, Units


@dataclass(frozen=True)
class Passages:
    """Lines in order, endlessly repeated, and where passages begin.

    Attributes:
        lines: with their tokens, the line feed behind each counted.
        starts: numbers of the lines that begin a passage, rising from 0.
        fresh: tokens before any line comes again.
    """

    lines: Units
    starts: NDArray[np.intp]
    fresh: int

    @classmethod
    def of(cls, lines: Units, starts: Sequence[int]) -> "Passages":
        """Return counted lines as passages."""
        return cls(lines, np.array(starts, dtype=np.intp), int(lines.costs.sum()))

    def each(self) -> list[Units]:
        """Return the passages one by one."""
        ends = [*self.starts[1:].tolist(), len(self.lines)]
        return [
            self.lines.pick(range(start, end))
            for start, end in zip(self.starts.tolist(), ends, strict=True)
        ]

    def stretch(self, room: int, first: int) -> Units:
        """Return neighbouring lines that fill a room of tokens.

        Args:
            room: tokens for all of them.
            first: number of the passage to try first as their beginning.

        >>> lines = Units.of(["a", "b", "c"], np.array([30, 10, 25]))
        >>> Passages.of(lines, [0, 1]).stretch(room=66, first=1).texts.to_pylist()
        ['b', 'c', 'a']
        """
        room = max(room, 0)
        passages = np.roll(self.starts, -first)
        begin, end = self._best(passages, room, _every(len(self.lines), int(passages[0])))
        return self.lines.pick(np.arange(begin, end) % len(self.lines))

    def _best(
        self, passages: NDArray[np.intp], room: int, lines: NDArray[np.intp]
    ) -> tuple[int, int]:
        """Return the first beginning that leaves at most `SLACK` tokens, else the one of least.

        Passages are tried before lines that begin none.
        """
        for begins in (passages, lines):
            ends, left = self._ends(begins, room)
            close = left <= SLACK
            if close.any() or begins is lines:
                best = int(close.argmax() if close.any() else left.argmin())
                break
        return int(begins[best]), int(ends[best])

    def _ends(
        self, begins: NDArray[np.intp], room: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where the room of each beginning ends, over the repeats, and what is left."""
        totals = np.concatenate([[0], np.cumsum(self.lines.costs)])
        rounds, rest = np.divmod(totals[begins] + room, max(int(totals[-1]), 1))
        places = np.searchsorted(totals[:-1], rest, side="right") - 1
        return rounds * len(self.lines) + places, rest - totals[places]


def mixed(parts: Sequence[Passages], source: Random) -> Passages:
    """Return the passages of several domains in turns, each domain's in random order.

    A domain with fewer passages begins again, so that all have their share to the end.
    """
    dealt = [shuffled(source, part.each()) for part in parts]
    rounds = max(map(len, dealt))
    turns = [one[turn % len(one)] for turn in range(rounds) for one in dealt]
    once = turns[: min(map(len, dealt)) * len(dealt)]
    starts = np.cumsum([0, *(len(passage) for passage in turns[:-1])])
    fresh = sum(int(passage.costs.sum()) for passage in once)
    return Passages(Units.joined(turns), starts.astype(np.intp), fresh)


def _every(size: int, first: int) -> NDArray[np.intp]:
    return np.roll(np.arange(size, dtype=np.intp), -first)
