"""Why a row lost points: one label a row, from the answer and the context alone.

What an answer names is looked up in the context first; how it is worded decides only where it names
nothing. No label says more than the text shows: `not in the context` is what the model knew before
or made up, and only a run without context can tell which. `benchmarks/failures.py` measures how
often a label is right.
"""

import re
import unicodedata
from itertools import dropwhile

from ruler_data.row import Row
from ruler_data.tasks import Cwe, Niah, Task, Vt
from ruler_eval.metrics import claim_of
from ruler_report.exact import (
    WORDING,
    Named,
    contains,
    lower,
    named_in,
    normalized,
    plain,
    short_answers,
)

#: The meaning of each label, in the order in which a report lists them.
MEANINGS: dict[str, str] = {
    "empty": "no letter and no digit, but for the number of a list",
    "refusal": "the model declines, or says that the answer is not there",
    "right, in another form": "the gold answer as the official score misses it: 1,234,567",
    "incomplete": "some gold answers, or the beginning of one, and nothing else of their kind",
    "more than the gold answers": "all gold answers and others: score 100, exact score 0",
    "copied from the example": "at least half of what it names is the example's answer",
    "wrong, from the context": "another needle, variable, word or document; yes for no",
    "as without context": "the same answer as the run without context gave",
    "not in the context": "what it names beside gold answers is not in the context",
    "no answer": "names nothing of the kind asked for: chatter, a plan, code, the question again",
}
EMPTY, REFUSAL, FORM, INCOMPLETE, EXTRA, COPIED, CONTEXT, PARAMETRIC, ABSENT, OTHER = MEANINGS

_READ = 10_000  # characters of an answer that is read for its wording; few have a tenth of it
_LONG = 8  # characters of a phrase that no text has by chance
_FEW = 3  # values that a refusal may mention, and words or sentences that are few
#: Two statements of a program, or one and a call.
_KEYWORD = r"^[ \t]*(?:def|import|from|for|if|return|while|print|const|function)\b"
_CODE = re.compile(rf"(?ms){_KEYWORD}.*(?:{_KEYWORD}|\w\([^()\n]*\))")
_LIST_NUMBER = re.compile(r"(?m)^[ ]*\d{1,3}[.)](?=\s|$)")


def failure_of(row: Row, task: Task, answer: str, score: float, bare: str | None) -> str | None:
    """Return the label of a row; None if it scores 1 and names no other answer.

    `score` is the official one. `bare` is the answer of the same model without the context, if
    known.
    """
    named = named_in(row, task, answer)
    if score == 1:
        return EXTRA if named and named.others else None
    text = plain(answer[:_READ])
    if not _words(_LIST_NUMBER.sub("", text)):
        return EMPTY
    own = _own_words(row, text)
    if bare is not None and score == 0 and not _denies(own) and _words(answer) == _words(bare):
        return PARAMETRIC
    if score == 0 and _CODE.search(text):
        return OTHER
    if named is None:
        return _of_free_words(row, answer[:_READ], own)
    match task.params:
        case Niah(none="possible") as params if claim_of(row, params, answer) == "none":
            return REFUSAL
    if named.others and not (len(named.others) <= _FEW and score == 0 and _denies(own)):
        return _of_others(row, task, named)
    return _of_rest(row, task, text.lower(), own, named)


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+(?:[-'\u2019][^\W_]+)*", text.lower())


def _own_words(row: Row, text: str) -> str:
    """Return a plain text without the sentences that repeat the question or the context."""
    question_words, kept = {*_words(row.question)}, []
    for part in re.split(r"(?<=[.!?\u3002\n])(?!\d)", text):
        phrase = re.sub(r"^\W*(?:answer:)?\W*|\W+$", "", part.lower())
        repeats = {*_words(part)} <= question_words
        if not phrase or not (repeats or (len(phrase) >= _LONG and phrase in lower(row.context))):
            kept.append(part)
    return "".join(kept)


def _of_others(row: Row, task: Task, named: Named) -> str:
    """Return the label of an answer that names others than gold answers."""
    wrong, start = set(named.others), example_end(row, task)
    shown = {*_words(row.context[:start].rsplit(":", 1)[-1])} & wrong
    if shown and 2 * len(shown) >= len(wrong | named.gold):
        return COPIED
    context = lower(row.context)[start:]
    return CONTEXT if any(contains(context, word) for word in wrong) else ABSENT


def _of_rest(row: Row, task: Task, text: str, own: str, named: Named) -> str:
    """Return the label of an answer, in lower case, that names no other than gold answers."""
    outputs = [output.lower() for output in row.outputs]
    if all(output in named.gold or _spelled(output, text) for output in outputs):
        return FORM
    begun = re.split(r"[^a-z0-9-]", text.rstrip(" .'\""))[-1]
    if named.gold or any(
        output.startswith(begun) and len(begun) >= min(_LONG, -(-len(output) // 2))
        for output in outputs
    ):
        return INCOMPLETE
    if _denies(own, names=False):
        return FORM if row.outputs == ("none",) else REFUSAL
    if not isinstance(task.params, Niah):  # a list of words is an answer, whatever they are
        listed = re.fullmatch(r"(?a)\W*[a-z]\w*\s*(?:[,;\n]\W*(?:\d\W+)?[a-z]\w*\s*)+\W*", text)
        return ABSENT if listed else OTHER
    numbers = re.findall(r"(?<![\w.])[0-9a-f-]*\d[0-9a-f-]+(?!\w)", _LIST_NUMBER.sub("", text))
    is_value = task.params.value_type != "words" and {*numbers} - {*_words(row.question)}
    return ABSENT if is_value else OTHER


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
_OTHER_NO = (
    rf"\b{_any(*WORDING['denial_words'].values())}\b(?!-)|{_any(*WORDING['denials'].values())}"
)
_DENIAL = re.compile(
    rf"{_NO}[^.!?\n]{{0,70}}{_FIND}|{_FIND}[^.!?,\n]{{0,40}}{_NO}|\b{_any(WORDING['sorry'])}\b"
    rf"|{_OTHER_NO}",
    re.IGNORECASE,
)
_BARE = re.compile(
    rf"(?:(?:the )?answer(?: is|:)?\s*)?{_any(WORDING['bare'])}"
    rf"(?: {_any(WORDING['bare_after'])}){{0,2}}",
    re.IGNORECASE,
)


def _denies(text: str, *, names: bool = True) -> bool:
    """Whether a plain text declines, or denies that the answer is there.

    Of a text that `names` nothing and has few sentences, any negation decides.

    >>> _denies("I couldn't find it."), _denies("Norway"), _denies("It was not Ann.")
    (True, False, False)
    """
    if _BARE.fullmatch(text.strip(" .,!()[]\"'\n|<>")) or _DENIAL.search(text):
        return True
    sentences = re.findall(r"[^.!?\n]*\w[^.!?\n]*", text)
    return not names and len(sentences) < _FEW and bool(re.search(_NO, text, re.IGNORECASE))


_META = re.compile(rf"\b{_any(WORDING['meta'])}\b|{_any(WORDING['meta_unspaced'])}", re.IGNORECASE)
_DIGITS = dict(zip(WORDING["digits"].split(), "0123456789", strict=True))
_LEADS = frozenset(f"{WORDING['meta']} {WORDING['leads']}".split())
#: The capital of a sentence that does not begin with a name of several words.
_BEGINS = re.compile(r"(?:^|(?<=[.!?:]\s)|(?<=\n))[A-Z](?=[\w'\u2019]*[ ,.:!]+(?:[^A-Z\s]|I\b))")
#: Proper names and numbers.
_NAME = re.compile(
    r"[A-Z][\w'\u2019-]*(?:[ .]+(?:(?:of|the|de|van|von) )?[A-Z][\w'\u2019-]*)*|\d+(?:[.,]\d+)*"
)


def _of_free_words(row: Row, answer: str, own: str) -> str:
    """Return the label of an answer to a question whose answers are free words (qa)."""
    shorts, question, context = short_answers(answer), row.question.lower(), lower(row.context)
    short = re.sub(r"(?<=\w) \([^()]*\)", "", shorts[-1]).strip(" .,!\"'\n")
    polar, opening = {output.lower() for output in row.outputs}, _words(f"{short} -")[:1]
    for answered in ("yes", "no") if polar <= {"yes", "no"} else ():
        if {*opening} & {*WORDING["polar"][answered].split()}:
            return FORM if answered in polar else CONTEXT
    if _BARE.fullmatch(short):
        return REFUSAL
    folded = [_folded(each) for each in (*shorts, short)]
    for gold in map(_folded, row.outputs):
        words = sorted(gold.split())
        if any(contains(each, gold) or sorted(each.split()) == words for each in folded):
            return FORM
        is_part = gold.startswith(folded[-1]) or contains(gold, folded[-1])
        if is_part and 2 * len(folded[-1]) >= len(gold):
            return INCOMPLETE
    if len(short) < 10 * _LONG and _is_in(context, short.lower()):
        return OTHER if contains(question, short.lower()) else CONTEXT
    if _denies(own):
        return REFUSAL
    names = _names(_BEGINS.sub(lambda match: match[0].lower(), short), question)
    if 2 * len("".join(name for name in names if _is_in(context, name))) > len("".join(names)):
        return CONTEXT
    if names:
        return ABSENT
    if _denies(own, names=False):
        return REFUSAL
    own_words = {*_words(short)} - _LEADS
    repeats = 2 * len(own_words - {*_words(question)}) <= len(own_words)
    return OTHER if repeats or _META.search(short) else ABSENT


def _folded(text: str) -> str:
    """Return a text as SQuAD compares it, also without accents, and small numbers as digits."""
    bare = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    bare = re.sub(r"(?<=\d)[.,](?=\d{3})", "", bare.replace("-", " "))
    bare = re.sub(r"(\d)(?:st|nd|rd|th)\b|\b(?:on|of|in)\b", r"\1", bare)
    return " ".join(_DIGITS.get(word, word) for word in normalized(bare).split())


def _names(text: str, question: str) -> list[str]:
    """Return the proper names and numbers of an answer that are not in the question, in lower case.

    >>> _names("It was Ann Lee of Oslo in 1911", "who lived in Oslo?")
    ['ann lee of oslo', '1911']
    """
    found = []
    for match in _NAME.findall(_LIST_NUMBER.sub("", text)):
        words = dropwhile(
            lambda word: re.split(r"['.\u2019]", word)[0] in _LEADS, match.lower().split()
        )
        name = " ".join(words).strip(".,")
        if len(name) > 1 and not contains(question, name):
            found.append(name)
    return found


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
