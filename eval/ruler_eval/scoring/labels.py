"""Why a row lost points: one label a row, from the answer and the context alone.

What an answer names is looked up in the context first; how it is worded decides only where it names
nothing. No label says more than the text shows: `not in the context` is what the model knew before
or made up. `benchmarks/failures.py` measures how often a label is right.
"""

import re
import unicodedata

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
        is_right = names is None or exact.exact_scores(row, task, answer, score)[0] == 1
        return None if is_right else EXTRA
    text = plain(answer[:_READ])
    if not words_of(text):
        return EMPTY
    if score == 0 and _CODE.search(text):
        return OTHER
    if names is None:
        return _label_of_free_words(row, answer[:_READ], text)
    match task.params:
        case Niah(none="possible") as params if claim_of(row, params, answer) == "none":
            return REFUSAL
    if names.others:
        context = lower(row.context)
        return CONTEXT if any(contains(context, word) for word in names.others) else ABSENT
    return _label_of_rest(row, text, names)


def _label_of_rest(row: Row, text: str, names: exact.Names) -> str:
    """Return the label of an answer that names no other than gold answers."""
    outputs, letters = [output.lower() for output in row.outputs], _letters(text)
    if all(out in names.gold or (len(out) > 4 and _letters(out) in letters) for out in outputs):
        return FORM
    start = re.split(r"[^a-z0-9-]", text.lower().rstrip(" .'\""))[-1]
    is_start = len(start) >= _PREFIX and any(output.startswith(start) for output in outputs)
    if names.gold or is_start:
        return INCOMPLETE
    if denies(text, names=False):
        return FORM if row.outputs == ("none",) else REFUSAL
    context, said = lower(row.context), {*words_of(text)} - {*words_of(row.question)}
    values = [word for word in said if len(word) > _LONG and re.search(r"\d", word)]
    if values:  # a piece of a number or UUID, or one of another length
        return CONTEXT if any(word in context for word in values) else ABSENT
    parts_of = [words for words, label, _ in wording.segments(text) if words and not label]
    alone = {word for word, *more in parts_of if not more and word.isascii()}
    return ABSENT if alone and max(map(len, parts_of)) == 1 else OTHER


def _label_of_free_words(row: Row, answer: str, text: str) -> str:
    """Return the label of an answer to a question whose answers are free words (qa)."""
    short = exact.short_answers(answer)[-1]
    # Nothing is left of a gold answer that is an article.
    words, golds = _folded(short), [*filter(None, map(_folded, row.outputs))]
    polar = {output.lower() for output in row.outputs}
    if polar <= {"yes", "no"}:
        opening = {*words_of(short)[:1]}
        for reply in ("yes", "no"):
            if opening & {*wording.WORDING["polar"][reply].split()}:
                return FORM if reply in polar else CONTEXT
    asked = {*_folded(row.question.rpartition("Question:")[2])}
    content = [word for word in words if word not in asked and word not in wording.FILLER]
    for gold in golds:
        if label := _against(gold, words, content, asked):
            return label
    if not {*words} - wording.FILLER:
        return REFUSAL if denies(short, names=False) else OTHER
    context = lower(row.context)
    first = re.split(r"[,;/\n(]", short)[0].strip(" .:\"'").lower()
    phrases = [short.strip(" .:\"'").lower()] + [first] * bool({*_folded(first)} & {*content})
    if any(contains(context, phrase) for phrase in phrases):
        return CONTEXT
    if denies(text):
        return REFUSAL
    names = [name for name in _NAME.findall(text) if not {*_folded(name)} <= asked | wording.FILLER]
    if any(contains(context, name.lower()) for name in names):
        return CONTEXT
    return ABSENT if content and not wording.META.search(short) else OTHER


def _against(gold: list[str], words: list[str], content: list[str], asked: set[str]) -> str | None:
    """Return how a phrase stands to a gold answer; None if it does not name a part of it."""
    few = content or words
    ends = {gold[0], gold[-1]}  # a middle name may be left out
    # What the question says already need not be said: Stanley, but not Plowden, of Mary Stanley.
    names_it = {*gold} <= {*words} or bool(few and {*few} in ({*gold} - asked, ends))
    is_joined = "".join(few) == "".join(gold)
    if is_joined or (names_it and len(few) <= 2 * len(gold) + _FEW):
        return FORM
    start = " ".join(words)
    is_start = len(start) >= _PREFIX and " ".join(gold).startswith(start)
    is_part = {*few} <= {*gold} and bool({*few} - wording.SPEECH)
    return INCOMPLETE if is_start or is_part else None


def _folded(text: str) -> list[str]:
    """Return the words that SQuAD compares, without accents; numbers as digits."""
    text = unicodedata.normalize("NFKD", re.sub("[-/\u2013]", " ", text))
    text = "".join(char for char in text if unicodedata.category(char) not in ("Mn", "Sc"))
    words = normalized(re.sub(r"(\d)(?:st|nd|rd|th)\b", r"\1", text)).split()
    return [_NUMBERS.get(word, word) for word in words]


def _letters(text: str) -> str:
    """Return letters and digits, in lower case."""
    return re.sub(r"[\W_]", "", text.lower())
