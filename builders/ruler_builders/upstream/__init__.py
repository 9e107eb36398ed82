"""Editions of upstream: the rows that NVIDIA/RULER's own scripts write, byte for byte.

The balanced rows of `ruler_builders.tasks` are drawn one by one, each from its own name. Upstream's
are not: they come from one stream of random numbers a run (`state`), so this package makes all rows
of a config in order, and counts tokens at every step. One module holds what each of upstream's
scripts does; `edition` says what changed between commits. No code of upstream is in it.

    from ruler_builders.upstream import Arguments, UpstreamSources, edition_of, replay

    arguments = Arguments(edition_of("upstream-2026-07"), TASKS["vt"], length=4096, rows=500)
    for row in replay(arguments, UpstreamSources(folder, words), count):
        ...

`count(text)` is the number of tokens as `text_to_tokens` of upstream's tokenizer.py has it: special
tokens that the text spells recognized, none added, no BOS. That is `Tokenizer.count` of this
project for Hugging Face's and SentencePiece's; OpenAI's and Gemini's count likewise.
"""

from collections.abc import Callable, Iterator

from ruler_builders.upstream import cwe, fwe, niah, qa, vt
from ruler_builders.upstream.edition import EDITIONS, TEMPLATES, Edition, edition_of, model_template
from ruler_builders.upstream.sources import UpstreamSources
from ruler_builders.upstream.state import Arguments, State, UpstreamRow
from ruler_data.errors import RulerError
from ruler_data.tasks import Cwe, Fwe, Niah, Qa, Vt

__all__ = [
    "EDITIONS",
    "TEMPLATES",
    "Arguments",
    "Edition",
    "UpstreamRow",
    "UpstreamSources",
    "edition_of",
    "model_template",
    "replay",
]


#: The module of each family's script.
SCRIPTS = {Niah: niah, Vt: vt, Cwe: cwe, Fwe: fwe, Qa: qa}


def replay(
    arguments: Arguments, sources: UpstreamSources, count: Callable[[str], int]
) -> Iterator[UpstreamRow]:
    """Yield the rows that upstream's script writes when it is started with these arguments.

    Raises:
        RulerError: upstream would not finish a row, or ends with an error; or a source is missing.
    """
    script = SCRIPTS[type(arguments.task.params)]
    try:
        yield from script.replay(State(arguments, count), sources)
    except (ValueError, IndexError) as error:
        problem = f"{arguments.edition.name} ends with an error before its first row"
        raise RulerError(arguments.config, problem, error) from error
