"""Frequent words, as upstream draws them (`freq_words_extraction.py`).

Known defects, kept: texts of one length are all shuffled to the same order; the first search steps
by 1/32 of the limit and stops a step below it, so rows are up to that much too short; until 2025-05
the search does not keep the answer's room free, and `length` may be above the limit by it.
"""

from collections.abc import Iterator
from string import ascii_lowercase

import numpy as np

from ruler_builders import prompts
from ruler_builders.upstream.sources import UpstreamSources
from ruler_builders.upstream.state import Draft, State, UpstreamRow, texts
from ruler_data.errors import UsageError
from ruler_data.tasks import Fwe

TEMPLATE, PREFIX = texts(prompts.fwe(Fwe()))

LETTERS = 6
TOKENS_PER_WORD = 50
#: Riemann's zeta(2) as scipy gives it.
ZETA = {2.0: 1.6449340668482264}


def replay(state: State, _: UpstreamSources) -> Iterator[UpstreamRow]:
    """Yield the rows of the task.

    Raises:
        RulerError: upstream would not finish.
        UsageError: the length is too short for an answer; upstream crashes or writes none.
    """
    arguments = state.arguments
    params = arguments.task.params
    budget = arguments.task.max_new_tokens
    assert isinstance(params, Fwe)
    limit = arguments.limit
    if arguments.edition.bisects:
        limit -= budget
    step = limit // 32
    words = limit // TOKENS_PER_WORD
    if words < 2:  # the first becomes dots, so none is left for an answer
        least = arguments.length - limit + 2 * TOKENS_PER_WORD
        raise UsageError(arguments.config, f"upstream needs a length >= {least}")
    template = arguments.prompt(TEMPLATE, PREFIX)
    shares = np.arange(1, words + 1) ** -params.alpha

    def prompt(coded: list[str], size: int) -> str:
        """Return the prompt with a text of about so many words."""
        counts = (size * shares / ZETA[params.alpha]).astype(int).tolist()
        text = [word for word, times in zip(coded, counts, strict=True) for _ in range(times)]
        return template.format(context=" ".join(state.shuffled(text)))

    coded = _vocabulary(state, words)
    size = limit // LETTERS
    while state.count(prompt(coded, size)) < limit:
        size += step
    start = size - step
    for index in range(arguments.rows):
        coded = _vocabulary(state, words)
        size = start
        while (tokens := state.count(text := prompt(coded, size))) > limit:
            if size <= 0:  # an empty text, as all smaller ones
                raise arguments.endless(index, f"without a word it has {tokens} tokens")
            size -= step
        yield state.finish(index, Draft(text, coded[1:4], []), tokens + budget, PREFIX)


def _vocabulary(state: State, words: int) -> list[str]:
    """Draw so many coded words, the most frequent one replaced by dots."""
    letters = state.letters(ascii_lowercase, LETTERS * words)
    drawn = {letters[at : at + LETTERS] for at in range(0, len(letters), LETTERS)}
    while len(drawn) < words:
        drawn.add(state.letters(ascii_lowercase, LETTERS))
    return ["...", *state.shuffled(sorted(drawn))[1:]]
