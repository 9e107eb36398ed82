"""Sources counted in one tokenizer: each text is tokenized once for all rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from random import Random

import numpy as np
from numpy.typing import NDArray

from ruler_builders.prompts import NOISE
from ruler_builders.rows.randomness import permutation
from ruler_builders.rows.segments import (
    SLACK,
    Costs,
    Segments,
    count_lines,
    count_segments,
    joined_once,
)
from ruler_builders.sources import ChoiceQuestions, Corpus, Library, WordList
from ruler_data.tokenizers import Measure


@dataclass(frozen=True)
class Passages:
    """Lines, endlessly repeated, divided into passages.

    Attributes:
        lines: with their tokens, including the line feed behind each.
        starts: numbers of the lines that begin a passage, rising from 0.
        fresh: tokens before any line is repeated.
    """

    lines: Segments
    starts: NDArray[np.intp]
    fresh: int

    def stretch(self, room: int, first: int) -> Segments:
        """Return a run of neighbouring lines that fills a room of tokens.

        It begins at the passage numbered `first` if that leaves few tokens unused, otherwise at the
        next passage that does, at any line that does, or where the fewest are left.

        >>> lines = Segments.of(["a", "b", "c"], np.array([30, 10, 25]))
        >>> Passages(lines, np.array([0, 1]), 65).stretch(room=66, first=1).texts.to_pylist()
        ['b', 'c', 'a']
        """
        begins = np.roll(self.starts, -first)
        begin, end, left = self._fullest(begins, max(room, 0))
        if left > SLACK:
            order = np.roll(np.arange(len(self.lines)), -int(begins[0]))
            begin, end, _ = self._fullest(order, max(room, 0))
        return self.lines.pick(np.arange(begin, end) % len(self.lines))

    def run(self, room: int, first: int) -> Segments:
        """Return the lines from a passage on that fit a room; less room gives a beginning of it."""
        begin, end, _ = self._fullest(self.starts[[first]], max(room, 0))
        return self.lines.pick(np.arange(begin, end) % len(self.lines))

    def _fullest(self, begins: NDArray[np.intp], room: int) -> tuple[int, int, int]:
        """Return begin, end and unused tokens of the first run that leaves at most `SLACK`.

        If none does, it is the run that leaves the fewest.
        """
        totals = self.lines.before
        rounds, remainder = np.divmod(totals[begins] + room, max(self.lines.total, 1))
        ends = np.searchsorted(totals[:-1], remainder, side="right") - 1
        left = remainder - totals[ends]
        best = np.maximum(left, SLACK).argmin()
        return int(begins[best]), int(rounds[best] * len(self.lines) + ends[best]), int(left[best])


def mixed(domains: Sequence[Passages], source: Random) -> Passages:
    """Return passages of several domains in turns, those of each domain in random order.

    A domain with fewer passages is repeated, so that all have equal shares to the end.
    """
    lines = joined_once(*(domain.lines for domain in domains))
    before = np.cumsum([0, *(len(domain.lines) for domain in domains)])
    begins = np.concatenate(
        [domain.starts + at for domain, at in zip(domains, before, strict=False)]
    )
    sizes = np.diff(begins, append=len(lines))
    counts = [len(domain.starts) for domain in domains]
    orders = [
        permutation(source, count) + at
        for count, at in zip(counts, np.cumsum([0, *counts]), strict=False)
    ]
    turns = np.stack([np.resize(order, max(counts)) for order in orders], axis=1).ravel()
    starts = np.cumsum(sizes[turns]) - sizes[turns]
    numbers = np.arange(sizes[turns].sum()) + np.repeat(begins[turns] - starts, sizes[turns])
    once = int(sizes[turns[: min(counts) * len(domains)]].sum())
    mixture = lines.pick(numbers)
    return Passages(mixture, starts.astype(np.intp), int(mixture.before[once]))


class TokenizedSources:
    """Seed, sources and tokenizer of a build, with the segments of each source."""

    def __init__(self, seed: int, library: Library, tokenizer: Measure) -> None:
        self.seed = seed
        self.library = library
        self.tokenizer = tokenizer
        self._labels: dict[str, Segments] = {}

    @cached_property
    def essays(self) -> Segments:
        """Sentences of the essays; each but the first of a text follows a space."""
        sentences, _ = self.library.essays
        spaced = [" " + sentence for sentence in sentences]
        return Segments.of(sentences, count_segments(self.tokenizer, spaced, ".", " The"))

    def line_costs(self, lines: Sequence[str]) -> Costs:
        """Tokens of lines, each with the line feed that follows it."""
        return count_segments(self.tokenizer, [line + "\n" for line in lines], "\n", "One")

    @cached_property
    def noise(self) -> Segments:
        """The line that noise consists of."""
        return Segments.of([NOISE], self.line_costs([NOISE]))

    @cache  # noqa: B019 - sources live as long as their build
    def domain(self, name: str) -> Passages:
        """Lines of a domain, divided into passages."""
        domain, _ = self.library.domain(name)
        lines = Segments.of(domain.lines, count_lines(self.tokenizer, domain.lines))
        return Passages(lines, np.array(domain.starts, dtype=np.intp), lines.total)

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
    def choices(self) -> ChoiceQuestions:
        """Questions of multiple choice."""
        return self.library.choices[0]

    @cached_property
    def choice_texts(self) -> Segments:
        """The questions of multiple choice that fill a haystack, each with an empty line."""
        texts = [choice.text + "\n\n" for choice in self.choices.haystack]
        spaced = [" " + text for text in texts]
        return Segments.of(texts, count_segments(self.tokenizer, spaced, "1:", "Question"))

    @property
    def words(self) -> WordList:
        """English words."""
        return self.library.words[0]

    @cached_property
    def singles(self) -> Segments:
        """All single words."""
        return self.list_items(self.words.singles)

    def list_items(self, words: Sequence[str]) -> Segments:
        """Words, counted as items of a numbered list."""
        spaced = [" " + word for word in words]
        return Segments.of(words, count_segments(self.tokenizer, spaced, "1.", " 2"))

    def compound(self, number: int) -> str:
        """Return the adjective-noun word of a number, modulo how many there are.

        All of them differ: adjectives with a hyphen are left out.
        """
        nouns = self._nouns
        place, noun = divmod(number % self.compounds, len(nouns))
        return f"{self._adjectives[place]}-{nouns[noun]}"

    @cached_property
    def compounds(self) -> int:
        """How many adjective-noun words there are."""
        return len(self._adjectives) * len(self._nouns)

    @cached_property
    def _nouns(self) -> tuple[str, ...]:
        return self.words.nouns

    @cached_property
    def _adjectives(self) -> list[str]:
        return [adjective for adjective in self.words.adjectives if "-" not in adjective]

    def labels(self, form: str, size: int, before: str, after: str) -> Segments:
        """Return `size` labels or more of a form such as `{}. `, numbered from 1.

        A space at the end is counted with the text that follows it.
        """
        labels = self._labels.get(form)
        if labels is None or len(labels) < size:
            numbers = range(
                1, max(size + size // 8, 1024) + 1
            )  # rows of a config need about as many
            texts = [form.format(number) for number in numbers]
            probes = [before[len(before.rstrip(" ")) :] + text.rstrip(" ") for text in texts]
            costs = count_segments(self.tokenizer, probes, before.rstrip(" "), after)
            labels = self._labels[form] = Segments.of(texts, costs)
        return labels
