"""Why a row lost points: the failure modes of the paper's section 5, from the text alone.

A row that scores below 1 gets the first kind that fits; the tests go from certain to likely. No
kind says more than the text shows: `not in the context` is parametric knowledge or a
hallucination, and only a run without context can tell which.
"""

import re
from collections.abc import Callable

from ruler_data.row import Row
from ruler_data.tasks import Niah, Task
from ruler_eval.metrics import VALUES, claim_of
from ruler_report.strict import contains_cased

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

#: The meaning of every kind, in the order in which a report lists them.
MEANINGS: dict[str, str] = {
    EMPTY: "the answer is empty",
    REFUSAL: "the model declines or says that the answer is not there",
    COPIED: "at least half of what the answer names is in the answer of the in-context example",
    FALSE_NONE: "says that there is no answer, although there is one",
    VERBATIM: "40 characters or more of the context, word for word",
    NEARBY: "the value of another needle, at most five needles from the one asked for",
    WRONG_NEEDLE: "the value of another needle",
    CUT: "the first half or more of a gold answer, but not all of it",
    INCOMPLETE: "some of the gold answers and nothing wrong",
    OTHER_CHAIN: "variables that hold another value",
    MISCOUNTED: "words of the context that are not among the most frequent",
    PARAMETRIC: "the same answer as the run without context gave",
    ABSENT: "what the answer names is not in the context",
    OTHER_DOCUMENT: "the answer is in the context, in a document that is not a gold document",
    GOLD_DOCUMENT: "the answer is in a gold document, and is not the one asked for",
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
#: Words of an answer that name nothing in the context.
_FILLER = frozenset(
    {"the", "a", "an", "and", "or", "of", "in", "are", "is", "was", "were", "that", "to", "these",
     "they", "here", "i", "top", "most", "common", "frequent", "frequently", "appeared",
     "following", "above", "words", "word", "coded", "list", "text", "ten", "three", "variables",
     "variable", "var", "value", "assigned", "answer"}
)  # fmt: skip
_NEAR = 5  # needles
_COPY = 40  # characters


def failure_of(row: Row, task: Task, answer: str, score: float, bare: str | None) -> str:
    """Return the kind of failure of a row that scores below 1.

    Args:
        row: the question, its context and gold answers.
        task: of the row.
        answer: the text that was scored.
        score: of the row, in [0, 1).
        bare: the answer of the same model without the context; None if that is unknown.
    """
    if not answer:
        return EMPTY
    niah = task.params if isinstance(task.params, Niah) else None
    if niah and niah.none == "possible" and claim_of(row, niah, answer) == "none":
        return FALSE_NONE
    if score == 0 and _REFUSAL.search(answer):
        return REFUSAL
    if bare is not None and score == 0 and _same_words(answer, bare):
        return PARAMETRIC
    if niah and niah.none == "true" and claim_of(row, niah, answer) == "value":
        return WRONG_NEEDLE if _names_needle(row, niah, answer) else ABSENT
    return BY_FAMILY[task.params.family](row, answer, score)


def _names_needle(row: Row, params: Niah, answer: str) -> bool:
    """Whether an answer names a value that is in the context and not in the question."""
    context, question = row.context.lower(), row.question.lower()
    named = VALUES[params.value_type].findall(answer.lower())
    return any(value in context for value in named if value not in question)


def _niah(row: Row, answer: str, score: float) -> str:
    lower = answer.lower()
    gold = {output.lower() for output in row.outputs}
    others = (value for value in _values(lower, row.outputs[0]) if value not in gold)
    places = (row.context.find(value) for value in others if value not in row.question)
    wrong = [place for place in places if place >= 0]
    if wrong:
        return NEARBY if any(_is_near(row, place) for place in wrong) else WRONG_NEEDLE
    if score > 0:
        return INCOMPLETE
    halves = [output[: (len(output) + 1) // 2] for output in gold - {"none"}]
    return CUT if any(half in lower for half in halves) else _copied(row, answer)


def _values(answer: str, like: str) -> list[str]:
    """Return what an answer names that looks like a gold answer."""
    pattern = next((one for one in VALUES.values() if one.fullmatch(like.lower())), None)
    return pattern.findall(answer) if pattern else []


def _is_near(row: Row, place: int) -> bool:
    """Whether a needle is within five of a gold one, in a haystack of needles."""
    if row.context.count(_NEEDLE) <= 4 * _NEAR:  # among a few needles, every one is near
        return False
    return any(
        row.context.count(_NEEDLE, *sorted((place, span.start))) <= _NEAR for span in row.evidence
    )


def _vt(row: Row, answer: str, score: float) -> str:
    named = set(_CODE.findall(answer)) - {"VAR"}
    wrong = named - set(row.outputs)
    example, question = _split_example(row.context)
    if _is_half(wrong & set(_CODE.findall(_example_answer(example))), named):
        return COPIED
    if any(contains_cased(question, name) for name in wrong):
        return OTHER_CHAIN
    if score > 0:
        return INCOMPLETE
    return ABSENT if named else _copied(row, answer)


def _cwe(row: Row, answer: str, score: float) -> str:
    example, _ = _split_example(row.context)
    wrong = _words(answer) - {output.lower() for output in row.outputs}
    if _is_half(wrong & _words(_example_answer(example)), _words(answer)):
        return COPIED
    return _fwe(row, answer, score)


def _fwe(row: Row, answer: str, score: float) -> str:
    wrong = _words(answer) - {output.lower() for output in row.outputs}
    if not wrong and score > 0:
        return INCOMPLETE
    context = row.context.lower()
    in_context = {word for word in wrong if contains_cased(context, word)}
    if _is_half(in_context, wrong):
        return MISCOUNTED
    return ABSENT if _words(answer) else OTHER


def _qa(row: Row, answer: str, _score: float) -> str:
    line = answer.splitlines()[0].strip(" .").lower()
    if not line or line not in row.context.lower():
        return ABSENT if len(line) < _COPY else _copied(row, answer)
    gold = (row.context[span.start : span.end].lower() for span in row.evidence)
    return GOLD_DOCUMENT if any(line in text for text in gold) else OTHER_DOCUMENT


def _copied(row: Row, answer: str) -> str:
    return VERBATIM if len(answer) >= _COPY and answer[:_COPY] in row.context else OTHER


#: Families whose contexts open with an in-context example.
EXAMPLE_FAMILIES = ("vt", "cwe")


def example_end(context: str) -> int:
    r"""Return the character at which the in-context example ends; 0 if there is none.

    The instruction, a context's first line, is repeated there. Without an example the whole
    context is searched, so call this for `EXAMPLE_FAMILIES` only.

    >>> example_end("Track it.\nVAR A = 1\nAnswer: A\n\nTrack it.\nVAR B = 2\n")
    31
    """
    instruction = context[: context.find("\n")] if "\n" in context else ""
    return max(0, context.find(instruction, 1)) if instruction else 0


def _split_example(context: str) -> tuple[str, str]:
    """Return the in-context example and what follows it."""
    end = example_end(context)
    return context[:end], context[end:]


def _example_answer(example: str) -> str:
    return example.rsplit(":", 1)[-1]


def _is_half(part: set[str], whole: set[str]) -> bool:
    return bool(part) and 2 * len(part) >= len(whole)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower())) - _FILLER


def _same_words(answer: str, other: str) -> bool:
    return _WORD.findall(answer.lower()) == _WORD.findall(other.lower())


BY_FAMILY: dict[str, Callable[[Row, str, float], str]] = {
    "niah": _niah,
    "vt": _vt,
    "cwe": _cwe,
    "fwe": _fwe,
    "qa": _qa,
}
