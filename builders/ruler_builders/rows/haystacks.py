"""Haystacks: endless streams of segments to hide needles in.

Essays are cut into sentences, and single ones may be left out so that a row fits. Lines of code or
of a table may not: there a haystack is a run of neighbouring lines, and the passage where it begins
is chosen so that the run ends close to its room (tokens).
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import cycle, islice
from random import Random

import numpy as np
from numpy.typing import NDArray

from ruler_builders.rows.randomness import rng
from ruler_builders.rows.segments import SPARE, UNKNOWN, Costs, Segments
from ruler_builders.rows.tokenized_sources import Passages, TokenizedSources, mixed
from ruler_data.errors import RulerError
from ruler_data.tasks import DIGITS, PartType

#: Row i begins at line i * STRIDE modulo BEGINNINGS of the stream of needle lines, so all 500
#: rows of a config begin at different lines.
STRIDE = 499
#: First lines that a row can have.
BEGINNINGS = 16_384
#: Tokens of a long line, from which the lines that a row needs are first estimated.
TOKENS_OF_LINE = 64
#: Lines that are drawn at once beyond those that a row needs.
MORE_LINES = 1024
#: Random bits of a key or value.
BITS = 128
#: Bits of a UUID of version 4: those that are random, and those that say so (RFC 9562).
UUID_RANDOM = 0xFFFFFFFF_FFFF_0FFF_3FFF_FFFFFFFFFFFF
UUID_VERSION = 0x00000000_0000_4000_8000_000000000000


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
        self._form = re.split(r"\{key\}|\{value\}", form)
        self._types = types
        self._source = rng(sources.seed, "-".join(types), 0, "needle lines")
        self._numbers: dict[str, int] = {}  # of the line of each key and value
        self._texts = list[str]()
        self._segments = Segments.of([], np.zeros(0, dtype=np.int64))

    def stretch(
        self, index: int, room: int, taken: Iterable[str]
    ) -> tuple[Segments, NDArray[np.intp]]:
        """Return all lines, and the numbers of those that row `index` may take, in order.

        They exceed a room of tokens by a few spare lines. None has a key or value in `taken`. Other
        lines may have no cost yet.
        """
        start = index * STRIDE % BEGINNINGS
        end = start
        while room >= 0:
            size = SPARE + room // TOKENS_OF_LINE
            room -= int(self._costs(end, end + size).sum())
            end += size
        self._costs(end, end + SPARE)
        barred = [self._numbers[text] for text in taken if text in self._numbers]
        numbers = np.arange(start, end + SPARE)
        if barred:
            numbers = numbers[~np.isin(numbers, barred)]
        return self._segments, numbers

    def _costs(self, start: int, end: int) -> Costs:
        """Return the tokens of a few neighbouring lines, each counted when it is first used."""
        while end > len(self._texts):
            self._draw(end - len(self._texts) + MORE_LINES)
        costs = self._segments.costs[start:end]
        new = np.flatnonzero(costs == UNKNOWN)
        if len(new):
            texts = [self._texts[start + place] for place in new.tolist()]
            # Lines of zero cost would never fill a room.
            costs[new] = np.maximum(self._sources.line_costs(texts), 1)
        return costs

    def _draw(self, size: int) -> None:
        """Draw lines; leave out one whose key or value was drawn before."""
        texts = list[str]()
        numbers = self._numbers
        number = len(self._texts)
        bits = self._source.getrandbits
        key_of, value_of = (speller(kind, self._sources) for kind in self._types)
        before, between, after = self._form
        for _ in range(size):
            key = key_of(bits(BITS))
            value = value_of(bits(BITS))
            if key != value and key not in numbers and value not in numbers:
                texts.append(f"{before}{key}{between}{value}{after}")
                numbers[key] = number
                numbers[value] = number
                number += 1
        self._texts += texts
        fresh = Segments.of(texts, np.full(len(texts), UNKNOWN))
        self._segments = Segments.joined([self._segments, fresh])


#: Returns the stream of needle lines that all rows share.
needle_lines = lru_cache(maxsize=4)(NeedleLines)


def draw_part(source: Random, kind: PartType, sources: TokenizedSources) -> str:
    """Return a random key or value."""
    return speller(kind, sources)(source.getrandbits(BITS))


def speller(kind: PartType, sources: TokenizedSources) -> Callable[[int], str]:
    """Return how 128 random bits are written: as a compound word, a number or a UUID."""
    if kind == "words":
        return sources.compound
    if kind == "uuids":
        return _uuid
    return _number


def _number(bits: int) -> str:
    least = 10 ** (DIGITS - 1)
    return str(least + bits % (9 * least))


def _uuid(bits: int) -> str:
    """Return a UUID of version 4, many times faster than `uuid.UUID`.

    >>> _uuid(0), _uuid((1 << 128) - 1)
    ('00000000-0000-4000-8000-000000000000', 'ffffffff-ffff-4fff-bfff-ffffffffffff')
    """
    digits = f"{bits & UUID_RANDOM | UUID_VERSION:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def draw_distinct(draw_one: Callable[[], str], taken: set[str]) -> str:
    """Draw until the text is not in `taken`, and add it there."""
    while (candidate := draw_one()) in taken:
        pass
    taken.add(candidate)
    return candidate
