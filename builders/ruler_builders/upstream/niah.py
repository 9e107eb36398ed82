"""Needles in a haystack, as upstream draws them (`niah.py`).

Known defects, kept: keys and values may repeat; four needles are shuffled to the same order in all
rows; `index` is overwritten (2026-07).
"""

import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ruler_builders.prompts import NEEDLES, NOISE
from ruler_builders.upstream.sources import EssaySentences, UpstreamSources
from ruler_builders.upstream.state import Draft, State, UpstreamRow
from ruler_data.tasks import Niah, PartType

TEMPLATE = (
    "Some special magic {type_needle_v} are hidden within the following text. Make sure to "
    "memorize it. I will quiz you about the {type_needle_v} afterwards.\n{context}\nWhat are all "
    "the special magic {type_needle_v} for {query} mentioned in the provided text?"
)
PREFIX = " The special magic {type_needle_v} for {query} mentioned in the provided text are"
NEEDLE = NEEDLES["plain"][0]

#: Where a needle may stand in essays, in percent of the sentences.
DEPTHS: list[int] = np.round(np.linspace(0, 100, num=40)).astype(int).tolist()


def replay(state: State, sources: UpstreamSources) -> Iterator[UpstreamRow]:
    """Yield the rows of a task."""
    arguments = state.arguments
    draws = _Rows(state, sources)
    step = 25
    cap = sys.maxsize
    if draws.essays is not None:
        step = 500
        cap = len(draws.essays)
    elif arguments.length < 4096:
        step = 5
    size = state.size(draws.draw, step, " ".join, cap=cap, past=True)
    for row in state.rows(draws.draw, size, step, PREFIX):
        if arguments.edition.bisects:  # upstream reuses the name of the row's index
            yield replace(row, index=row.input.find(row.outputs[0]))
        else:
            yield row


def singular(template: str) -> str:
    """Return the template for one value; as upstream does, also within a chat template."""
    pairs = (("Some", "A"), ("are all", "is"), ("are", "is"), ("answers", "answer"))
    for many, word in pairs:
        template = template.replace(many, word)
    return template


class _Rows:
    def __init__(self, state: State, sources: UpstreamSources) -> None:
        params = state.arguments.task.params
        assert isinstance(params, Niah)
        self._state = state
        self._params = params
        self._words: Sequence[str] = sources.needle_words
        self.essays: EssaySentences | None = None
        if params.haystack == "essays":
            self.essays = sources.essays
        self._template = state.arguments.prompt(TEMPLATE, PREFIX)
        self._kind: str = params.value_type
        if params.queries * params.values == 1:
            self._template = singular(self._template)
            self._kind = self._kind[:-1]

    def draw(self, size: int, _index: int = 0) -> Draft:
        """Draw a row with a haystack of so many lines, or words of essays."""
        params = self._params
        state = self._state
        keys = []
        values = []
        needles = []
        for _ in range(params.keys):
            keys.append(self._part(params.key_type))
            values.append([self._part(params.value_type) for _ in range(params.values)])
            needles += [self._needle(keys[-1], value) for value in values[-1]]
        needles = state.shuffled(needles)
        if self.essays is not None:
            context = self._among_sentences(self.essays, needles, size)
        else:
            context = self._among_lines(needles, size)
        places = state.random.sample(range(params.keys), params.queries)
        *queries, query = [keys[place] for place in places]
        if queries:
            query = f"{', '.join(queries)}, and {query}"
        prompt = self._template.format(type_needle_v=self._kind, context=context, query=query)
        outputs = [value for place in places for value in values[place]]
        evidence = [self._needle(keys[place], value) for place in places for value in values[place]]
        return Draft(prompt, outputs, evidence)

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
        params = self._params
        lines = [NOISE] * size
        if params.haystack != "noise":
            lines = [
                self._needle(self._part(params.key_type), self._part(params.value_type))
                for _ in range(size)
            ]
        places = sorted(self._state.random.sample(range(size), len(needles)), reverse=True)
        for place, needle in zip(places, needles, strict=True):
            lines.insert(place, needle)
        return "\n".join(lines)

    def _among_sentences(self, essays: EssaySentences, needles: list[str], size: int) -> str:
        """Return the sentences of the first words, the needles at drawn depths between them."""
        sentences = essays.first(size, repeat=self._state.arguments.edition.bisects)
        depths = self._state.random.sample(DEPTHS, len(needles))
        places = sorted(int(len(sentences) * (depth / 100)) for depth in depths)
        pieces = []
        last = 0
        for place, needle in zip(places, needles, strict=True):
            pieces += [" ".join(sentences[last:place]), needle]
            last = place
        return " ".join([*pieces, " ".join(sentences[last:])])
