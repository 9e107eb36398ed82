"""Domains: texts of one kind (code, legal, tables, ...), cut into lines and passages.

    def mean(values):                   a line
        return sum(values) / len(values)
                                        the line above, with the blank line that follows it
    def median(values):                 a line that begins a passage

The texts of the package are in `packaged`. A user's own (`--haystack DIR`) are text files: each
sub-folder is a domain, or the folder itself; names that begin with a dot and links to folders are
ignored.
"""

import os
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from ruler_builders.sources.catalogue import SourceSpec
from ruler_builders.sources.text_files import read_text, sha256_listing
from ruler_data.errors import RulerError, UsageError
from ruler_data.files import sha256_file
from ruler_data.manifest import SourceInfo
from ruler_data.names import quote

#: Prefix of a domain's name in the name of its source.
PREFIX = "domain_"
#: The domains of the package.
BUNDLED = ("prose", "code", "legal", "technical", "tables")

#: Characters at which a line is wrapped, so that a haystack can end close to its room.
WIDTH = 160
_TOO_LONG = re.compile(rf"\S{{{WIDTH}}}(?=\S)")
#: Fewest characters of a passage before a blank line ends it.
SHORTEST = 600
#: Characters after which a passage ends at the next line.
LONGEST = 4000


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
    lines = (line for whole in text.split("\n") for line in _wrap(whole.rstrip()))
    for line in lines:
        if line and pending:
            yield pending
        if line:
            pending = line
        elif pending and not pending.endswith("\n\n"):
            pending += "\n"
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


#: Most bytes of all files.
LARGEST = 64_000_000
#: Allowed names of a domain: they become part of a task's name.
NAME = re.compile(r"[a-z][a-z0-9_]{0,23}")
#: Names that the package uses.
RESERVED = (*BUNDLED, "mixed", "all")


@dataclass(frozen=True)
class UserTexts:
    """A folder of texts, listed and not yet read: the files of each domain, by path within it."""

    root: Path
    domains: Mapping[str, tuple[str, ...]]

    def domain(self, name: str) -> Domain:
        """Read a domain.

        Raises:
            UsageError: a file is not text, or no file holds any.
        """
        try:
            domain = cut(read_text(self.root / file) for file in self.domains[name])
        except RulerError as error:
            raise UsageError(f"--haystack: domain {name}: {error}") from error
        if not domain.lines:
            raise UsageError(f"--haystack: domain {name}: its files hold no text")
        return domain

    def info(self, name: str) -> SourceInfo:
        """Return the entry of a domain for the manifest: a hash of its contents, and no path."""
        files = self.domains[name]
        size = sum((self.root / file).stat().st_size for file in files)
        sha256 = sha256_listing({file: sha256_file(self.root / file) for file in files})
        return own_info(PREFIX + name, sha256, f"files: {len(files)}; bytes: {size}")


def own_info(name: str, sha256: str, detail: str) -> SourceInfo:
    """Return the entry of a domain or a file of the user for the manifest."""
    title = f"Texts of whoever built this: {name.removeprefix(PREFIX)}"
    author = "unknown to ruler-data; ask whoever built this"
    spec = SourceSpec(name, title, "", "unknown", author)
    return spec.info(sha256, detail, pinned=False, kind="own")


def missing_domain(name: str, texts_of_user: UserTexts | None) -> str:
    """Return the message for a domain that does not exist; empty if it does."""
    domains = (*BUNDLED, *(texts_of_user.domains if texts_of_user else ()))
    if name in domains:
        return ""
    return (
        f"domain {quote(name)} does not exist; known: {', '.join(domains)}; give --haystack "
        "DIR with a folder of its name"
    )


def find_user_texts(root: Path | str) -> UserTexts:
    """List the files of a folder of texts.

    Raises:
        UsageError: it cannot be read, holds no files or too much, or a domain's name is invalid.
    """
    root = Path(root)
    where = f"--haystack {quote(str(root), 200)}"
    try:
        files = sorted(_walk(root))
        size = sum((root / file).stat().st_size for file in files)
    except OSError as error:
        raise UsageError(where, f"cannot be read: {error.strerror}") from error
    if size > LARGEST:
        raise UsageError(where, f"holds more than {LARGEST:,} bytes; use fewer texts")
    domains: dict[str, list[str]] = {}
    for file in files:
        folder, _, name = file.partition("/")
        if not name:  # a file that is in no sub-folder
            folder = root.resolve().name
        domains.setdefault(folder, []).append(file)
    if not domains:
        remedy = "put texts into it, in sub-folders for several domains"
        raise UsageError(where, f"holds no files; {remedy}")
    for name in domains:
        _check_domain_name(name, where)
    return UserTexts(root, {name: tuple(domains[name]) for name in sorted(domains)})


def _check_domain_name(name: str, where: str) -> None:
    if name in RESERVED:
        problem = "is a name of the package"
    elif not NAME.fullmatch(name):
        problem = "is not a name of a domain"
    else:
        return
    remedy = "rename the folder: a-z, 0-9 and _, at most 24"
    raise UsageError(where, f"{quote(name)} {problem}; {remedy}")


def _walk(root: Path) -> Iterator[str]:
    """Yield every file by its path within the folder."""

    def stop(error: OSError) -> NoReturn:
        raise error

    for folder, folders, files in os.walk(root, onerror=stop):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for path in (Path(folder, name) for name in files if not name.startswith(".")):
            if path.is_file():
                yield path.relative_to(root).as_posix()
