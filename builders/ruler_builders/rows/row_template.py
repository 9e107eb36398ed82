"""What a task family returns: a row's question, and how its haystack fills a room of tokens."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ruler_builders.rows.haystacks import Passages
from ruler_builders.rows.segments import Costs, Units, count_lines, count_units
from ruler_builders.sources import Corpus, Library, WordList
from ruler_data.tokenizers import Measure

#: Beginnings and ends of pieces of a text, shape (pieces, 2), in bytes of its UTF-8 until the
#: row is finished.
Spans = NDArray[np.int64]

#: Upstream's noise; one unit is the whole line.
NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."


@dataclass(frozen=True)
class Body:
    """A haystack with its gold pieces in place.

    Attributes:
        pieces: the haystack's text in UTF-8, in pieces that the finished context is joined from.
        evidence: spans of the text that the answer rests on, in order.
        cost: planned tokens.
        units: how many it holds beside the least that there must be; no smaller one has none.
        exhausted: which source ran out and was repeated, or nothing.
    """

    pieces: Sequence[bytes | memoryview]
    evidence: Spans
    cost: int
    units: int
    exhausted: str = ""


@dataclass(frozen=True)
class Draft:
    """What one row asks. Everything but `fill` is the same at every length and tokenizer.

    Attributes:
        head: text before the haystack: instruction, and the in-context example.
        tail: text between the haystack and the question.
        fill: returns the fullest body planned within a room of tokens, else the smallest.
    """

    head: str
    tail: str
    question: str
    answer_prefix: str
    outputs: tuple[str, ...]
    fill: Callable[[int], Body]


@dataclass(frozen=True)
class Gold:
    """A piece placed at a depth of its own.

    Attributes:
        text: the piece.
        depth: relative depth in [0, 1).
        is_evidence: False for a distractor placed like a needle.
    """

    text: str
    depth: float
    is_evidence: bool = True


class Materials:
    """What rows are made of and counted with: seed, sources, and units counted once.

    Args:
        seed: of the build.
        library: the sources.
        tokenizer: what units and rows are counted with.
    """

    def __init__(self, seed: int, library: Library, tokenizer: Measure) -> None:
        self.seed, self.library, self.tokenizer = seed, library, tokenizer
        self._documents: dict[str, Units] = {}
        self._domains: dict[str, Passages] = {}
        self._labels: dict[str, Units] = {}

    @cached_property
    def essays(self) -> Units:
        """Sentences of the essays; each but the first of a text follows a space."""
        sentences, _ = self.library.essays
        spaced = [" " + sentence for sentence in sentences]
        return Units.of(sentences, count_units(self.tokenizer, spaced, ".", " The"))

    def lines(self, lines: Sequence[str]) -> Units:
        """Lines, counted with the line feed that follows each."""
        return Units.of(lines, self.line_costs(lines))

    def line_costs(self, lines: Sequence[str]) -> Costs:
        """Tokens of lines, each with the line feed that follows it."""
        return count_units(self.tokenizer, [line + "\n" for line in lines], "\n", "One")

    @cached_property
    def noise(self) -> Units:
        """The line that noise repeats."""
        return self.lines([NOISE])

    def domain(self, name: str) -> Passages:
        """Lines of a domain, and where passages begin."""
        if name not in self._domains:
            domain, _ = self.library.domain(name)
            costs = count_lines(self.tokenizer, domain.lines)
            self._domains[name] = Passages.of(Units.of(domain.lines, costs), domain.starts)
        return self._domains[name]

    def documents(self, source: str) -> Units:
        """Documents of a question answering source, each with the empty line that follows it."""
        if source not in self._documents:
            texts = [text + "\n\n" for text in self.corpus(source).documents]
            costs = count_units(self.tokenizer, texts, "1:\n", "Document")
            self._documents[source] = Units.of(texts, costs)
        return self._documents[source]

    def corpus(self, source: str) -> Corpus:
        """Documents and questions of a source."""
        return self.library.corpus(source)[0]

    @property
    def words(self) -> WordList:
        """English words."""
        return self.library.words[0]

    @cached_property
    def singles(self) -> Units:
        """All single words."""
        return self.listed(self.words.singles)

    def listed(self, words: Sequence[str]) -> Units:
        """Words, counted as they follow a number of a list."""
        spaced = [" " + word for word in words]
        return Units.of(words, count_units(self.tokenizer, spaced, "1.", " 2"))

    def compound(self, number: int) -> str:
        """Return an adjective-noun word; numbers far above their count are as good.

        No two are the same: adjectives with a hyphen are left out.
        """
        first, second = self._adjectives, self.words.nouns
        number %= len(first) * len(second)
        return f"{first[number // len(second)]}-{second[number % len(second)]}"

    @cached_property
    def _adjectives(self) -> list[str]:
        return [adjective for adjective in self.words.adjectives if "-" not in adjective]

    def labels(self, form: str, size: int, before: str, after: str) -> Units:
        """Return `size` labels or more of a form such as `{}. `, from number 1 on.

        A space at the end belongs to the piece behind it, and is counted with that.
        """
        known = self._labels.get(form)
        if known is None or len(known) < size:
            numbers = range(1, max(2 * size, 1024) + 1)
            texts = [form.format(number) for number in numbers]
            counted = [before[len(before.rstrip(" ")) :] + text.rstrip(" ") for text in texts]
            costs = count_units(self.tokenizer, counted, before.rstrip(" "), after)
            known = self._labels[form] = Units.of(texts, costs)
        return known
