"""Rows of RULER v2, read from their prompts alone: labelled texts, and the questions about them.

Nothing here imports the generators. What only the sources know (which letter is right, which
documents answer a question) is assumed; that it can be found and is unique is checked.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from ruler_builders import prompts
from ruler_data.row import Row
from ruler_data.tasks import Ruler2

_LINE = re.compile(r"(One of the special magic numbers for ([^:\n]+) is: )(\d{10})\.")
_LABEL = re.compile(r"\n\n(Question ([1-9]\d{6}): |Document ([1-9]\d{6}):\n)")
_KEY = re.compile(r" for (.+?) mentioned in the provided text\? ")
_NUMBER = re.compile(r"(?:the (\d\w\w) \(1 indexed\) )?Question (\d+)")
EXAMPLE = re.compile(
    r"Question (\d+) from .*?\n(?:Question \d+: (.*)\n)?Solution: \\boxed\{([A-D])\}\n\n"
)


class LabelledText(NamedTuple):
    """A text of the haystack: with its label, the number or key in the label, and alone."""

    whole: str
    label: str
    text: str


@lru_cache(maxsize=1)  # several checks of a row use it
def labelled_texts(context: str) -> list[LabelledText]:
    """Return the labelled texts of a context, in order; no space ends one."""
    if not context.endswith("\n\n"):
        return [LabelledText(match[0], match[2], match[3]) for match in _LINE.finditer(context)]
    body = context.partition("\n\n")[2].removesuffix("\n\n")
    _, *pieces = _LABEL.split(f"\n\n{body}")
    texts = list[LabelledText]()
    for label, question, document, text in zip(
        pieces[::4], pieces[1::4], pieces[2::4], pieces[3::4], strict=True
    ):
        texts.append(LabelledText((label + text).rstrip(" "), question or document, text))
    return texts


def solve(row: Row) -> tuple[frozenset[str], list[str] | None, str]:
    """Return the answers that the prompt supports, the texts of the evidence, and a complaint."""
    texts = labelled_texts(row.context)
    if row.context.startswith("Below are some documents."):
        return _solve_documents(row, texts)
    label, ordinal = _query(row)
    matches = [text for text in texts if text.label == label]
    evidence = [text.whole for text in matches]
    answers = [text.text for text in matches]
    if not matches or len(set(answers)) != len(answers):
        complaint = f"{len(matches)} texts for {label}, or one occurs twice"
        return frozenset(answers), evidence, complaint
    if "\\boxed" in row.context.partition("\n\n")[0]:
        letters = frozenset(row.outputs) & frozenset("ABCD")
        complaint = ""
        if len(matches) > 1:
            complaint = "several questions to solve"
        return letters, evidence, complaint
    if ordinal:
        place = prompts.PLACES.index(ordinal)
        return frozenset(answers[place : place + 1]), evidence, ""
    return frozenset(answers), evidence, ""


def _query(row: Row) -> tuple[str, str]:
    """Return the key or number that the question is about, and the ordinal, if it has one."""
    if key := _KEY.search(row.question):
        return key[1], ""
    queried = _NUMBER.findall(row.question.rpartition("\n\n")[2]) or [("", "")]
    return queried[-1][1], queried[-1][0]


def _solve_documents(
    row: Row, texts: list[LabelledText]
) -> tuple[frozenset[str], list[str] | None, str]:
    if row.question.startswith("Text: "):
        return _copied_document(row, texts)
    evidence = {row.context[span.start : span.end] for span in row.evidence}
    gold = [text for text in texts if text.whole in evidence]
    if len(gold) != _GOLD:
        return frozenset(), None, f"{len(gold)} gold documents"
    if "Index of the most relevant document" in row.question:
        return frozenset(text.label for text in gold), None, ""
    if row.outputs in (("yes",), ("no",)):
        return frozenset(row.outputs), None, ""
    distractors = [text for text in texts if text.whole not in evidence]
    if stray := _answers_in(distractors, row):
        return frozenset(row.outputs), None, f"{stray[0]!r} stands in another document"
    return frozenset(_answers_in(gold, row)), None, ""


def _copied_document(row: Row, texts: list[LabelledText]) -> tuple[frozenset[str], list[str], str]:
    query = row.question.removeprefix("Text: ").partition("\nMost relevant document index:")[0]
    matches = [text for text in texts if text.text == query]
    return frozenset(text.label for text in matches), [text.whole for text in matches], ""


def _answers_in(documents: list[LabelledText], row: Row) -> list[str]:
    """Return the gold answers that stand in documents; case is ignored."""
    whole = "\n".join(document.text for document in documents).lower()
    return [answer for answer in row.outputs if answer.lower() in whole]


_GOLD = 2


def task_of_prompt(text: str) -> tuple[str, str, str]:
    """Return the name of the task that a prompt is of, its context and its question.

    Raises:
        ValueError: it is no prompt of RULER v2.
    """
    for (kind, level), (head, question) in prompts.FRAMES.items():
        start = f"\n{question.partition('{')[0]}"
        form = re.escape(question).replace(r"\{0\}", "(.+)").replace(r"\{1\}", r"(\d\w\w)")
        at = text.rfind(start) + 1
        if text.startswith(head) and at and re.fullmatch(form, text[at:], re.DOTALL):
            examples = text.find("\n\nHere are some examples to help you understand the task:")
            if examples >= 0:
                at = examples + 2
            return f"{kind}_{level}", text[:at], text[at:]
    raise ValueError(f"no prompt of RULER v2: {text[:60]!a}")


def gold_texts(params: Ruler2, row: Row) -> list[str]:
    """Return the labelled texts that the gold answers show, for rows without evidence."""
    texts = labelled_texts(row.context)
    query, _ = query_of(params, row)
    if params.kind == "qa" and params.level in ("medium", "hard"):
        answers = [output.lower() for output in row.outputs]
        matches = [text for text in texts if any(output in text.text.lower() for output in answers)]
        if len(matches) != 1:
            return []
        return [matches[0].whole]
    return [text.whole for text in texts if text.label in (query, *row.outputs)]


def query_of(params: Ruler2, row: Row) -> tuple[str, str]:
    """Return what the question is about: a key, a number, a text or a question; and the ordinal."""
    if params.kind != "qa":
        return _query(row)
    text = row.question.removeprefix("Text: ").rpartition("\nMost relevant document index:")[0]
    query = text if params.level == "basic" else row.question.partition("Question: ")[2]
    return query.partition("\nIndex of the most")[0], ""
