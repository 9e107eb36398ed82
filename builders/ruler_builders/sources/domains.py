"""Domains: texts of one kind (code, legal, tables, ...), cut into lines and passages.

    def mean(values):                   a line
        return sum(values) / len(values)
                                        the line above, with the blank line that follows it
    def median(values):                 a line that begins a passage

The texts of the package are in `packaged`, those of users in `user_texts`.
"""

import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

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
            if size >= LONGEST or (
                size >= SHORTEST and lines[-1].endswith("\n") and not line[0].isspace()
            ):
                starts.append(len(lines))
                size = 0
            lines.append(line)
            size += len(line) + 1
    return Domain(tuple(lines), tuple(starts))


def _lines(text: str) -> Iterator[str]:
    """Yield lines with the blank lines after them, at most two, and one after the last line."""
    pending = ""
    for line in (piece for whole in text.split("\n") for piece in _wrap(whole.rstrip())):
        if line and pending:
            yield pending
        pending = line or (pending + "\n" if pending and not pending.endswith("\n\n") else pending)
    if pending:
        yield pending.rstrip("\n") + "\n"


def _wrap(line: str) -> list[str]:
    if len(line) <= WIDTH:
        return [line]
    # Cut overlong words first: textwrap would copy the rest of such a word for every line.
    text = _TOO_LONG.sub(r"\g<0> ", line)
    return textwrap.wrap(
        text, WIDTH, expand_tabs=False, replace_whitespace=False, break_on_hyphens=False
    )
