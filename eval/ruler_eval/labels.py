"""Why a row lost points: one label a row, from the answer and the context alone.

What an answer names is looked up in the context first; how it is worded decides only where it names
nothing. No label says more than the text shows: `not in the context` is what the model knew before
or made up, and only a run without context can tell which. `benchmarks/failures.py` measures how
often a label is right.
"""

import re
from collections.abc import Callable, Collection, Sequence
from operator import eq

from ruler_data.row import Row
from ruler_data.tasks import Niah, Task, Vt
from ruler_eval import exact, wording
from ruler_eval.metrics import claim_of
from ruler_eval.wording import alike, contains, denies, folded, lower, plain, words_of

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
_LONG = 8  # characters of a phrase that no text has by chance
_PREFIX = 4  # characters that identify the beginning of an answer
_FEW = 3  # words beside an answer
#: Two statements of a program, or one and a call.
_KEYWORD = r"^[ \t]*(?:def|import|from|for|if|return|while|print|const|function)\b"
_CODE = re.compile(rf"(?ms){_KEYWORD}.*(?:{_KEYWORD}|\w\([^()\n]*\))")
_VALUE = re.compile(r"(?<![\w.])[0-9a-f-]*\d(?:[ ,.:]?[0-9a-f-])+(?!\w)")


def failure_of(row: Row, task: Task, answer: str, score: float) -> str | None:
    """Return the label of a row; None if its official score is 1 and it names no other answer."""
    names = exact.names_in(row, task, answer)
    if score == 1:
        is_right = exact.exact_scores(row, task, answer, score)[0] == 1
        return EXTRA if names is not None and not is_right else None
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
        return _label_of_others(row, task, names)
    return _label_of_rest(row, task, text, names)


def _own_words(row: Row, text: str) -> str:
    """Return a plain text without the sentences that repeat the question or the context."""
    of_question, context = {*words_of(row.question)}, row.context.replace("\u2019", "'")

    def repeats(part: str) -> bool:
        phrase = re.sub(r"^\W*(?:[Aa]nswer:)?\W*|\W+$", "", part)
        return of_question >= {*words_of(part)} or (len(phrase) >= _LONG and phrase in context)

    parts = re.split(r"(?<=[.!?\u3002\n])(?!\d)", text)
    return "".join(part for part in parts if not repeats(part))


def _label_of_others(row: Row, task: Task, names: exact.Names) -> str:
    """Return the label of an answer that names others than gold answers."""
    others = {*names.others}
    # Values are in lower case in every context, which need not be converted.
    context = row.context if isinstance(task.params, Niah) else lower(row.context)
    return CONTEXT if any(contains(context, word) for word in others) else ABSENT


def _label_of_rest(row: Row, task: Task, text: str, names: exact.Names) -> str:
    """Return the label of an answer that names no other than gold answers."""
    own, outputs = _own_words(row, text), [output.lower() for output in row.outputs]
    text = text.lower()
    if all(output in names.gold or wording.spells(text, output) for output in outputs):
        return FORM
    start = re.split(r"[^a-z0-9-]", text.rstrip(" .'\""))[-1]
    is_start = len(start) >= _PREFIX and any(output.startswith(start) for output in outputs)
    if names.gold or is_start:
        return INCOMPLETE
    if (plan := wording.PLAN.search(own)) and not denies(own[: plan.start()]):
        return OTHER
    if denies(own, names=False):
        return FORM if row.outputs == ("none",) else REFUSAL
    if isinstance(task.params, Niah):
        values = {
            re.sub(r"\W", "", value) for value in _VALUE.findall(wording.LIST_NUMBER.sub("", text))
        }
        values -= {re.sub(r"\W", "", word) for word in words_of(row.question)}
        context = row.context.replace("-", "")
        if any(len(value) > _PREFIX + 1 and value in context for value in values):
            return CONTEXT
        is_answer = task.params.value_type != "words" and bool(values)
    else:  # a list of words is an answer, whatever they are
        parts = [words for words, label, _ in wording.segments(text) if words and not label]
        size = 1 if isinstance(task.params, Vt) else 2
        alone = {word for word, *more in parts if not more and word.isascii() and len(word) >= size}
        alone -= {*wording.WORDING["meta"].split()}
        is_answer = len(alone) > 1 or bool(alone and max(map(len, parts)) == 1)
    return ABSENT if is_answer else OTHER


_FIRST = re.compile(r"[,;/\n(]")


def _label_of_free_words(row: Row, answer: str, text: str) -> str:
    """Return the label of an answer to a question whose answers are free words (qa)."""
    shorts, context = exact.short_answers(answer), lower(row.context)
    plain_shorts = [wording.ASIDES.sub("", each).strip(" .,:!\"'\n") for each in shorts]
    short = plain_shorts[-1] or plain_shorts[0]
    polar, opening = {output.lower() for output in row.outputs}, {*words_of(f"{short} -")[:1]}
    for reply in ("yes", "no") if polar <= {"yes", "no"} else ():
        if opening & {*wording.WORDING["polar"][reply].split()}:
            return FORM if reply in polar else CONTEXT
    of_question, golds = _question_words(row), [*map(folded, row.outputs)]
    whole, words = f" {' '.join(folded(plain_shorts[0]))} ", folded(short)
    content = [word for word in words if word not in of_question and word not in wording.FILLER]
    few, start = content or words, " ".join(words)

    def is_gold(gold: list[str], same: _Same) -> bool:
        rest = {*gold} - {*of_question} or gold
        (one, short_one), (other, short_other) = _joined(few), _joined(gold)
        names_it = _covers(few, rest, same) or one in (other, short_other) or short_one == other
        return f" {' '.join(gold)} " in whole or (names_it and len(few) <= 2 * len(gold) + _FEW)

    def is_part(gold: list[str]) -> bool:
        text = " ".join(gold)
        is_start = len(start) >= _PREFIX and text.startswith(start) and len(start) + 2 < len(text)
        return is_start or bool({*few} - wording.SPEECH and _covers(gold, few, eq))

    if any(is_gold(gold, eq) for gold in golds):
        return FORM
    if any(map(is_part, golds)):
        return INCOMPLETE
    if not contains(context, short.lower()) and any(is_gold(gold, alike) for gold in golds):
        return FORM
    if not {*words} - wording.FILLER:
        return REFUSAL if denies(short, names=False) else OTHER
    is_asked = 2 * len(words) >= len(of_question) and _covers(of_question, words, eq)
    if is_asked or wording.PLAN.search(short):
        return OTHER
    first = _FIRST.split(short)[0]
    telling = {*words_of(first)} - wording.FILLER and {*folded(first)} - {*of_question}
    may_be = [short, first] if telling else [short]
    if any(len(one) < 10 * _LONG and _is_in(context, one) for one in may_be):
        return CONTEXT
    own = _own_words(row, text)
    if denies(own):
        return REFUSAL
    every = [*wording.names(short, of_question)]
    if 2 * len("".join(name for name in every if _is_in(context, name))) > len("".join(every)):
        return CONTEXT
    if every:
        return ABSENT
    is_phrase = 2 * len(content) > len(words) and not wording.META.search(shorts[-1])
    if denies(own, names=False) and not (is_phrase and len(content) > _FEW):
        return REFUSAL
    return ABSENT if is_phrase else OTHER


def _is_in(context: str, name: str) -> bool:
    """Whether a context has a name, or a number also with other separators."""
    grouped = re.sub(r"(?<=\d)[. ](?=\d{3})", ",", name.lower())
    return contains(context, name.lower()) or (grouped != name and contains(context, grouped))


def _question_words(row: Row) -> list[str]:
    """Return the words of a question, without its instruction."""
    return folded(row.question.rpartition("Question:")[2])


_Same = Callable[[str, str], bool]


def _covers(words: Collection[str], targets: Collection[str], same: _Same) -> bool:
    return all(any(same(word, target) for word in words) for target in targets)


def _joined(words: Sequence[str]) -> tuple[str, str]:
    """Return words as one, and their initials: web site is website, United States is US."""
    return "".join(words), "".join(word[0] for word in words) if len(words) > 1 else "-"
