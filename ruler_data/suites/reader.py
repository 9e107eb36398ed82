"""Read YAML safely, for files that strangers write.

Only mappings, lists and plain values: tags, anchors and aliases are refused, so a file can neither
run code nor grow beyond its own size. A key may stand once. Only integers, decimals, `true` and
`false` are not text: `no` is a word.
"""

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any, NoReturn

import yaml

from ruler_data.errors import UsageError
from ruler_data.names import quote

#: Bytes of a file, and levels of nesting, that are allowed.
LARGEST, DEEPEST = 200_000, 8


class _Loader(yaml.SafeLoader):
    """Refuses what is not allowed before it is read on, which also bounds the recursion."""

    depth = 0
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or event.anchor:
            _refuse(event, "anchors and aliases are not allowed")
        if event.tag:
            _refuse(event, f"the tag {quote(event.tag)} is not allowed")
        if any("\ud800" <= character <= "\udfff" for character in getattr(event, "value", "")):
            _refuse(event, "an escape that is not a character")
        self.depth += isinstance(event, yaml.CollectionStartEvent)
        if self.depth > DEEPEST:
            _refuse(event, f"nested deeper than {DEEPEST} levels")
        node = super().compose_node(parent, index)
        self.depth -= isinstance(event, yaml.CollectionStartEvent)
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        values: dict[Hashable, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                _refuse(key, "a key must be a word")
            if key.value in values:
                _refuse(key, f"{quote(key.value)} occurs twice")
            values[key.value] = self.construct_object(value, deep=True)
        return values


for _kind, _form, _begins in (
    ("int", "-?(0|[1-9][0-9]{0,17})", "-0123456789"),
    ("float", r"-?[0-9]{1,17}\.[0-9]{1,17}", "-0123456789"),
    ("bool", "true|false", "tf"),
):
    _tag, _whole = f"tag:yaml.org,2002:{_kind}", re.compile(rf"(?:{_form})\Z")
    _Loader.add_implicit_resolver(_tag, _whole, [*_begins])


def _refuse(place: Any, what: str) -> NoReturn:  # noqa: ANN401 - an event or a node
    raise yaml.MarkedYAMLError(problem=what, problem_mark=place.start_mark)


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the values of a file.

    Raises:
        UsageError: it cannot be read, or holds more than mappings, lists and plain values; with
            file and line.
    """
    text = _read_text(path)
    try:
        values = yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line, what = error.problem_mark.line + 1 if error.problem_mark else 1, str(error.problem)
    except yaml.reader.ReaderError as error:
        line, what = text.count("\n", 0, error.position) + 1, error.reason
    else:
        if isinstance(values, dict):
            return values
        line, what = 1, "a suite is a mapping of keys to values"
    where = f"{path.name}:{line}"
    raise UsageError(where, what)


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
        raise UsageError(path.name, f"not UTF-8 at byte {error.start}") from error
