"""Haystacks: endless streams of units to hide things in.

Unlike sentences of essays, lines of code or of a table cannot be left out one by one. A haystack is
therefore a stretch of neighbouring lines, and what is chosen so that it uses up its room is where
it begins: at that passage, of those tried, behind which the room ends close to the end of a line.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from random import Random
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ruler_builders.rows.randomness import rng
from ruler_builders.rows.segments import Segments
from ruler_builders.rows.tokenized_sources import Passages, TokenizedSources, mixed
from ruler_data.tasks import PartType

#: Rows begin at every so many lines of a stream of needles, all 500 at another one.
STRIDE, BEGINNINGS = 499, 16_384


def noise(sources: TokenizedSources, room: int) -> Segments:
    """Return as many noise lines as pass a room of tokens."""
    return sources.noise.repeated(room)


def essays(sources: TokenizedSources, room: int) -> Segments:
    """Return the sentences of the essays from the first on, repeated if they run out."""
    return sources.essays.repeated(room)


def passages(
    sources: TokenizedSources, source: Random, domains: Sequence[str]
) -> tuple[Passages, int]:
    """Return the passages of domains, and which of them a row tries first as its beginning.

    One domain keeps its order, and a row begins anywhere in it; several take turns.
    """
    parts = [sources.domain(name) for name in domains]
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
        self,
        sources: TokenizedSources,
        source: Random,
        form: str,
        kinds: tuple[PartType, PartType],
    ) -> None:
        self._materials, self._source, self._form, self._kinds = sources, source, form, kinds
        self._lines: dict[str, int] = {}  # where each key and value stands
        self._units = Segments.of([], np.zeros(0, dtype=np.int64))

    def stretch(
        self, index: int, room: int, taken: Iterable[str]
    ) -> tuple[Segments, NDArray[np.intp]]:
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
        self._units = Segments.joined([self._units, Segments.of(texts, costs)])


@lru_cache(maxsize=4)
def needle_lines(
    sources: TokenizedSources, form: str, kinds: tuple[PartType, PartType]
) -> NeedleLines:
    """Return the needle lines that all rows share."""
    source = rng(sources.seed, "-".join(kinds), 0, "needle lines")
    return NeedleLines(sources, source, form, kinds)


def draw_part(source: Random, kind: PartType, sources: TokenizedSources) -> str:
    """Return a random key or value: a compound word, seven digits or a UUID of version 4."""
    bits = source.getrandbits(128)
    if kind == "words":
        return sources.compound(bits)
    return str(1_000_000 + bits % 9_000_000 if kind == "numbers" else UUID(int=bits, version=4))


def draw_distinct(
    source: Random, kind: PartType, sources: TokenizedSources, taken: set[str]
) -> str:
    """Return a random key or value that was not drawn before, and remember it in `taken`."""
    while (part := draw_part(source, kind, sources)) in taken:
        pass
    taken.add(part)
    return part
