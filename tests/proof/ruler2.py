"""The prompts of RULER v2, taken apart; shares nothing with their generator."""

from collections import Counter
from collections.abc import Iterator

from ruler_builders import prompts as prompts
from ruler_builders.checks.ruler2_rows import EXAMPLE, labelled_texts, query_of
from ruler_builders.prompts import Example, PromptTemplate
from ruler_data.row import Row
from ruler_data.tasks import Ruler2


def template(params: Ruler2, row: Row) -> PromptTemplate:
    """Return the fixed text of a row's prompt, with what its question is about."""
    examples = [Example(*found) for found in EXAMPLE.findall(row.question)]
    return prompts.ruler2(params, *query_of(params, row), examples)


def parameter_findings(params: Ruler2, row: Row) -> Iterator[str]:
    """Yield where a row's prompt is not of its task."""
    texts = labelled_texts(row.context)
    often = Counter(one.label for one in texts)
    several = sum(count < params.copies for count in often.values())
    if max(often.values()) > params.copies or several > _INCOMPLETE * (params.copies > 1):
        yield f"labels are shared by up to {max(often.values())} texts, the task's {params.copies}"
    solved = params.kind == "mk_niah" and params.level in ("medium", "hard")
    examples = EXAMPLE.findall(row.question)
    if len(examples) != _EXAMPLES * solved:
        yield f"{len(examples)} examples, the task has {_EXAMPLES * solved}"
    held = {(one.label, one.text) for one in texts}
    for number, text, _ in examples:
        if (text and (number, text) not in held) or often[number] != 1:
            yield f"the example {number} is no question of the context"


_EXAMPLES = 5
#: Most labels that the last texts of a haystack leave incomplete.
_INCOMPLETE = 1
