"""Sources counted in one tokenizer: each text is tokenized once for all rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from random import Random

import numpy as np
from numpy.typing import NDArray

from ruler_builders.prompts import NOISE
from ruler_builders.rows.randomness import permutation
from ruler_builders.rows.segments import SLACK, Costs, Segments, count_lines, count_segments
from ruler_builders.sources import Corpus, Library, WordList
from ruler_data.tokenizers import Measure


@dataclass(frozen=True)
class Passages:
    """Lines in an order, endlessly repeated, divided into passages.

    Attributes:
        lines: with their tokens, including the line feed behind each.
        order: numbers of the lines.
        starts: places in `order` where a passage begins, rising from 0.
        fresh: tokens before any line is repeated.
    """

    lines: Segments
    order: NDArray[np.intp]
    starts: NDArray[np.intp]
    fresh: int

    @classmethod
    def of(cls, lines: Segments, starts: Sequence[int]) -> "Passages":
        """Return counted lines as passages."""
        order = np.arange(len(lines))
        return cls(lines, order, np.array(starts, dtype=np.intp), int(lines.costs.sum()))

    def stretch(self, room: int, first: int) -> Segments:
        """Return a run of neighbouring lines that fills a room of tokens.

        It begins at the passage numbered `first` if that leaves few tokens unused.

        >>> lines = Segments.of(["a", "b", "c"], np.array([30, 10, 25]))
        >>> Passages.of(lines, [0, 1]).stretch(room=66, first=1).texts.to_pylist()
        ['b', 'c', 'a']
        """
        room = max(room, 0)
        passages = np.roll(self.starts, -first)
        every = np.roll(np.arange(len(self.order)), -int(passages[0]))
        begin, end = self._best(passages, room, every)
        return self.lines.pick(self.order[np.arange(begin, end) % len(self.order)])

    def _best(
        self, passages: NDArray[np.intp], room: int, lines: NDArray[np.intp]
    ) -> tuple[int, int]:
        """Return begin and end of a run: the first that leaves at most `SLACK` tokens unused.

        Beginnings of passages are tried first, then all lines; if none is close enough, the one
        that leaves the fewest tokens is taken.
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
        """Return the end of the room of each beginning (repeats counted), and the unused tokens."""
        totals = np.concatenate([[0], np.cumsum(self.lines.costs[self.order])])
        rounds, rest = np.divmod(totals[begins] + room, max(int(totals[-1]), 1))
        places = np.searchsorted(totals[:-1], rest, side="right") - 1
        return rounds * len(self.order) + places, rest - totals[places]


def mixed(parts: Sequence[Passages], source: Random) -> Passages:
    """Return passages of several domains in turns, those of each domain in random order.

    A domain with fewer passages is repeated, so that all have equal shares to the end.
    """
    lines = _joined(*(part.lines for part in parts))
    before = np.cumsum([0, *(len(part.lines) for part in parts)])
    begins = np.concatenate([part.starts + at for part, at in zip(parts, before, strict=False)])
    sizes = np.diff(begins, append=len(lines))
    counts = [len(part.starts) for part in parts]
    orders = [
        permutation(source, count) + at
        for count, at in zip(counts, np.cumsum([0, *counts]), strict=False)
    ]
    turns = np.stack([np.resize(order, max(counts)) for order in orders], axis=1).ravel()
    starts = np.cumsum(sizes[turns]) - sizes[turns]
    numbers = np.arange(sizes[turns].sum()) + np.repeat(begins[turns] - starts, sizes[turns])
    once = int(sizes[turns[: min(counts) * len(parts)]].sum())
    fresh = int(lines.costs[numbers[:once]].sum())
    return Passages(lines, numbers, starts.astype(np.intp), fresh)


@lru_cache(maxsize=2)
def _joined(*parts: Segments) -> Segments:
    """Return the segments of all parts, the same for all rows."""
    return Segments.joined(parts)


class TokenizedSources:
    """Seed, sources and tokenizer of a build, with the segments of each source."""

    def __init__(self, seed: int, library: Library, tokenizer: Measure) -> None:
        self.seed, self.library, self.tokenizer = seed, library, tokenizer
        self._labels: dict[str, Segments] = {}

    @cached_property
    def essays(self) -> Segments:
        """Sentences of the essays; each but the first of a text follows a space."""
        sentences, _ = self.library.essays
        spaced = [" " + sentence for sentence in sentences]
        return Segments.of(sentences, count_segments(self.tokenizer, spaced, ".", " The"))

    def lines(self, lines: Sequence[str]) -> Segments:
        """Lines, counted with the line feed that follows each."""
        return Segments.of(lines, self.line_costs(lines))

    def line_costs(self, lines: Sequence[str]) -> Costs:
        """Tokens of lines, each with the line feed that follows it."""
        return count_segments(self.tokenizer, [line + "\n" for line in lines], "\n", "One")

    @cached_property
    def noise(self) -> Segments:
        """The line that noise consists of."""
        return self.lines([NOISE])

    @cache  # noqa: B019 - sources live as long as their build
    def domain(self, name: str) -> Passages:
        """Lines of a domain, divided into passages."""
        domain, _ = self.library.domain(name)
        costs = count_lines(self.tokenizer, domain.lines)
        return Passages.of(Segments.of(domain.lines, costs), domain.starts)

    @cache  # noqa: B019 - sources live as long as their build
    def documents(self, source: str) -> Segments:
        """Documents of a question answering source, each with the empty line that follows it."""
        texts = [text + "\n\n" for text in self.corpus(source).documents]
        costs = count_segments(self.tokenizer, texts, "1:\n", "Document")
        return Segments.of(texts, costs)

    def corpus(self, source: str) -> Corpus:
        """Documents and questions of a source."""
        return self.library.corpus(source)[0]

    @property
    def words(self) -> WordList:
        """English words."""
        return self.library.words[0]

    @cached_property
    def singles(self) -> Segments:
        """All single words."""
        return self.listed(self.words.singles)

    def listed(self, words: Sequence[str]) -> Segments:
        """Words, counted as items of a numbered list."""
        spaced = [" " + word for word in words]
        return Segments.of(words, count_segments(self.tokenizer, spaced, "1.", " 2"))

    def compound(self, number: int) -> str:
        """Return the adjective-noun word of a number, modulo how many there are.

        All of them differ: adjectives with a hyphen are left out.
        """
        first, second = self._adjectives, self.words.nouns
        number %= len(first) * len(second)
        return f"{first[number // len(second)]}-{second[number % len(second)]}"

    def adjective(self, number: int) -> str:
        """Return the adjective of a number, modulo how many there are."""
        return self._adjectives[number % len(self._adjectives)]

    @cached_property
    def _adjectives(self) -> list[str]:
        return [adjective for adjective in self.words.adjectives if "-" not in adjective]

    def labels(self, form: str, size: int, before: str, after: str) -> Segments:
        """Return `size` labels or more of a form such as `{}. `, numbered from 1.

        A space at the end is counted with the text that follows it.
        """
        known = self._labels.get(form)
        if known is None or len(known) < size:
            numbers = range(1, max(2 * size, 1024) + 1)
            texts = [form.format(number) for number in numbers]
            counted = [before[len(before.rstrip(" ")) :] + text.rstrip(" ") for text in texts]
            costs = count_segments(self.tokenizer, counted, before.rstrip(" "), after)
            known = self._labels[form] = Segments.of(texts, costs)
        return known
