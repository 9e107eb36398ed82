"""English words: the lists of the wonderwords package, their hash pinned.

Needle keys are `adjective-noun`; cwe lists single words. wonderwords 2.2.0 and 3.0.1 differ by
four nouns, and any difference would change rows, so a list with another hash is refused.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from ruler_builders.sources.catalogue import WORDS
from ruler_builders.sources.text_files import read_text
from ruler_data.errors import RulerError
from ruler_data.manifest import SourceInfo

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


def load_words() -> tuple[WordList, SourceInfo]:
    """Return the words and their entry for the manifest.

    Raises:
        RulerError: wonderwords is missing, or its lists are not the pinned ones.
    """
    assets, lists = wonderwords_assets(), list[tuple[str, ...]]()
    for kind in ("noun", "adjective", "verb"):
        words = {line.strip() for line in read_text(assets / f"{kind}list.txt").splitlines()}
        lists.append(tuple(sorted(filter(_PLAIN.fullmatch, words))))
    actual = hashlib.sha256("\n\n".join(map("\n".join, lists)).encode()).hexdigest()
    if actual != PINNED:
        msg = (
            f"wonderwords {version('wonderwords')} has other words than this data version: "
            f"sha256 expected {PINNED}, found {actual}; pip install wonderwords==3.0.1"
        )
        raise RulerError(msg)
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
        msg = "the word lists need wonderwords 3.0.1; pip install -e '.[build]' in the checkout"
        raise RulerError(msg)
    return Path(package.submodule_search_locations[0]) / "assets"
