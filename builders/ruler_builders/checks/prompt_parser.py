"""Parse prompts: needles in any wording, and the fixed text of each task's prompt.

No solver would notice a question that asks for something else, so the text around what is drawn is
compared with that of `prompts`.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from itertools import chain, repeat
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ruler_builders import prompts
from ruler_builders.prompts import NEEDLES, PromptTemplate
from ruler_data.parquet import int_array, integers, texts_array
from ruler_data.row import Row
from ruler_data.tasks import Cwe, Fwe, Niah, Qa, Task, Vt


def _named(form: str) -> str:
    return form.format(kind="KIND", one="KIND", key="KEY", value="VALUE", alias="VALUE")


def _words(form: str) -> str:
    """Return fixed words of a form: up to the magic ones, or else the longest."""
    parts = re.split("KEY|VALUE|KIND", form)
    magic = [part[: part.index(MAGIC)] + MAGIC for part in parts if MAGIC in part]
    return magic[0] if magic else max(parts, key=len)


MAGIC = "special magic"
#: Characters before the magic words that tell the forms of a needle apart.
LONGEST_START = 25
#: Each wording of a needle, with fixed words of it. These are searched first, since a regular
#: expression takes a hundred times longer on a long text.
_FORMS = [
    (
        wording,
        _words(form),
        re.compile(
            f"({re.escape(form)})".replace("KIND", r"(?P<kind>\w+)")
            .replace("KEY", r"(?P<key>\S+)")
            .replace("VALUE", r"(?P<value>\S+)")
            + r"(?=\s|$)"
        ),
    )
    for wording, forms in NEEDLES.items()
    for form in (_named(one) for one in (forms[:1] if wording == "split" else forms))
]
#: The form of which there may be thousands; what it matches follows from its parts.
_PLAIN = NEEDLES["plain"][0]
_PARTS = _PLAIN.replace(".", r"\.").format(kind=r"(\w+)", key=r"(\S+)", value=r"(\S+)")
_PLAIN_PARTS = re.compile(_PARTS + r"(?=\s|$)")
#: Characters of a plain needle before its magic words, and needles that are searched one by one.
BEFORE, FEW = _PLAIN.index(MAGIC), 100
_FILED = re.compile(NEEDLES["split"][1].format(alias=r"(\S+)", value=r"(\S+?)") + r"(?=\s|$)")


class Needles(NamedTuple):
    """The needles of a text, in columns: by form, and those of a form in the order of the text.

    Attributes:
        sentences: of each, if it is not of the plain form alone; two if it is split.
    """

    kinds: Sequence[str]
    keys: Sequence[str]
    values: Sequence[str]
    wordings: Sequence[str]
    sentences: Sequence[tuple[str, ...]] = ()

    def texts(self, place: int) -> tuple[str, ...]:
        """Return the sentence of a needle, or both if it is split, in the order of the text."""
        if self.sentences:
            return self.sentences[place]
        kind, key, value = self.kinds[place], self.keys[place], self.values[place]
        return (_PLAIN.format(kind=kind, key=key, value=value),)


@lru_cache(maxsize=1)  # of a row, all checks ask for the same
def needle_sentences(text: str) -> tuple[Needles, list[str]]:
    """Return all needles of a text in any wording, and the pieces of text between them."""
    (plain, _, plain_form), *forms = _FORMS
    places, at = list[int](), text.find(MAGIC)
    while at >= 0 and len(places) <= FEW:
        places.append(at)
        at = text.find(MAGIC, at + 1)
    if at >= 0:  # many, of one form
        parts = _PLAIN_PARTS.split(text)
        pieces, kinds, keys, values = (parts[place::4] for place in range(4))
        rest = "\n".join(pieces)  # short, since there is little else
        places = [match.start() for match in re.finditer(MAGIC, rest)]
    else:
        matches = [_PLAIN_PARTS.match(text, place - BEFORE) for place in places if place >= BEFORE]
        found = [match for match in matches if match]
        starts, ends = (match.start() for match in found), (match.end() for match in found)
        edges = [0, *chain.from_iterable(zip(starts, ends, strict=True)), len(text)]
        pieces = [text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)]
        kinds, keys, values = ([match[part] for match in found] for part in (1, 2, 3))
        rest = text
        places = [place for place in places if place - BEFORE not in edges[1::2]]
    magic = "\n".join(rest[max(place - LONGEST_START, 0) : place] + MAGIC for place in places)
    others = [
        (wording, form)
        for wording, words, form in forms
        if words in (magic if MAGIC in words else rest)
    ]
    if not others:
        return Needles(kinds, keys, values, [plain] * len(keys)), pieces
    return _of_forms(text, [(plain, plain_form), *others])


def _of_forms(text: str, forms: Iterable[tuple[str, re.Pattern[str]]]) -> tuple[Needles, list[str]]:
    """Return needles form by form, and what is between them."""
    filed = {match[1]: match for match in _FILED.finditer(text)} if "filed under" in text else {}
    found, spans = list[tuple[str, str, str, str, tuple[str, ...]]](), list[tuple[int, int]]()
    for wording, form in forms:
        for match in form.finditer(text):
            matches, value = [match], match["value"]
            if wording == "split":
                if value not in filed:
                    continue
                matches = sorted((match, filed[value]), key=re.Match.start)
                value = filed[value][2]
            texts = tuple(one[0] for one in matches)
            kind = match["kind"] if "kind" in form.groupindex else ""
            found.append((kind, match["key"], value, wording, texts))
            spans += [one.span() for one in matches]
    spans.sort()
    ends = [0, *(end for _, end in spans)]
    starts = [*(start for start, _ in spans), len(text)]
    pieces = [text[end:start] for end, start in zip(ends, starts, strict=True)]
    return Needles(*(zip(*found, strict=True) if found else repeat((), 5))), pieces


class WordList(NamedTuple):
    """The words of a coded text or of a list.

    Attributes:
        places: of each word in order, its place in `counts`.
        counts: how often each different word occurs, in the order of first occurrence.
        is_numbered: whether they are a list that is numbered from 1 without gaps.
    """

    places: NDArray[np.integer[Any]]
    counts: Counter[str]
    is_numbered: bool

    def chosen(self, words: Collection[str]) -> list[str]:
        """Return these words, as often and in the order in which they occur."""
        each = list(self.counts)
        wanted = [place for place, word in enumerate(each) if word in words]
        return [each[place] for place in self.places[np.isin(self.places, wanted)].tolist()]


@lru_cache(maxsize=1)  # of a row, all checks ask for the same
def word_list(text: str) -> WordList:
    """Return the words of a stripped text, which are a list if the first is "1."."""
    split = pc.ascii_split_whitespace if text.isascii() else pc.utf8_split_whitespace  # or slower
    words = pieces = split(texts_array([text])).values
    is_numbered = False
    if pieces[0].as_py() == "1.":
        at = np.arange(len(pieces))
        words, numbers = (pieces.take(int_array(at[start::2])) for start in (1, 0))
        is_numbered = numbers.equals(_numbers(len(words).bit_length())[: len(words)])
    coded = words.dictionary_encode()
    places = integers(coded.indices)
    often = zip(coded.dictionary.to_pylist(), np.bincount(places).tolist(), strict=True)
    return WordList(places, Counter(dict(often)), is_numbered)


@lru_cache(maxsize=1)
def _numbers(bits: int) -> pa.Array:
    """Return the numbers of a list as text: 1 to 2^bits - 1."""
    return texts_array(f"{number}." for number in range(1, 1 << bits))


def queried_keys(row: Row) -> list[str]:
    """Return the keys that a question is about, or the description of one."""
    found = _QUERY.search(question_of(row))
    return re.split(r", and |, ", found[1]) if found else []


_QUERY = re.compile(r" for (.+) mentioned in the provided text\?")
_PLACE = re.compile(r"What is the (\w+) special magic ")
COUNTED = re.compile(r'does the word "(.+)" appear in the above list\?$')
VALUE = re.compile(r"assigned the value ([0-9]+) in the text above\.$")


def template_of(task: Task, row: Row) -> PromptTemplate:
    """Return the fixed text of the prompt of one of RULER's own families, with its question."""
    params, question = task.params, question_of(row)
    match params:
        case Niah():
            query, place = _QUERY.search(question), _PLACE.match(question)
            ordinal = place[1] if place and params.ordinal else ""
            return prompts.niah(params, query[1] if query else "KEY", ordinal)
        case Vt():
            value = VALUE.search(question)
            return prompts.vt(params, value[1] if value else "VALUE", params.hops + 1)
        case Cwe():
            word = COUNTED.search(question)
            return prompts.cwe(params, word[1] if word else "WORD")
        case Fwe():
            return prompts.fwe(params)
        case Qa():
            return prompts.qa(params, question.rpartition("Question: ")[2].strip())
        case _:
            msg = f"the prompts of the family {params.family} are not taken apart"
            raise NotImplementedError(msg)


def question_of(row: Row) -> str:
    """Return the question, which may stand before the text."""
    return row.question or row.context.partition("\n\n")[0]
