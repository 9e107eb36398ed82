"""Suites: sets of tasks beyond the thirteen, described in YAML files.

    name: long_chains
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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path

from ruler_data.errors import UsageError
from ruler_data.names import quote
from ruler_data.tasks import TASKS, Niah, Task, task_of

__all__ = [
    "RULER", "Suite", "is_packaged", "load_suite", "packaged", "packaged_suite", "with_own_domains",
]  # fmt: skip


@dataclass(frozen=True)
class Suite:
    """A set of tasks.

    Attributes:
        name: as in manifests.
        about: what it is for, in one line.
        tasks: by name, in the order of the file.
        lengths: that it is meant for, in tokens, rising; empty for any.
        rows: default number of rows of each config.
    """

    name: str
    about: str
    tasks: Mapping[str, Task]
    lengths: tuple[int, ...] = ()
    rows: int = 500


#: The benchmark itself.
RULER = Suite(
    "ruler",
    "The 13 tasks of the benchmark.",
    TASKS,
    lengths=(4096, 8192, 16384, 32768, 65536, 131072),
)

#: Name of the task whose haystack mixes every domain of a suite with the user's.
ALL = "niah_domain_all"


def packaged() -> dict[str, Suite]:
    """Return the suites of this package, by name."""
    return {name: load_suite(name) for name in (RULER.name, *_files())}


def packaged_suite(name: str) -> Suite | None:
    """Return this package's suite of a name, and read no other; None if there is none."""
    if is_packaged(name):
        return load_suite(name)
    return None


def is_packaged(name: str) -> bool:
    """Whether this package has a suite of a name."""
    return name == RULER.name or name in _files()


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
    if spec == RULER.name:
        return RULER
    suites = (RULER.name, *_files())
    if spec.endswith((".yaml", ".yml")):
        suite = _read_suite(Path(spec))
        if suite.name in suites:
            problem = f"{suite.name} is a suite of the package; choose another"
            raise UsageError(Path(spec).name, "name", problem)
        return suite
    if spec not in suites:
        names = ", ".join(suites)
        problem = f"no such suite; known: {names}; or name a YAML file"
        raise UsageError(f"--suite {quote(spec)}: {problem}")
    return _packaged(_files()[spec])


@cache
def _packaged(path: Path) -> Suite:
    return _read_suite(path)


def _read_suite(path: Path) -> Suite:
    from ruler_data.suites.reader import read_suite  # YAML and pydantic, which RULER needs not

    return read_suite(path)


def with_own_domains(suite: Suite, names: Sequence[str]) -> Suite:
    """Return a suite with a task for each of the user's domains, and one that mixes all domains.

    A suite that names some of these domains itself is returned as it is.

    Raises:
        UsageError: no haystack of the suite is of domains, or a task has one of the names.
    """
    option = "--haystack"
    domains = dict[str, None]()
    for task in suite.tasks.values():
        if isinstance(task.params, Niah):
            domains.update(dict.fromkeys(task.params.domains))
    if not domains:
        problem = f"no haystack of the suite {suite.name} is of domains"
        remedy = "use it with --suite domains, or with a YAML file that has `haystack: domains`"
        raise UsageError(option, f"{problem}; {remedy}")
    if domains.keys() & set(names):
        return suite
    tasks = dict(suite.tasks)
    for name in names:
        about = f"One number hidden in texts of {name}."
        _add_domains(suite, tasks, f"niah_domain_{name}", (name,), about)
    combined = tuple(dict.fromkeys((*domains, *names)))
    about = "One number hidden in passages of all domains, in turns."
    _add_domains(suite, tasks, ALL, combined, about)
    return replace(suite, tasks=tasks)


def _add_domains(
    suite: Suite, tasks: dict[str, Task], name: str, domains: tuple[str, ...], about: str
) -> None:
    """Add a task whose haystack is of domains, under a name that the suite does not have."""
    if name in suite.tasks:
        problem = f"the suite {suite.name} has a task {name} already; rename one of them"
        raise UsageError("--haystack", problem)
    tasks[name] = task_of(name, Niah("domains", domains=domains), about)
