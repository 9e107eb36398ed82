"""Common words (`cwe`): name the words that stand most often in a numbered list, usually ten.

    Below is a numbered list of words. In these words, some appear more often than ...
    1. kettle 2. wise 3. lantern 4. kettle 5. borrow ...

Source: RULER, arXiv 2404.06654, section 3.3; configuration of its Table 5: 10 common words 30
times each, all others 3 times. Below 4,096 tokens upstream uses 6 and 1. If a length needs more
words than the list of single words has, all words of its rows, also the common ones, are
adjective-noun compounds: no form of a word tells which are common. Suites also ask how often
one word appears (counting is a task of BABILong, arXiv 2406.10149, and of Counting-Stars, arXiv
2403.11802).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from random import Random

import numpy as np
from numpy.typing import NDArray

from ruler_builders import prompts
from ruler_builders.rows.randomness import permutation, rng, shuffled
from ruler_builders.rows.row_template import Haystack, RowTemplate, Spans
from ruler_builders.rows.segments import SPARE, Segments, choose, spell
from ruler_builders.rows.tokenized_sources import TokenizedSources
from ruler_data.errors import UsageError
from ruler_data.tasks import Cwe

#: Below this length (tokens) list and example are smaller.
SHORT = 4096
#: Uncommon words of the example, repeats of its common ones, and of the others.
_EXAMPLE = (30, 10, 3)
_EXAMPLE_SHORT = (10, 3, 1)

#: A length of so many tokens for each item of a list of all single words is more than that list
#: fills: with o200k and Llama 3, which need the fewest, an item takes 5.3 tokens (measured).
TOKENS_PER_ITEM = 5.4
#: Fewest tokens of a listed compound.
COMPOUND_TOKENS = 4
#: Least share of the room of a list that a vocabulary must fill, as `row_findings` requires.
LEAST_FILL = 0.99
RAN_OUT = "single words run out: all words, the common ones too, are adjective-noun compounds"


def draw(
    name: str, params: Cwe, sources: TokenizedSources, index: int, length: int, budget: int
) -> RowTemplate:
    """Draw one row; see `ruler_builders.tasks.draw`."""
    example_others, often, seldom = _EXAMPLE
    if length < SHORT:
        example_others, often, seldom = _EXAMPLE_SHORT
        if (params.common_repeats, params.other_repeats, params.ask) == (30, 3, "words"):
            # Repeats that a suite sets are kept.
            params = replace(params, common_repeats=6, other_repeats=1)
    seed = sources.seed
    words, texts, order = _draw_words(sources, params, name, index, length)
    common, uncommon = _distinct_sounding(texts, order, params.common)
    repeats = np.full(params.common, params.common_repeats)
    if params.ask == "count":
        repeats = _draw_counts(rng(seed, name, index, "counts"), params)
    row = (name, index)
    fillers = uncommon
    if params.vocabulary:
        fillers = uncommon[: params.vocabulary - params.common]
    fill = partial(_fill, sources, params, row, words, np.array(common), repeats, fillers)
    prompt = prompts.cwe(params, texts[common[0]])
    outputs = tuple(texts[number] for number in common)
    if params.ask == "count":
        outputs = (str(repeats[0]),)
    elif params.example:
        # It takes its words from the far end of the order, so the answer is not in it.
        source = rng(seed, name, index, "example")
        size = params.common + example_others
        far = [texts[number] for number in uncommon[: -size - 1 : -1].tolist()]
        answer = far[: params.common]
        items = _numbered(shuffled(source, answer * often + far[params.common :] * seldom))
        example = f"{prompt.head}{items}\n{prompt.question}{prompt.prefix} {_numbered(answer)}\n"
        prompt = replace(prompt, head=example + prompt.head)
    if params.vocabulary:
        room = budget - sources.tokenizer.count([prompt.text])[0]
        used = fill(room).cost
        if used < LEAST_FILL * room:
            raise UsageError(
                f"{name}: vocabulary: {params.vocabulary} words fill {used} of the {room} tokens "
                f"of a list at {length}; use more words, more repeats or a smaller length"
            )
    return RowTemplate(prompt, outputs, fill)


def _draw_counts(source: Random, params: Cwe) -> NDArray[np.intp]:
    """Draw a count for each common word, one from each of as many equal ranges, in random order.

    All differ, so a guess among the counts of a list is right once in their number.
    """
    span = np.arange(params.other_repeats + 1, params.common_repeats + 1)
    numbers = [source.choice(stretch.tolist()) for stretch in np.array_split(span, params.common)]
    return np.array(shuffled(source, numbers))


def _draw_words(
    sources: TokenizedSources, params: Cwe, name: str, index: int, length: int
) -> tuple[Segments, Sequence[str], NDArray[np.intp]]:
    """Return words, their texts, and the order in which a row takes them.

    Whether they are compounds depends on the length alone, so all tokenizers have the same answers.
    """
    repeats = params.other_repeats
    singles = sources.singles
    items = len(singles) * repeats + params.common * (params.common_repeats - repeats)
    if params.vocabulary or length <= TOKENS_PER_ITEM * items:
        order = permutation(rng(sources.seed, name, index, "words"), len(singles))
        return singles, sources.words.singles, order
    texts: dict[str, None] = {}
    source = rng(sources.seed, name, index, "compounds")
    while len(texts) < length // (COMPOUND_TOKENS * repeats) + SPARE:
        texts[sources.compound(source.getrandbits(64))] = None
    # The first are for the example, which is the same at every length.
    first = params.common + _EXAMPLE[0]
    return sources.list_items([*texts]), [*texts], np.roll(np.arange(len(texts)), -first)


def _fill(
    sources: TokenizedSources,
    params: Cwe,
    row: tuple[str, int],
    words: Segments,
    gold: NDArray[np.intp],
    repeats: NDArray[np.intp],
    uncommon: NDArray[np.intp],
    room: int,
) -> Haystack:
    """Fill a room (tokens) with the common words, repeated, and as many others as fit."""
    times = params.other_repeats
    common = np.repeat(gold, repeats)
    uncommon = uncommon[: max(room, 0) // (3 * times) + SPARE]
    labels = sources.labels(" {}. ", len(common) + times * len(uncommon), "word", " word")
    per_word = np.diff(labels.before[len(common) :: times][: len(uncommon) + 1])
    common_tokens = int(words.costs[gold] @ repeats)
    free = room - common_tokens - int(labels.before[len(common)])
    picks = choose(words.costs[uncommon] * times, free, per_word)
    items = np.concatenate([common, np.repeat(uncommon[picks], times)])
    order = permutation(rng(sources.seed, *row, "order"), len(items))
    marked = len(common)
    if params.ask == "count":
        marked = int(repeats[0])  # those of the word that is queried come first
    text, evidence = _number_items(words, items[order], labels, np.flatnonzero(order < marked))
    cost = common_tokens + int(words.costs[uncommon[picks]].sum()) * times
    cost += int(labels.before[len(items)])
    note = ""
    if words is not sources.singles:
        note = RAN_OUT
    return Haystack([text], evidence, cost, len(picks), note)


def _number_items(
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
    numbers: list[int] = []
    texts: list[str] = []
    while len(numbers) < size and len(order):
        number = int(order[0])
        order = order[1:]
        word = words[number]
        if word not in " ".join(texts) and not any(map(word.__contains__, texts)):
            numbers.append(number)
            texts.append(word)
    return numbers, order


def _numbered(words: Sequence[str]) -> str:
    return " ".join([f"{number}. {word}" for number, word in enumerate(words, 1)])
