"""Common words (`cwe`): name the ten words that stand most often in a numbered list.

    Below is a numbered list of words. In these words, some appear more often than ...
    1. kettle 2. wise 3. lantern 4. kettle 5. borrow ...

Source: RULER, arXiv 2404.06654, section 3.3; configuration of its Table 5: 10 common words 30
times each, all others 3 times. Below 4,096 tokens upstream uses 6 and 1.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np
from numpy.typing import NDArray

from ruler_builders.rows.packing import choose
from ruler_builders.rows.randomness import permutation, rng, shuffled
from ruler_builders.rows.row_template import Haystack, RowTemplate, Spans
from ruler_builders.rows.segments import SPARE, Segments, spell
from ruler_builders.rows.tokenized_sources import TokenizedSources
from ruler_data.tasks import Cwe

_HEAD = (
    "Below is a numbered list of words. In these words, some appear more often than others. "
    "Memorize the ones that appear most often.\n"
)
_QUESTION = "Question: What are the 10 most common words in the above list?"
_PREFIX = " Answer: The top 10 words that appear most often in the list are:"

#: Below this length (tokens) list and example are smaller.
SHORT = 4096
_EXAMPLE = (40, 10, 3)
_EXAMPLE_SHORT = (20, 3, 1)


def draw(
    name: str, params: Cwe, sources: TokenizedSources, index: int, length: int, budget: int
) -> RowTemplate:
    """Draw one row; see `ruler_builders.tasks.draw`."""
    example_size = _EXAMPLE
    if length < SHORT:
        example_size = _EXAMPLE_SHORT
        if params == Cwe():  # repeats that a suite sets are kept
            params = replace(params, common_repeats=6, other_repeats=1)
    seed = sources.seed
    singles = sources.words.singles
    order = permutation(rng(seed, name, index, "words"), len(singles))
    common, others = _distinct_sounding(singles, order, params.common)
    # The example takes its words from the far end of the order, so the answer is not in it.
    example = _draw_example(
        rng(seed, name, index, "example"),
        [singles[number] for number in others[: -example_size[0] - 1 : -1].tolist()],
        params.common,
        *example_size[1:],
    )
    fill = _Filler(sources, params, common, others, seed, name, index)
    return RowTemplate(
        head=example + _HEAD,
        tail="\n",
        question=_QUESTION,
        answer_prefix=_PREFIX,
        outputs=tuple(singles[number] for number in common),
        fill=fill,
    )


class _Filler:
    """Fills a room (tokens) with the common words and as many others as fit."""

    def __init__(
        self,
        sources: TokenizedSources,
        params: Cwe,
        common: list[int],
        others: NDArray[np.intp],
        seed: int,
        name: str,
        index: int,
    ) -> None:
        self._sources, self._params = sources, params
        self._common, self._others = np.array(common), others
        self._seed, self._name, self._index = seed, name, index

    def __call__(self, room: int) -> Haystack:
        params, repeats = self._params, self._params.other_repeats
        common_items = params.common * params.common_repeats
        words, others = self._enough_words(room)
        labels = _labels(self._sources, common_items + repeats * len(others))
        per_word = np.diff(labels.before[common_items::repeats][: len(others) + 1])
        common_tokens = int(words.costs[self._common].sum()) * params.common_repeats
        free = room - common_tokens - int(labels.before[common_items])
        chosen = choose(words.costs[others] * repeats, free, per_word)
        common = np.repeat(self._common, params.common_repeats)
        items = np.concatenate([common, np.repeat(others[chosen], repeats)])
        order = permutation(rng(self._seed, self._name, self._index, "order"), len(items))
        text, evidence = _listed(words, items[order], labels, np.flatnonzero(order < common_items))
        cost = common_tokens + int(words.costs[others[chosen]].sum()) * repeats
        cost += int(labels.before[len(items)])
        is_repeated = len(chosen) > 0 and chosen[-1] >= len(self._others)
        return Haystack([text], evidence, cost, len(chosen), "single words" if is_repeated else "")

    def _enough_words(self, room: int) -> tuple[Segments, NDArray[np.intp]]:
        """Return words, and the numbers of enough uncommon ones to fill a room.

        Once all single words are used, adjective-noun compounds follow.
        """
        words, repeats = self._sources.singles, self._params.other_repeats
        # A listed word costs at least three tokens: its number, a full stop, the word.
        most = max(room, 0) // (3 * repeats) + SPARE
        others = self._others[:most]
        if len(others) == most:
            return words, others
        label_tokens = _labels(self._sources, repeats * len(others)).before
        tokens = int(words.costs[others].sum()) * repeats + int(label_tokens[repeats * len(others)])
        if tokens > room:
            return words, others
        source = rng(self._seed, self._name, self._index, "compounds")
        compounds = _compounds(source, self._sources, most - len(others))
        numbers = np.arange(len(words), len(words) + len(compounds))
        return Segments.joined([words, compounds]), np.concatenate([others, numbers])


def _listed(
    words: Segments, items: NDArray[np.intp], labels: Segments, marks: NDArray[np.intp]
) -> tuple[memoryview, Spans]:
    """Return a numbered list of words, and the spans (bytes) of marked items."""
    text, offsets = spell((labels, np.arange(len(items))), (words, items))
    spans = offsets[1:].reshape(-1, 2)  # a word begins where its label ends
    return text[1:], spans[marks] - 1  # the space before the first number


def _distinct_sounding(
    words: Sequence[str], order: NDArray[np.intp], size: int
) -> tuple[list[int], NDArray[np.intp]]:
    """Return the first words of an order of which none contains another, and all later words.

    Answers are scored as substrings, and `art` must not be found in `party`. Words that are skipped
    for that reason are in neither result.
    """
    chosen: list[int] = []
    texts: list[str] = []
    while len(chosen) < size and len(order):
        number, order = int(order[0]), order[1:]
        word = words[number]
        if word not in " ".join(texts) and not any(map(word.__contains__, texts)):
            chosen.append(number)
            texts.append(word)
    return chosen, order


def _compounds(source: Random, sources: TokenizedSources, size: int) -> Segments:
    """Draw distinct adjective-noun words; fewer are a prefix of more."""
    found: dict[str, None] = {}
    while len(found) < size:
        found[sources.compound(source.getrandbits(64))] = None
    return sources.listed(list(found))


def _draw_example(
    source: Random, words: list[str], common: int, common_repeats: int, other_repeats: int
) -> str:
    """Draw the in-context example: a short list and its answer."""
    items = shuffled(source, words[:common] * common_repeats + words[common:] * other_repeats)
    return f"{_HEAD}{_numbered(items)}\n{_QUESTION}{_PREFIX} {_numbered(words[:common])}\n"


def _numbered(words: Sequence[str]) -> str:
    return " ".join([f"{number}. {word}" for number, word in enumerate(words, 1)])


def _labels(sources: TokenizedSources, size: int) -> Segments:
    return sources.labels(" {}. ", size, "word", " word")
