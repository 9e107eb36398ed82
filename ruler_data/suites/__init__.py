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
from dataclasses import dataclass, fields, make_dataclass, replace
from functools import cache, reduce
from importlib.resources import files
from operator import or_
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from annotated_types import Interval
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.functional_validators import PlainValidator
from pydantic_core import ErrorDetails

from ruler_data.errors import UsageError
from ruler_data.names import quote
from ruler_data.suites.reader import read_yaml
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
    """

    name: str
    about: str
    tasks: Mapping[str, Task]
    lengths: tuple[int, ...] = ()
    rows: int = 500
    error: float | None = None


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
        UsageError: there is none, or the file is wrong; with file, key and value.
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
    rows: Annotated[int, Interval(ge=1, le=1_000_000)] = 500
    error: Annotated[float, Interval(gt=0, le=100)] | None = None
    headline: Headline = "official"
    include: list[Literal[tuple(TASKS)]] = []  # type: ignore[valid-type]
    tasks: dict[str, Annotated[_AnyTask, Field(discriminator="family")]] = {}


def _read_suite(path: Path, taken: Collection[str] = ()) -> Suite:
    values = read_yaml(path)
    try:
        # From JSON, since a strict model takes a list for a tuple only there.
        suite = _SuiteKeys.model_validate_json(json.dumps(values))
    except ValidationError as error:
        raise UsageError(path.name, *_explained(error.errors()[0])) from error
    if suite.name in taken:
        what = f"{suite.name} is a suite of the package; choose another"
        raise UsageError(path.name, "name", what)
    tasks = {name: TASKS[name] for name in suite.include}
    for name, task in suite.tasks.items():
        if wrong := _wrong_task(name, task, suite.tasks):
            raise UsageError(path.name, f"tasks.{quote(name)[1:-1]}{wrong}")
        kind = _PARAMS[task.family]
        params = kind(**{one.name: getattr(task, one.name) for one in fields(kind)})
        about, alike = task.about or suite.about, task.same_questions_as
        tasks[name] = task_of(name, params, about, task.max_new_tokens, suite.headline, alike)
    if not tasks:
        raise UsageError(path.name, "names no task; give `tasks` or `include`")
    lengths = tuple(sorted(set(suite.lengths)))
    return Suite(suite.name, suite.about, tasks, lengths, suite.rows, suite.error)


def _wrong_task(name: str, task: Any, others: Mapping[str, Any]) -> str:  # noqa: ANN401
    """Return what is wrong with a task of a file, after its name; empty if nothing is."""
    if name in TASKS:
        return ": is the name of one of the thirteen; choose another"
    if not re.fullmatch(_NAME, name):
        return ": is not a name of a task; use a-z, 0-9 and _"
    begins = getattr(task, "kind", task.family)  # so that a name alone says how answers are scored
    if not name.startswith(f"{begins}_"):
        return f": must be named after its family, e.g. {begins}_{name}"
    if task.impossible:
        return f".{task.impossible}"
    if (other := task.same_questions_as) is None:
        return ""
    known = {**{name: task.params for name, task in TASKS.items()}, **others}
    where = f".same_questions_as: {quote(other)}"
    if getattr(known.get(other), "family", None) != task.family:
        return f"{where} is not a task of the family {task.family}, here or among the thirteen"
    if getattr(known[other], "same_questions_as", None):
        return f"{where} has another task's questions itself; name that task"
    return ""


def _explained(error: ErrorDetails) -> tuple[str, str]:
    """Return the key that an error of pydantic is about, and its value with what is allowed."""
    place, given, allowed = error["loc"], error["input"], error["msg"]
    known = list(_SuiteKeys.model_fields)
    if error["type"].startswith("union_tag"):
        place, allowed = (*place, "family"), f"must be one of {', '.join(_IN_FILE)}"
        given = given.get("family")
    elif place[0] == "tasks" and len(place) > 3:  # the family stands between a task and its key
        known = [one.name for one in fields(_IN_FILE[str(place[2])])]
        place = (*place[:2], *place[3:])
    key = quote(".".join(map(str, place)), 200)[1:-1]
    if error["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return key, f"no such key; known: {', '.join(known)}"
    if error["type"] == "missing":
        return key, "is missing"
    if isinstance(given, bool):
        allowed += f'; for the word, write "{str(given).lower()}"'
    value = quote(given) if isinstance(given, str) else quote(repr(given))[1:-1]
    return key, f"{value}: {allowed.removeprefix('Value error, ')}"


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
