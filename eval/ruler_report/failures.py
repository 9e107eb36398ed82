"""Why a row lost points: one label a row, from the answer and the context alone.

What an answer names is looked up in the context first; how it is worded decides only where it names
nothing. No label says more than the text shows: `not in the context` is what the model knew before
or made up, and only a run without context can tell which. `benchmarks/failures.py` measures how
often a label is right.
"""

import re
import unicodedata
from collections.abc import Iterator
from itertools import dropwhile

from ruler_data.row import Row
from ruler_data.tasks import Cwe, Niah, Ruler2, Task, Vt
from ruler_eval.metrics import claim_of
from ruler_report.exact import WORDING, Named, contains, named_in, normalized, plain, short_answers

EMPTY = "empty"
REFUSAL = "refusal"
FORM = "right, in another form"
INCOMPLETE = "incomplete"
EXTRA = "more than the gold answers"
COPIED = "copied from the example"
CONTEXT = "wrong, from the context"
PARAMETRIC = "as without context"
ABSENT = "not in the context"
OTHER = "no answer"

#: The meaning of each label, in the order in which a report lists them.
MEANINGS: dict[str, str] = {
    EMPTY: "no letter and no digit, but for the number of a list",
    REFUSAL: "the model declines, or says that the answer is not there",
    FORM: "the gold answer, written so that the official score misses it: 1,234,567 for 1234567",
    INCOMPLETE: "some of the gold answers, or the beginning of one, and nothing else of their kind",
    EXTRA: "all gold answers and others: score 100, exact score 0",
    COPIED: "at least half of what it names is the answer of the in-context example",
    CONTEXT: "another needle, variable, word or document of the context; yes for no",
    PARAMETRIC: "the same answer as the run without context gave",
    ABSENT: "what it names beside gold answers is not in the context",
    OTHER: "names nothing of the kind asked for: chatter, a plan, code, the question again",
}

_COPY = 40  # characters
_READ = 10_000  # characters of an answer that is read for its wording; few have a tenth of it
_LONG = 8  # characters of a phrase that no other text contains by chance
_FEW = 3  # values that a refusal may mention
_WORD = re.compile(r"[^\W_]+(?:[-'\u2019][^\W_]+)*")
_LIST_NUMBER = re.compile(r"(?m)^[ ]*\d{1,3}[.)](?=\s|$)")


def failure_of(row: Row, task: Task, answer: str, score: float, bare: str | None) -> str | None:
    """Return the label of a row; None if it scores 1 and names no other answer.

    `score` is the official one. `bare` is the answer of the same model without the context, if
    known.
    """
    named, answer = named_in(row, task, answer), answer[:_READ]
    if score == 1:
        return EXTRA if named and named.others else None
    if isinstance(task.params, Ruler2) and named and not named.gold:
        score = 0.0  # a soft match is no gold answer
    text = plain(answer)
    if not re.search(r"[^\W_]", _LIST_NUMBER.sub("", text)):
        return EMPTY
    own = _own_words(row, text)
    if bare is not None and score == 0 and not denies(own) and _words(answer) == _words(bare):
        return PARAMETRIC
    said, asked = {*_words(text)}, {*_words(row.question.rpartition("Question: ")[2])}
    if score == 0 and ((said <= asked and 2 * len(said) >= len(asked)) or is_code(text)):
        return OTHER
    if named is None:
        return _of_free_words(row, answer, own)
    match task.params:
        case Niah(none="possible") as params if claim_of(row, params, answer) == "none":
            return REFUSAL
    if named.others and not (len(named.others) <= _FEW and score == 0 and denies(own)):
        return _of_others(row, task, named)
    return _of_rest(row, task, text, own, named, score)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _own_words(row: Row, text: str) -> str:
    """Return a plain text without the sentences that repeat the question or the context."""
    asked, context = {*_words(row.question)}, row.context.lower()
    kept = []
    for part in re.split(r"(?<=[.!?\u3002\n])(?!\d)", text):
        words = {*_words(part)}
        said = re.sub(r"^\W*(?:answer:)?\W*|\W+$", "", part.lower())
        if not (words and words <= asked) and not (len(said) >= _LONG and said in context):
            kept.append(part)
    return "".join(kept)


def _of_others(row: Row, task: Task, named: Named) -> str:
    """Return the label of an answer that names others than gold answers."""
    wrong, every = set(named.others), {*named.gold, *named.others}
    if row.outputs[0].isdigit() and not isinstance(task.params, Niah | Ruler2):
        return CONTEXT  # a count
    if all(len(word) == 1 for word in wrong):
        return CONTEXT  # a letter of RULER v2
    start = example_end(row, task)
    shown = {*_words(row.context[:start].rsplit(":", 1)[-1])} & wrong
    if shown and 2 * len(shown) >= len(every):
        return COPIED
    context = row.context[start:].lower()
    found = sum(contains(context, word) for word in wrong)
    lists = task.params.family in ("cwe", "fwe")  # of many words, some are in any text
    return CONTEXT if found and (not lists or 2 * found >= len(wrong)) else ABSENT


def _of_rest(row: Row, task: Task, text: str, own: str, named: Named, score: float) -> str:
    """Return the label of an answer that names nothing but gold answers, or nothing."""
    lower = text.lower()
    if all(out.lower() in named.gold or _spelled(out.lower(), lower) for out in row.outputs):
        return FORM
    if score > 0:
        return INCOMPLETE
    if len(text) >= _COPY and text[:_COPY] in row.context:
        return OTHER
    if denies(own, names=False):
        return FORM if row.outputs == ("none",) else REFUSAL
    last = re.search(r"[a-z0-9-]+$", lower)
    if last and any(
        out.lower().startswith(last[0]) and len(out) <= 2 * len(last[0]) for out in row.outputs
    ):
        return INCOMPLETE
    if isinstance(task.params, Niah) and task.params.value_type != "words":
        parts = re.findall(r"[0-9a-f-]*[0-9][0-9a-f-]{2,}", _LIST_NUMBER.sub("", lower))
        return ABSENT if any(part not in row.question.lower() for part in parts) else OTHER
    return OTHER


def _spelled(gold: str, text: str) -> bool:
    """Whether a text spells a gold answer with other separators: 1,234,567 or q z k r a.

    >>> _spelled("1234567", "it is 123-4567"), _spelled("1234567", "it is 51234567")
    (True, False)
    """
    letters = re.sub(r"\W", "", gold)
    if len(letters) < 5 or letters not in re.sub(r"[\W_]", "", text):
        return False
    pattern = r"[\W_]{0,3}".join(letters)
    return re.search(rf"(?<![^\W_]){pattern}(?![^\W_])", text) is not None


def _any(*texts: str) -> str:
    return f"(?:{'|'.join(re.escape(word) for text in texts for word in text.split())})"


_NO = rf"(?:\b{_any(WORDING['no'])}\b(?!-)|n['\u2019]t\b)"
_FIND = rf"\b{_any(WORDING['find'])}"
_DENIAL = re.compile(
    rf"{_NO}[^.!?\n]{{0,70}}{_FIND}|{_FIND}[^.!?,\n]{{0,40}}{_NO}|\b{_any(WORDING['sorry'])}\b"
    rf"|\b{_any(*WORDING['denial_words'].values())}\b(?!-)|{_any(*WORDING['denials'].values())}",
    re.IGNORECASE,
)
_BARE = re.compile(
    r"(?:(?:the )?answer(?: is|:)?\s*)?"
    rf"{_any(WORDING['bare'])}(?: {_any(WORDING['bare_after'])})?",
    re.IGNORECASE,
)


def denies(text: str, *, names: bool = True) -> bool:
    """Whether a plain text declines, or denies that the answer is there.

    In one that `names` nothing, any denial in its first or last sentence does.

    >>> denies("I couldn't find it."), denies("N/A"), denies("Norway"), denies("It was not Ann.")
    (True, True, False, False)
    """
    bare = text.strip(" .,!()[]\"'\n|<>")
    if _BARE.fullmatch(bare) or _DENIAL.search(text):
        return True
    return not names and len(bare) < 2 * _COPY and re.search(_NO, text, re.IGNORECASE) is not None


_CALL = re.compile(r"\w\([^()\n]*\)")
_KEYWORD = re.compile(r"(?m)^\s*(?:def|import|from|for|if|return|while|print|const|function)\b")


def is_code(text: str) -> bool:
    """Whether a text is a program."""
    return len(_KEYWORD.findall(text)) >= 2 or bool(_KEYWORD.search(text) and _CALL.search(text))


_META = frozenset(WORDING["meta"].split())
_LEADS = _META.union(WORDING["leads"].split())
#: The capital of a sentence that does not begin with a name of several words.
_BEGINS = re.compile(r"(?:^|(?<=[.!?:]\s)|(?<=\n))[A-Z](?=[\w'\u2019]*[ ,.:!]+(?:[^A-Z\s]|I\b))")
#: Proper names and numbers.
_NAME = re.compile(
    r"[A-Z][\w'\u2019-]*(?:[ .]+(?:(?:of|the|de|van|von) )?[A-Z][\w'\u2019-]*)*|\d+(?:[.,]\d+)*"
)


def _of_free_words(row: Row, answer: str, own: str) -> str:
    """Return the label of an answer to a question whose answers are free words (qa)."""
    shorts, asked, context = short_answers(answer), row.question.lower(), row.context.lower()
    said = shorts[-1].strip(" .,!\"'\n")
    polar = {output.lower() for output in row.outputs} <= {"yes", "no"}
    if polar and said.lower().partition(" ")[0].strip(".,!;:\n") in ("yes", "no"):
        return CONTEXT
    if _BARE.fullmatch(said):
        return REFUSAL
    folded = [_folded(each) for each in (*shorts, said)]
    for gold in map(_folded, row.outputs):
        if any(contains(each, gold) or sorted(each.split()) == sorted(gold.split())
               for each in folded):  # fmt: skip
            return FORM
        if contains(gold, folded[-1]) and 2 * len(folded[-1]) >= len(gold):
            return INCOMPLETE
    if len(said) < 2 * _COPY and _is_in(context, said.lower()):
        return CONTEXT if not contains(asked, said.lower()) else OTHER
    if len(said) >= _COPY and said[:_COPY].lower() in context:
        return CONTEXT
    if denies(own):
        return REFUSAL
    names = list(_names(_BEGINS.sub(lambda match: match[0].lower(), said), asked))
    found = [name for name in names if _is_in(context, name.lower())]
    if 2 * len("".join(found)) > len("".join(names)):
        return CONTEXT
    words = {word for word in _words(said) if word.isascii()} - _LEADS
    return ABSENT if names or (words and _META.isdisjoint(_words(said))) else OTHER


def _folded(text: str) -> str:
    """Return a text as SQuAD compares it, also without accents, and small numbers as digits."""
    bare = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    bare = re.sub(r"(\d)(?:st|nd|rd|th)\b|\b(?:on|of|in)\b", r"\1", bare.replace("-", " "))
    return " ".join(_DIGITS.get(word, word) for word in normalized(bare).split())


_DIGITS = {"one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6",
           "seven": "7", "eight": "8", "nine": "9", "ten": "10"}  # fmt: skip


def _leads(word: str) -> bool:
    return re.split(r"['.\u2019]", word.lower())[0] in _LEADS


def _names(text: str, question: str) -> Iterator[str]:
    """Yield the proper names and numbers of an answer that are not in the question."""
    for match in _NAME.finditer(_LIST_NUMBER.sub("", text)):
        words = dropwhile(_leads, match[0].split())
        name = " ".join(words).strip(".,")
        if len(name) > 1 and not contains(question, name.lower()):
            yield name


def _is_in(text: str, words: str) -> bool:
    """Whether a text contains words; only short ones must be whole, since answers are cut."""
    return words in text if len(words) >= _LONG else contains(text, words)


def example_end(row: Row, task: Task) -> int:
    r"""Return the character of the context at which the in-context example ends; 0 without one.

    The instruction, a context's first line, is repeated there. Only vt and cwe have one.
    """
    if not isinstance(task.params, Vt | Cwe):
        return 0
    instruction, line, _ = row.context.partition("\n")
    return max(0, row.context.find(instruction, 1)) if line and instruction else 0
