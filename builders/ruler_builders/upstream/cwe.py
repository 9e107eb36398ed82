"""Common words, as upstream draws them (`common_words_extraction.py`).

Known defects, kept: lists of one length are all shuffled to the same order, so that the same
positions hold the common words in every row; a list that needs more words than there are is all of
them (until 2025-05) or taken from english_words.json (since).
"""

from collections.abc import Iterator, Sequence

from ruler_builders import prompts
from ruler_builders.upstream.state import Draft, State, UpstreamRow, texts
from ruler_data.errors import RulerError
from ruler_data.tasks import Cwe

TEMPLATE, PREFIX = texts(prompts.cwe(Cwe()))

STEP = 10
#: Words of the first probe of the bisection.
FIRST_PROBE = 4096


def replay(
    state: State, words: Sequence[str], english: Sequence[str] | None
) -> Iterator[UpstreamRow]:
    """Yield the rows of a task.

    `words` are those of wonderwords, each once, sorted; `english` the values of english_words.json,
    None where the file is not available.
    """
    limit, draws = state.arguments.limit, _Rows(state, words, english)
    size = state.size(
        draws.draw,
        STEP,
        lambda outputs: " " + _numbered(outputs),
        cap=len(words),
        probe=FIRST_PROBE,
        estimate=lambda each: int(limit // each) * 2,
    )
    for index, draft, length in state.rows(lambda _, used: draws.draw(used), size, STEP):
        yield state.finish(index, draft, length, PREFIX)


class _Rows:
    def __init__(self, state: State, words: Sequence[str], english: Sequence[str] | None) -> None:
        params = state.arguments.task.params
        assert isinstance(params, Cwe)
        self._state, self._params, self._english = state, params, english
        self._words = state.shuffled(words)
        self._template = state.arguments.template.format(task_template=TEMPLATE) + PREFIX
        self._repeats = params.common_repeats, params.other_repeats
        self._example = 40, 10, 3
        if state.arguments.length < 4096:
            self._repeats, self._example = (6, 1), (20, 3, 1)

    def draw(self, size: int) -> Draft:
        """Draw a row: a solved example, then a list of so many words."""
        example, answers = self._list(*self._example)
        context, outputs = self._list(size, *self._repeats)
        space = " " if self._state.arguments.edition.bisects else ""
        solved = self._template.format(context=example) + space + _numbered(answers)
        return Draft(solved + "\n" + self._template.format(context=context), outputs, outputs)

    def _list(self, size: int, common_repeats: int, other_repeats: int) -> tuple[str, list[str]]:
        """Draw a numbered list, and its common words."""
        drawn = self._state.random.sample(self._population(size), size)
        common, others = drawn[: self._params.common], drawn[self._params.common :]
        listed = self._state.shuffled(common * common_repeats + others * other_repeats)
        return _numbered(listed), common

    def _population(self, size: int) -> Sequence[str]:
        arguments = self._state.arguments
        if size <= len(self._words) or not arguments.edition.bisects:
            return self._words
        if self._english is None:
            msg = (
                f"{arguments.task.name}_{arguments.length}: {arguments.edition.name} needs "
                f"{size} words here, wonderwords has {len(self._words)}: put upstream's "
                "english_words.json (git-lfs, 8,564,991 bytes) into the sources folder"
            )
            raise RulerError(msg)
        return self._english


def _numbered(words: Sequence[str]) -> str:
    return " ".join([f"{number}. {word}" for number, word in enumerate(words, 1)])
