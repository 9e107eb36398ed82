"""Why a row lost points: one label a row, from the answer and the context alone.

What an answer names is looked up in the context first; how it is worded decides only where it names
nothing. No label says more than the text shows: `not in the context` is what the model knew before
or made up, and only a run without context can tell which. `benchmarks/failures.py` measures how
often a label is right.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from decimal import Decimal
from operator import eq

from ruler_data.row import Row
from ruler_data.tasks import Cwe, Niah, Task, Vt
from ruler_eval.metrics import claim_of
from ruler_report import exact
from ruler_report.exact import SPEECH, WORDING, contains, lower, plain

#: The meaning of each label, in the order in which a report lists them.
MEANINGS: dict[str, str] = {
    "empty": "no letter and no digit",
    "refusal": "the model declines, or says that the answer is not there",
    "right, in another form": "the gold answer as the official score misses it: 1,234,567",
    "incomplete": "some gold answers, or a part of one, and nothing else of their kind",
    "more than the gold answers": "score 100, exact score 0: others beside all gold answers",
    "copied from the example": "at least half of what it names is the example's answer",
    "wrong, from the context": "another needle, variable, word or phrase; yes for no",
    "as without context": "the same answer as the run without context gave",
    "not in the context": "what it names beside gold answers is not in the context",
    "no answer": "names nothing of the kind asked for: chatter, a plan, code, the question again",
}
EMPTY, REFUSAL, FORM, INCOMPLETE, EXTRA, COPIED, CONTEXT, PARAMETRIC, ABSENT, OTHER = MEANINGS

_READ = 10_000  # characters of an answer that is read for its wording; few have a tenth of it
_LONG = 8  # characters of a phrase that no text has by chance
_BEGUN = 4  # characters that tell the beginning of an answer
_FEW = 3  # sentences of a refusal that does not say what it denies; words beside an answer
#: Two statements of a program, or one and a call.
_KEYWORD = r"^[ \t]*(?:def|import|from|for|if|return|while|print|const|function)\b"
_CODE = re.compile(rf"(?ms){_KEYWORD}.*(?:{_KEYWORD}|\w\([^()\n]*\))")
_VALUE = re.compile(r"(?<![\w.])[0-9a-f-]*\d(?:[ ,.:]?[0-9a-f-])+(?!\w)")
_LIST_NUMBER = re.compile(r"(?m)^[ ]*\d{1,3}[.)](?=\s|$)")


def failure_of(row: Row, task: Task, answer: str, score: float, bare: str | None) -> str | None:
    """Return the label of a row; None if its official score is 1 and it names no other answer.

    `bare` is the answer of the same model without the context, if known.
    """
    named = exact.named_in(row, task, answer)
    if score == 1:
        is_right = exact.exact_scores(row, task, answer, score)[0] == 1
        more = not is_right and (named is not None or _names_more(row, answer[:_READ]))
        return EXTRA if more else None
    text = plain(answer[:_READ])
    if not _words(text):
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
    return _of_others(row, task, named) if named.others else _of_rest(row, task, text, own, named)


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
    """Return the label of an answer that names no other than gold answers."""
    outputs, text = [output.lower() for output in row.outputs], text.lower()
    spelled = _in_digits(text)
    if all(output in named.gold or _spelled(output, spelled) for output in outputs):
        return FORM
    begun = re.split(r"[^a-z0-9-]", text.rstrip(" .'\""))[-1]
    is_begun = len(begun) >= _BEGUN and any(output.startswith(begun) for output in outputs)
    if named.gold or is_begun:
        return INCOMPLETE
    if (plan := _PLAN.search(own)) and not _denies(own[: plan.start()]):
        return OTHER
    if _denies(own, names=False):
        return FORM if row.outputs == ("none",) else REFUSAL
    if isinstance(task.params, Niah):
        values = {re.sub(r"\W", "", value) for value in _VALUE.findall(_LIST_NUMBER.sub("", text))}
        values -= {re.sub(r"\W", "", word) for word in _words(row.question)}
        context = lower(row.context).replace("-", "")
        if any(len(value) > _FEW + 2 and value in context for value in values):
            return CONTEXT
        found = task.params.value_type != "words" and bool(values)
    else:  # a list of words is an answer, whatever they are
        parts = [words for words, label, _ in exact.segments(text) if words and not label]
        size = 1 if isinstance(task.params, Vt) else 2
        alone = {word for word, *more in parts if not more and word.isascii() and len(word) >= size}
        alone -= {*WORDING["meta"].split()}
        found = len(alone) > 1 or bool(alone and max(map(len, parts)) == 1)
    return ABSENT if found else OTHER


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


def _denies(text: str, *, names: bool = True) -> bool:
    """Whether a plain text declines, or denies that the answer is there.

    Of a text that `names` nothing and has few sentences, any negation decides.

    >>> _denies("I couldn't find it."), _denies("Norway"), _denies("It was not Ann.")
    (True, False, False)
    """
    few = not names and len(re.findall(r"[^.!?\n]*\w[^.!?\n]*", text)) < _FEW
    return bool(_DENIAL.search(text) or (few and _ANY_NO.search(text)))


_META = re.compile(rf"\b{_any(WORDING['meta'])}\b|{_any(WORDING['meta_unspaced'])}", re.IGNORECASE)
#: Notes behind an answer, and numbers of documents and steps.
_ASIDES = re.compile(rf"(?i)(?<=\w) \([^()]*\)|\b{_any(WORDING['meta'])} \d+(?:\W+(?:\w+ )?\d+)*")
_PLAN = re.compile(
    rf"(?i)(?:^|[.!?:\n]\s*){_any(WORDING['plan']).replace('_', ' ')}\b(?! know)[^.!?\n]*\W*\Z"
)
_NONE = frozenset(WORDING["no"].split())
_ITEM = re.compile(r"[,;/|\n()]|\b(?:or|and|not|but)\b")


def _of_free_words(row: Row, answer: str, own: str) -> str:
    """Return the label of an answer to a question whose answers are free words (qa)."""
    shorts, context = exact.short_answers(answer), lower(row.context)
    plain_shorts = [_ASIDES.sub("", each).strip(" .,:!\"'\n") for each in shorts]
    short = plain_shorts[-1] or plain_shorts[0]
    polar, opening = {output.lower() for output in row.outputs}, {*_words(f"{short} -")[:1]}
    for answered in ("yes", "no") if polar <= {"yes", "no"} else ():
        if opening & {*WORDING["polar"][answered].split()}:
            return FORM if answered in polar else CONTEXT
    asked, golds = _asked(row), [*map(_folded, row.outputs)]
    whole, said = f" {' '.join(_folded(plain_shorts[0]))} ", _folded(short)
    content = [word for word in said if word not in asked and word not in SPEECH | _NONE]
    few, begun = content or said, " ".join(said)

    def is_gold(gold: list[str], same: _Same) -> bool:
        wanted = {*gold} - {*asked} or gold
        (one, short_one), (other, short_other) = _joined(few), _joined(gold)
        names_it = _covers(few, wanted, same) or one in (other, short_other) or short_one == other
        return f" {' '.join(gold)} " in whole or (names_it and len(few) <= 2 * len(gold) + _FEW)

    def is_part(gold: list[str]) -> bool:
        text = " ".join(gold)
        is_begun = len(begun) >= _BEGUN and text.startswith(begun) and len(begun) + 2 < len(text)
        return is_begun or bool({*few} - SPEECH and _covers(gold, few, eq))

    if any(is_gold(gold, eq) for gold in golds):
        return FORM
    if any(map(is_part, golds)):
        return INCOMPLETE
    if not contains(context, short.lower()) and any(is_gold(gold, _alike) for gold in golds):
        return FORM
    if not {*said} - SPEECH - _NONE:
        return REFUSAL if _denies(short, names=False) else OTHER
    is_asked = 2 * len(said) >= len(asked) and _covers(asked, said, eq)
    if is_asked or _PLAN.search(short):
        return OTHER
    if len(short) < 10 * _LONG and contains(context, short.lower()):
        return CONTEXT
    if _denies(own):
        return REFUSAL
    names = [*_names(short, asked)]
    if 2 * len("".join(name for name in names if contains(context, name))) > len("".join(names)):
        return CONTEXT
    if names:
        return ABSENT
    if _FEW < len(content) > len(said) / 2 and not _META.search(shorts[-1]):
        return ABSENT
    if _denies(own, names=False):
        return REFUSAL
    return OTHER if 2 * len(content) <= len(said) or _META.search(shorts[-1]) else ABSENT


def _names_more(row: Row, answer: str) -> bool:
    """Whether a right answer in free words has other names, numbers or items of the context."""
    text, context, asked = _ASIDES.sub("", plain(answer)), lower(row.context), _asked(row)
    gold = [word for output in row.outputs for word in _folded(output)]
    known = [*asked, *gold]
    items = _ITEM.split(text) if len(_words(text)) <= 4 * _FEW else []
    items = [item.strip(" .").lower() for item in items if {*_folded(item)} - {*SPEECH, *known}]
    return not {*gold} <= {"yes", "no"} and any(
        len(name) >= _BEGUN and contains(context, name) for name in (*_names(text, known), *items)
    )


def _asked(row: Row) -> list[str]:
    """Return the words of a question, without its instruction."""
    return _folded(row.question.rpartition("Question:")[2])


_Same = Callable[[str, str], bool]


def _covers(words: Collection[str], wanted: Collection[str], same: _Same) -> bool:
    return all(any(same(word, one) for word in words) for one in wanted)


def _joined(words: Sequence[str]) -> tuple[str, str]:
    """Return words as one, and their initials: web site is website, United States is US."""
    return "".join(words), "".join(word[0] for word in words) if len(words) > 1 else "-"


_LETTER = re.compile(r".*(?:LETTER|SYLLABLE) (?:SMALL )?(?=\w+$)|.* .*")
_SOUNDS = str.maketrans("cqzßvw", "kkssff", "h")


def _sound(word: str) -> str:
    """Return the consonants of a word of any alphabet, which a translated name keeps.

    >>> _sound("strassburg"), _sound("strasbourg"), _sound("коллинз"), _sound("collins")
    ('strsbrg', 'strsbrg', 'klns', 'klns')
    """
    letters = (c if c < "\u0250" else _LETTER.sub("", unicodedata.name(c, "")) for c in word)
    return re.sub(r"[aeiouyj]|(.)(?=\1)", "", "".join(letters).lower().translate(_SOUNDS))


def _alike(word: str, wanted: str) -> bool:
    """Whether words differ in their ending or vowels alone, or one is short for the other.

    >>> _alike("voices", "voice"), _alike("prof", "professor"), _alike("austria", "australia")
    (True, True, False)
    """
    if wanted.isalpha() and len(sound := _sound(wanted)) > 2 and sound == _sound(word):
        return True
    short, long = sorted((len(word), len(wanted)))
    same = next((n for n in range(short) if word[n] != wanted[n]), short)
    is_short = same == short and (short > 2 or wanted == word[0])
    return word == wanted or (wanted.isalpha() and (is_short or same >= max(4, long - 3)))


_MONTHS = {word: str(n) for n, month in enumerate(WORDING["months"], 1) for word in month.split()}


def _folded(text: str) -> list[str]:
    """Return the words that SQuAD compares, also without accents, and numbers as digits."""
    plain = unicodedata.normalize("NFKD", _in_digits(re.sub("[-/]", " ", text)))
    plain = "".join(c for c in plain if unicodedata.category(c) not in ("Mn", "Sc"))
    plain = re.sub(r"(?<=\d)[., ](?=\d{3})", "", plain)
    plain = re.sub(r"(\d)(?:st|nd|rd|th)\b|\b(?:on|of|in|to|and)\b|\b0+(?=\d)", r"\1", plain)
    return [_MONTHS.get(word, word) for word in exact.normalized(plain).split()]


_NUMBERS = {word: 10 * number for number, word in enumerate(WORDING["tens"].split(), 2)}
for words in ("numbers", "ordinals"):
    _NUMBERS |= {word: number for number, word in enumerate(WORDING[words].split())}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
_HAN = "\u3007\u4e00\u4e8c\u4e09\u56db\u4e94\u516d\u4e03\u516b\u4e5d"
_POWER = re.compile(
    r"(?i)(\d+[.,]\d+)(?: (million|billion)|(?:e| ?[x\u00d7]? ?10 ?\^) ?\+?(\d+))\b"
)
_ROMAN = {word: str(number) for number, word in enumerate(WORDING["roman"].split(), 2)}
_AND = rf"(?:(?:[ -]| and |(?<=nd|on), ){_any(*_NUMBERS, *_SCALES)})"
_COUNT = re.compile(rf"(?i)(?<![\d.,])\b(?:\d+{_AND}|{_any(*_NUMBERS)}){_AND}*\b")


def _in_digits(text: str) -> str:
    """Return a text with Roman numerals, and numbers in English words, as digits.

    >>> _in_digits("nineteen seventy-three, one hundred and five, 5 million, 007, Henry VIII")
    '1973, 105, 5000000, 007, Henry 8'
    >>> _in_digits("two two three")
    '223'
    """

    def digits(match: re.Match[str]) -> str:
        words = re.findall(r"\w+", match[0].lower().replace(" and ", " "))
        numbers = [_SCALES.get(word) or int(_NUMBERS.get(word, word)) for word in words]
        if max(numbers) < 10:
            return "".join(map(str, numbers))
        total = part = 0
        for word, number in zip(words, numbers, strict=True):
            if word in _SCALES:
                part *= number
                total, part = (total, part) if word == "hundred" else (total + part, 0)
            else:
                part = part * (100 if min(part, number) > 9 and part < 100 else 1) + number
        return str(total + part)

    def whole(match: re.Match[str]) -> str:
        scale = _SCALES[match[2].lower()] if match[2] else 10 ** min(int(match[3]), 20)
        return f"{Decimal(match[1].replace(',', '.')) * scale:.0f}"

    text = re.sub(r"\b[IVX]{2,}\b", lambda match: _ROMAN.get(match[0], match[0]), text)
    text = _POWER.sub(whole, text)
    text = re.sub(f"[{_HAN}]{{2,}}", lambda run: "".join(str(_HAN.index(c)) for c in run[0]), text)
    return _COUNT.sub(digits, text)


#: The capital of a sentence that does not begin with a name of several words.
_BEGINS = re.compile(r"(?:^|(?<=[.!?:]\s)|(?<=\n))[A-Z](?=[\w'\u2019]*[ ,.:!]+(?:[^A-Z\s]|I\b))")
#: Proper names and numbers; a number of one or two digits is in any text, so with a word.
_NAME = re.compile(
    r"[A-Z][\w'-]*(?:[ .]+(?:(?:of|the|de|van|von) )?(?:[A-Z][\w'-]*|\d{1,2}(?![\d.,]*\d)))*"
    r"|\b\d{1,2} [a-z]+|[a-z]+ \d{1,2}(?!\S)|\d+(?:[.,]\d+)*"
)


def _names(text: str, asked: Collection[str]) -> Iterator[str]:
    """Yield the proper names and numbers of an answer that are not in the question."""
    text = _BEGINS.sub(lambda capital: capital[0].lower(), text)
    for match in _NAME.findall(_LIST_NUMBER.sub("", text)):
        words = match.lower().split()
        while words and re.split(r"\W", words[0])[0] in SPEECH | _NONE:
            del words[0]
        name = " ".join(words).strip(".,")
        if not _covers(asked, _folded(name), _alike):
            yield name


def example_end(row: Row, task: Task) -> int:
    r"""Return the character of the context at which the in-context example ends; 0 without one.

    The instruction, a context's first line, is repeated there. Only vt and cwe have one.
    """
    if not isinstance(task.params, Vt | Cwe):
        return 0
    instruction, line, _ = row.context.partition("\n")
    return max(0, row.context.find(instruction, 1)) if line and instruction else 0
