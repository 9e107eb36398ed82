r"""The exact score of one answer, reported beside the official one.

The exact score wants every gold answer, and nothing else of its kind:

    answer                                  gold answers    recall    exact    F1
    "1. QZKRA\n2. PLMEW"                    QZKRA PLMEW     1.0       1.0      1.0
    "QZKRA"                                 QZKRA PLMEW     0.5       0.0      0.67
    "QZKRA, PLMEW, ABCDE, FGHIJ"            QZKRA PLMEW     1.0       0.0      0.67

Recall alone cannot tell the third answer from the first, so listing every candidate of the context
scores 100 %. The idea is exact match and F1 over answer sets, as SQuAD (Rajpurkar et al. 2016,
arXiv 1606.05250) and HotpotQA (Yang et al. 2018, arXiv 1809.09600) score spans and sets of facts.
What is of the kind of a gold answer is defined per family, in docs/scoring.md.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ruler_data.row import Row
from ruler_data.tasks import Niah, PartType, Qa, Ruler2, Task
from ruler_eval.reasoning import split
from ruler_report.exact_ruler2 import is_answered, last_part
from ruler_report.exact_ruler2 import named as ruler2_named


@dataclass(frozen=True)
class Named:
    """What an answer names, in lower case: gold answers as whole words, others of their kind."""

    gold: frozenset[str]
    others: tuple[str, ...]


def exact_scores(row: Row, task: Task, answer: str, score: float) -> tuple[float, float]:
    """Return the exact score of an answer, 0 or 1, and its F1 in [0, 1].

    `score` is upstream's (`score_row`); the exact score is never above it.
    """
    params = task.params
    if isinstance(params, Qa) or (isinstance(params, Ruler2) and is_answered(params)):
        last = last_part(params, answer) if isinstance(params, Ruler2) else answer
        given, wanted = normalized(short_answer(last)), [*map(normalized, row.outputs)]
        f1 = max(_token_f1(given, output) for output in wanted)
        return float(given in wanted and score > 0), f1
    named, gold = named_in(row, task, answer), {output.lower() for output in row.outputs}
    if task.metric == "soft_part" and named.gold:  # any of the documents is an answer
        gold = set(named.gold)
    f1 = 2 * len(named.gold) / (len(gold) + len(named.gold) + len(set(named.others)))
    return float(score == 1 and named.gold == gold and not named.others), f1


def named_in(row: Row, task: Task, answer: str) -> Named:
    """Return what an answer names; not for qa, whose answers are compared as a whole."""
    text = plain(answer)
    gold = {output.lower() for output in row.outputs}
    if isinstance(task.params, Niah):
        found = _values(row, task.params, text.lower())
    elif isinstance(task.params, Ruler2):
        found = (one for one in ruler2_named(row, task.params, answer) if one)
    elif all(output.isdigit() for output in row.outputs):
        found = iter(_NUMBER.findall(text))
    else:
        found = _BY_FAMILY[task.params.family](row, text)
    every = list(dict.fromkeys(found))
    others = [word for word in every if word not in gold]
    ends = text.lower().rstrip("-")
    if others and ends.endswith(others[-1]) and _is_cut(others[-1], row.context.lower()):
        others.pop()
    return Named(frozenset(every) & gold, tuple(others))


_MARKUP = re.compile(r"\\[A-Za-z]+|[*_`~{}$\\#]")


def plain(answer: str) -> str:
    r"""Return an answer without reasoning, Markdown and LaTeX commands.

    >>> plain(r"**\boxed{QZKRA}**").strip()
    'QZKRA'
    """
    return _MARKUP.sub(" ", split(answer)[1]).rstrip()


_LONGEST = 100  # characters of a word


def _is_cut(word: str, context: str) -> bool:
    """Whether the last word of an answer is the beginning of a word of the context."""
    if len(word) > _LONGEST:
        return False
    begins = rf"(?<![a-z0-9]){re.escape(word)}"
    whole = re.search(rf"{begins}(?![a-z0-9-])", context)
    return not whole and re.search(begins, context) is not None


#: What is of the kind of a value. Shorter numbers count lines and years, not needles.
_KINDS: dict[PartType, re.Pattern[str]] = {
    "numbers": re.compile(r"(?<![a-z0-9])[0-9]{5,}(?![a-z0-9])"),
    "uuids": re.compile(r"(?<![a-z0-9])[0-9a-f]{4,}(?:-[0-9a-f]+){2,}(?![a-z0-9])"),
    "words": re.compile(r"(?<![a-z0-9])[a-z]+(?:-[a-z]+)+(?![a-z0-9])"),
}
#: Words with hyphens that answers have in their sentences.
_COMPOUNDS = frozenset(
    {"step-by-step", "well-known", "so-called", "follow-up", "up-to-date", "double-check",
     "double-checked", "re-read", "re-reading", "non-existent", "above-mentioned", "long-context",
     "two-word", "two-part", "hyphen-separated", "in-depth", "one-word", "well-hidden"}
)  # fmt: skip
_NUMBER = re.compile(r"(?<![A-Za-z0-9])[0-9]+(?![A-Za-z0-9])")
_NONE = re.compile(r"(?<![\w-])none(?![\w-])")


def _values(row: Row, params: Niah, text: str) -> Iterator[str]:
    """Yield values of the kind that is asked for, without those of the question."""
    question = (row.question or row.context.partition("\n\n")[0]).lower()
    kind = _KINDS[params.value_type]
    asked = {*kind.findall(question), *_COMPOUNDS}
    yield from (value for value in kind.findall(text) if value not in asked)
    if params.none != "no" and _NONE.search(text):
        yield "none"


_NAMES = re.compile(r"(?:VAR|->) ([A-Z]{3,})")
_CODE = re.compile(r"(?<![a-z0-9])(?:(var)\s+)?([a-z]+)(?![a-z0-9])", re.IGNORECASE)
#: English words of five letters that answers have in capitals.
_CAPITALS = frozenset(
    {"THESE", "THOSE", "THERE", "THEIR", "WHICH", "VALUE", "CHAIN", "FINAL", "ABOVE", "FIRST",
     "NAMES", "GIVEN", "STEPS", "LINES", "FOUND"}
)  # fmt: skip


def _variables(row: Row, text: str) -> Iterator[str]:
    """Yield names of variables: of the context, as many capitals as gold ones, or after `VAR`."""
    known, size = {*_NAMES.findall(row.context), *row.outputs}, len(row.outputs[0])
    for var, word in _CODE.findall(text):
        name = word.upper()
        in_context = name in known and (len(name) >= 5 or word.isupper())
        looks_so = word.isupper() and len(word) == size and name not in _CAPITALS
        if name != "VAR" and (in_context or looks_so or (var and len(word) in (3, size))):
            yield word.lower()


def _nodes(row: Row, text: str) -> Iterator[str]:
    """Yield names of nodes, without that of the question."""
    asked = row.question.lower().split()
    yield from (name for name in _variables(row, text) if name not in asked)


#: Words that stand in sentences and not in lists.
FUNCTION_WORDS = frozenset(
    {"the", "a", "an", "of", "in", "on", "at", "to", "for", "from", "with", "by", "as", "that",
     "this", "these", "those", "it", "its", "i", "you", "we", "they", "he", "she", "my", "your",
     "not", "no", "have", "has", "had", "do", "does", "did", "can", "could", "would", "will", "if",
     "but", "so", "which", "what", "who", "there", "here", "most", "than", "me", "don't", "i'm",
     "cannot", "can't", "couldn't", "doesn't", "isn't", "it's", "let", "please", "each", "all",
     "is", "are", "was", "were", "be", "and", "or", "about", "other", "another", "any", "some",
     "how", "only", "also", "when", "where", "while", "because", "into", "up"}
)  # fmt: skip
#: Words of lead-ins, labels and counts.
_FILLER = frozenset(
    {"top", "common", "frequent", "frequently", "appeared", "appear", "following", "above", "word",
     "words", "coded", "list", "text", "ten", "three", "answer", "answers", "final", "sure", "okay",
     "ok", "yes", "certainly", "note", "explanation", "however", "therefore", "times",
     "time", "occurrences", "appearances", "x", "count", "counts", "based", "found",
     "result", "results", "output", "question"}
)  # fmt: skip
_SEGMENT = re.compile(
    r"[\n\r,;:.!?()\[\]\"\u201c\u201d|/\u2026<>=]|\s[-\u2013\u2014]\s|\b(?:and|or|are|is|were|was)\b"
)
_NO_ITEMS = _FILLER | FUNCTION_WORDS
_SENTENCE = 25  # words
_WORD = re.compile(r"[^\W\d_]+(?:[-'\u2019][^\W\d_]+)*")


def _list_words(row: Row, text: str) -> Iterator[str]:
    """Yield listed words: gold ones anywhere, others outside of sentences.

    Text between commas, line ends and the like is of a sentence if at least a fifth of its words
    are function words (`the`, `of`), and it is no longer than a sentence.
    """
    gold = {output.lower() for output in row.outputs}
    for segment in _SEGMENT.split(text.lower()):
        words = _WORD.findall(segment)
        function = sum(word in FUNCTION_WORDS for word in words)
        sentence = len(words) <= _SENTENCE and 5 * function >= len(words)
        for word in words:
            if word in gold or not (sentence or word in _NO_ITEMS):
                yield word


#: What an answer to a family names besides needles: variables, nodes, or words of a list.
_BY_FAMILY: dict[str, Callable[[Row, str], Iterator[str]]] = {
    "vt": _variables,
    "cwe": _list_words,
    "fwe": _list_words,
    "graph": _nodes,
}

_LEAD = re.compile(r"\s*(?:the |my )?(?:final |correct )?answer(?: is\b|:)[:\s]*", re.IGNORECASE)
_BOXED = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")
_SQUAD_DROPS = re.compile(r"\b(?:a|an|the)\b")
#: Answers that share no part with others (HotpotQA's evaluation).
_POLAR = frozenset({"yes", "no", "noanswer"})


def short_answer(answer: str) -> str:
    r"""Return the answer without reasoning, `\boxed{}` and a lead-in such as `Answer:`."""
    text = split(answer)[1]
    boxed = _BOXED.findall(text)
    text = re.sub(r"\\[A-Za-z]+", " ", boxed[-1] if boxed else text)
    return _LEAD.sub("", re.sub(r"^[\s*_#>]+", "", text), count=1)


def normalized(text: str) -> str:
    """Return a text as SQuAD compares it: lower case, without punctuation and articles.

    >>> normalized("The U.S.  Army!")
    'us army'
    """
    kept = (c for c in text.lower() if c not in _PUNCTUATION and unicodedata.category(c)[0] != "P")
    return " ".join(_SQUAD_DROPS.sub(" ", "".join(kept)).split())


_PUNCTUATION = frozenset(string.punctuation)


def _token_f1(given: str, wanted: str) -> float:
    """Return the F1 of the words of two normalized texts, as SQuAD and HotpotQA compute it."""
    if given != wanted and not _POLAR.isdisjoint((given, wanted)):
        return 0.0
    said, gold = Counter(given.split()), Counter(wanted.split())
    shared = (said & gold).total()
    return 2 * shared / (said.total() + gold.total()) if shared else float(given == wanted)


def contains(text: str, words: str) -> bool:
    """Whether a text contains words, with no letter, digit or hyphenated word joined to them.

    >>> contains("-cat", "cat"), contains("cat-food", "cat"), contains("cat.", "cat")
    (True, False, True)
    """
    start = text.find(words)
    while start >= 0:
        end = start + len(words)
        around = (text[max(0, start - 2) : start][::-1], text[end : end + 2])  # read away from it
        if not any(re.match(r"-?\w", neighbor) for neighbor in around):
            return True
        start = text.find(words, start + 1)
    return False
