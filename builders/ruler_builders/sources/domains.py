"""Domains: texts of one kind (code, legal, tables, ...), cut into lines and passages.

    def mean(values):                   a line
        return sum(values) / len(values)
                                        the line above, with the blank line that follows it
    def median(values):                 a line that begins a passage

The domains of the package are original texts, written for it; prose is that of the sample essays.
"""

import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from ruler_builders.sources.catalogue import packaged_info
from ruler_builders.sources.sample import FOLDER as SAMPLE
from ruler_builders.sources.text_files import read_text
from ruler_data.manifest import SourceInfo

#: Folder of the texts, one sub-folder for each domain; they ship in the wheel.
FOLDER = Path(str(files("ruler_builders") / "domains"))
#: Prefix of a domain's name in the name of its source.
PREFIX = "domain_"
#: The domains of the package.
BUNDLED = ("prose", "code", "legal", "technical", "tables")

#: Characters at which a line is wrapped, so that a haystack can end close to its room.
WIDTH = 160
_TOO_LONG = re.compile(rf"\S{{{WIDTH}}}(?=\S)")
#: Fewest characters of a passage before a blank line ends it, and most characters.
SHORTEST, LONGEST = 600, 4000


@dataclass(frozen=True)
class Domain:
    """The texts of a domain.

    Attributes:
        lines: in order, each with a line feed for every blank line that follows it.
        starts: numbers of the lines that begin a passage; the first is 0.
    """

    lines: tuple[str, ...]
    starts: tuple[int, ...]


def bundled_domain(name: str) -> Domain:
    """Return a domain of the package."""
    texts = (read_text(path) for path in _files(name))
    # The files of the essays hold one sentence per line.
    return cut(map(_paragraphs, texts) if name == "prose" else texts)


def bundled_info(name: str) -> SourceInfo:
    """Return the entry of a domain of the package for the manifest."""
    detail = "written for this package; names, places and figures are invented"
    return packaged_info(PREFIX + name, f"Texts of this package: {name}", _files(name), detail)


def cut(texts: Iterable[str]) -> Domain:
    r"""Cut texts into lines and passages.

    A passage begins with a text, or after a blank line with a line that is not indented.

    >>> cut(["x = 1\n\n\n\ny = 2  \n", "z"]).lines
    ('x = 1\n\n', 'y = 2\n', 'z\n')
    """
    lines: list[str] = []
    starts: list[int] = []
    for text in texts:
        size = LONGEST
        for line in _lines(text):
            fresh = not lines or size >= LONGEST
            if fresh or (size >= SHORTEST and lines[-1][-1:] == "\n" and not line[0].isspace()):
                starts.append(len(lines))
                size = 0
            lines.append(line)
            size += len(line) + 1
    return Domain(tuple(lines), tuple(starts))


def _lines(text: str) -> Iterator[str]:
    """Yield lines with the blank lines after them, at most two, and one after the last line."""
    held = ""
    for line in (piece for whole in text.split("\n") for piece in _wrapped(whole.rstrip())):
        if line and held:
            yield held
        held = line or (held + "\n" if held and not held.endswith("\n\n") else held)
    if held:
        yield held.rstrip("\n") + "\n"


def _wrapped(line: str) -> list[str]:
    if len(line) <= WIDTH:
        return [line]
    wrap = textwrap.TextWrapper(
        WIDTH, expand_tabs=False, replace_whitespace=False, break_on_hyphens=False
    )
    # Cut overlong words first: textwrap would copy the rest of such a word for every line.
    return wrap.wrap(_TOO_LONG.sub(r"\g<0> ", line))


def _paragraphs(text: str) -> str:
    """Return a text of one sentence per line with its paragraphs wrapped to 92 characters."""
    paragraphs = (part.replace("\n", " ") for part in text.split("\n\n"))
    return "\n\n".join(textwrap.fill(part, 92) for part in paragraphs)


def _files(name: str) -> list[Path]:
    return sorted((SAMPLE / "essays" if name == "prose" else FOLDER / name).iterdir())
