"""The official score of one answer: a number in [0, 1].

    answer                           gold answers       metric    score
    "They are QZKRA and plmew."      QZKRA PLMEW        recall    1.0
    "In Paris, France."              paris lutetia      any_of    1.0

`recall` and `any_of` are upstream's `string_match_all` and `string_match_part` for one row
(NVIDIA/RULER, scripts/eval/synthetic/constants.py at c3f5e3b); `clean` is its
`postprocess_pred`. The scores of RULER v2 are in `metrics_ruler2`, and those of
`exact` are reported beside these.

One thing is not upstream's: the suite `no_needle` asks questions that may have no answer
(`claim_of`). Reasoning is taken out before an answer comes here (`ruler_eval.answers`).
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Literal

from ruler_data.row import Row
from ruler_data.tasks import Metric, Niah, PartType, Task
from ruler_eval.metrics_ruler2 import letter, soft_all, soft_last, soft_part

#: (answer, gold answers) -> score in [0, 1].
Scorer = Callable[[str, Sequence[str]], float]

_CONTROL = re.compile(r"[\x00-\x1f]")


def clean(text: str) -> str:
    r"""Return a generated text as upstream scores it: control characters as newlines, stripped.

    >>> clean(" a\tb\x00 ")
    'a\nb'
    """
    return _CONTROL.sub("\n", text.strip()).strip()


def recall(answer: str, outputs: Sequence[str]) -> float:
    """Return the share of the gold answers that the answer names (niah, vt, cwe, fwe).

    Case is ignored, order and repetition do not matter, an empty answer scores 0.

    >>> recall("They are QZKRA and plmew.", ["QZKRA", "PLMEW", "TUVXO", "ABCDE"])
    0.5
    """
    lower = answer.lower()
    return sum(output.lower() in lower for output in outputs) / len(outputs)


def any_of(answer: str, outputs: Sequence[str]) -> float:
    """Return 1 if the answer names any gold answer, else 0 (qa).

    >>> any_of("In Paris, France.", ["paris", "the city of Paris"])
    1.0
    """
    lower = answer.lower()
    return float(any(output.lower() in lower for output in outputs))


#: The official scorers; `Task.metric` names one.
SCORERS: Mapping[Metric, Scorer] = {
    "all": recall,
    "part": any_of,
    "soft_all": soft_all,
    "soft_part": soft_part,
    "soft_last": soft_last,
    "letter": letter,
}
#: Metrics that read a text after `clean`; those of RULER v2 read it as generated.
CLEANED: frozenset[Metric] = frozenset({"all", "part"})


def gold_text(row: Row) -> str:
    """Return a text that scores 1: the gold answers, in a box if the instruction asks for one."""
    text = ", ".join(row.outputs)
    return f"\\boxed{{{text}}}" if "\\boxed" in row.context[:INSTRUCTION] else text


#: Characters of a context in which an instruction asks for a box.
INSTRUCTION = 300


def score_row(
    row: Row, task: Task, answer: str, scorers: Mapping[Metric, Scorer] = SCORERS
) -> float:
    """Return the score of an answer to a row, in [0, 1].

    A question that may have no answer scores 0 if the answer claims what is not so: a value
    where the needle is absent, or `none` where it is present.

    Args:
        row: the question and its gold answers.
        task: of the row.
        answer: the text to score (`ruler_eval.answers.scored_text`).
        scorers: by metric.
    """
    score = scorers[task.metric](answer, row.outputs)
    if not isinstance(task.params, Niah) or task.params.none == "no":
        return score
    right = "none" if task.params.none == "true" else "value"
    return score if claim_of(row, task.params, answer) == right else 0.0


_NONE = re.compile(r"(?<![\w-])none(?![\w-])")
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


@cache
def value_pattern(kind: PartType, digits: int) -> re.Pattern[str]:
    """Return what a needle's value looks like; words are two or more joined by hyphens.

    >>> bool(value_pattern("numbers", 7).search("it is 1234567."))
    True
    """
    forms = {"uuids": _UUID, "numbers": rf"(?<!\d)\d{{{digits}}}(?!\d)", "words": r"[a-z]+-[a-z-]+"}
    return re.compile(forms[kind])


def claim_of(row: Row, params: Niah, answer: str) -> Literal["none", "value"] | None:
    """Return what an answer claims first: that there is no value, or a value; None if neither.

        answer                  score if the needle is present    if it is absent
        "1234567"                            1                           0
        "none."                              0                           1
        "none, or 1234567"                   0                           1
        "1234567, or none"                   1                           0

    The first claim decides. A model that always says none, never does, or always says both
    scores 50 % at most over a suite in which half of the needles are absent.
    """
    lower = answer.lower()
    none = _NONE.search(lower)
    value = min(_value_starts(row, params, lower), default=len(lower))
    if none and none.start() < value:
        return "none"
    return "value" if value < len(lower) else None


def _value_starts(row: Row, params: Niah, answer: str) -> Iterator[int]:
    """Yield where an answer in lower case names a gold value, or what looks like a value."""
    for output in row.outputs:
        if output != "none" and output.lower() in answer:
            yield answer.find(output.lower())
    for match in value_pattern(params.value_type, params.digits).finditer(answer):
        plain_word = params.value_type == "words" and match[0] not in row.context.lower()
        if match[0] not in row.question.lower() and not plain_word:
            yield match.start()
