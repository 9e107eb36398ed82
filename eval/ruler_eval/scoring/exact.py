r"""The exact score of one answer, reported beside the official one, and what an answer names.

The exact score needs every gold answer, and nothing else of its kind:

    answer                                  gold answers    recall    exact    F1
    "1. QZKRA\n2. PLMEW"                    QZKRA PLMEW     1.0       1.0      1.0
    '{"names": ["QZKRA", "PLMEW"]}'         QZKRA PLMEW     1.0       1.0      1.0
    "QZKRA"                                 QZKRA PLMEW     0.5       0.0      0.67
    "QZKRA, PLMEW, ABCDE, FGHIJ"            QZKRA PLMEW     1.0       0.0      0.67

Recall alone cannot tell the last answer from the first, so listing every candidate of the context
scores 100 %. The idea is exact match and F1 over answer sets, as SQuAD (Rajpurkar et al. 2016,
arXiv 1606.05250) and HotpotQA (Yang et al. 2018, arXiv 1809.09600) score spans and sets of facts.
What is of the kind of a gold answer is defined per family, in docs/scoring.md.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import cache, lru_cache
from itertools import product
from typing import NamedTuple

from ruler_data import reasoning
from ruler_data.row import Row
from ruler_data.tasks import DIGITS, Cwe, Fwe, Graph, Niah, PartType, Ruler2, Task, Vt
from ruler_eval.scoring.metrics import chosen_letter
from ruler_eval.scoring.wording import (
    SPEECH,
    WORD,
    WORDING,
    Segment,
    contains,
    lower,
    normalized,
    plain,
    segments,
)

#: Text without marks of structure; numbers of four digits and more are in no groups in it.
_PLAIN = re.compile(r"[\w\s,.:-]*", re.ASCII)
_WORDS = re.compile(r"[\w-]+")


class Names(NamedTuple):
    """What an answer names, in lower case: gold answers as whole words, others of their kind."""

    gold: frozenset[str]
    others: tuple[str, ...]


@lru_cache(maxsize=1)  # for the scores, then for the label of a right row
def exact_scores(row: Row, task: Task, answer: str, score: float) -> tuple[float, float]:
    """Return the exact score of an answer, 0 or 1, and its F1 in [0, 1].

    `score` is the official one; the exact score is never above it.
    """
    names = names_in(row, task, answer)
    if names is None:  # an answer in free words is compared as a whole
        texts = [normalized(text) for text in short_answers(_scored_part(task, answer))]
        golds = [normalized(output) for output in row.outputs]
        f1 = max(_token_f1(text, gold) for text, gold in product(texts, golds))
        is_whole = any(text in golds for text in texts)
        return float(score == 1 and is_whole), f1
    gold = {output.lower() for output in row.outputs}
    if task.metric == "soft_part" and names.gold:  # any of the documents is an answer
        gold = set(names.gold)
    f1 = 2 * len(names.gold) / (len(gold) + len(names.gold) + len(names.others))
    return float(score == 1 and names.gold == gold and not names.others), f1


def exact_without_context(
    row: Row, task: Task, answer: str, score: float
) -> tuple[float, float] | None:
    """Return what `exact_scores` does where no context can change it; None where it can.

    `row` may have no context. The context tells which words of an answer are others of its kind.
    """
    params = task.params
    if score == 1 and _is_gold_alone(row, task, answer):
        return 1.0, 1.0
    if params.family != "qa" and not (isinstance(params, Niah) and row.question):
        return None
    names = names_in(row, task, answer)
    if names is not None and names.others:
        return None
    return exact_scores(row, task, answer, score)


def _is_gold_alone(row: Row, task: Task, answer: str) -> bool:
    """Whether an answer plainly is all gold answers, maybe numbered, or one where one is enough.

    This is faster than the rules for any text, and stricter.
    """
    params = task.params
    is_plain = _PLAIN.fullmatch(answer) is not None
    if params.family == "qa":
        return is_plain and answer.rstrip(".") in row.outputs
    words = {*_WORDS.findall(answer.lower())}
    for word in words.difference(map(str.lower, row.outputs)):
        if not word.isdecimal() or len(word) >= 3:  # not the number of an item
            return False
    if not isinstance(params, Niah):
        return True
    return is_plain and _are_values(row, params, words)


def _are_values(row: Row, params: Niah, words: Collection[str]) -> bool:
    """Whether all gold answers are among the words, are long and not in the question."""
    kind = _kind(params.value_type, DIGITS)
    question = row.question.lower()
    if not question:
        return False
    for output in row.outputs:
        is_value = len(output) >= 4 and kind.fullmatch(output) is not None
        if not is_value or output not in words or output in question:
            return False
    return True


@lru_cache(maxsize=1)  # for the exact score, then for the label of the failure
def names_in(row: Row, task: Task, answer: str) -> Names | None:
    """Return what an answer names; None for families whose answers are free words (qa)."""
    gold = frozenset(output.lower() for output in row.outputs)
    text = _text_to_read(answer, gold)
    candidates = _candidates(row, task, answer, text, gold)
    if candidates is None:
        return None
    words = list(dict.fromkeys(candidates))
    strangers = [word for word in words if word not in gold]
    if strangers and _is_cut_off(text, strangers[-1], row.context):
        strangers.pop()
    return Names(gold.intersection(words), tuple(strangers))


def _text_to_read(answer: str, gold: Collection[str]) -> str:
    """Return the plain text of an answer, or all of it where that lacks a gold answer.

    A gold answer may be taken for structure: {"QZKRA": "yes"}.
    """
    text = plain(answer)
    reply = reasoning.split(answer)[1]
    lower_text = text.lower()
    lower_reply = reply.lower()
    for output in gold:
        if output in lower_reply and output not in lower_text:
            return reply
    return text


def _candidates(
    row: Row, task: Task, answer: str, text: str, gold: Collection[str]
) -> Iterable[str] | None:
    """Return what a text names of the kind of the gold answers; None if they are free words."""
    params = task.params
    if isinstance(params, Niah):
        return _values(row, params, text.lower())
    if isinstance(params, Ruler2):
        if params.kind == "qa" and params.level not in ("basic", "easy"):
            return None
        return _of_ruler2(row, params, _scored_part(task, answer))
    if not isinstance(params, Vt | Cwe | Fwe | Graph):
        return None
    if all(output.isdigit() for output in gold):
        return _NUMBER.findall(text)
    return _Items(row, params, gold).named(text)


def _is_cut_off(text: str, last: str, context: str) -> bool:
    """Whether the last word of an answer is the beginning of a word of the context."""
    if not text.lower().rstrip("-").endswith(last):
        return False
    start = re.escape(last[:100])
    begins = rf"{start}(?<![a-z0-9]{start})[a-z0-9-]"  # begins with text, which is fast to find
    is_start = re.search(begins, lower(context)) is not None
    return is_start and not contains(lower(context), last)


def _scored_part(task: Task, answer: str) -> str:
    """Return the last paragraph of an answer that has to copy first, else all of it."""
    params = task.params
    copies = isinstance(params, Ruler2) and params.level == "medium" and params.kind != "mk_niah"
    if not copies:
        return answer
    return answer.rstrip().rpartition("\n\n")[2]


def _of_ruler2(row: Row, params: Ruler2, answer: str) -> Iterable[str]:
    """Return what an answer names of the labelled texts of RULER v2, in lower case.

    A letter; or numbers with as many digits as gold ones; or questions of the context, whole.
    """
    if params.metric == "letter":
        letter = chosen_letter(answer)
        return [letter.lower()] if letter else []
    if params.kind == "qa" or params.level == "basic":
        return re.findall(rf"(?<!\d)\d{{{len(row.outputs[0])}}}(?!\d)", answer)
    spaced = " ".join(answer.lower().split())
    texts = dict.fromkeys(re.findall(r"question \d{7}: (.*)", lower(row.context)))
    return [text for text in texts if text in spaced]


#: A number that stands alone.
_NUMBER = re.compile(r"(?<![A-Za-z0-9])[0-9]+(?![A-Za-z0-9])")
#: What is of the kind of a value; of numbers, as many digits as %d, or five and more in a list.
_KINDS: dict[PartType, str] = {
    "numbers": r"(?<!\d)\d{%d}(?!\d)|(?<![a-z0-9])(?<![a-z:] )\d{5,}(?! ?[a-z0-9])",
    "uuids": r"(?<![a-z0-9])[0-9a-f]{4,}(?:-[0-9a-f]+){2,}(?![a-z0-9])",
    "words": r"(?<![a-z0-9])[a-z]+(?:-[a-z]+)+(?![a-z0-9])",
}
#: 1,234,567 and 12,345
_GROUPS = re.compile(r"(?<![\d.,])\d{1,3}(?:([,.'\u2019 ])\d{3}(?:\1\d{3})+|,\d{3})(?!,?\d)")
#: Words with hyphens that answers have in their sentences.
_COMPOUND = re.compile(
    r"(?:well|double|so|above|long|two|one|in|re|non|follow|hyphen)-\w+|\w+-(?:to|by)-\w+"
)


@cache
def _kind(value_type: PartType, digits: int) -> re.Pattern[str]:
    return re.compile(_KINDS[value_type].replace("%d", str(digits)))


def _values(row: Row, params: Niah, text: str) -> Iterator[str]:
    """Yield values of the question's kind, without those in the question."""
    kind = _kind(params.value_type, DIGITS)
    question = row.question or row.context.partition("\n\n")[0]
    of_question = {*kind.findall(question.lower())}
    ungrouped = _GROUPS.sub(lambda match: re.sub(r"\D", "", match[0]), text)
    for value in kind.findall(ungrouped):
        if value in of_question:
            continue
        if value in row.outputs or not _COMPOUND.fullmatch(value):
            yield value
    if params.none != "no" and re.search(r"(?<![\w-])none(?![\w-])", text):
        yield "none"


_NOTE = re.compile(r"(?<=\S)[ ]\([^()]*\)")


#: Most words of a sentence; more without a comma are a list without separators.
_SENTENCE = 25


class _Items:
    """Reads what an answer names of vt, cwe or fwe: gold answers anywhere, others in lists.

    Names of vt are known anywhere, too. Beside items, a word alone between commas is an item if it
    is as long as names or coded words.
    """

    def __init__(self, row: Row, params: Vt | Graph | Cwe | Fwe, gold: Collection[str]) -> None:
        self._context = row.context
        self._gold = gold
        self._size = len(row.outputs[0])
        self._of_question = {"var", *WORD.findall(row.question.lower())}
        self._are_names = isinstance(params, Vt | Graph)
        self._are_listed = isinstance(params, Cwe)
        self._runs: list[list[str]] = [[]]  # of items that stand together
        self._items: set[str] = set()
        #: Labels of one word, and subjects of the sentences of a numbered list.
        self._heads: list[str] = []

    def named(self, text: str) -> Iterator[str]:
        """Yield what a text names, in lower case."""
        before = Segment([], is_label=False, has_digit=False)
        for segment in segments(_NOTE.sub(self._without_note, text)):
            values = self._values_of(segment)
            self._items.update(values)
            for value in values:
                if not self._are_listed or value in self._gold:
                    yield value
            if segment.is_label or self._is_sentence(segment, values):
                self._add_head(segment, values, before)
                self._runs.append([])
            else:
                self._runs[-1] += values
                self._runs[-1] += self._items_alone(segment)
            before = segment
        yield from self._listed()

    def _listed(self) -> Iterator[str]:
        """Yield the words of runs of several words, or with an item."""
        if any(head in self._gold for head in self._heads):
            self._runs.append(self._heads)
        for run in self._runs:
            if len(run) > 1 or not self._items.isdisjoint(run):
                yield from filter(str.isascii, run)

    def _values_of(self, segment: Segment) -> list[str]:
        """Return the words that are gold answers, or are known or look like others."""
        values = []
        for word in segment.words:
            looks_so = self._are_names and word.isupper() and len(word) == self._size
            is_gold = word.lower() in self._gold
            if is_gold or (looks_so and not segment.is_label) or self._is_known(word):
                values.append(word.lower())
        return values

    def _is_sentence(self, segment: Segment, values: list[str]) -> bool:
        most = max(1, 2 * len(values) + 1)
        return most < len(segment.words) <= _SENTENCE and not segment.has_digit

    def _add_head(self, segment: Segment, values: list[str], before: Segment) -> None:
        """Keep the label, or the subject of a sentence after a number, if it is a value."""
        is_numbered = before.has_digit and not before.words
        if len(segment.words) != 1 and not is_numbered:
            return
        for word in map(str.lower, segment.words):
            if word not in SPEECH and word not in self._of_question:
                if word in values:
                    self._heads.append(word)
                return

    def _items_alone(self, segment: Segment) -> list[str]:
        """Return the words of a part that has nothing but words of the kind."""
        words = segment.words
        is_single = len(words) == 1 and not segment.has_digit
        if (self._are_names or self._are_listed) and not is_single:
            return []
        if not all(map(self._may_be, words)):
            return []
        distinct = dict.fromkeys(map(str.lower, words))
        return [word for word in distinct if word not in SPEECH and word not in self._of_question]

    def _is_known(self, word: str) -> bool:
        """Whether a word is of the kind and in the context."""
        if self._are_names:
            if word.lower() in self._of_question or not (len(word) >= 5 or word.isupper()):
                return False
            name = word.upper()
            return contains(self._context, f"VAR {name}") or contains(self._context, f"-> {name}")
        word = word.lower()
        if self._are_listed:
            return f". {word} " in self._context or f". {word}\n" in self._context
        return len(word) == self._size and contains(self._context, word)

    def _may_be(self, word: str) -> bool:
        """Whether a word looks like one of the kind."""
        if self._are_names:
            return word.isupper() and word.isalpha()
        if self._are_listed:
            return len(word) > 3
        return len(word) == self._size

    def _without_note(self, note: re.Match[str]) -> str:
        """Return a comma for a note in parentheses that names nothing."""
        if any(map(self._is_known, WORD.findall(note[0]))):
            return note[0]
        return ","


_ANSWER = "|".join(WORDING["answer"].split())
_IS = "|".join(WORDING["is"].split())
_LEAD = re.compile(
    rf"(?:^|\n|[.!]\s+)\W{{0,9}}(?:[\w']{{2,4}}\W)?(?:[\w-]+ ){{0,2}}(?:{_ANSWER})"
    rf"\s*(?:[\w ]{{0,30}}:|(?:{_IS})(?!\w))[:\s]*(.+)",
    re.IGNORECASE,
)
_BOXED = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")
_EDGES = " |>\"'\u300c\u300d\u3002\t-"


def short_answers(answer: str) -> list[str]:
    r"""Return what an answer in free words may be: the whole, and the part that is marked as such.

    >>> short_answers("The final answer is \\boxed{\\text{Paris}}.")[-1]
    'Paris'
    """
    boxed = _BOXED.findall(reasoning.split(answer)[1])
    lines = []
    for line in plain(boxed[-1] if boxed else answer).splitlines():
        line = re.sub(" +", " ", line.strip(_EDGES))
        if line:
            lines.append(line)
    text = "\n".join(lines)
    marked = _LEAD.findall(text) or re.findall(r"^[^\n:]{3,60}:\s+([^\n]+)$", text)
    if not marked:
        return [text]
    return [text, marked[-1].strip(_EDGES + ".")]


def _token_f1(answer: str, gold: str) -> float:
    """Return the F1 of the words of two normalized texts, as SQuAD and HotpotQA compute it."""
    polar = ("yes", "no", "noanswer")
    if answer != gold and (answer in polar or gold in polar):
        return 0.0
    counts = Counter(answer.split())
    gold_counts = Counter(gold.split())
    shared = (counts & gold_counts).total()
    if not shared:
        return float(answer == gold)
    return 2 * shared / (counts.total() + gold_counts.total())
