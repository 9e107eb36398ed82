"""Frequent words, as upstream draws them (`freq_words_extraction.py`).

Known defects, kept: texts of one length are all shuffled to the same order; the first search steps
by 1/32 of the limit and stops a step below it, so rows are up to that much too short; until 2025-05
the search does not keep the answer's room free, and `length` may be above the limit by it.
"""

from collections.abc import Iterator
from string import ascii_lowercase

import numpy as np

from ruler_builders.upstream.state import Draft, State, UpstreamRow, endless
from ruler_data.errors import UsageError
from ruler_data.tasks import Fwe

TEMPLATE = (
    "Read the following coded text and track the frequency of each coded word. Find the three most "
    "frequently appeared coded words. {context}\nQuestion: Do not provide any explanation. Please "
    "ignore the dots '....'. What are the three most frequently appeared words in the above coded "
    "text?"
)
PREFIX = " Answer: According to the coded text above, the three most frequently appeared words are:"

LETTERS = 6
TOKENS_PER_WORD = 50
#: Riemann's zeta(2) as scipy gives it.
ZETA = {2.0: 1.6449340668482264}


def replay(state: State) -> Iterator[UpstreamRow]:
    """Yield the rows of the task.

    Raises:
        RulerError: upstream would not finish.
        UsageError: the length is too short for a vocabulary, where upstream crashes.
    """
    arguments = state.arguments
    params, budget = arguments.task.params, arguments.task.max_new_tokens
    assert isinstance(params, Fwe)
    limit = arguments.limit - (budget if arguments.edition.bisects else 0)
    step = limit // 32
    if step < 1 or limit // TOKENS_PER_WORD < 1:
        msg = f"{arguments.task.name}_{arguments.length}: upstream needs a length >= 150"
        raise UsageError(msg)
    text = _Text(state, limit // TOKENS_PER_WORD, params.alpha)

    vocabulary, size = text.vocabulary(), limit // LETTERS
    while state.count(text.of(vocabulary, size)) < limit:
        size += step
    start = size - step
    for index in range(arguments.rows):
        vocabulary, size = text.vocabulary(), start
        prompt = text.of(vocabulary, size)
        while (tokens := state.count(prompt)) > limit:
            if size <= 0:  # an empty text, as all smaller ones
                raise endless(arguments, index, f"without a word it has {tokens} tokens")
            size -= step
            prompt = text.of(vocabulary, size)
        yield state.finish(index, Draft(prompt, vocabulary[1:4], []), tokens + budget, PREFIX)


class _Text:
    def __init__(self, state: State, size: int, alpha: float) -> None:
        self._state, self._size = state, size
        self._template = state.arguments.template.format(task_template=TEMPLATE) + PREFIX
        self._shares = np.arange(1, size + 1) ** -alpha
        self._zeta = ZETA[alpha]

    def vocabulary(self) -> list[str]:
        """Draw coded words, the most frequent one replaced by dots."""
        letters = self._state.letters(ascii_lowercase, LETTERS * self._size)
        words = {letters[at : at + LETTERS] for at in range(0, len(letters), LETTERS)}
        while len(words) < self._size:
            words.add(self._state.letters(ascii_lowercase, LETTERS))
        vocabulary = self._state.shuffled(sorted(words))
        vocabulary[0] = "..."
        return vocabulary

    def of(self, vocabulary: list[str], size: int) -> str:
        """Return the prompt with a text of about so many words."""
        counts = (size * self._shares / self._zeta).astype(int).tolist()
        words: list[str] = []
        for word, times in zip(vocabulary, counts, strict=True):
            words += [word] * times
        return self._template.format(context=" ".join(self._state.shuffled(words)))
