"""A family that somebody adds: what it lacks is a sentence, not a traceback."""

from dataclasses import dataclass
from typing import Literal

import pytest

from ruler_builders import tasks
from ruler_builders.checks import floors, solvers
from ruler_builders.checks.solvers import Solved, solve
from ruler_data import RulerError, Task
from ruler_data.tasks import TASKS
from tests.rows import make


@dataclass(frozen=True)
class Echo:
    family: Literal["echo"] = "echo"
    impossible = ""


TASK = Task("echo", Echo(), "Say it again.", 8)  # type: ignore[arg-type]
MISSING = r"task echo: the family echo has no entry in {}.*docs/ARCHITECTURE.md"


def test_what_a_new_family_lacks_is_named_and_found_once_it_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = make("mistral", "vt", 0, 1024)
    with pytest.raises(RulerError, match=MISSING.format("_DRAW")):
        tasks.draw(TASK, None, 0, 1024, 1000)  # type: ignore[arg-type]
    with pytest.raises(RulerError, match=MISSING.format("_SOLVERS")):
        solve(TASK, row)
    with pytest.raises(RulerError, match=MISSING.format("_CANDIDATES")):
        floors.scores(TASK, row)
    solved = Solved(frozenset({"x"}), [])
    monkeypatch.setitem(solvers._SOLVERS, Echo, lambda task, row: solved)
    assert solve(TASK, row) is solved
    assert solve(TASKS["vt"], row).answers == {*row.outputs}
