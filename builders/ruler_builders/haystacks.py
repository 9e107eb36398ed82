"""Haystacks: endless streams of units to hide things in."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from random import Random
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ruler_builders.drafts import Materials
from ruler_builders.passages import Passages, mixed
from ruler_builders.randomness import rng
from ruler_builders.units import Units
from ruler_data.tasks import PartType

#: Rows begin at every so many lines of a stream of needles, all 500 at another one.
STRIDE, BEGINNINGS = 499, 16_384


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
