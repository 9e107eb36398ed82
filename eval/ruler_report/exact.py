r"""The exact score of one answer, reported beside the official one, and what an answer names.

The exact score wants every gold answer, and nothing else of its kind:

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
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.resources import files
from itertools import product
from typing import NamedTuple

from ruler_data.row import Row
from ruler_data.tasks import Cwe, Fwe, Graph, Niah, PartType, Ruler2, Task, Vt
from ruler_eval import reasoning
from ruler_eval.metrics_ruler2 import chosen_letter

#: Words by language that lists, leads and failures are read by.
WORDING = tomllib.loads(files("ruler_report").joinpath("wording.toml").read_text("utf-8"))
#: Words that speak of the question, the text, the answer or the speaker.
SPEECH = frozenset(f"{WORDING['speech']} {WORDING['meta']}".split())


class Named(NamedTuple):
    """What an answer names, in lower case: gold answers as whole words, others of their kind."""

    gold: frozenset[str]
    others: tuple[str, ...]


def exact_scores(row: Row, task: Task, answer: str, score: float) -> tuple[float, float]:
    """Return the exact score of an answer, 0 or 1, and its F1 in [0, 1].

    `score` is the official one; the exact score is never above it.
    """
    named = named_in(row, task, answer)
    if named is None:  # an answer in free words is compared as a whole
        given = [*map(normalized, short_answers(_counted_part(task, answer)))]
        wanted = [*map(normalized, row.outputs)]
        f1 = max(_token_f1(*pair) for pair in product(given, wanted))
        return float(score == 1 and not {*given}.isdisjoint(wanted)), f1
    gold = {output.lower() for output in row.outputs}
    if task.metric == "soft_part" and named.gold:  # any of the documents is an answer
        gold = set(named.gold)
    f1 = 2 * len(named.gold) / (len(gold) + len(named.gold) + len(named.others))
    return float(score == 1 and named.gold == gold and not named.others), f1


@lru_cache(maxsize=1)  # for the exact score, then for the label of the failure
def named_in(row: Row, task: Task, answer: str) -> Named | None:
    """Return what an answer names; None for families whose answers are free words (qa)."""
    text, gold = plain(answer), {output.lower() for output in row.outputs}
    found: Iterable[str]
    match task.params:
        case Niah() as params:
            found = _values(row, params, text.lower())
        case Ruler2() as params if params.kind != "qa" or params.level in ("basic", "easy"):
            found = _of_ruler2(row, params, _counted_part(task, answer))
        case Vt() | Cwe() | Fwe() | Graph() if all(output.isdigit() for output in gold):
            found = re.findall(r"(?<![A-Za-z0-9])[0-9]+(?![A-Za-z0-9])", text)
        case Vt() | Cwe() | Fwe() | Graph() as params:
            found = _items(row, params, text, gold)
        case _:
            return None
    every = list(dict.fromkeys(found))
    others = [word for word in every if word not in gold]
    if others and text.lower().rstrip("-").endswith(others[-1]) and _is_cut(others[-1], row):
        others.pop()
    return Named(frozenset(every) & gold, tuple(others))


def _counted_part(task: Task, answer: str) -> str:
    """Return the last paragraph of an answer that is asked to copy first, else all of it."""
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


@lru_cache(maxsize=1)
def lower(context: str) -> str:
    """Return the context of a row in lower case, with plain apostrophes."""
    return context.lower().replace("\u2019", "'")


#: Scripts that put no space between words: kana, Han, Hangul, Thai.
_UNSPACED = r"[\u0e00-\u0e7f\u3041-\u30fa\u3400-\u9fff\uac00-\ud7a3]"
_MARKS = dict.fromkeys((*range(0x2010, 0x2016), 0x2212), "-") | {0x2018: "'", 0x2019: "'"}
_RULE = r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*"
#: What is no text of an answer, and what stands in its place, in this order.
_STRUCTURE = tuple((re.compile(pattern), by) for pattern, by in (
    (rf"(?m)^.*\|.*\n(?={_RULE}$)|^{_RULE}$", "\n"),  # the head of a table, and rules
    (r'"[^"\n]{0,60}"[ \t]*:(?=\s*(?:["\[{](?!\d)|null))', "\n"),  # keys of JSON
    (r"(?m)^[ \t]*```\w*", "\n"),
    (r"(?m)^#+ (.*)$", r"\1:"),
    (r"<[/|]?[A-Za-z][^<>\n]{0,40}>|\\(?:begin|end)\{\w+\}|\\item\b", "\n"),
    (r"\{,\}", ","),
    (r"\\[,;:! ]|\\[A-Za-z]+|[*_`~{}$\\#]", " "),
))  # fmt: skip


@lru_cache(maxsize=4)  # an answer is looked at several times
def plain(answer: str) -> str:
    r"""Return the text of an answer: without reasoning, Markdown, LaTeX, keys of JSON, heads.

    >>> plain(r"**\boxed{QZKRA}**").strip(), plain('{"answer": "QZKRA"}').strip()
    ('QZKRA', '"QZKRA"')
    """
    text = unicodedata.normalize("NFKC", reasoning.split(answer)[1]).translate(_MARKS)
    if not text.isascii():
        text = re.sub(r"\d", lambda digit: str(unicodedata.digit(digit[0])), text)
        text = re.sub(rf"(?<=[!-~])(?={_UNSPACED})|(?<={_UNSPACED})(?=[!-~])", " ", text)
    for pattern, by in _STRUCTURE:
        text = pattern.sub(by, text)
    return re.sub(r"\s*(?:\.\.\.+\s*)?\Z", "", text)


def _is_cut(word: str, row: Row) -> bool:
    """Whether the last word of an answer is the beginning of a word of the context."""
    context, begins = lower(row.context), rf"(?<![a-z0-9]){re.escape(word[:100])}[a-z0-9-]"
    return bool(re.search(begins, context)) and not contains(context, word)


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


def _values(row: Row, params: Niah, text: str) -> Iterator[str]:
    """Yield values of the kind that the question wants, without those of the question."""
    kind = re.compile(_KINDS[params.value_type].replace("%d", str(params.digits)))
    excluded = {*kind.findall((row.question or row.context.partition("\n\n")[0]).lower())}
    for value in kind.findall(_GROUPS.sub(lambda found: re.sub(r"\D", "", found[0]), text)):
        if value not in excluded and (value in row.outputs or not _COMPOUND.fullmatch(value)):
            yield value
    if params.none != "no" and re.search(r"(?<![\w-])none(?![\w-])", text):
        yield "none"


_SEGMENT = re.compile(r"([\n\r,;.:!?()\[\]\"\u201c-\u201f\u00ab\u00bb\u300c\u300d|/\u2026<>=\u2022"
                      r"\u00b7\u30fb\u3001\u3002]|\s-\s)")  # fmt: skip
_NOTE = re.compile(r"(?<=\S)[ ]\([^()]*\)")
_WORD = re.compile(r"[^\W\d_]+(?:[-'\u2019][^\W\d_]+)*")


def segments(text: str) -> Iterator[tuple[list[str], bool, bool]]:
    """Yield the words of each part; whether it is a label or an exclamation; whether it counts."""
    parts = [*_SEGMENT.split(text), "", ""]
    for part, end, after in zip(parts[::2], parts[1::2], parts[2::2], strict=False):
        label = end in ("!", "?") or (end in (":", "=") and not re.match(r"\s*\d", after))
        yield _WORD.findall(part), label, re.search(r"\d", part) is not None


def _items(row: Row, params: Vt | Graph | Cwe | Fwe, text: str, gold: set[str]) -> Iterator[str]:
    """Yield names or words: gold ones anywhere, others of cwe where they are items of a list.

    Beside items, a word alone between commas is one, too, if it is as long as names or coded words.
    """
    size, asked = len(row.outputs[0]), {"var", *_WORD.findall(row.question.lower())}
    is_name, is_coded = isinstance(params, Vt | Graph), not isinstance(params, Cwe)

    def is_known(word: str) -> bool:
        if is_name:
            marked = (f"{mark} {word.upper()}" for mark in ("VAR", "->"))
            may_be = word.lower() not in asked and (len(word) >= 5 or word.isupper())
            return may_be and any(contains(row.context, name) for name in marked)
        if is_coded:
            return len(word) == size and contains(row.context, word.lower())
        return any(f". {word.lower()}{end}" in row.context for end in " \n")

    def without_notes(note: re.Match[str]) -> str:
        return note[0] if any(map(is_known, _WORD.findall(note[0]))) else ","

    runs: list[list[str]] = [[]]
    listed: set[str] = set()
    for words, label, counted in segments(_NOTE.sub(without_notes, text)):
        known = [
            word.lower()
            for word in words
            if word.lower() in gold
            or (is_name and not label and word.isupper() and len(word) == size)
            or is_known(word)
        ]
        listed.update(known)
        yield from (word for word in known if is_coded or word in gold)
        if label or (max(1, 2 * len(known) + 1) < len(words) <= 25 and not counted):
            runs.append([])  # a sentence; after 25 words, a list without separators
            continue
        runs[-1] += known
        if is_name or not is_coded:
            is_item = len(words) == 1 and not counted and words[0].isalpha()
            is_item = is_item and (words[0].isupper() if is_name else len(words[0]) > 3)
        else:
            is_item = all(len(word) == size for word in words)
        runs[-1] += {word.lower() for word in words if is_item} - SPEECH - asked
    for run in runs:
        if len(run) > 1 or not listed.isdisjoint(run):
            yield from filter(str.isascii, run)


_ANSWER, _IS = ("|".join(WORDING[name].split()) for name in ("answer", "is"))
_LEAD = re.compile(
    rf"(?:^|\n|[.!]\s+)\W*(?:[\w']{{2,4}}\W)?(?:[\w-]+ ){{0,2}}(?:{_ANSWER})"
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
    return [text, *(each.strip(_EDGES + ".") for each in marked[-1:])]


def normalized(text: str) -> str:
    """Return a text as SQuAD compares it: lower case, without punctuation and articles.

    >>> normalized("The U.S.  Army!")
    'us army'
    """
    kept = (c for c in text.lower() if unicodedata.category(c)[0] != "P" and c not in "$+<=>^`|~")
    return " ".join(re.sub(r"\b(?:a|an|the)\b", " ", "".join(kept)).split())


def _token_f1(given: str, wanted: str) -> float:
    """Return the F1 of the words of two normalized texts, as SQuAD and HotpotQA compute it."""
    if given != wanted and not {"yes", "no", "noanswer"}.isdisjoint((given, wanted)):
        return 0.0
    words, gold = Counter(given.split()), Counter(wanted.split())
    shared = (words & gold).total()
    return 2 * shared / (words.total() + gold.total()) if shared else float(given == wanted)


def contains(text: str, words: str) -> bool:
    """Whether a text contains words, with no letter, digit or hyphenated word joined to them.

    >>> contains("-cat", "cat"), contains("cat-food", "cat"), contains("cat.", "cat")
    (True, False, True)
    """
    start = text.find(words)
    while start >= 0:  # `find`, since a pattern for each word would cost more than its search
        end = start + len(words)
        joined = re.search(r"\w-?\Z", text[max(0, start - 2) : start])
        if not joined and not re.match(r"-?\w", text[end : end + 2]):
            return True
        start = text.find(words, start + 1)
    return False
