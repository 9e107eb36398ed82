"""Why a row lost points: one label a row, from the answer and the context alone.

What an answer names is looked up in the context first; how it is worded decides only where it names
nothing. No label says more than the text shows: `not in the context` is what the model knew before
or made up. `benchmarks/failures.py` measures how often a label is right.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator

from ruler_data.row import Row
from ruler_data.tasks import Niah, Task
from ruler_eval.scoring import exact, wording
from ruler_eval.scoring.metrics import claim_of
from ruler_eval.scoring.wording import contains, denies, lower, normalized, plain, words_of

#: The meaning of each label, in the order in which a report lists them.
MEANINGS: dict[str, str] = {
    "empty": "no letter and no digit",
    "refusal": "the model declines, or says that the answer is not there",
    "right, in another form": "the gold answer as the official score misses it: 1,234,567",
    "incomplete": "some gold answers, or a part of one, and nothing else of their kind",
    "more than the gold answers": "score 100, exact score 0: others beside all gold answers",
    "wrong, from the context": "another needle, variable, word or phrase of it; yes for no",
    "not in the context": "what it names beside gold answers is not in the context",
    "no answer": "names nothing of the kind asked for: chatter, a plan, code, the question again",
}
EMPTY, REFUSAL, FORM, INCOMPLETE, EXTRA, CONTEXT, ABSENT, OTHER = MEANINGS

_READ = 10_000  # characters of an answer that are read for its wording; few have a tenth of it
_PREFIX = 4  # characters that identify the beginning of an answer
_LONG = 5  # characters of a piece of a needle that no line number has
_FEW = 3  # words beside a gold answer
#: Two statements of a program, or one and a call.
_KEYWORD = r"^[ \t]*(?:def|import|from|for|if|return|while|print|const|function)\b"
_CODE = re.compile(rf"(?ms){_KEYWORD}.*(?:{_KEYWORD}|\w\([^()\n]*\))")
_NAME = re.compile(r"[A-Z][\w'-]*(?: (?:(?:of|the|de|van|von) )?[A-Z0-9][\w'-]*)*|\d[\d.,]*\d|\d")


_NUMBERS = {word: str(n) for n, word in enumerate(wording.WORDING["numbers"].split())}


def failure_of(row: Row, task: Task, answer: str, score: float) -> str | None:
    """Return the label of a row; None if its official score is 1 and it names no other answer."""
    names = exact.names_in(row, task, answer)
    if score == 1:
        if names is None or exact.exact_scores(row, task, answer, score)[0] == 1:
            return None
        return EXTRA
    text = plain(answer[:_READ])
    if not words_of(text):
        return EMPTY
    if score == 0 and _CODE.search(text):
        return OTHER
    if names is None:
        return _label_of_free_words(row, answer[:_READ], text)
    if _says_none(row, task, answer):
        return REFUSAL
    if names.others:
        return _by_context(row, names.others)
    return _label_without_others(row, text, names)


def _says_none(row: Row, task: Task, answer: str) -> bool:
    """Whether an answer says first that there is no value, where there may be none."""
    params = task.params
    if not isinstance(params, Niah) or params.none != "possible":
        return False
    return claim_of(row, params, answer) == "none"


def _by_context(row: Row, words: Iterable[str]) -> str:
    """Return whether words in lower case, of which one suffices, are in the context."""
    context = lower(row.context)
    return CONTEXT if any(contains(context, word) for word in words) else ABSENT


def _label_without_others(row: Row, text: str, names: exact.Names) -> str:
    """Return the label of an answer that names no other than gold answers."""
    outputs = [output.lower() for output in row.outputs]
    letters = _letters(text)
    if all(output in names.gold or _is_spelled(output, letters) for output in outputs):
        return FORM
    start = re.split(r"[^a-z0-9-]", text.lower().rstrip(" .'\""))[-1]
    is_start = len(start) >= _PREFIX and any(output.startswith(start) for output in outputs)
    if names.gold or is_start:
        return INCOMPLETE
    if denies(text, names=False):
        return FORM if row.outputs == ("none",) else REFUSAL
    return _label_without_names(row, text)


def _is_spelled(output: str, letters: str) -> bool:
    """Whether a gold answer is in the letters and digits of an answer."""
    return len(output) > 4 and _letters(output) in letters


def _label_without_names(row: Row, text: str) -> str:
    """Return the label of an answer that names nothing of the kind asked for, and denies nothing.

    A piece of a number or UUID, or one of another length, is looked up in the context.
    """
    words = {*words_of(text)}.difference(words_of(row.question))
    values = [word for word in words if len(word) > _LONG and re.search(r"\d", word)]
    if values:
        context = lower(row.context)
        return CONTEXT if any(value in context for value in values) else ABSENT
    return ABSENT if _is_list(text) else OTHER


def _is_list(text: str) -> bool:
    """Whether nothing but single words stand between punctuation, one at least of ASCII."""
    listed = [part.words for part in wording.segments(text) if part.words and not part.is_label]
    if any(len(words) > 1 for words in listed):
        return False
    return any(words[0].isascii() for words in listed)


def _label_of_free_words(row: Row, answer: str, text: str) -> str:
    """Return the label of an answer to a question whose answers are free words (qa)."""
    short = exact.short_answers(answer)[-1]
    words = _folded(short)
    if label := _label_of_polar(row, short):
        return label
    asked = {*_folded(row.question.rpartition("Question:")[2])}
    content = [word for word in words if word not in asked and word not in wording.FILLER]
    if label := _label_by_gold(row, words, content, asked):
        return label
    if wording.FILLER.issuperset(words):
        return REFUSAL if denies(short, names=False) else OTHER
    return _label_of_phrase(row, short, text, content, asked)


def _label_of_phrase(row: Row, short: str, text: str, content: list[str], asked: set[str]) -> str:
    """Return the label of an answer that names no part of a gold answer, but says something."""
    if _by_context(row, _phrases(short, content)) == CONTEXT:
        return CONTEXT
    if denies(text):
        return REFUSAL
    if _by_context(row, _names(text, asked)) == CONTEXT:
        return CONTEXT
    return ABSENT if content and not wording.META.search(short) else OTHER


def _label_by_gold(row: Row, words: list[str], content: list[str], asked: set[str]) -> str | None:
    """Return how a phrase stands to the first gold answer of which it names a part."""
    for output in row.outputs:
        gold = _folded(output)
        if not gold:  # it is an article
            continue
        if label := _against(gold, words, content, asked):
            return label
    return None


def _label_of_polar(row: Row, short: str) -> str | None:
    """Return the label of an answer that opens with yes or no, where one of them is asked for."""
    gold = {output.lower() for output in row.outputs}
    opening = words_of(short)[:1]
    if not gold <= {"yes", "no"} or not opening:
        return None
    for reply, forms in wording.WORDING["polar"].items():
        if opening[0] in forms.split():
            return FORM if reply in gold else CONTEXT
    return None


def _phrases(short: str, content: list[str]) -> Iterator[str]:
    """Yield a short answer, and its beginning up to a mark, if that has content."""
    yield short.strip(" .:\"'").lower()
    start = re.split(r"[,;/\n(]", short)[0].strip(" .:\"'").lower()
    if not {*content}.isdisjoint(_folded(start)):
        yield start


def _names(text: str, asked: set[str]) -> Iterator[str]:
    """Yield the names and numbers of a text that say more than the question."""
    for name in _NAME.findall(text):
        if not (asked | wording.FILLER).issuperset(_folded(name)):
            yield name.lower()


def _against(gold: list[str], words: list[str], content: list[str], asked: set[str]) -> str | None:
    """Return how a phrase stands to a gold answer; None if it does not name a part of it."""
    few = content or words
    if "".join(few) == "".join(gold):
        return FORM
    if _is_named(gold, words, few, asked) and len(few) <= 2 * len(gold) + _FEW:
        return FORM
    start = " ".join(words)
    if len(start) >= _PREFIX and " ".join(gold).startswith(start):
        return INCOMPLETE
    is_part = {*few} <= {*gold} and not wording.SPEECH.issuperset(few)
    return INCOMPLETE if is_part else None


def _is_named(gold: list[str], words: list[str], few: list[str], asked: set[str]) -> bool:
    """Whether a phrase names a gold answer, maybe without a middle name.

    What the question says already need not be said: Stanley, but not Plowden, of Mary Stanley.
    """
    if {*gold} <= {*words}:
        return True
    return bool(few) and ({*few} == {*gold} - asked or {*few} == {gold[0], gold[-1]})


def _folded(text: str) -> list[str]:
    """Return the words that SQuAD compares, without accents; numbers as digits."""
    text = unicodedata.normalize("NFKD", re.sub("[-/\u2013]", " ", text))
    if not text.isascii() or "$" in text:
        text = "".join(char for char in text if unicodedata.category(char) not in ("Mn", "Sc"))
    words = normalized(re.sub(r"(\d)(?:st|nd|rd|th)\b", r"\1", text)).split()
    return [_NUMBERS.get(word, word) for word in words]


def _letters(text: str) -> str:
    """Return letters and digits, in lower case."""
    return re.sub(r"[\W_]", "", text.lower())
