"""A suite whose haystacks are of domains, with those of the user's own texts added."""

from collections.abc import Sequence
from dataclasses import replace

from ruler_data.errors import UsageError
from ruler_data.suites.suite import Suite
from ruler_data.tasks import Niah, Task, task_of

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
        _task(f"niah_domain_{name}", (name,), f"One number hidden in texts of {name}.")
        for name in names
    ]
    every = tuple(dict.fromkeys((*known, *names)))
    own.append(_task(ALL, every, "One number hidden in passages of all domains, in turns."))
    if taken := next((task.name for task in own if task.name in suite.tasks), None):
        msg = f"--haystack: the suite {suite.name} has a task {taken} already; rename one of them"
        raise UsageError(msg)
    return replace(suite, tasks={**suite.tasks, **{task.name: task for task in own}})


def _domains(task: Task) -> tuple[str, ...]:
    return task.params.domains if isinstance(task.params, Niah) else ()


def _task(name: str, domains: tuple[str, ...], about: str) -> Task:
    return task_of(name, Niah("domains", domains=domains), about)
