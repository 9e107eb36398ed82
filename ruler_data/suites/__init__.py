"""Suites: sets of tasks beyond the thirteen, written down in YAML.

    name: sweep_hops
    about: Variable tracking over chains of 2 to 8 hops (Figure 3 of the paper).
    lengths: [4096, 8192]
    rows: 100
    tasks:
      vt_hops_2: {family: vt, hops: 2}
      vt_hops_8: {family: vt, hops: 8, max_new_tokens: 60}

A task's keys are the parameters of its family (`ruler_data.tasks`), and `about` and
`max_new_tokens`. `include` names tasks of the thirteen. The package brings some suites; anybody's
own file works the same.

A suite, and how its file becomes one.

A suite whose haystacks are of domains, with those of the user's own texts added.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError

from ruler_data.errors import UsageError
from ruler_data.names import quote
from ruler_data.suites.reader import (
    LINE,
    Document,
    integer,
    is_line,
    lengths_of,
    mapping,
    one_line,
    percent_points,
    read,
    refuse_unknown,
    shown,
)
from ruler_data.tasks import FAMILIES, TASKS, Niah, Params, Task, task_of

__all__ = ["RULER", "Suite", "load_suite", "packaged", "with_own_domains"]

#: Keys of a file; the first two must be there, and some task.
KEYS = ("name", "about", "lengths", "rows", "error", "include", "tasks")
#: Keys of a task beside its family's parameters.
TASK_KEYS = ("about", "max_new_tokens")

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_PARAMS: TypeAdapter[Params] = TypeAdapter(Annotated[Params, Field(discriminator="family")])


@dataclass(frozen=True)
class Suite:
    """A set of tasks.

    Attributes:
        name: as in manifests.
        about: what it is for, in one line.
        tasks: by name, in the order of the file.
        lengths: that it is meant for, in tokens, rising; empty for any.
        rows: of each config, unless others are asked for.
        error: percent points by which its mean is off from that of the benchmark's 500 rows, at
            the most, 95 times in 100; None where that was not measured.
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
RULER = Suite("ruler", "The 13 tasks of the benchmark.", TASKS)


def packaged() -> dict[str, Suite]:
    """Return the suites of this package, by name."""
    return {name: load_suite(name) for name in (RULER.name, *_files())}


@cache
def _files() -> dict[str, Path]:
    """Return the files of this package's suites, each by its suite's name."""
    folder = Path(str(files("ruler_data.suites")))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


@cache
def _packaged(path: Path) -> Suite:
    return _suite(read(path))


def load_suite(spec: str) -> Suite:
    """Return the suite of a name, or of a file that ends in `.yaml` or `.yml`.

    Raises:
        UsageError: there is none, or the file is wrong; with file and line.
    """
    known = _files()
    if spec.endswith((".yaml", ".yml")):
        document = read(Path(spec))
        suite = _suite(document)
        if suite.name == RULER.name or suite.name in known:
            document.refuse(("name",), f"{suite.name} is a suite of the package; choose another")
        return suite
    if spec == RULER.name:
        return RULER
    if spec not in known:
        names = ", ".join((RULER.name, *known))
        msg = f"--suite {quote(spec)}: no such suite; known: {names}; or name a YAML file"
        raise UsageError(msg)
    return _packaged(known[spec])


def _suite(document: Document) -> Suite:
    values = document.values
    refuse_unknown(document, (), values, KEYS)
    name, about = (one_line(document, key) for key in ("name", "about"))
    if not _NAME.fullmatch(name):
        document.refuse(("name",), f"{quote(name)} is no name; use a-z, 0-9 and _")
    tasks = {task.name: task for task in _included(document)}
    own = mapping(document, ("tasks",), values.get("tasks", {}))
    for task_name in own:
        if task_name in TASKS:
            document.refuse(
                ("tasks", task_name), "is the name of one of the thirteen; choose another"
            )
        tasks[task_name] = _task(document, task_name)
    if not tasks:
        document.refuse((), "names no task; give `tasks` or `include`")
    rows = integer(document, "rows", 500, 1_000_000)
    error = percent_points(document, "error")
    places = {
        task: f"{document.path.name}:{document.line(('tasks', task, 'domains'))}" for task in own
    }
    return Suite(name, about, tasks, lengths_of(document), rows, error, places)


def _included(document: Document) -> list[Task]:
    names = document.values.get("include", [])
    if not isinstance(names, list):
        document.refuse(("include",), f"{shown(names)}: must be a list of tasks, e.g. [vt, cwe]")
    for at, name in enumerate(names):
        if not isinstance(name, str) or name not in TASKS:
            known = ", ".join(TASKS)
            document.refuse(("include", at), f"{quote(str(name))}: no such task; known: {known}")
    return [TASKS[name] for name in names]


def _task(document: Document, name: str) -> Task:
    place = ("tasks", name)
    values = mapping(document, place, document.values["tasks"][name])
    if not _NAME.fullmatch(name):
        document.refuse(place, f"{quote(name)} is no name of a task; use a-z, 0-9 and _")
    kinds = {kind.family: kind for kind in get_args(Params)}
    family = values.get("family")
    if not isinstance(family, str) or family not in kinds:
        given = shown(family) if "family" in values else "is missing"
        document.refuse((*place, "family"), f"{given}: must be one of {', '.join(kinds)}")
    if not name.startswith(f"{family}_"):  # so that a name alone says how answers are scored
        document.refuse(place, f"must be named after its family, e.g. {family}_{name}")
    own = [field.name for field in fields(kinds[family])]
    refuse_unknown(document, place, values, [*own, *TASK_KEYS])
    params = _params(document, place, {key: values[key] for key in own if key in values})
    if params.impossible:
        key, _, reason = params.impossible.partition(": ")
        document.refuse((*place, key), reason)
    about = values.get("about", document.values["about"])
    if not is_line(about):
        document.refuse((*place, "about"), f"{shown(about)}: {LINE}")
    budget = FAMILIES[type(params)].max_new_tokens
    tokens = values.get("max_new_tokens", budget)
    if type(tokens) is not int or not 1 <= tokens <= 4096:
        document.refuse((*place, "max_new_tokens"), f"{shown(tokens)} is not from 1 to 4096")
    return task_of(name, params, about, tokens)


def _params(document: Document, place: tuple[str, str], values: Mapping[str, Any]) -> Params:
    try:
        return _PARAMS.validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = first["loc"][1:]  # behind the family
        if first["type"] == "missing":
            document.refuse((*place, *where), f"is missing; {_allowed(values, str(where[0]))}")
        given = first["input"]
        bare = isinstance(given, bool)
        hint = f'; where the word is meant, write "{shown(given)}"' if bare else ""
        document.refuse((*place, *where), f"{shown(given)}: {first['msg']}{hint}")


def _allowed(values: Mapping[str, Any], key: str) -> str:
    """Return what a family's parameter may be, which every file must say: one of some words."""
    kind = next(kind for kind in get_args(Params) if kind.family == values["family"])
    return f"must be one of {', '.join(get_args(get_type_hints(kind)[key]))}"


#: Task whose haystack mixes every domain of a suite with the user's.
ALL = "niah_domain_all"


def with_own_domains(suite: Suite, names: Sequence[str]) -> Suite:
    """Return a suite with a task for each of the user's domains, and one that mixes all domains.

    One that names some of them itself is what it should be already.

    Raises:
        UsageError: no haystack of the suite is of domains, or a task has one of the names.
    """
    known = dict.fromkeys(name for task in suite.tasks.values() for name in _domains(task))
    if not known:
        msg = (
            f"--haystack: no haystack of the suite {suite.name} is of domains; use it with --suite "
            "domains, or with a YAML file that has `haystack: domains`"
        )
        raise UsageError(msg)
    if known.keys() & set(names):
        return suite
    own = [
        _with_domains(f"niah_domain_{name}", (name,), f"One number hidden in texts of {name}.")
        for name in names
    ]
    every = tuple(dict.fromkeys((*known, *names)))
    own.append(_with_domains(ALL, every, "One number hidden in passages of all domains, in turns."))
    if taken := next((task.name for task in own if task.name in suite.tasks), None):
        msg = f"--haystack: the suite {suite.name} has a task {taken} already; rename one of them"
        raise UsageError(msg)
    return replace(suite, tasks={**suite.tasks, **{task.name: task for task in own}})


def _domains(task: Task) -> tuple[str, ...]:
    return task.params.domains if isinstance(task.params, Niah) else ()


def _with_domains(name: str, domains: tuple[str, ...], about: str) -> Task:
    return task_of(name, Niah("domains", domains=domains), about)
