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
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import pairwise, product
from typing import NamedTuple

from ruler_data import reasoning
from ruler_data.row import Row
from ruler_data.tasks import DIGITS, Cwe, Fwe, Graph, Niah, PartType, Ruler2, Task, Vt
from ruler_eval.scoring.metrics import chosen_letter
from ruler_eval.scoring.wording import (
    SPEECH,
    WORD,
    WORDING,
    contains,
    lower,
    normalized,
    plain,
    segments,
)

#: Text without marks of structure; numbers of four digits and more are in no groups in it.
_PLAIN, _WORDS = re.compile(r"[\w\s,.:-]*", re.ASCII), re.compile(r"[\w-]+")


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
        shorts = [*map(normalized, short_answers(_scored_part(task, answer)))]
        golds = [*map(normalized, row.outputs)]
        f1 = max(_token_f1(*pair) for pair in product(shorts, golds))
        return float(score == 1 and not {*shorts}.isdisjoint(golds)), f1
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
    return exact_scores(row, task, answer, score) if names is None or not names.others else None


def _is_gold_alone(row: Row, task: Task, answer: str) -> bool:
    """Whether an answer plainly is all gold answers, maybe numbered, or one where one is enough.

    This is faster than the rules for any text, and stricter.
    """
    params, is_plain = task.params, _PLAIN.fullmatch(answer)
    if params.family == "qa":
        return bool(is_plain) and answer.rstrip(".") in row.outputs
    words = {*_WORDS.findall(answer.lower())}
    others = words.difference(map(str.lower, row.outputs))
    if others and not all(word.isdecimal() and len(word) < 3 for word in others):
        return False
    if not isinstance(params, Niah):
        return True
    kind, question = _kind(params.value_type, DIGITS), row.question.lower()
    return bool(question and is_plain) and all(
        [len(out) >= 4 and kind.fullmatch(out) and out in words and out not in question
         for out in row.outputs]
    )  # fmt: skip


@lru_cache(maxsize=1)  # for the exact score, then for the label of the failure
def names_in(row: Row, task: Task, answer: str) -> Names | None:
    """Return what an answer names; None for families whose answers are free words (qa)."""
    text, gold = plain(answer), {output.lower() for output in row.outputs}
    reply = reasoning.split(answer)[1]
    if any(output in reply.lower() and output not in text.lower() for output in gold):
        text = reply  # a gold answer was taken for structure: {"QZKRA": "yes"}
    candidates: Iterable[str]
    match task.params:
        case Niah() as params:
            candidates = _values(row, params, text.lower())
        case Ruler2() as params if params.kind != "qa" or params.level in ("basic", "easy"):
            candidates = _of_ruler2(row, params, _scored_part(task, answer))
        case Vt() | Cwe() | Fwe() | Graph() if all(output.isdigit() for output in gold):
            candidates = re.findall(r"(?<![A-Za-z0-9])[0-9]+(?![A-Za-z0-9])", text)
        case Vt() | Cwe() | Fwe() | Graph() as params:
            candidates = _items(row, params, text, gold)
        case _:
            return None
    distinct_words = list(dict.fromkeys(candidates))
    strangers = [word for word in distinct_words if word not in gold]
    if strangers and text.lower().rstrip("-").endswith(last := strangers[-1]):
        cut = re.escape(last[:100])
        begins = rf"{cut}(?<![a-z0-9]{cut})[a-z0-9-]"  # begins with text, which is fast to find
        if re.search(begins, lower(row.context)) and not contains(lower(row.context), last):
            strangers.pop()  # the beginning of a word of the context: the answer was cut off
    return Names(frozenset(distinct_words) & gold, tuple(strangers))


def _scored_part(task: Task, answer: str) -> str:
    """Return the last paragraph of an answer that has to copy first, else all of it."""
    params = task.params
    copies = isinstance(params, Ruler2) and params.level == "medium" and params.kind != "mk_niah"
    return answer.rstrip().rpartition("\n\n")[2] if copies else answer


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
    excluded = {*kind.findall((row.question or row.context.partition("\n\n")[0]).lower())}
    for value in kind.findall(_GROUPS.sub(lambda match: re.sub(r"\D", "", match[0]), text)):
        if value not in excluded and (value in row.outputs or not _COMPOUND.fullmatch(value)):
            yield value
    if params.none != "no" and re.search(r"(?<![\w-])none(?![\w-])", text):
        yield "none"


_NOTE = re.compile(r"(?<=\S)[ ]\([^()]*\)")


def _items(row: Row, params: Vt | Graph | Cwe | Fwe, text: str, gold: set[str]) -> Iterator[str]:
    """Yield names or words: gold ones anywhere, others of cwe where they are items of a list.

    Beside items, a word alone between commas is one, too, if it is as long as names or coded words.
    """
    size, of_question = len(row.outputs[0]), {"var", *WORD.findall(row.question.lower())}
    is_name, is_listed = isinstance(params, Vt | Graph), isinstance(params, Cwe)

    def is_known(word: str) -> bool:
        if is_name:
            may_be = word.lower() not in of_question and (len(word) >= 5 or word.isupper())
            return may_be and any(
                contains(row.context, mark + word.upper()) for mark in ("VAR ", "-> ")
            )
        if is_listed:
            return any(f". {word.lower()}{end}" in row.context for end in " \n")
        return len(word) == size and contains(row.context, word.lower())

    def may_be(word: str) -> bool:
        return (
            word.isupper() and word.isalpha()
            if is_name
            else len(word) > 3
            if is_listed
            else len(word) == size
        )

    def without_notes(note: re.Match[str]) -> str:
        return note[0] if any(map(is_known, WORD.findall(note[0]))) else ","

    runs: list[list[str]] = [[]]
    items: set[str] = set()
    heads: list[str] = []  # labels of one word, and subjects of the sentences of a numbered list
    pieces = segments(_NOTE.sub(without_notes, text))
    for (before, _, number), (words, label, has_digit) in pairwise([([], False, False), *pieces]):
        values = [
            word.lower()
            for word in words
            if word.lower() in gold
            or (is_name and not label and word.isupper() and len(word) == size)
            or is_known(word)
        ]
        items.update(values)
        yield from (word for word in values if not is_listed or word in gold)
        if label or (max(1, 2 * len(values) + 1) < len(words) <= 25 and not has_digit):
            telling = [word for word in map(str.lower, words) if word not in SPEECH | of_question]
            if len(words) == 1 or (number and not before):
                heads += {*telling[:1]}.intersection(values)
            runs.append([])  # a sentence; after 25 words, a list without separators
            continue
        several = not is_name and not is_listed
        alone = all(map(may_be, words)) and (several or (len(words) == 1 and not has_digit))
        runs[-1] += [*values, *({*map(str.lower, words if alone else ())} - SPEECH - of_question)]
    for run in (*runs, *([] if gold.isdisjoint(heads) else [heads])):
        if len(run) > 1 or not items.isdisjoint(run):
            yield from filter(str.isascii, run)


_ANSWER, _IS = ("|".join(WORDING[name].split()) for name in ("answer", "is"))
_LEAD = re.compile(
    rf"(?:^|\n|[.!]\s+)\W{{0,9}}(?:[\w']{{2,4}}\W)?(?:[\w-]+ ){{0,2}}(?:{_ANSWER})"
    rf"\s*(?:[\w ]{{0,30}}:|(?:{_IS})(?!\w))[:\s]*(.+)",
    re.IGNORECASE,
)
_EDGES = " |>\"'\u300c\u300d\u3002\t-"


def short_answers(answer: str) -> list[str]:
    r"""Return what an answer in free words may be: the whole, and the part that is marked as such.

    >>> short_answers("The final answer is \\boxed{\\text{Paris}}.")[-1]
    'Paris'
    """
    boxed = re.findall(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}", reasoning.split(answer)[1])
    lines = (
        re.sub(" +", " ", line.strip(_EDGES))
        for line in plain(boxed[-1] if boxed else answer).splitlines()
    )
    text = "\n".join(line for line in lines if line)
    marked = _LEAD.findall(text) or re.findall(r"^[^\n:]{3,60}:\s+([^\n]+)$", text)
    return [text, *(sentence.strip(_EDGES + ".") for sentence in marked[-1:])]


def _token_f1(answer: str, gold: str) -> float:
    """Return the F1 of the words of two normalized texts, as SQuAD and HotpotQA compute it."""
    if answer != gold and not {"yes", "no", "noanswer"}.isdisjoint((answer, gold)):
        return 0.0
    counts, gold_counts = Counter(answer.split()), Counter(gold.split())
    shared = (counts & gold_counts).total()
    return 2 * shared / (counts.total() + gold_counts.total()) if shared else float(answer == gold)
