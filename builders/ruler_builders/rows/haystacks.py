"""Haystacks: endless streams of segments to hide needles in.

Essays are cut into sentences, and single ones may be left out so that a row fits. Lines of code or
of a table may not: there a haystack is a run of neighbouring lines, and the passage where it begins
is chosen so that the run ends close to its room (tokens).
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import cycle, islice
from random import Random
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ruler_builders.rows.randomness import rng
from ruler_builders.rows.segments import Segments
from ruler_builders.rows.tokenized_sources import Passages, TokenizedSources, mixed
from ruler_data.errors import RulerError
from ruler_data.tasks import DIGITS, PartType

#: Row i begins at line i * STRIDE modulo BEGINNINGS of the stream of needle lines, so all 500
#: rows of a config begin at different lines.
STRIDE = 499
#: First lines that a row can have.
BEGINNINGS = 16_384


def passages(
    sources: TokenizedSources, source: Random, domains: Sequence[str]
) -> tuple[Passages, int]:
    """Return the passages of domains, and the number of the one where a row tries to begin first.

    One domain keeps its order, and a row begins anywhere in it; several domains take turns.
    """
    corpora = [sources.domain(name) for name in domains]
    if len(corpora) > 1:
        return mixed(corpora, source), 0
    return corpora[0], source.randrange(len(corpora[0].starts))


#: Words of which each is one token in most tokenizers, and letters for those with a token each.
FILLING = "and so on with the next line of this text that is only here to end it at the right place"
#: Tokens that are kept for filling, so that corrections have room.
LEAST_FILLING = 16


def filled_up(lines: Segments, room: int, sources: TokenizedSources) -> Segments:
    """Return lines with a last one, which fills the room to the token as planned.

    Raises:
        RulerError: no text is known that makes prompts longer token by token.
    """
    number = room - lines.total
    if number <= 1:
        return lines
    words = islice(cycle(filling(sources)), number - 1)  # and the line feed
    return Segments.joined([lines, Segments.of(["".join(words).strip()], np.array([number]))])


@lru_cache(maxsize=4)
def filling(sources: TokenizedSources) -> tuple[str, ...]:
    """Return texts that make a line longer by a token each, in the tokenizer of a build."""
    words = tuple(f" {word}" for word in FILLING.split())
    count = sources.tokenizer.count
    (without,) = count(["of of"])
    for texts in (words, ("a",), (" and",), ("\u4e00",)):
        texts = tuple(text for text in texts if count([f"of{text} of"]) == [without + 1])
        lines = ["".join(islice(cycle(texts), size)) for size in (40, 41, 80)]
        if texts and np.diff(count(lines)).tolist() == [1, 39]:
            return texts
    problem = "no text is known that makes prompts longer by one token each"
    raise RulerError(problem, "rows of each residue cannot be made in this tokenizer")


class NeedleLines:
    """An endless text of needle lines, all keys and values different; drawn when needed.

    As with essays, rows share the text; each begins at another line. So a row by itself is as
    random as if its lines were its own, and no line is counted twice.

    Args:
        sources: seed, words, and what lines are counted in.
        form: of a line, with `{key}` and `{value}`.
        types: of keys and of values.
    """

    def __init__(
        self,
        sources: TokenizedSources,
        form: str,
        types: tuple[PartType, PartType],
    ) -> None:
        self._sources = sources
        self._form = form
        self._types = types
        self._source = rng(sources.seed, "-".join(types), 0, "needle lines")
        self._lines: dict[str, int] = {}  # number of the line of each key and value
        self._segments = Segments.of([], np.zeros(0, dtype=np.int64))

    def stretch(
        self, index: int, room: int, taken: Iterable[str]
    ) -> tuple[Segments, NDArray[np.intp]]:
        """Return all lines, and the numbers of those that row `index` may take, in order.

        They exceed a room of tokens by a few spare lines. None has a key or value in `taken`.
        """
        start = index * STRIDE % BEGINNINGS
        while (end := self._segments.enough(room, start)) > len(self._segments):
            self._draw(max(end, 1024))
        barred = [self._lines[text] for text in taken if text in self._lines]
        numbers = np.arange(start, end)
        if barred:
            numbers = numbers[~np.isin(numbers, barred)]
        return self._segments, numbers

    def _draw(self, size: int) -> None:
        """Draw lines; leave out one whose key or value was drawn before."""
        texts = list[str]()
        line = len(self._segments)
        key_type, value_type = self._types
        for _ in range(size):
            key = draw_part(self._source, key_type, self._sources)
            value = draw_part(self._source, value_type, self._sources)
            if key != value and key not in self._lines and value not in self._lines:
                texts.append(self._form.format(key=key, value=value))
                self._lines[key] = line
                self._lines[value] = line
                line += 1
        # Lines of zero cost would never fill a room.
        costs = np.maximum(self._sources.line_costs(texts), 1)
        self._segments = Segments.joined([self._segments, Segments.of(texts, costs)])


#: Returns the stream of needle lines that all rows share.
needle_lines = lru_cache(maxsize=4)(NeedleLines)


def draw_part(source: Random, kind: PartType, sources: TokenizedSources) -> str:
    """Return a random key or value: a compound word, a number or a UUID of version 4."""
    bits = source.getrandbits(128)
    if kind == "words":
        return sources.compound(bits)
    if kind == "uuids":
        return str(UUID(int=bits, version=4))
    least = 10 ** (DIGITS - 1)
    return str(least + bits % (9 * least))


def draw_distinct(draw_one: Callable[[], str], taken: set[str]) -> str:
    """Draw until the text is not in `taken`, and add it there."""
    while (candidate := draw_one()) in taken:
        pass
    taken.add(candidate)
    return candidate
