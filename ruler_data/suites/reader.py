"""YAML as far as a suite needs it: mappings, lists and plain values, each with its line.

No tags, anchors or aliases, so that a file can neither run code nor grow beyond its own size; no
key twice; `no` is a word and `1.10` a number only where a number is asked for.

The fields of a suite's file: each is what it must be, or is refused with its line.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

from ruler_data.errors import UsageError
from ruler_data.names import quote

#: Bytes of a file, and levels of nesting, beyond which it is no suite.
LARGEST, DEEPEST = 200_000, 8

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_DECIMAL = re.compile(r"-?[0-9]{1,17}\.[0-9]{1,17}")

#: Where a value stands: keys and places from the top.
Place = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """A file's values, and the line of each."""

    path: Path
    values: dict[str, Any]
    lines: dict[Place, int]

    def refuse(self, place: Place, message: str) -> NoReturn:
        """Refuse the value at a place, or that there is none.

        Raises:
            UsageError: always; it names file, line and key.
        """
        key = ".".join(map(str, place))
        line = self.line(place)
        raise _wrong(self.path.name, line, f"{key + ': ' if key else ''}{message}")

    def line(self, place: Place) -> int:
        """Return the line of a value, or of what it is missing from."""
        while place not in self.lines:
            place = place[:-1]
        return self.lines[place]


def read(path: Path) -> Document:
    """Read a file.

    Raises:
        UsageError: it cannot be read, or is more than mappings, lists and plain values.
    """
    text = _text(path)
    lines: dict[Place, int] = {}
    try:
        _check_events(path.name, text)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        msg = f"{path.name}:{line}: not YAML: {error.problem}"
        raise UsageError(msg) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        msg = f"{path.name}:{line}: not YAML: {error.reason}"
        raise UsageError(msg) from error
    if not isinstance(node, yaml.MappingNode):
        msg = f"{path.name}:1: a suite is a mapping of keys to values"
        raise UsageError(msg)
    return Document(path, _value(path.name, node, (), lines), lines)


def _text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        UsageError: it cannot be read, is no file, too large or not UTF-8.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for
            msg = f"{quote(str(path), 200)}: is no file; name a YAML file"
            raise UsageError(msg)
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        msg = f"{quote(str(path), 200)}: cannot be read: {error.strerror}"
        raise UsageError(msg) from error
    if len(data) > LARGEST:
        msg = f"{path.name}: a suite has at most {LARGEST} bytes"
        raise UsageError(msg)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        msg = f"{path.name}:{line}: not UTF-8 at byte {error.start}"
        raise UsageError(msg) from error


def _check_events(name: str, text: str) -> None:
    """Refuse what would have to be trusted, before anything is built of it."""
    depth = documents = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        wrong = ""
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            wrong = "anchors and aliases are not allowed"
        elif tag := getattr(event, "tag", None):
            wrong = f"the tag {quote(tag)} is not allowed"
        documents += isinstance(event, yaml.DocumentStartEvent)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            wrong = f"nested deeper than {DEEPEST} levels"
        if documents > 1:
            wrong = "a second document; a file holds one suite"
        if wrong:
            raise _wrong(name, line, wrong)


def _value(name: str, node: yaml.Node, place: Place, lines: dict[Place, int]) -> Any:  # noqa: ANN401 - YAML is any value
    lines[place] = node.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode):
        return [_value(name, item, (*place, at), lines) for at, item in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        return _scalar(node)
    found: dict[str, Any] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise _wrong(name, line, "a key must be a word")
        if key.value in found:
            raise _wrong(name, line, f"{quote(key.value)} stands twice")
        found[key.value] = _value(name, value, (*place, key.value), lines)
        lines[(*place, key.value)] = line
    return found


def _wrong(name: str, line: int, message: str) -> UsageError:
    return UsageError(f"{name}:{line}: {message}")


def _scalar(node: yaml.Node) -> str | int | float | bool:
    text = str(node.value)
    if isinstance(node, yaml.ScalarNode) and node.style is not None:  # quoted, or a block
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text):
        return float(text)
    return text == "true" if text in ("true", "false") else text


LINE = "must be one line of plain text, without |<>`[] and backslashes"


def shown(value: object) -> str:
    """Return a value as a file has it, safe to print in an error.

    >>> shown(True), shown("true"), shown([1, "a"])
    ('true', "'true'", "[1, 'a']")
    """
    if isinstance(value, bool):
        return str(value).lower()
    return quote(value) if isinstance(value, str) else quote(repr(value))[1:-1]


def refuse_unknown(
    document: Document, place: Place, values: Mapping[str, Any], known: Sequence[str]
) -> None:
    """Refuse keys that are not known."""
    for key in values:
        if key not in known:
            document.refuse((*place, key), f"no such key; known: {', '.join(known)}")


def one_line(document: Document, key: str) -> str:
    """Return a line of text, which must be there."""
    if key not in document.values:
        document.refuse((key,), f"is missing; it {LINE}")
    value = document.values[key]
    if not is_line(value):
        document.refuse((key,), f"{shown(value)}: {LINE}")
    return str(value).strip()


def is_line(value: object) -> bool:
    """Whether a value is a line of text that means nothing to Markdown, HTML or a terminal."""
    return (
        isinstance(value, str)
        and bool(value.strip())
        and value.isprintable()
        and not (set(value) & set("|<>`[]\\"))
    )


def mapping(document: Document, place: Place, value: object) -> dict[str, Any]:
    """Return a mapping."""
    if not isinstance(value, dict):
        document.refuse(place, f"{shown(value)}: must be a mapping of keys to values")
    return value


def lengths_of(document: Document) -> tuple[int, ...]:
    """Return the lengths, in tokens, rising and each once; none where none are named."""
    lengths = document.values.get("lengths", [])
    if not isinstance(lengths, list):
        document.refuse(("lengths",), f"{shown(lengths)}: must be a list of tokens, e.g. [4096]")
    for at, length in enumerate(lengths):
        if type(length) is not int or not 1 <= length <= 99_999_999:
            document.refuse(
                ("lengths", at), f"{shown(length)} is no length from 1 to 99999999 tokens"
            )
    return tuple(sorted(set(lengths)))


def percent_points(document: Document, key: str) -> float | None:
    """Return a number of percent points; None where there is none."""
    value = document.values.get(key)
    if value is not None and not (type(value) in (int, float) and 0 < value <= 100):
        document.refuse((key,), f"{shown(value)} is no number of percent points, e.g. 3.7")
    return value


def integer(document: Document, key: str, default: int, most: int) -> int:
    """Return a whole number from 1 to `most`."""
    value = document.values.get(key, default)
    if type(value) is not int or not 1 <= value <= most:
        document.refuse((key,), f"{shown(value)} is not from 1 to {most}")
    return value
