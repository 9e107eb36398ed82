"""Needles in a haystack, as upstream draws them (`niah.py`).

Known defects, kept: keys and values may repeat; four needles are shuffled to the same order in all
rows; `index` is overwritten (2026-07).
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from ruler_builders.upstream.state import Draft, State, UpstreamRow, bisect, stepwise
from ruler_data.tasks import Niah, PartType

TEMPLATE = (
    "Some special magic {type_needle_v} are hidden within the following text. Make sure to "
    "memorize it. I will quiz you about the {type_needle_v} afterwards.\n{context}\nWhat are all "
    "the special magic {type_needle_v} for {query} mentioned in the provided text?"
)
PREFIX = " The special magic {type_needle_v} for {query} mentioned in the provided text are"
NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
NEEDLE = "One of the special magic {kind} for {key} is: {value}."

#: Where a needle may stand in essays, in percent of the sentences.
DEPTHS: list[int] = np.round(np.linspace(0, 100, num=40)).astype(int).tolist()


class Sentences(Protocol):
    """The essays, cut into sentences."""

    def first(self, words: int, *, repeat: bool) -> "Passage":
        """Return the sentences of the first words; `repeat` begins again at the end."""
        ...

    def __len__(self) -> int:
        """Return the number of words."""
        ...


class Passage(Protocol):
    """The first sentences of the essays."""

    def __len__(self) -> int:
        """Return the number of sentences."""
        ...

    def join(self, start: int, end: int) -> str:
        """Return some of the sentences, joined by spaces."""
        ...


def replay(state: State, words: Sequence[str], essays: Sentences | None) -> Iterator[UpstreamRow]:
    """Yield the rows of a task.

    Args:
        state: of the run.
        words: what keys and values of type `words` are chosen from.
        essays: the haystack, where it is of essays.

    Raises:
        RulerError: upstream would not finish.
    """
    arguments = state.arguments
    task, edition = arguments.task, arguments.edition
    params = task.params
    assert isinstance(params, Niah)
    draws = _Rows(state, params, words, essays)
    step = 500 if essays is not None else 5 if arguments.length < 4096 else 25

    def tokens(size: int) -> int:
        draft = draws.draw(size)
        answers = " ".join(draft.outputs) if edition.search == "steps" else ""
        return state.count(draft.prompt + answers) + task.max_new_tokens

    if edition.search == "steps":
        cap = len(essays) if essays is not None else None
        size = stepwise(tokens, arguments.limit, step, cap, past=True)
    else:
        each = state.count(draws.draw(step).prompt) / step
        size = bisect(tokens, arguments.limit, step, int((arguments.limit / each) * 3))
    for index, draft, length in state.rows(lambda _, used: draws.draw(used), size, step):
        row = state.finish(index, draft, length, PREFIX)
        if edition.search == "bisection":  # upstream reuses the name of the row's index
            row = replace(row, index=row.input.find(row.outputs[0]))
        yield row


class _Rows:
    def __init__(
        self, state: State, params: Niah, words: Sequence[str], essays: Sentences | None
    ) -> None:
        self._state, self._params, self._words, self._essays = state, params, words, essays
        self._template = state.arguments.template.format(task_template=TEMPLATE) + PREFIX
        self._kind: str = params.value_type
        if params.queries * params.values == 1:
            # These replacements reach into the chat template too.
            pairs = (("Some", "A"), ("are all", "is"), ("are", "is"), ("answers", "answer"))
            for plural, singular in pairs:
                self._template = self._template.replace(plural, singular)
            self._kind = self._kind[:-1]

    def draw(self, size: int) -> Draft:
        """Draw a row with a haystack of so many lines, or words of essays."""
        params, state = self._params, self._state
        keys, values, needles = [], [], []
        for _ in range(params.keys):
            keys.append(self._part(params.key_type))
            values.append([self._part(params.value_type) for _ in range(params.values)])
            needles += [self._needle(keys[-1], value) for value in values[-1]]
        needles = state.shuffled(needles)
        if self._essays is not None:
            context = self._among_sentences(self._essays, needles, size)
        else:
            context = self._among_lines(needles, size)
        chosen = state.random.sample(range(params.keys), params.queries)
        queries = [keys[place] for place in chosen]
        query = queries[0]
        if len(queries) > 1:
            query = ", ".join(queries[:-1]) + ", and " + queries[-1]
        prompt = self._template.format(type_needle_v=self._kind, context=context, query=query)
        outputs = [value for place in chosen for value in values[place]]
        asked = [self._needle(keys[place], value) for place in chosen for value in values[place]]
        return Draft(prompt, outputs, asked)

    def _part(self, kind: PartType) -> str:
        """Draw a key or a value."""
        source = self._state.random
        if kind == "numbers":
            return str(source.randint(10**6, 10**7 - 1))
        if kind == "words":
            return source.choice(self._words)
        return str(uuid.UUID(int=source.getrandbits(128), version=4))

    def _needle(self, key: str, value: str) -> str:
        return NEEDLE.format(kind=self._params.value_type, key=key, value=value)

    def _among_lines(self, needles: list[str], size: int) -> str:
        """Return lines of noise, or of other needles, with the needles in some of them."""
        params, source = self._params, self._state.random
        if params.haystack == "noise":
            lines = [NOISE] * size
        else:
            lines = [
                self._needle(self._part(params.key_type), self._part(params.value_type))
                for _ in range(size)
            ]
        places = sorted(source.sample(range(size), len(needles)), reverse=True)
        for place, needle in zip(places, needles, strict=True):
            lines.insert(place, needle)
        return "\n".join(lines)

    def _among_sentences(self, essays: Sentences, needles: list[str], size: int) -> str:
        """Return the sentences of the first words, the needles at drawn depths between them."""
        repeat = self._state.arguments.edition.search == "bisection"
        passage = essays.first(size, repeat=repeat)
        depths = self._state.random.sample(DEPTHS, len(needles))
        places = sorted(int(len(passage) * (depth / 100)) for depth in depths)
        parts, last = [], 0
        for place, needle in zip(places, needles, strict=True):
            parts += [passage.join(last, place), needle]
            last = place
        return " ".join([*parts, passage.join(last, len(passage))])
