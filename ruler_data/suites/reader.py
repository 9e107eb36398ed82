"""Read a suite's file, which a stranger may have written.

YAML holds only mappings, lists and plain values here: tags, anchors and aliases are refused, so a
file can neither run code nor grow beyond its own size. A key may stand once. Only integers,
decimals, `true` and `false` are not text: `no` is a word.
"""

import json
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields, make_dataclass
from difflib import get_close_matches
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, get_args

import yaml
from annotated_types import Interval
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.functional_validators import PlainValidator
from pydantic_core import ErrorDetails

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import read_bytes
from ruler_data.names import MOST_ROWS, quote
from ruler_data.suites import Suite
from ruler_data.tasks import TASKS, Headline, Params, task_of

#: Most bytes of a file.
LARGEST = 200_000
#: Most levels of nesting.
DEEPEST = 8


class _Loader(yaml.SafeLoader):
    """Refuses what is not allowed as soon as it is read, which also bounds the recursion."""

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
    _whole = re.compile(rf"(?:{_form})\Z")
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", _whole, [*_begins])


def _refuse(place: Any, problem: str) -> NoReturn:  # noqa: ANN401 - an event or a node
    raise yaml.MarkedYAMLError(problem=problem, problem_mark=place.start_mark)


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
        line = 1
        if error.problem_mark:
            line = error.problem_mark.line + 1
        raise UsageError(f"{path.name}:{line}", str(error.problem)) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise UsageError(f"{path.name}:{line}", error.reason) from error
    if not isinstance(values, dict):
        raise UsageError(f"{path.name}:1", "a suite is a mapping of keys to values")
    return values


def _read_text(path: Path) -> str:
    where = quote(str(path), 200)
    try:
        return read_bytes(path, LARGEST).decode("utf-8")
    except OSError as error:
        raise UsageError(where, f"cannot be read: {error.strerror}") from error
    except RulerError as error:
        raise UsageError(*error.args) from error
    except UnicodeDecodeError as error:
        raise UsageError(path.name, f"not UTF-8 at byte {error.start}") from error


LINE = "must be one line of plain text, without |<>`[] and backslashes"
_NAME = "[a-z][a-z0-9_]{0,39}"


def _line(value: object) -> str:
    """Return a line of text that means nothing to Markdown, HTML or a terminal."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError(LINE)
    if set(value) & set("|<>`[]\\"):
        raise ValueError(LINE)
    return value.strip()


_Line = Annotated[str, PlainValidator(_line)]


@dataclass(frozen=True)
class _TaskKeys:
    """Keys that a task in a file may have, besides the parameters of its family."""

    about: _Line | None = None
    max_new_tokens: Annotated[int, Interval(ge=1, le=4096)] | None = None
    same_questions_as: str | None = None


#: For each family, its parameters, and a task in a file.
_PARAMS: dict[str, Any] = {kind.family: kind for kind in get_args(Params)}
_IN_FILE: dict[str, Any] = {
    family: make_dataclass(kind.__name__, [], bases=(_TaskKeys, kind), frozen=True)
    for family, kind in _PARAMS.items()
}
_AnyTask: Any = reduce(or_, _IN_FILE.values())


class _SuiteKeys(BaseModel):
    """A suite's file."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)
    name: Annotated[str, Field(pattern=f"^{_NAME}$")]
    about: _Line
    lengths: list[Annotated[int, Interval(ge=1, le=99_999_999)]] = []
    rows: Annotated[int, Interval(ge=1, le=MOST_ROWS)] = 500
    headline: Headline = "official"
    include: list[Literal[tuple(TASKS)]] = []  # type: ignore[valid-type]
    tasks: dict[str, Annotated[_AnyTask, Field(discriminator="family")]] = {}


def read_suite(path: Path) -> Suite:
    """Return the suite in a file.

    Raises:
        UsageError: the file is wrong; with file, key and value.
    """
    values = read_yaml(path)
    try:
        # From JSON, since a strict model takes a list for a tuple only there.
        suite = _SuiteKeys.model_validate_json(json.dumps(values))
    except ValidationError as error:
        raise UsageError(path.name, *_explain(error.errors()[0])) from error
    tasks = {name: TASKS[name] for name in suite.include}
    for name, task in suite.tasks.items():
        if problem := _task_problem(name, task, suite.tasks):
            raise UsageError(path.name, f"tasks.{quote(name)[1:-1]}{problem}")
        kind = _PARAMS[task.family]
        params = kind(**{field.name: getattr(task, field.name) for field in fields(kind)})
        tasks[name] = task_of(
            name,
            params,
            task.about or suite.about,
            task.max_new_tokens,
            suite.headline,
            task.same_questions_as,
        )
    if not tasks:
        raise UsageError(path.name, "names no task; give `tasks` or `include`")
    lengths = tuple(sorted(set(suite.lengths)))
    return Suite(suite.name, suite.about, tasks, lengths, suite.rows)


def _task_problem(name: str, task: Any, tasks_before: Mapping[str, Any]) -> str:  # noqa: ANN401
    """Return what is wrong with a task, to follow its name; empty if nothing is."""
    if name in TASKS:
        return ": is the name of one of the thirteen; choose another"
    if not re.fullmatch(_NAME, name):
        return ": is not a name of a task; use a-z, 0-9 and _"
    begins = getattr(task, "kind", task.family)  # so that a name alone says how answers are scored
    if not name.startswith(f"{begins}_"):
        return f": must be named after its family, e.g. {begins}_{name}"
    if task.impossible:
        return f".{task.impossible}"
    if task.same_questions_as is not None:
        return _partner_problem(task, tasks_before)
    return ""


def _partner_problem(task: Any, tasks: Mapping[str, Any]) -> str:  # noqa: ANN401
    """Return why a task cannot have the questions of the task that it names."""
    where = f".same_questions_as: {quote(task.same_questions_as)}"
    partner = tasks.get(task.same_questions_as)
    family = partner.family if partner else None
    if task.same_questions_as in TASKS:
        partner = None
        family = TASKS[task.same_questions_as].params.family
    if family != task.family:
        return f"{where} is not a task of the family {task.family}, here or among the thirteen"
    if partner and partner.same_questions_as:
        return f"{where} has another task's questions itself; name that task"
    return ""


def _explain(error: ErrorDetails) -> tuple[str, str]:
    """Return the key that an error of pydantic is about, and its value with what is allowed."""
    place = error["loc"]
    value = error["input"]
    allowed = error["msg"]
    kind = error["type"]
    keys = list(_SuiteKeys.model_fields)
    if kind.startswith("union_tag"):
        place = (*place, "family")
        value = value.get("family")
        allowed = f"must be one of {', '.join(_IN_FILE)}"
    elif place[0] == "tasks" and len(place) > 3:  # the family stands between a task and its key
        keys = [field.name for field in fields(_IN_FILE[str(place[2])])]
        place = (*place[:2], *place[3:])
    key = quote(".".join(map(str, place)), 200)[1:-1]
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return key, f"no such key; known: {', '.join(keys)}"
    if kind == "missing":
        return key, "is missing"
    if kind == "string_pattern_mismatch":
        allowed = "use a-z, 0-9 and _, up to 40, with a letter first"
    elif kind == "literal_error" and isinstance(value, str):
        allowed = _nearest(value, re.findall(r"'([^']+)'", error["ctx"]["expected"]))
    if isinstance(value, bool):
        allowed += f'; for the word, write "{str(value).lower()}"'
    return key, f"{_shown(value)}: {allowed.removeprefix('Value error, ')}"


def _nearest(word: str, names: list[str]) -> str:
    """Return the name that a word may mean, or else all names."""
    matches = get_close_matches(word, names, 1)
    if matches:
        return f"did you mean {matches[0]}?"
    return f"give one of {', '.join(names)}"


def _shown(value: object) -> str:
    """Return a value as an error shows it: a text in quotes, others without."""
    if isinstance(value, str):
        return quote(value)
    return quote(repr(value))[1:-1]
