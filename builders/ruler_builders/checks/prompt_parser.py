"""Parse prompts: needles in any wording, and the fixed text of each task's prompt.

A solver does not notice another question, so the fixed text of a prompt is compared with `prompts`.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ruler_builders import prompts
from ruler_builders.prompts import NEEDLES, PromptTemplate
from ruler_data.parquet import cut_text, int_array, integers, texts_array
from ruler_data.row import Row
from ruler_data.tasks import Cwe, Fwe, Niah, Qa, Task, Vt

#: Characters on both sides of a key within which its needle is searched.
AROUND = 1000


#: Regular expressions of the fields of a needle. The alias of a split needle is the value of its
#: first sentence and the key of its second.
_FIELDS = {
    "kind": r"(?P<kind>\w+)",
    "one": r"(?P<kind>\w+)",
    "key": r"(?P<key>\S+)",
    "value": r"(?P<value>\S+)",
}


def _compiled(form: str, fields: dict[str, str]) -> tuple[str, re.Pattern[str]]:
    """Return the text with which a form begins, and a regular expression for its sentences."""
    marked = form.format(**{name: f"\0{name}\0" for name in fields})
    beginning, *fields_marked = marked.split("\0")
    patterns = [fields.get(field) or re.escape(field) for field in fields_marked]
    return beginning, re.compile("".join([re.escape(beginning), *patterns, r"(?=\s|$)"]))


_FORMS = [
    (wording, *_compiled(form, _FIELDS | {"alias": _FIELDS["value"]}))
    for wording, forms in NEEDLES.items()
    for form in (forms[:1] if wording == "split" else forms)
]
_, _FILED = _compiled(NEEDLES["split"][1], _FIELDS | {"alias": _FIELDS["key"]})


class Needle(NamedTuple):
    """Key, value, wording and spans of a needle; a split one has two spans."""

    kind: str
    key: str
    value: str
    wording: str
    spans: tuple[tuple[int, int], ...]


def needle_sentences(text: str, keys: Collection[str] | None = None) -> list[Needle]:
    """Return the needles of a text, form by form; with keys, only those of these keys.

    With keys, only the text around them is read, which is many times faster.
    """
    stretches = [(0, len(text))]
    if keys is not None:
        stretches = _surroundings(text, keys)
    needles = list[Needle]()
    for (wording, beginning, form), (start, end) in product(_FORMS, stretches):
        if text.find(beginning, start, end) < 0:
            continue  # without the slower regular expression
        for match in form.finditer(text, start, end):
            if keys is not None and match["key"] not in keys:
                continue
            value = match["value"]
            spans = [match.span()]
            if wording == "split":
                filed = _filed(text).get(value)
                if filed is None:
                    continue
                value = filed["value"]
                spans = sorted([*spans, filed.span()])
            kind = match.groupdict().get("kind", "")
            needles.append(Needle(kind, match["key"], value, wording, tuple(spans)))
    return needles


@lru_cache(maxsize=1)  # every split needle of a text needs them
def _filed(text: str) -> dict[str, re.Match[str]]:
    """Return the second sentences of split needles, by alias."""
    return {entry["key"]: entry for entry in _FILED.finditer(text)}


def _surroundings(text: str, keys: Iterable[str]) -> list[tuple[int, int]]:
    """Return the parts of a text that surround the keys."""
    places = list[int]()
    for key in filter(None, keys):
        at = text.find(key)
        while at >= 0:
            places.append(at)
            at = text.find(key, at + len(key))
    stretches = list[tuple[int, int]]()
    for at in sorted(places):
        start = max(at - AROUND, 0)
        if stretches and start <= stretches[-1][1]:
            start = stretches.pop()[0]
        stretches.append((start, at + AROUND))
    return stretches


class WordList(NamedTuple):
    """The words of a coded text or of a list.

    Attributes:
        places: of each word in order, its place in `words`.
        words: the different words, in the order of first occurrence.
        often: how often each of them occurs.
        is_numbered: whether they are a list that is numbered from 1 without gaps.
    """

    places: NDArray[np.integer[Any]]
    words: pa.StringArray
    often: NDArray[np.intp]
    is_numbered: bool

    def ranked(self) -> Iterator[tuple[str, int]]:
        """Yield the words with their counts, the most frequent first."""
        for place in np.argsort(-self.often, kind="stable"):
            yield self.words[place].as_py(), int(self.often[place])

    def occurrences(self, words: Collection[str]) -> list[str]:
        """Return every occurrence of these words, in order."""
        numbers = integers(pc.indices_nonzero(pc.is_in(self.words, value_set=texts_array(words))))
        texts = {number: self.words[number].as_py() for number in numbers.tolist()}
        places = self.places[np.isin(self.places, numbers)]
        return [texts[place] for place in places.tolist()]


def word_list(text: str) -> WordList:
    """Return the words of a text with single spaces, which are a list if the first is "1."."""
    data = f"{text.strip()} ".encode()
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord(" ")) + 1
    words = pieces = cut_text(data, ends)
    is_numbered = False
    if pieces[0].as_py() == "1. ":
        at = np.arange(len(pieces))
        words, numbers = (pieces.take(int_array(at[start::2])) for start in (1, 0))
        is_numbered = numbers.equals(_numbers(len(words).bit_length())[: len(words)])
    coded = words.dictionary_encode()
    places = integers(coded.indices)
    different = pc.utf8_rtrim(coded.dictionary, characters=" ")
    return WordList(places, different, np.bincount(places), is_numbered)


@lru_cache(maxsize=1)
def _numbers(bits: int) -> pa.Array:
    """Return the numbers of a list as text: 1 to 2^bits - 1."""
    return texts_array(f"{number}. " for number in range(1, 1 << bits))


def queried_keys(row: Row) -> list[str]:
    """Return the keys that a question is about, or the description of one."""
    match = _QUERY.search(question_of(row))
    if match is None:
        return []
    return re.split(r", and |, ", match[1])


def place_of(row: Row) -> str:
    """Return the place among a key's values that a question names, as a word; empty for none."""
    place = _PLACE.match(question_of(row))
    return place[1] if place else ""


_QUERY = re.compile(r" for (.+) mentioned in the provided text\?")
_PLACE = re.compile(r"What is the (\w+) special magic ")
COUNTED = re.compile(r'does the word "(.+)" appear in the above list\?$')
VALUE = re.compile(r"assigned the value ([0-9]+) in the text above\.$")


def template_of(task: Task, row: Row) -> PromptTemplate:
    """Return the fixed text of the prompt of one of RULER's own families, with its question."""
    params = task.params
    question = question_of(row)
    match params:
        case Niah():
            query = _QUERY.search(question)
            ordinal = place_of(row) if params.ordinal else ""
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
            raise NotImplementedError(f"the prompts of the family {params.family} cannot be parsed")


def question_of(row: Row) -> str:
    """Return the question, which may stand before the text."""
    return row.question or row.context.partition("\n\n")[0]
