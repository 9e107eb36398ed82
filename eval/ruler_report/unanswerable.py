"""Questions that may have no answer, where `none` is one: what an answer claims first, counts.

                      needle is there     it is not
"1234567"                 score               0
"none."                     0                 1
"none, or 1234567"          0                 1       and so no hedge earns both
"1234567, or none"        score               0

So whoever always says none, never does, or always says both, scores 50 at the best over a suite
that asks as often for what is there as for what is not.
"""

import re
from collections.abc import Iterator
from typing import Literal

from ruler_data.row import Row
from ruler_report.task_info import Kind

Claim = Literal["none", "value"]

_NONE = re.compile(r"(?<![\w-])none(?![\w-])")
#: Values of needles by their type; words are any with a hyphen.
SHAPES = {
    "uuids": re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    "numbers": re.compile(r"(?<!\d)\d{7}(?!\d)"),
    "words": re.compile(r"[a-z]+-[a-z-]+"),
}


def weighed(row: Row, kind: Kind, said: str, score: float) -> float:
    """Return the score of a row, 0 where the answer claims what is not so.

    Args:
        row: what was asked.
        kind: of its config; of a task that always has an answer, the score is as it is.
        said: the prediction, as it is scored.
        score: of the golden answers alone.
    """
    allowed = kind.params.get("none", "no")
    if allowed == "no":
        return score
    right: Claim = "none" if allowed == "true" else "value"
    return score if claim_of(row, kind, said) == right else 0.0


def claim_of(row: Row, kind: Kind, said: str) -> Claim | None:
    """Return what an answer claims first: that there is none, or a value; None if neither."""
    lower = said.lower()
    none = _NONE.search(lower)
    value = min(_values(row, str(kind.params.get("value_type")), lower), default=len(lower))
    if none and none.start() < value:
        return "none"
    return "value" if value < len(lower) else None


def names_a_needle(row: Row, kind: Kind, said: str) -> bool:
    """Whether an answer names a value that stands in the context, and not one of nobody's."""
    lower, context = said.lower(), row.context.lower()
    named = SHAPES[str(kind.params["value_type"])].findall(lower)
    return any(value in context for value in named if value not in row.question.lower())


def _values(row: Row, value_type: str, said: str) -> Iterator[int]:
    """Yield where an answer names a value: a golden one, or what looks like one."""
    for output in row.outputs:
        if output != "none" and output.lower() in said:
            yield said.find(output.lower())
    shape = SHAPES.get(value_type)
    for match in shape.finditer(said) if shape else ():
        plain_word = value_type == "words" and match[0] not in row.context.lower()
        if match[0] not in row.question.lower() and not plain_word:
            yield match.start()
