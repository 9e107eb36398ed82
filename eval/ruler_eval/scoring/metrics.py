"""The official score of one answer: a number in [0, 1].

    answer                           gold answers       metric    score
    "They are QZKRA and plmew."      QZKRA PLMEW        recall    1.0
    "In Paris, France."              paris lutetia      any_of    1.0

`recall` and `any_of` are upstream's `string_match_all` and `string_match_part` for one row
(NVIDIA/RULER, scripts/eval/synthetic/constants.py at c3f5e3b); `clean` is its
`postprocess_pred`. The scores of RULER v2 are its own; those of
`exact` are reported beside these.

One thing is not upstream's: the suite `no_needle` asks questions that may have no answer
(`claim_of`). Reasoning is taken out first (`scored_text`).
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Literal

from ruler_data import reasoning
from ruler_data.row import Row
from ruler_data.tasks import DIGITS, Metric, Niah, PartType, Task
from ruler_eval.running.answers import Answer

_DOCUMENT = re.compile(r"Document \d+:(?:.*\n)+?\n")
_FINAL = re.compile(r"The final answer is (.+)$")
_CAPITAL = re.compile(r"\b[A-Z]\b")
_LABELLED = re.compile(r"Answer[*_]{0,2}\s*:[\s*_]{0,2}\s*([A-Z])(?![a-zA-Z0-9])", re.IGNORECASE)
_BOX = "\\boxed"
#: Letters that stand for A to D in Arabic, Bengali and full-width text.
_LATIN = str.maketrans(
    {
        letter: f" {latin}"
        for letters in ("أبجد", "অবডঢ", "ＡＢＣＤ")  # noqa: RUF001 - these are meant
        for letter, latin in zip(letters, "ABCD", strict=True)
    }
)


def soft_match(answer: str, output: str) -> float:
    """Return how well an answer matches one gold answer, in [0, 1].

    >>> soft_match("the capital is Paris", "paris"), soft_match("a b x d", "a b c d")
    (1.0, 0.75)
    """
    from rapidfuzz.distance import Levenshtein

    text = answer.lower()
    gold = output.lower()
    if gold in text:
        return 1.0
    words = gold.split()
    if not words:
        return 0.0
    distance = Levenshtein.distance(text.split(), words)
    return max(0.0, 1 - distance / len(words))  # (n - e) / n can differ in the last bit


def soft_all(answer: str, outputs: Sequence[str]) -> float:
    """Return the mean of the soft matches of all gold answers."""
    return sum(soft_match(answer, output) for output in outputs) / len(outputs)


def soft_last(answer: str, outputs: Sequence[str]) -> float:
    r"""Return the mean of the soft matches with the last paragraph of the answer.

    >>> soft_last("one\n\ntwo", ["one"])
    0.0
    """
    return soft_all(answer.split("\n\n")[-1], outputs)


def soft_part(answer: str, outputs: Sequence[str]) -> float:
    r"""Return the best of the soft matches, without the documents that the answer copies.

    >>> soft_part("Document 12:\nParis\n\nLyon", ["Paris"])
    0.0
    """
    remainder = _DOCUMENT.sub("", answer)
    return max(soft_match(remainder, output) for output in outputs)


def letter(answer: str, outputs: Sequence[str]) -> float:
    """Return 1 if the letter that the answer chooses is the gold one, else 0."""
    return float(chosen_letter(answer) == outputs[0])


def chosen_letter(answer: str) -> str | None:
    r"""Return the letter that an answer chooses; None if it chooses none.

    `The final answer is` at the end of the text comes first, then the last box, then `Answer:`.

    >>> chosen_letter(r"\boxed{\text{C}}"), chosen_letter("**Answer:** b"), chosen_letter("B")
    ('C', 'B', None)
    """
    choice = ""
    if final := _FINAL.findall(answer):
        choice = final[-1].strip()
    if not choice:
        choice = _boxed(answer)
    choice = choice.translate(_LATIN).strip()
    if len(choice) == 1:
        return choice.upper()
    letters: list[str] = _CAPITAL.findall(choice) or _LABELLED.findall(answer)
    return letters[-1].upper() if letters else None


def _boxed(text: str) -> str:
    r"""Return what the last `\boxed=` or box holds; empty without one, or if it is not closed."""
    _, equals, after = text.rpartition(f"{_BOX}=")
    if equals:
        line = "".join(after.splitlines()[:1])  # upstream raises if nothing follows
        return line.strip().rstrip(".\\")
    _, box, after = text.rpartition(_BOX)
    if not box or not after.startswith("{"):
        return ""
    depth = 0
    for place, char in enumerate(after):
        if char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
        if depth == 0:
            return after[1:place]
    return ""


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
    return sum([output.lower() in lower for output in outputs]) / len(outputs)


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


def score_row(
    row: Row, task: Task, answer: str, scorers: Mapping[Metric, Scorer] = SCORERS
) -> float:
    """Return the score of an answer to a row, in [0, 1].

    A question that may have no answer scores 0 if the answer claims what is not so: a value
    where the needle is absent, or `none` where it is present.

    Args:
        row: the question and its gold answers.
        task: of the row.
        answer: the text to score (`ruler_eval.running.answers.scored_text`).
        scorers: by metric.
    """
    score = scorers[task.metric](answer, row.outputs)
    if not isinstance(task.params, Niah) or task.params.none == "no":
        return score
    right = "none" if task.params.none == "true" else "value"
    if claim_of(row, task.params, answer) != right:
        return 0.0
    return score


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
    for match in value_pattern(params.value_type, DIGITS).finditer(answer):
        plain_word = params.value_type == "words" and match[0] not in row.context.lower()
        if match[0] not in row.question.lower() and not plain_word:
            yield match.start()


def scored_text(answer: Answer, *, opened: bool = False, cleaned: bool = True) -> str:
    """Return what is scored: the text without reasoning, cleaned as upstream does.

    Args:
        answer: with a text.
        opened: whether the prompt itself opened a block of reasoning
            (`ruler_data.reasoning.opens`).
        cleaned: False for a metric that reads text as generated (`CLEANED`).
    """
    is_apart = answer.reasoning is not None
    _, text = reasoning.split(answer.text or "", opened=opened and not is_apart)
    return clean(text) if cleaned else text


def score_answer(row: Row, task: Task, answer: Answer, *, opened: bool) -> tuple[str, float]:
    """Return the text of an answer that is scored (`scored_text`), and its official score."""
    text = scored_text(answer, opened=opened, cleaned=task.metric in CLEANED)
    return text, score_row(row, task, text)
