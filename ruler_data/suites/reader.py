"""Read YAML safely, with the line of each value, for files that strangers write.

Only mappings, lists and plain values: tags, anchors and aliases are refused, so a file can neither
run code nor grow beyond its own size. A key may stand once. Only integers, decimals, `true` and
`false` are not text: `no` is a word.
"""

import re
from pathlib import Path
from typing import Any

import yaml

from ruler_data.errors import UsageError
from ruler_data.names import quote

#: Bytes of a file, and levels of nesting, that are allowed.
LARGEST, DEEPEST = 200_000, 8

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_DECIMAL = re.compile(r"-?[0-9]{1,17}\.[0-9]{1,17}")

#: Where a value stands: keys and list indices from the top.
Place = tuple[str | int, ...]


def read_yaml(path: Path) -> tuple[dict[str, Any], dict[Place, int]]:
    """Return the values of a file, and the line of each.

    Raises:
        UsageError: it cannot be read, or holds more than mappings, lists and plain values; with
            file and line.
    """
    text = _read_text(path)
    lines: dict[Place, int] = {}
    try:
        values = _value(yaml.compose(text, Loader=_Loader), (), lines)
    except _Refused as error:
        line, what = error.args
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        what = f"not YAML: {error.problem}"
        if error.problem == "but found another document":
            what = "a second document; a file holds one suite"
    except yaml.reader.ReaderError as error:
        line, what = text.count("\n", 0, error.position) + 1, f"not YAML: {error.reason}"
    else:
        if isinstance(values, dict):
            return values, lines
        line, what = 1, "a suite is a mapping of keys to values"
    raise UsageError(_at(path, line), what)


class _Refused(Exception):
    """A line, and what is wrong there."""


def _at(path: Path, line: int) -> str:
    return f"{path.name}:{line}"


def _read_text(path: Path) -> str:
    where = quote(str(path), 200)
    try:
        if path.exists() and not path.is_file():  # reading a pipe would block
            raise UsageError(where, "is not a file; name a YAML file")
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(where, f"cannot be read: {error.strerror}") from error
    if len(data) > LARGEST:
        raise UsageError(path.name, f"is too large; a suite has at most {LARGEST} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(_at(path, line), f"not UTF-8 at byte {error.start}") from error


class _Loader(yaml.SafeLoader):
    """Refuses what is not allowed before it is read on, which also bounds the recursion."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent) or event.anchor:
            raise _Refused(line, "anchors and aliases are not allowed")
        if event.tag:
            raise _Refused(line, f"the tag {quote(event.tag)} is not allowed")
        if any("\ud800" <= character <= "\udfff" for character in getattr(event, "value", "")):
            raise _Refused(line, "an escape that is not a character")
        self.depth += isinstance(event, yaml.CollectionStartEvent)
        if self.depth > DEEPEST:
            raise _Refused(line, f"nested deeper than {DEEPEST} levels")
        node = super().compose_node(parent, index)
        self.depth -= isinstance(event, yaml.CollectionStartEvent)
        return node


def _value(node: yaml.Node | None, place: Place, lines: dict[Place, int]) -> Any:  # noqa: ANN401 - YAML is any value
    if node is None:  # an empty file
        return None
    lines.setdefault(place, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, (*place, at), lines) for at, item in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        return _plain(node)
    values: dict[str, Any] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise _Refused(line, "a key must be a word")
        if key.value in values:
            raise _Refused(line, f"{quote(key.value)} occurs twice")
        lines[(*place, key.value)] = line
        values[key.value] = _value(value, (*place, key.value), lines)
    return values


def _plain(node: yaml.Node) -> str | int | float | bool:
    text = str(node.value)
    if isinstance(node, yaml.ScalarNode) and node.style is not None:  # quoted, or a block
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text):
        return float(text)
    return text == "true" if text in ("true", "false") else text
