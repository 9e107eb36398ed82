"""Why a row lost points: one label a row, from the answer and the context alone.

What an answer names is looked up in the context first; how it is worded decides only where it names
nothing. No label says more than the text shows: `not in the context` is what the model knew before
or made up, and only a run without context can tell which. `benchmarks/failures.py` measures how
often a label is right.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from itertools import dropwhile
from operator import eq

from ruler_data.row import Row
from ruler_data.tasks import Cwe, Niah, Task, Vt
from ruler_eval.metrics import claim_of
from ruler_report import exact
from ruler_report.exact import WORDING, contains, lower, plain

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
    """Return the label of a row; None if its official score is 1 and it names no other answer.

    `bare` is the answer of the same model without the context, if known.
    """
    named = exact.named_in(row, task, answer)
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
    if named.others and not (len(named.others) <= _FEW and not named.gold and _denies(own)):
        return _of_others(row, task, named)
    return _of_rest(row, task, text.lower(), own, named)


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+(?:[-'\u2019][^\W_]+)*", text.lower())


def _own_words(row: Row, text: str) -> str:
    """Return a plain text without the sentences that repeat the question or the context."""
    asked, context = {*_words(row.question)}, lower(row.context)

    def repeats(part: str) -> bool:
        phrase = re.sub(r"^\W*(?:answer:)?\W*|\W+$", "", part.lower())
        return asked.issuperset(_words(part)) or (len(phrase) >= _LONG and phrase in context)

    parts = re.split(r"(?<=[.!?\u3002\n])(?!\d)", text)
    return "".join(part for part in parts if not repeats(part))


def _of_others(row: Row, task: Task, named: exact.Named) -> str:
    """Return the label of an answer that names others than gold answers."""
    wrong, start = set(named.others), example_end(row, task)
    shown = {*_words(row.context[:start].rsplit(":", 1)[-1])} & wrong
    if shown and 2 * len(shown) >= len(wrong | named.gold):
        return COPIED
    context = lower(row.context)[start:]
    return CONTEXT if any(contains(context, word) for word in wrong) else ABSENT


def _of_rest(row: Row, task: Task, text: str, own: str, named: exact.Named) -> str:
    """Return the label of an answer, in lower case, that names no other than gold answers."""
    outputs = [output.lower() for output in row.outputs]
    spelled = _in_digits(text)
    if all(output in named.gold or _spelled(output, spelled) for output in outputs):
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
        parts = [words for words, label, _ in exact.segments(text) if words and not label]
        size = 1 if isinstance(task.params, Vt) else 2
        items = {word for word, *more in parts if not more and word.isascii() and len(word) >= size}
        items -= {*WORDING["meta"].split()}
        return ABSENT if len(items) > 1 or (items and max(map(len, parts)) == 1) else OTHER
    numbers = re.findall(r"(?<![\w.])[0-9a-f-]*\d[0-9a-f-]+(?!\w)", _LIST_NUMBER.sub("", text))
    is_value = task.params.value_type != "words" and {*numbers} - {*_words(row.question)}
    return ABSENT if is_value else OTHER


def _spelled(gold: str, text: str) -> bool:
    """Whether a text spells a gold answer with other separators: 1,234,567 or q z k r a."""
    letters = re.sub(r"\W", "", gold)
    if len(gold) < 5 or letters not in re.sub(r"[\W_]", "", text):  # most; no pattern for each
        return False
    spaced = r"[\W_]{0,3}".join(letters)
    return re.search(rf"(?<![^\W_]){spaced}(?![^\W_])", text) is not None


def _any(*texts: str) -> str:
    return f"(?:{'|'.join(re.escape(word) for text in texts for word in text.split())})"


_NO = rf"(?:\b{_any(WORDING['no'])}\b(?!-)|n['\u2019]t\b)"
_ANY_NO = re.compile(rf"(?i){_NO}")
_FIND = rf"\b{_any(WORDING['find'])}"
_DENIAL = re.compile(
    rf"(?i){_NO}[^.!?\n]{{0,70}}{_FIND}|{_FIND}[^.!?,\n]{{0,40}}{_NO}|\b{_any(WORDING['sorry'])}\b|"
    rf"\b{_any(*WORDING['denial_words'].values())}\b(?!-)|{_any(*WORDING['denials'].values())}"
)
_BARE = frozenset(f"{WORDING['bare']} {' '.join(WORDING['unknown'].values())}".split())
_BESIDE = frozenset(WORDING["beside_bare"].split())


def _is_bare(text: str) -> bool:
    """Whether a text is but a word for none or unknown, such as N/A."""
    words = {*_words(text.replace("/", ""))}
    return not words.isdisjoint(_BARE) and words <= _BARE | _BESIDE


def _denies(text: str, *, names: bool = True) -> bool:
    """Whether a plain text declines, or denies that the answer is there.

    Of a text that `names` nothing and has few sentences, any negation decides.

    >>> _denies("I couldn't find it."), _denies("Norway"), _denies("It was not Ann.")
    (True, False, False)
    """
    if _is_bare(text) or _DENIAL.search(text):
        return True
    few = len(re.findall(r"[^.!?\n]*\w[^.!?\n]*", text)) < _FEW
    return not names and few and bool(_ANY_NO.search(text))


_META = re.compile(rf"\b{_any(WORDING['meta'])}\b|{_any(WORDING['meta_unspaced'])}", re.IGNORECASE)
#: Notes behind an answer, and numbers of documents and steps.
_ASIDES = re.compile(rf"(?i)(?<=\w) \([^()]*\)|\b{_any(WORDING['meta'])} \d+(?:\W+(?:\w+ )?\d+)*")
_PLAN = re.compile(
    rf"(?i)(?:^|.*[.!?:\n]\s*){_any(WORDING['plan']).replace('_', ' ')}\b[^.!?\n]*\W*"
)
_LEADS = frozenset(f"{WORDING['meta']} {WORDING['leads']}".split())
#: The capital of a sentence that does not begin with a name of several words.
_BEGINS = re.compile(r"(?:^|(?<=[.!?:]\s)|(?<=\n))[A-Z](?=[\w'\u2019]*[ ,.:!]+(?:[^A-Z\s]|I\b))")
#: Proper names and numbers; a number of one or two digits is in any text, so with a word.
_NAME = re.compile(
    r"[A-Z][\w'\u2019-]*(?:[ .]+(?:(?:of|the|de|van|von) )?[A-Z\d][\w'\u2019-]*)*"
    r"|\b\d{1,2} [a-z]+|[a-z]+ \d{1,2}(?!\S)|\d+(?:[.,]\d+)*"
)


def _of_free_words(row: Row, answer: str, own: str) -> str:
    """Return the label of an answer to a question whose answers are free words (qa)."""
    shorts, context = exact.short_answers(answer), lower(row.context)
    plain_shorts = [_ASIDES.sub("", each).strip(" .,:!\"'\n") for each in shorts]
    short = plain_shorts[-1] or plain_shorts[0]
    polar, opening = {output.lower() for output in row.outputs}, {*_words(f"{short} -")[:1]}
    for answered in ("yes", "no") if polar <= {"yes", "no"} else ():
        if opening & {*WORDING["polar"][answered].split()}:
            return FORM if answered in polar else CONTEXT
    if _is_bare(short):
        return REFUSAL
    asked, golds = _folded(row.question), [*map(_folded, row.outputs)]
    said = [_folded(each) for each in (*shorts, short)]
    own_words = [word for word in said[-1] if word not in asked and word not in _LEADS]
    words, whole = own_words or said[-1], " ".join(said[-2])
    same = eq if contains(context, short.lower()) else _alike
    joined = [*map(" ".join, golds)]
    if whole not in joined and any(
        gold.startswith(whole) and len(whole) + 2 < len(gold) <= 2 * len(whole) for gold in joined
    ):
        return INCOMPLETE
    for gold in golds:
        wanted = [word for word in gold if word not in asked] or gold
        names_it = _covers(words, wanted, same) and _covers(gold, words, same)
        if names_it or any(_names_all(each, gold, same) for each in said):
            return FORM
    telling = any(len(word) > 2 or word.isdigit() for word in words)
    if telling and any(_covers(gold, words, eq) for gold in golds):
        return INCOMPLETE
    if _LEADS.issuperset(said[-1]) or _PLAN.fullmatch(short):
        return OTHER
    if len(short) < 10 * _LONG and _is_in(context, short.lower()):
        is_choice = any(_covers(asked, gold[:-1] or gold, eq) for gold in golds)
        repeated = contains(row.question.lower(), short.lower())
        return OTHER if repeated and not is_choice else CONTEXT
    if _denies(own):
        return REFUSAL
    names = [*_names(short, asked)]
    if 2 * len("".join(name for name in names if _is_in(context, name))) > len("".join(names)):
        return CONTEXT
    if names:
        return ABSENT
    if _denies(own, names=False):
        return REFUSAL
    repeats = 2 * len({*own_words}) <= len({*said[-1]} - _LEADS)
    return OTHER if repeats or _META.search(shorts[-1]) else ABSENT


_Same = Callable[[str, str], bool]


def _covers(words: Sequence[str], wanted: Sequence[str], same: _Same) -> bool:
    return all(any(same(word, one) for word in words) for one in wanted)


def _names_all(said: Sequence[str], gold: Sequence[str], same: _Same) -> bool:
    """Whether a text says all words of a gold answer, in a row or in few words."""
    in_a_row = f" {' '.join(gold)} " in f" {' '.join(said)} "
    return in_a_row or (len(said) <= 2 * len(gold) + _FEW and _covers(said, gold, same))


def _alike(word: str, wanted: str) -> bool:
    """Whether words differ in their ending alone, or one is short for the other.

    >>> _alike("voices", "voice"), _alike("oct", "october"), _alike("austria", "australia")
    (True, True, False)
    """
    short, long = sorted((len(word), len(wanted)))
    same = next((n for n in range(short) if word[n] != wanted[n]), short)
    is_short = same == short and (short > 2 or wanted == word[0])
    return word == wanted or (wanted.isalpha() and (is_short or same >= max(4, long - 3)))


def _folded(text: str) -> list[str]:
    """Return the words that SQuAD compares, also without accents, and numbers as digits."""
    plain = unicodedata.normalize("NFKD", _in_digits(re.sub("[-/]", " ", text)))
    plain = "".join(c for c in plain if unicodedata.category(c) not in ("Mn", "Sc"))
    plain = re.sub(r"(?<=\d)[., ](?=\d{3})", "", plain)
    plain = re.sub(r"(\d)(?:st|nd|rd|th)\b|\b(?:on|of|in)\b", r"\1", plain)
    return exact.normalized(plain).split()


_NUMBERS = {word: number for number, word in enumerate(WORDING["numbers"].split())}
_NUMBERS |= {word: 10 * number for number, word in enumerate(WORDING["tens"].split(), 2)}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6}
_ROMAN = {word: str(number) for number, word in enumerate(WORDING["roman"].split(), 2)}
_AND = rf"(?:(?:[ -]| and ){_any(*_NUMBERS, *_SCALES)})"
_COUNT = re.compile(rf"(?i)(?<![\d.,])\b(?:\d+{_AND}|{_any(*_NUMBERS)}){_AND}*\b")


def _in_digits(text: str) -> str:
    """Return a text with Roman numerals, and numbers in English words, as digits.

    >>> _in_digits("nineteen seventy-three, one hundred and five, 5 million, 007, Henry VIII")
    '1973, 105, 5000000, 007, Henry 8'
    """

    def digits(match: re.Match[str]) -> str:
        total = part = 0
        for word in re.findall(r"\w+", match[0].lower().replace(" and ", " ")):
            if word in _SCALES:
                part *= _SCALES[word]
                total, part = (total, part) if word == "hundred" else (total + part, 0)
            else:
                number = int(_NUMBERS.get(word, word))
                part = part * (100 if min(part, number) > 9 and part < 100 else 1) + number
        return str(total + part)

    text = re.sub(r"\b[IVX]{2,}\b", lambda match: _ROMAN.get(match[0], match[0]), text)
    return _COUNT.sub(digits, text)


def _names(text: str, asked: Sequence[str]) -> Iterator[str]:
    """Yield the proper names and numbers of an answer that are not in the question."""
    text = _BEGINS.sub(lambda capital: capital[0].lower(), text)
    for match in _NAME.findall(_LIST_NUMBER.sub("", text)):
        words = dropwhile(lambda word: re.split(r"\W", word)[0] in _LEADS, match.lower().split())
        name = " ".join(words).strip(".,")
        if not _covers(asked, _folded(name), _alike):
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
