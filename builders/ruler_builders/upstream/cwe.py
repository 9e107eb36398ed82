"""Common words, as upstream draws them (`common_words_extraction.py`).

Known defects, kept: lists of one length are all shuffled to the same order, so that the same
positions hold the common words in every row; a list that needs more words than there are is all of
them (until 2025-05) or taken from english_words.json (since).
"""

from collections.abc import Iterator, Sequence

from ruler_builders import prompts
from ruler_builders.upstream.sources import UpstreamSources
from ruler_builders.upstream.state import Draft, State, UpstreamRow, texts
from ruler_data.errors import RulerError
from ruler_data.tasks import Cwe

TEMPLATE, PREFIX = texts(prompts.cwe(Cwe()))

STEP = 10
#: Words of the first probe of the bisection.
FIRST_PROBE = 4096


def replay(state: State, sources: UpstreamSources) -> Iterator[UpstreamRow]:
    """Yield the rows of a task."""
    arguments = state.arguments
    words = state.shuffled(sources.single_words)
    params = arguments.task.params
    bisects = arguments.edition.bisects
    assert isinstance(params, Cwe)
    template = arguments.prompt(TEMPLATE, PREFIX)
    repeats = (params.common_repeats, params.other_repeats)
    example = (40, 10, 3)
    if arguments.length < 4096:
        repeats = (6, 1)
        example = (20, 3, 1)

    def draw_list(size: int, common_repeats: int, other_repeats: int) -> tuple[str, list[str]]:
        """Draw a numbered list, and its common words."""
        population: Sequence[str] | None = words
        if size > len(words) and bisects:
            population = sources.english_words
        if population is None:
            raise RulerError(
                arguments.config,
                f"{arguments.edition.name} needs {size} words here, and "
                f"wonderwords has {len(words)}: put upstream's english_words.json (git-lfs, "
                "8,564,991 bytes) into the sources folder",
            )
        sample = state.random.sample(population, size)
        common = sample[: params.common]
        uncommon = sample[params.common :]
        items = state.shuffled(common * common_repeats + uncommon * other_repeats)
        return _numbered(items), common

    def draw(size: int, _index: int = 0) -> Draft:
        """Draw a row: a solved example, then a list of so many words."""
        example_list, answers = draw_list(*example)
        context, outputs = draw_list(size, *repeats)
        solved = template.format(context=example_list) + " " * bisects + _numbered(answers)
        return Draft(solved + "\n" + template.format(context=context), outputs, outputs)

    size = state.size(
        draw,
        STEP,
        lambda outputs: " " + _numbered(outputs),
        cap=len(words),
        probe=FIRST_PROBE,
        estimate=lambda tokens: int(arguments.limit // tokens) * 2,
    )
    yield from state.rows(draw, size, STEP, PREFIX)


def _numbered(words: Sequence[str]) -> str:
    return " ".join([f"{number}. {word}" for number, word in enumerate(words, 1)])
