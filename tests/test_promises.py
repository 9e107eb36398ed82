"""What every task of every suite has: a budget, a scorer that works, a licence and a citation."""

from dataclasses import dataclass
from typing import Literal, get_args

import pytest

from ruler_builders import tasks
from ruler_builders.checks import solvers
from ruler_builders.checks.solvers import Solution, solve
from ruler_builders.sources import Library
from ruler_builders.sources.catalogue import CATALOGUE
from ruler_data import TASKS, RulerError
from ruler_data.suites import packaged
from ruler_data.tasks import Params, Qa, Task
from ruler_eval.running.oracle import gold_text
from ruler_eval.scoring.metrics import SCORERS
from tests.proof import floors, task_parameters
from tests.rows import make

ALL = {task.name: task for suite in packaged().values() for task in suite.tasks.values()}

#: Tokens that upstream allows an answer, by the beginning of a task's name (`constants.py`).
UPSTREAM = {"niah": 128, "vt": 30, "cwe": 120, "fwe": 50, "qa": 32}


def test_the_thirteen_have_the_budgets_of_upstream() -> None:
    for name, task in TASKS.items():
        assert task.max_new_tokens == UPSTREAM[name.partition("_")[0]], name


@pytest.mark.parametrize("task", ALL.values(), ids=ALL)
def test_every_task_gives_its_golden_answers_all_points_and_silence_none(task: Task) -> None:
    row = make("mistral", task.name, 0, 4096)
    assert SCORERS[task.metric](gold_text(row), row.outputs) == 1.0
    assert SCORERS[task.metric]("", row.outputs) == 0.0


def test_every_text_that_a_task_takes_has_a_licence_and_an_author() -> None:
    library = Library(kind="sample")
    for name in {name for task in ALL.values() for name in task.sources}:
        for source in (library.info(name), CATALOGUE.get(name)):
            assert source is None or source.licence not in ("", "unknown")
            assert source is None or source.attribution


def test_every_family_is_solved_its_parameters_counted_and_its_floor_measured() -> None:
    families = {*get_args(Params)}
    assert task_parameters._FAMILIES.keys() == floors._CANDIDATES.keys() == families
    assert solvers._SOLVERS.keys() | {Qa} == families


def test_a_family_without_checks_is_no_row_that_passes() -> None:
    row = make("mistral", "vt", 0, 1024)
    stranger = Task("odd_one", object(), "x", 30)  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        list(task_parameters.parameter_findings(stranger, 1024, row))


@dataclass(frozen=True)
class Echo:
    family: Literal["echo"] = "echo"
    impossible = ""


TASK = Task("echo", Echo(), "Say it again.", 8)  # type: ignore[arg-type]
MISSING = r"task echo: the family echo has no entry in {}.*docs/howto/extend.md"


def test_what_a_new_family_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    row = make("mistral", "vt", 0, 1024)
    with pytest.raises(RulerError, match=MISSING.format("_DRAW")):
        tasks.draw(TASK, None, 0, 1024, 1000)  # type: ignore[arg-type]
    with pytest.raises(RulerError, match=MISSING.format("_SOLVERS")):
        solve(TASK, row)
    with pytest.raises(RulerError, match=MISSING.format("_CANDIDATES")):
        floors.scores(TASK, row)
    solved = Solution(frozenset({"x"}), [])
    monkeypatch.setitem(solvers._SOLVERS, Echo, lambda task, row: solved)
    assert solve(TASK, row) is solved
    assert solve(TASKS["vt"], row).answers == {*row.outputs}
