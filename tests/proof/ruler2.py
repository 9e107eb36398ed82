"""The prompts of RULER v2, taken apart; shares nothing with their generator."""

import re
from collections import Counter
from collections.abc import Iterator

from ruler_builders import prompts_ruler2 as prompts
from ruler_builders.checks.ruler2_rows import asked, labelled
from ruler_builders.prompts import PromptTemplate
from ruler_builders.prompts_ruler2 import Example
from ruler_data.row import Row
from ruler_data.tasks import Ruler2

_EXAMPLE = re.compile(
    r"Question (\d+) from .*?\n(?:Question \d+: (.*)\n)?Solution: \\boxed\{([A-D])\}\n\n"
)


def template(params: Ruler2, row: Row) -> PromptTemplate:
    """Return the fixed text of a row's prompt, with what its question is about."""
    examples = [
        Example(number, text or "", letter)
        for number, text, letter in _EXAMPLE.findall(row.question)
    ]
    if params.kind == "qa":
        text = row.question.removeprefix("Text: ").rpartition("\nMost relevant document index:")[0]
        query = text if params.level == "basic" else row.question.rpartition("Question: ")[2]
        return prompts.ruler2(params, query.partition("\nIndex of the most")[0])
    return prompts.ruler2(params, *asked(row), examples)


def parameter_findings(params: Ruler2, row: Row) -> Iterator[str]:
    """Yield where a row's prompt is not of its task."""
    texts = labelled(row.context)
    often = Counter(one.label for one in texts)
    several = sum(count < params.copies for count in often.values())
    if max(often.values()) > params.copies or several > _INCOMPLETE * (params.copies > 1):
        yield f"labels are shared by up to {max(often.values())} texts, the task's {params.copies}"
    solved = params.kind == "mk_niah" and params.level in ("medium", "hard")
    examples = _EXAMPLE.findall(row.question)
    if len(examples) != _EXAMPLES * solved:
        yield f"{len(examples)} examples, the task has {_EXAMPLES * solved}"
    held = {(one.label, one.text) for one in texts}
    for number, text, _ in examples:
        if (text and (number, text) not in held) or often[number] != 1:
            yield f"the example {number} is no question of the context"


_EXAMPLES = 5
#: Most labels that the last texts of a haystack leave incomplete.
_INCOMPLETE = 1
