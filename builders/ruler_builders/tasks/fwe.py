"""Frequent words (`fwe`): name the coded words that stand most often in a text, usually three.

    ... qvxkzt ... jrwmle ... ... qvxkzt bdnyoa ...

Source: RULER, arXiv 2404.06654, section 3.3; counts follow a zeta distribution whose top rank is
the noise `...`, and the answer is the ranks from 2, K of them (3 by default).
"""

from bisect import bisect_right
from functools import cache, lru_cache
from itertools import count
from string import ascii_lowercase

import numpy as np
from numpy.typing import NDArray

from ruler_builders import prompts
from ruler_builders.rows.randomness import distinct, draw_names, permutation, rng, subset
from ruler_builders.rows.row_template import Haystack, RowTemplate
from ruler_builders.rows.segments import UNKNOWN, Costs, Segments, count_segments, spell
from ruler_builders.rows.tokenized_sources import TokenizedSources
from ruler_data.errors import BudgetError
from ruler_data.parquet import NO_SPANS
from ruler_data.tasks import Fwe

NOISE = "..."
LETTERS = 6
#: Prompt tokens for each word of the vocabulary.
TOKENS_PER_WORD = 50
#: Number of coded words.
CODED = 2**15
#: Most distinct words of one text. It is reached with alpha 1.1 at 0.8 million tokens, 1.5 at 2.7
#: million, 2.0 at 220 million.
LARGEST_VOCABULARY = 2**14


def draw(
    name: str, params: Fwe, sources: TokenizedSources, index: int, length: int, budget: int
) -> RowTemplate:
    """Draw one row; see `ruler_builders.tasks.draw`."""
    smallest = params.top + 1
    size = params.vocabulary or min(budget // TOKENS_PER_WORD, LARGEST_VOCABULARY)
    if size < smallest:
        raise BudgetError(name, smallest * TOKENS_PER_WORD + length - budget, length)
    # Counts of rare ranks round to 0. A word costs at least a token, so no others can appear.
    appearing = np.count_nonzero(counts(2 * budget, size, params.alpha))
    size = max(smallest, int(appearing))
    words = _words(sources)
    source = rng(sources.seed, name, index, "words")
    vocabulary = np.concatenate([[0], 1 + distinct(source, CODED, size - 1)])
    costs = words.costs(vocabulary)
    per_word = (costs / _shares(size, params.alpha)).sum()
    least = _least(size, params.alpha, params.top)

    def cost(total: int) -> int:
        return int(counts(total, size, params.alpha) @ costs)

    def fill(room: int) -> Haystack:
        total = least
        if cost(least) < room:
            # Rounding down takes less than one word off each rank.
            totals = range(least, int((room + costs.sum()) / per_word) + 2)
            total = totals[bisect_right(totals, room, key=cost) - 1]
        while not _is_determined(often := counts(total, size, params.alpha), params.top):
            total -= 1
        numbers = _scatter(vocabulary, often, sources.seed, name, index)
        return Haystack([words.text(numbers)], NO_SPANS, int(often @ costs), total - least)

    answers = tuple(words.all[number] for number in vocabulary[1:smallest].tolist())
    return RowTemplate(prompts.fwe(params), answers, fill)


def _scatter(
    vocabulary: NDArray[np.intp], often: NDArray[np.int64], seed: int, name: str, index: int
) -> NDArray[np.intp]:
    """Return numbers of words in random order, each `often` times; the first is the noise."""
    coded = np.repeat(vocabulary[1:], often[1:])
    numbers = np.full(int(often.sum()), vocabulary[0])
    places = subset(rng(seed, name, index, "places"), len(numbers), len(coded))
    numbers[places] = coded[permutation(rng(seed, name, index, "order"), len(coded))]
    return numbers


def counts(total: int, size: int, alpha: float) -> NDArray[np.int64]:
    """Return how often each rank stands in a text of `total` words: floor(N k^-alpha / zeta).

    Whole exponents are powers by multiplication, exact in every floating point library, so
    no platform rounds a count differently.

    >>> counts(100, 5, 2.0).tolist()
    [60, 15, 6, 3, 2]
    """
    return np.floor(total / _shares(size, alpha)).astype(np.int64)


@cache
def _shares(size: int, alpha: float) -> NDArray[np.float64]:
    """Return k^alpha zeta(alpha) for each rank k: the inverse of its share of all words."""
    ranks = np.arange(1, size + 1, dtype=np.float64)
    powers = ranks**alpha
    if alpha == int(alpha):
        powers = np.prod([ranks] * int(alpha), axis=0)
    return np.asarray(powers * zeta(alpha))


@cache
def zeta(alpha: float) -> float:
    """Return Riemann's zeta for alpha > 1, by Euler-Maclaurin summation (NIST DLMF 25.2.9).

    >>> round(zeta(2.0), 12)
    1.644934066848
    """
    last = 1000
    head = sum(k**-alpha for k in range(1, last))
    tail = last ** (1 - alpha) / (alpha - 1) + 0.5 * last**-alpha
    return float(head + tail + alpha / 12 * last ** (-alpha - 1))


@cache
def _least(size: int, alpha: float, top: int) -> int:
    """Return the words of the smallest text: the last rank of the answer appears, without a tie.

    >>> _least(100, 2.0, 3)
    27
    """
    texts = ((total, counts(total, size, alpha)) for total in count(top + 1))
    return next(total for total, often in texts if often[top] and _is_determined(often, top))


def _is_determined(numbers: NDArray[np.int64], top: int) -> bool:
    """Whether ranks 2 to `top` + 1 are the most frequent words without a tie."""
    return len(numbers) < top + 2 or bool(numbers[top] > numbers[top + 1])


class _Words:
    """The noise and all coded words, the same for all rows; each is counted when first used."""

    def __init__(self, sources: TokenizedSources) -> None:
        source = rng(sources.seed, "fwe", 0, "coded words")
        names: dict[str, None] = {}
        draw_names(source, ascii_lowercase, LETTERS, names, CODED)
        self.all = [NOISE, *names]
        self._tokenizer = sources.tokenizer
        self._costs = np.full(len(self.all), UNKNOWN)
        self._segments = Segments.of([word + " " for word in self.all], self._costs)

    def costs(self, numbers: NDArray[np.intp]) -> Costs:
        """Return the tokens of the words of these numbers."""
        new = numbers[self._costs[numbers] == UNKNOWN]
        if len(new):
            spaced = [" " + self.all[number] for number in new.tolist()]
            self._costs[new] = count_segments(self._tokenizer, spaced, " abc", " def")
        return self._costs[numbers]

    def text(self, numbers: NDArray[np.intp]) -> memoryview:
        """Return the words of these numbers, a space between each two."""
        text, _ = spell((self._segments, numbers))
        return text[:-1]


#: Returns the words that all rows share.
_words = lru_cache(maxsize=4)(_Words)
