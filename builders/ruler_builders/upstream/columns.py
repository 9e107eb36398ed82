"""Upstream's rows in the columns of the dataset.

    context + question + answer_prefix == input + answer_prefix of upstream

Upstream's template is cut behind the haystack. A chat template that is part of its prompt goes with
the context (what it opens with) and with the question (what it closes the user's turn with).
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from ruler_builders.upstream import cwe, fwe, niah, qa, vt
from ruler_builders.upstream.state import UpstreamRow
from ruler_data.row import Span
from ruler_data.tasks import Cwe, Fwe, Niah, Params, Qa, Vt

_SCRIPTS = {Niah: niah, Vt: vt, Cwe: cwe, Fwe: fwe, Qa: qa}
_NUMBERED = re.compile(r"(?<=[ \n])([0-9]+)\. (.+?)(?= [0-9]+\. |\n)")


class Columns(NamedTuple):
    """The parts of a prompt, and where its evidence stands in the context."""

    context: str
    question: str
    answer_prefix: str
    evidence: list[Span]


def columns(row: UpstreamRow, params: Params) -> Columns:
    """Return the columns of a row.

    Args:
        row: of any edition.
        params: of its task.
    """
    script = _SCRIPTS[type(params)]
    prompt = row.input + row.answer_prefix
    prefix = prompt.rfind(script.PREFIX[:10])
    # What follows the haystack; its first word is the same whatever is asked.
    tail = script.TEMPLATE.split("{context}")[1]
    mark = tail[: tail.index(" ")]
    start = prompt.rfind(mark, 0, prefix) + len(mark) - len(mark.lstrip("\n"))
    context = prompt[:start]
    evidence = sorted(_evidence(row, params, context))
    return Columns(context, prompt[start:prefix], prompt[prefix:], evidence)


def _evidence(row: UpstreamRow, params: Params, context: str) -> Iterator[Span]:
    if isinstance(params, Cwe):
        common = set(row.evidence)
        for match in _NUMBERED.finditer(context, context.rfind("\n1. ")):
            if match[2] in common:
                yield Span(*match.span(2))
        return
    before, after = (":\n", "\n\n") if isinstance(params, Qa) else ("", "")
    for text in dict.fromkeys(row.evidence):
        place = context.find(before + text + after)
        while place >= 0:
            start = place + len(before)
            yield Span(start, start + len(text))
            place = context.find(before + text + after, start + len(text))
