"""Suites: sets of tasks beyond the thirteen, described in YAML files.

    name: sweep_hops
    about: Variable tracking over chains of 2 to 8 hops (Figure 3 of the paper).
    lengths: [4096, 8192]
    rows: 100
    tasks:
      vt_hops_2: {family: vt, hops: 2}
      vt_hops_8: {family: vt, hops: 8, max_new_tokens: 60}

The keys of a task are the parameters of its family (`ruler_data.tasks`), `about`,
`max_new_tokens` and `same_questions_as`. `include` names tasks of the thirteen. The suites of the
package and a user's own file are read alike.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass, replace
from functools import cache, reduce
from importlib.resources import files
from operator import or_
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, get_args, get_type_hints

from annotated_types import Interval
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.functional_validators import PlainValidator
from pydantic_core import ErrorDetails

from ruler_data.errors import UsageError
from ruler_data.names import quote
from ruler_data.suites.reader import Place, read_yaml
from ruler_data.tasks import TASKS, Headline, Niah, Params, Task, task_of

__all__ = ["RULER", "Suite", "load_suite", "packaged", "packaged_suite", "with_own_domains"]

#: Name of the task whose haystack mixes every domain of a suite with the user's.
ALL = "niah_domain_all"

LINE = "must be one line of plain text, without |<>`[] and backslashes"
_NAME = "[a-z][a-z0-9_]{0,39}"


@dataclass(frozen=True)
class Suite:
    """A set of tasks.

    Attributes:
        name: as in manifests.
        about: what it is for, in one line.
        tasks: by name, in the order of the file.
        lengths: that it is meant for, in tokens, rising; empty for any.
        rows: default number of rows of each config.
        error: largest difference, in percentage points, between its mean and that of the
            benchmark's 500 rows, 95 times in 100; None if it was not measured.
        places: where a task's haystack names its domains, as FILE:LINE, by task.
    """

    name: str
    about: str
    tasks: Mapping[str, Task]
    lengths: tuple[int, ...] = ()
    rows: int = 500
    error: float | None = None
    places: Mapping[str, str] = field(default_factory=dict)


#: The benchmark itself.
RULER = Suite(
    "ruler",
    "The 13 tasks of the benchmark.",
    TASKS,
    lengths=(4096, 8192, 16384, 32768, 65536, 131072),
)


def packaged() -> dict[str, Suite]:
    """Return the suites of this package, by name."""
    return {name: load_suite(name) for name in (RULER.name, *_files())}


def packaged_suite(name: str) -> Suite | None:
    """Return this package's suite of a name, and read no other; None if there is none."""
    return load_suite(name) if name == RULER.name or name in _files() else None


@cache
def _files() -> dict[str, Path]:
    """Return the files of this package's suites, by name of the suite."""
    folder = Path(str(files("ruler_data.suites")))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def load_suite(spec: str) -> Suite:
    """Return the suite of a name, or of a file that ends in `.yaml` or `.yml`.

    Raises:
        UsageError: there is none, or the file is wrong; with file and line.
    """
    known = _files()
    if spec.endswith((".yaml", ".yml")):
        return _read_suite(Path(spec), taken=(RULER.name, *known))
    if spec == RULER.name:
        return RULER
    if spec not in known:
        names = ", ".join((RULER.name, *known))
        msg = f"--suite {quote(spec)}: no such suite; known: {names}; or name a YAML file"
        raise UsageError(msg)
    return _packaged(known[spec])


@cache
def _packaged(path: Path) -> Suite:
    return _read_suite(path)


def _line(value: object) -> str:
    """Return a line of text that means nothing to Markdown, HTML or a terminal."""
    if (
        not isinstance(value, str)
        or not value.strip()
        or not value.isprintable()
        or set(value) & set("|<>`[]\\")
    ):
        raise ValueError(LINE)
    return value.strip()


_Line = Annotated[str, PlainValidator(_line)]


@dataclass(frozen=True)
class _TaskKeys:
    """Keys that a task in a file may have, besides the parameters of its family."""

    about: _Line | None = None
    max_new_tokens: Annotated[int, Interval(ge=1, le=4096)] | None = None
    same_questions_as: str | None = None


#: For each family, a task in a file.
_IN_FILE: dict[str, Any] = {
    kind.family: make_dataclass(kind.__name__, [], bases=(_TaskKeys, kind), frozen=True)
    for kind in get_args(Params)
}
_AnyTask: Any = reduce(or_, _IN_FILE.values())


class _SuiteKeys(BaseModel):
    """A suite's file."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)
    name: Annotated[str, Field(pattern=f"^{_NAME}$")]
    about: _Line
    lengths: list[Annotated[int, Interval(ge=1, le=99_999_999)]] = []
    rows: Annotated[int, Interval(ge=1, le=1_000_000)] = 500
    error: Annotated[float, Interval(gt=0, le=100)] | None = None
    headline: Headline = "official"
    include: list[Literal[tuple(TASKS)]] = []  # type: ignore[valid-type]
    tasks: dict[str, Annotated[_AnyTask, Field(discriminator="family")]] = {}


def _read_suite(path: Path, taken: Collection[str] = ()) -> Suite:
    values, lines = read_yaml(path)

    def line(place: Place) -> int:
        """Return the line of a value, or of the mapping that it is missing from."""
        while place not in lines:
            place = place[:-1]
        return lines[place]

    def refuse(place: Place, message: str) -> NoReturn:
        key = quote(".".join(map(str, place)), 200)[1:-1]
        where = f"{path.name}:{line(place)}"
        raise UsageError(*filter(None, (where, key, message)))

    try:
        # From JSON, since a strict model takes a list for a tuple only there.
        suite = _SuiteKeys.model_validate_json(json.dumps(values))
    except ValidationError as error:
        wrong = [_explained(details) for details in error.errors()]
        refuse(*min(wrong, key=lambda one: line(one[0])))
    if suite.name in taken:
        refuse(("name",), f"{suite.name} is a suite of the package; choose another")
    tasks = {name: TASKS[name] for name in suite.include}
    for name, task in suite.tasks.items():
        if wrong_name := _wrong_name(name, getattr(task, "kind", task.family)):
            refuse(("tasks", name), wrong_name)
        if task.impossible:
            key, _, reason = task.impossible.partition(": ")
            refuse(("tasks", name, key), reason)
        kind = next(kind for kind in get_args(Params) if kind.family == task.family)
        params = kind(**{one.name: getattr(task, one.name) for one in fields(kind)})
        alike = task.same_questions_as
        if alike is not None and (why := _unlike(alike, task.family, suite.tasks)):
            refuse(("tasks", name, "same_questions_as"), f"{quote(alike)} {why}")
        about = task.about or suite.about
        tasks[name] = task_of(name, params, about, task.max_new_tokens, suite.headline, alike)
    if not tasks:
        refuse((), "names no task; give `tasks` or `include`")
    places = {name: f"{path.name}:{line(('tasks', name, 'domains'))}" for name in suite.tasks}
    lengths = tuple(sorted(set(suite.lengths)))
    return Suite(suite.name, suite.about, tasks, lengths, suite.rows, suite.error, places)


def _unlike(other: str, family: str, tasks: Mapping[str, Any]) -> str:
    """Return why a task of a family cannot share another's questions; empty if it can."""
    known = {**{name: task.params for name, task in TASKS.items()}, **tasks}
    if getattr(known.get(other), "family", None) != family:
        return f"is not a task of the family {family}, of this file or of the thirteen"
    if getattr(known[other], "same_questions_as", None):
        return "has another task's questions itself; name that task"
    return ""


def _wrong_name(name: str, family: str) -> str:
    """Return why a task may not have a name; empty if it may."""
    if name in TASKS:
        return "is the name of one of the thirteen; choose another"
    if not re.fullmatch(_NAME, name):
        return f"{quote(name)} is not a name of a task; use a-z, 0-9 and _"
    if not name.startswith(f"{family}_"):  # so that a name alone says how answers are scored
        return f"must be named after its family, e.g. {family}_{name}"
    return ""


def _explained(error: ErrorDetails) -> tuple[Place, str]:
    """Return where in the file an error of pydantic is, and a message that says what is allowed."""
    place, given, allowed = error["loc"], error["input"], error["msg"]
    known, missing = list(_SuiteKeys.model_fields), LINE
    if error["type"].startswith("union_tag"):
        family = f"{_shown(given['family'])}:" if "family" in given else "is missing;"
        return (*place, "family"), f"{family} must be one of {', '.join(_IN_FILE)}"
    if place[0] == "tasks" and len(place) > 3:  # the family stands between a task and its key
        hints = get_type_hints(_IN_FILE[str(place[2])])
        known = list(hints)
        if error["type"] == "missing":  # only a parameter that is one of some words has no default
            missing = f"must be one of {', '.join(get_args(hints[str(place[3])]))}"
        place = (*place[:2], *place[3:])
    if error["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return place, f"no such key; known: {', '.join(known)}"
    if error["type"] == "missing":
        return place, f"is missing; {missing}"
    hint = f'; for the word, write "{_shown(given)}"' if isinstance(given, bool) else ""
    return place, f"{_shown(given)}: {allowed.removeprefix('Value error, ')}{hint}"


def _shown(value: object) -> str:
    """Return a value as a file has it, safe to print in an error.

    >>> _shown(True), _shown("true"), _shown([1, "a"])
    ('true', "'true'", "[1, 'a']")
    """
    if isinstance(value, bool):
        return str(value).lower()
    return quote(value) if isinstance(value, str) else quote(repr(value))[1:-1]


def with_own_domains(suite: Suite, names: Sequence[str]) -> Suite:
    """Return a suite with a task for each of the user's domains, and one that mixes all domains.

    A suite that names some of these domains itself is returned as it is.

    Raises:
        UsageError: no haystack of the suite is of domains, or a task has one of the names.
    """
    option, parameters = "--haystack", [task.params for task in suite.tasks.values()]
    known = dict.fromkeys(
        name for one in parameters if isinstance(one, Niah) for name in one.domains
    )
    if not known:
        what = f"no haystack of the suite {suite.name} is of domains"
        remedy = "use it with --suite domains, or with a YAML file that has `haystack: domains`"
        raise UsageError(option, f"{what}; {remedy}")
    if known.keys() & set(names):
        return suite
    own = [
        _with_domains(f"niah_domain_{name}", (name,), f"One number hidden in texts of {name}.")
        for name in names
    ]
    every = tuple(dict.fromkeys((*known, *names)))
    own.append(_with_domains(ALL, every, "One number hidden in passages of all domains, in turns."))
    if taken := next((task.name for task in own if task.name in suite.tasks), None):
        what = f"the suite {suite.name} has a task {taken} already; rename one of them"
        raise UsageError(option, what)
    return replace(suite, tasks={**suite.tasks, **{task.name: task for task in own}})


def _with_domains(name: str, domains: tuple[str, ...], about: str) -> Task:
    return task_of(name, Niah("domains", domains=domains), about)
