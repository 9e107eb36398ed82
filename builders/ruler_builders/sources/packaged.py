"""Texts in packages: the sample corpus, domains and associations of this one, wonderwords' words.

From the sample corpus all tasks build offline. Its essays have a sentence a line; each paragraph of
its articles has a question, and some questions need two paragraphs. The associations are things and
descriptions that share no word with them; no thing fits two descriptions:

    string instrument: cello, banjo, ukulele

Needle keys are `adjective-noun` of wonderwords, and cwe lists its single words. Versions 2.2.0 and
3.0.1 differ by four nouns, and any difference would change rows: another hash is refused.

Files of packages do not change while a process runs: each is read once, for all libraries.
"""

import hashlib
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ruler_builders.sources.catalogue import CATALOGUE, WORDS, SourceSpec
from ruler_builders.sources.domains import BUNDLED, PREFIX, Domain, cut
from ruler_builders.sources.qa import ChoiceQuestions, Corpus, parse_corpus, read_choices
from ruler_builders.sources.text_files import read_json, read_text, sha256_of
from ruler_data.errors import RulerError
from ruler_data.manifest import SourceInfo

#: By source: its title, its file or folder in the package, and its detail in the manifest.
PACKAGED = {
    "essays": ("Sample essays of this package", "sample/essays", "one sentence a line"),
    "squad": (
        "Sample paragraphs and questions of this package",
        "sample/articles",
        "fictional facts",
    ),
    "mmlu": (
        "Sample questions of multiple choice of this package",
        "sample/questions.jsonl",
        "written for this package",
    ),
    "hotpotqa": ("Sample two-hop questions of this package", "sample/articles", "fictional facts"),
    **{
        PREFIX + name: (
            f"Texts of this package: {name}",
            "sample/essays" if name == "prose" else f"domains/{name}",
            "written for this package; names, places and figures are invented",
        )
        for name in BUNDLED
    },
    "associations": (
        "Things and their descriptions, of this package",
        "associations.txt",
        "written for this package",
    ),
}


def packaged_files(name: str) -> list[Path]:
    """Return the files of a source of the package, by name."""
    place = Path(str(files("ruler_builders"))) / PACKAGED[name][1]
    if place.is_dir():
        return sorted(place.iterdir())
    return [place]


@cache
def packaged_info(name: str) -> SourceInfo:
    """Return the entry of a source of the package for the manifest."""
    title, _, detail = PACKAGED[name]
    url = "https://creativecommons.org/publicdomain/zero/1.0/"
    spec = SourceSpec(name, title, url, "CC0-1.0", "the authors of ruler-data")
    kind = "sample" if name in CATALOGUE else "real"
    return spec.info(sha256_of(packaged_files(name)), detail, pinned=True, kind=kind)


@cache
def sample_essays() -> tuple[str, ...]:
    """Return the sentences of the sample essays."""
    lines = (line for path in packaged_files("essays") for line in read_text(path).split("\n"))
    return tuple(filter(None, lines))


@cache
def sample_corpus(source: str) -> Corpus:
    """Return the sample's questions in place of `squad` (single-hop) or `hotpotqa` (two-hop).

    Near documents are those of the same article.
    """
    articles = [read_json(path) for path in packaged_files(source)]
    if source == "squad":
        entries = [{"paragraphs": [*map(_as_squad, article["paragraphs"])]} for article in articles]
        return parse_corpus(source, {"data": entries}, "sample")
    questions = list[Any]()
    for article in articles:
        context = [(paragraph["title"], paragraph["text"]) for paragraph in article["paragraphs"]]
        for question in article["two_hop"]:
            facts = [(title, 0) for title in question["titles"]]
            questions.append({**question, "supporting_facts": facts, "context": context})
    return parse_corpus(source, questions, "sample")


@cache
def sample_choices() -> ChoiceQuestions:
    """Return the sample's questions in place of `mmlu`."""
    (path,) = packaged_files("mmlu")
    return read_choices(path)[0]


def _as_squad(paragraph: Mapping[str, str]) -> dict[str, Any]:
    answers = [{"text": paragraph["answer"]}]
    return {
        "context": paragraph["text"],
        "qas": [{**paragraph, "answers": answers, "is_impossible": False}],
    }


@cache
def bundled_domain(name: str) -> Domain:
    """Return a domain of the package; prose is that of the sample essays."""
    texts = map(read_text, packaged_files(PREFIX + name))
    if name == "prose":
        texts = map(_paragraphs, texts)
    return cut(texts)


def _paragraphs(text: str) -> str:
    """Return a text of one sentence per line with its paragraphs wrapped to 92 characters."""
    paragraphs = (paragraph.replace("\n", " ") for paragraph in text.split("\n\n"))
    return "\n\n".join(textwrap.fill(paragraph, 92) for paragraph in paragraphs)


@cache
def associations() -> dict[str, tuple[str, ...]]:
    """Return the things that each description fits."""
    (path,) = packaged_files("associations")
    lines = (line.split(": ") for line in read_text(path).splitlines())
    return {description: tuple(members.split(", ")) for description, members in lines}


#: sha256 of the three lists of wonderwords 3.0.1, joined by empty lines.
PINNED = "0a63eb63dacdd03e81a3e56b9746443b472937a94fec40f9dda43c04f4a5c9ec"

#: Entries with spaces or capitals (`contact lens`, `ATM`) would blur where a word ends.
_PLAIN = re.compile(r"[a-z]+(-[a-z]+)*")


@dataclass(frozen=True)
class WordList:
    """Nouns, adjectives and verbs, each sorted and without repeats."""

    nouns: tuple[str, ...]
    adjectives: tuple[str, ...]
    verbs: tuple[str, ...]

    @cached_property
    def singles(self) -> tuple[str, ...]:
        """All words, each once, sorted."""
        return tuple(sorted({*self.nouns, *self.adjectives, *self.verbs}))


@cache
def load_words() -> tuple[WordList, SourceInfo]:
    """Return the words and their entry for the manifest.

    Raises:
        RulerError: wonderwords is missing, or its lists are not the pinned ones.
    """
    assets = wonderwords_assets()
    lists = list[tuple[str, ...]]()
    for kind in ("noun", "adjective", "verb"):
        words = {line.strip() for line in read_text(assets / f"{kind}list.txt").splitlines()}
        lists.append(tuple(sorted(filter(_PLAIN.fullmatch, words))))
    actual = hashlib.sha256("\n\n".join(map("\n".join, lists)).encode()).hexdigest()
    if actual != PINNED:
        raise RulerError(
            f"wonderwords {version('wonderwords')} has other words than this data version: "
            f"sha256 expected {PINNED}, found {actual}; pip install wonderwords==3.0.1"
        )
    return WordList(*lists), words_info()


def words_info() -> SourceInfo:
    """Return the entry of the words for the manifest."""
    detail = "nouns, adjectives and verbs of plain lower-case letters"
    return WORDS.info(PINNED, detail, pinned=True)


def wonderwords_assets() -> Path:
    """Return the folder of the word lists of the installed wonderwords."""
    # Not imported, since wonderwords then reads its lists in the encoding of the locale.
    package = find_spec("wonderwords")
    if package is None or not package.submodule_search_locations:
        raise RulerError(
            "the word lists need wonderwords 3.0.1; pip install -e '.[build]' in the checkout"
        )
    return Path(package.submodule_search_locations[0]) / "assets"
