"""Why a row lost points: the failure modes of the paper's section 5, told from the text alone.

A row that scores below 1 gets the first kind of its family's list that fits; the lists go from
what is certain to what is likely. No kind says more than the text shows: `not in the context`
is parametric knowledge or a hallucination, and only a run without context can tell which.

Where a context stops being the in-context example and begins to be what is asked.
"""

import re
from collections.abc import Callable, Collection

from ruler_data.row import Row
from ruler_eval.metrics import stands_whole
from ruler_report.task_info import Family, Kind
from ruler_report.unanswerable import SHAPES, claim_of, names_a_needle

EMPTY = "empty"
REFUSAL = "refusal"
COPIED = "copied from the example"
VERBATIM = "copied from the context"
FALSE_NONE = "none, though it is there"
NEARBY = "wrong needle, nearby"
WRONG_NEEDLE = "wrong needle"
CUT = "answer cut short"
INCOMPLETE = "incomplete set"
OTHER_CHAIN = "other variables"
MISCOUNTED = "miscounted"
PARAMETRIC = "as without context"
ABSENT = "not in the context"
OTHER_DOCUMENT = "from another document"
GOLD_DOCUMENT = "wrong part of the gold document"
OTHER = "other"

#: Every kind, with what it means, in the order in which a report lists them.
MEANINGS: dict[str, str] = {
    EMPTY: "nothing was said",
    REFUSAL: "the model declines or says that the answer is not there",
    COPIED: "at least half of what is named stands in the in-context example's answer",
    FALSE_NONE: "says that there is no answer, and there is one",
    VERBATIM: "40 characters or more of the context, word for word",
    NEARBY: "the value of another needle, at most five needles from the one asked for",
    WRONG_NEEDLE: "the value of another needle",
    CUT: "the first half or more of a golden answer, but not all of it",
    INCOMPLETE: "some golden answers, and nothing wrong beside them",
    OTHER_CHAIN: "variables that hold another value",
    MISCOUNTED: "words of the context that are not among the most frequent",
    PARAMETRIC: "the same answer as the run without context gave",
    ABSENT: "what is named does not occur in the context",
    OTHER_DOCUMENT: "the answer stands in the context, in a document that is not golden",
    GOLD_DOCUMENT: "the answer stands in a golden document, and is not the one asked for",
    OTHER: "none of these",
}

_NEEDLE = "special magic"
_REFUSAL = re.compile(
    r"\b(i(?:'m| am) (?:sorry|unable)|i (?:cannot|can't|could not|do not (?:know|have))|as an ai"
    r"|(?:is|are|was|were) (?:not|no(?:where)?) (?:mentioned|provided|given|found|specified|stated)"
    r"|there (?:is|are) no\b|no (?:information|mention|answer)|unanswerable|cannot be determined)",
    re.IGNORECASE,
)
_CODE = re.compile(r"\b[A-Z]{3,6}\b")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
#: Words that answers are wrapped in, which say nothing of the context.
_FILLER = frozenset(
    {"the", "a", "an", "and", "or", "of", "in", "are", "is", "was", "were", "that", "to", "these",
     "they", "here", "i", "top", "most", "common", "frequent", "frequently", "appeared",
     "following", "above", "words", "word", "coded", "list", "text", "ten", "three", "variables",
     "variable", "var", "value", "assigned", "answer"}
)  # fmt: skip
_NEAR = 5  # needles
_COPY = 40  # characters


def failure_of(row: Row, kind: Kind, said: str, score: float, without: str | None) -> str:
    """Return the kind of failure of a row that scores below 1.

    Args:
        row: what was asked.
        kind: of its config.
        said: the prediction, as it is scored.
        score: of the row, in [0, 1).
        without: what the same model said without the context; None if that is not known.
    """
    if not said:
        return EMPTY
    if kind.params.get("none") == "possible" and claim_of(row, kind, said) == "none":
        return FALSE_NONE
    if score == 0 and _REFUSAL.search(said):
        return REFUSAL
    if without is not None and score == 0 and _same(said, without):
        return PARAMETRIC
    if kind.params.get("none") == "true" and claim_of(row, kind, said) == "value":
        return WRONG_NEEDLE if names_a_needle(row, kind, said) else ABSENT
    return _BY_FAMILY[kind.family](row, said, score)


def _niah(row: Row, said: str, score: float) -> str:
    lower = said.lower()
    golden = {output.lower() for output in row.outputs}
    others = (value for value in _values(lower, row.outputs[0]) if value not in golden)
    places = (row.context.find(value) for value in others if value not in row.question)
    wrong = [place for place in places if place >= 0]
    if wrong:
        return NEARBY if any(_is_near(row, place) for place in wrong) else WRONG_NEEDLE
    if score > 0:
        return INCOMPLETE
    halves = [output[: (len(output) + 1) // 2] for output in golden - {"none"}]
    return CUT if any(half in lower for half in halves) else _copied(row, said)


def _values(said: str, like: str) -> list[str]:
    """Return what a prediction names that is shaped like a golden answer."""
    shape = next((shape for shape in SHAPES.values() if shape.fullmatch(like.lower())), None)
    return shape.findall(said) if shape else []


def _is_near(row: Row, place: int) -> bool:
    """Whether a needle stands within five of a golden one, in a haystack of needles."""
    if row.context.count(_NEEDLE) <= 4 * _NEAR:  # among a few, every one is near
        return False
    return any(
        row.context.count(_NEEDLE, *sorted((place, span.start))) <= _NEAR for span in row.evidence
    )


def _vt(row: Row, said: str, score: float) -> str:
    named = set(_CODE.findall(said)) - {"VAR"}
    example, asked = _split_example(row.context)
    wrong = named - set(row.outputs)
    if _half(wrong, set(_CODE.findall(example.rsplit(":", 1)[-1])), named):
        return COPIED
    if any(stands_whole(asked, name) for name in wrong):
        return OTHER_CHAIN
    if score > 0:
        return INCOMPLETE
    return ABSENT if named else _copied(row, said)


def _cwe(row: Row, said: str, score: float) -> str:
    named = _words(said)
    example, _ = _split_example(row.context)
    wrong = named - {output.lower() for output in row.outputs}
    if _half(wrong, _words(example.rsplit(":", 1)[-1]), named):
        return COPIED
    return _counted(row, wrong, named, score)


def _fwe(row: Row, said: str, score: float) -> str:
    named = _words(said)
    wrong = named - {output.lower() for output in row.outputs}
    return _counted(row, wrong, named, score)


def _counted(row: Row, wrong: set[str], named: set[str], score: float) -> str:
    if not wrong and score > 0:
        return INCOMPLETE
    context = row.context.lower()
    there = sum(stands_whole(context, word) for word in wrong)
    if there and 2 * there >= len(wrong):
        return MISCOUNTED
    return ABSENT if named else OTHER


def _qa(row: Row, said: str, _score: float) -> str:
    answer = said.splitlines()[0].strip(" .").lower()
    if not answer or answer not in row.context.lower():
        return ABSENT if len(answer) < _COPY else _copied(row, said)
    gold = (row.context[span.start : span.end].lower() for span in row.evidence)
    return GOLD_DOCUMENT if any(answer in text for text in gold) else OTHER_DOCUMENT


def _copied(row: Row, said: str) -> str:
    return VERBATIM if len(said) >= _COPY and said[:_COPY] in row.context else OTHER


def _split_example(context: str) -> tuple[str, str]:
    """Return the in-context example and what follows it."""
    start = asked_from(context)
    return context[:start], context[start:]


def _half(wrong: set[str], example: set[str], named: Collection[str]) -> bool:
    return bool(named) and 2 * len(wrong & example) >= len(named)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower())) - _FILLER


def _same(said: str, other: str) -> bool:
    return _WORD.findall(said.lower()) == _WORD.findall(other.lower())


_BY_FAMILY: dict[Family, Callable[[Row, str, float], str]] = {
    "niah": _niah, "vt": _vt, "cwe": _cwe, "fwe": _fwe, "qa": _qa,
}  # fmt: skip


#: Families whose contexts open with an example in the form of the task.
WITH_EXAMPLE: tuple[Family, ...] = ("vt", "cwe")


def asked_from(context: str) -> int:
    r"""Return the character at which the question's own part of a context begins.

    With an example the instruction stands twice; without one the whole context is searched to
    find out, so ask only for families that have one.

    >>> asked_from("Track it.\nVAR A = 1\nAnswer: A\n\nTrack it.\nVAR B = 2\n")
    31
    """
    opening = context[: context.find("\n")] if "\n" in context else ""
    return max(0, context.find(opening, 1)) if opening else 0
