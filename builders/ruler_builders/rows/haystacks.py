"""Haystacks: endless streams of units to hide things in.

Passages: lines of text in an order that makes sense, of which a haystack is one stretch.

Unlike sentences of essays, lines of code or of a table cannot be left out one by one. A haystack is
therefore a stretch of neighbouring lines, and what is chosen so that it uses up its room is where
it begins: at that passage, of those tried, behind which the room ends close to the end of a line.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ruler_builders.rows.randomness import rng, shuffled
from ruler_builders.rows.row_template import Materials
from ruler_builders.rows.segments import SLACK, Units
from ruler_data.tasks import PartType

#: Rows begin at every so many lines of a stream of needles, all 500 at another one.
STRIDE, BEGINNINGS = 499, 16_384


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


def noise(materials: Materials, room: int) -> Units:
    """Return as many noise lines as pass a room of tokens."""
    return materials.noise.repeated(room)


def essays(materials: Materials, room: int) -> Units:
    """Return the sentences of the essays from the first on, repeated if they run out."""
    return materials.essays.repeated(room)


def passages(materials: Materials, source: Random, domains: Sequence[str]) -> tuple[Passages, int]:
    """Return the passages of domains, and which of them a row tries first as its beginning.

    One domain keeps its order, and a row begins anywhere in it; several take turns.
    """
    parts = [materials.domain(name) for name in domains]
    if len(parts) > 1:
        return mixed(parts, source), 0
    return parts[0], source.randrange(len(parts[0].starts))


class NeedleLines:
    """An endless text of needle lines, all keys and values different; drawn as far as needed.

    As with essays, rows share the text, here from another line on for each. So a row by itself
    is as random as if its lines were its own, and no line is counted twice.

    Args:
        materials: words, and what lines are counted in.
        source: of the draws.
        form: of a line, with `{key}` and `{value}`.
        kinds: of keys and of values.
    """

    def __init__(
        self, materials: Materials, source: Random, form: str, kinds: tuple[PartType, PartType]
    ) -> None:
        self._materials, self._source, self._form, self._kinds = materials, source, form, kinds
        self._lines: dict[str, int] = {}  # where each key and value stands
        self._units = Units.of([], np.zeros(0, dtype=np.int64))

    def stretch(
        self, index: int, room: int, taken: Iterable[str]
    ) -> tuple[Units, NDArray[np.intp]]:
        """Return the lines, and the numbers of those that row `index` may take, in order.

        They pass a room of tokens with spare ones beyond; none has a key or value that is taken.
        """
        start = index * STRIDE % BEGINNINGS
        while (end := self._units.enough(room, start)) > len(self._units):
            self._draw(max(end, 1024))
        barred = [self._lines[text] for text in taken if text in self._lines]
        numbers = np.arange(start, end)
        return self._units, numbers[~np.isin(numbers, barred)] if barred else numbers

    def _draw(self, size: int) -> None:
        """Draw lines; one whose key or value was drawn before is left out."""
        texts: list[str] = []
        for _ in range(size):
            line = len(self._units) + len(texts)
            key, value = (draw_part(self._source, kind, self._materials) for kind in self._kinds)
            if key != value and self._lines.keys().isdisjoint((key, value)):
                texts.append(self._form.format(key=key, value=value))
                self._lines[key] = self._lines[value] = line
        # A line that seems to cost nothing would let us draw for ever.
        costs = np.maximum(self._materials.line_costs(texts), 1)
        self._units = Units.joined([self._units, Units.of(texts, costs)])


@lru_cache(maxsize=4)
def needle_lines(materials: Materials, form: str, kinds: tuple[PartType, PartType]) -> NeedleLines:
    """Return the needle lines that all rows share."""
    source = rng(materials.seed, "-".join(kinds), 0, "needle lines")
    return NeedleLines(materials, source, form, kinds)


def draw_part(source: Random, kind: PartType, materials: Materials) -> str:
    """Return a random key or value: a compound word, seven digits or a UUID of version 4."""
    bits = source.getrandbits(128)
    if kind == "words":
        return materials.compound(bits)
    return str(1_000_000 + bits % 9_000_000 if kind == "numbers" else UUID(int=bits, version=4))


def draw_distinct(source: Random, kind: PartType, materials: Materials, taken: set[str]) -> str:
    """Return a random key or value that was not drawn before, and remember it in `taken`."""
    while (part := draw_part(source, kind, materials)) in taken:
        pass
    taken.add(part)
    return part
