"""Documentation of suites: each is named, and its examples are rows as they come out today."""

import pytest

from ruler_builders.card import excerpt
from ruler_data import TASKS, Row
from ruler_data.suites import Suite, packaged
from ruler_data.tasks import Task
from tests.conftest import ROOT
from tests.rows import make
from tests.test_golden import compare

SUITES = {name: suite for name, suite in packaged().items() if name != "ruler"}
LENGTH = 4096
#: Characters around what matters.
AROUND = 90

TOP = """\
# A row of each suite

Written by `make regold` from built rows: row 0 at 4,096 tokens, with the sample corpus and the
`mistral` tokenizer. `[...]` marks omitted text. For a sweep, only the last task is shown.
[suites.md](suites.md) says what each suite is for.
"""


def shown(suite: Suite) -> list[Task]:
    """Return the tasks that tell what a suite is about."""
    own = [task for task in suite.tasks.values() if task.name not in TASKS]
    return (own[-1:] if suite.name.startswith("sweep_") else own) or [*suite.tasks.values()][:1]


def example(task: Task, row: Row) -> str:
    """Return a row, shortened, as Markdown that nothing in it can break."""
    text = excerpt(row, AROUND) + row.question + row.answer_prefix
    answers = ", ".join(f"`{output}`" for output in row.outputs)
    fenced = text.replace("```", "``")
    return f"### {task.name}\n\n{task.about}\n\n```text\n{fenced}\n```\n\nGold answers: {answers}\n"


def section(suite: Suite) -> str:
    """Return what the page says of a suite."""
    tasks = shown(suite)
    command = (
        f"ruler-data build --suite {suite.name}\n"
        f"ruler-data show dist/mistral-{suite.name} {tasks[0].name}_{LENGTH} 0"
    )
    parts = [f"## {suite.name}\n\n{suite.about}\n\n```sh\n{command}\n```\n"]
    parts += [example(task, make("mistral", task.name, 0, LENGTH)) for task in tasks]
    return "\n".join(parts)


def test_the_examples_of_suites_are_rows_as_they_are_built() -> None:
    page = "\n".join([TOP, *map(section, SUITES.values())])
    lines = (line.rstrip() for line in page.splitlines())
    compare("../../docs/suites-rows.md", "\n".join(lines) + "\n")


@pytest.mark.parametrize("name", SUITES)
def test_every_suite_is_documented_with_its_tasks(name: str) -> None:
    text = (ROOT / "docs" / "suites.md").read_text(encoding="utf-8")
    [line] = [line for line in text.splitlines() if line.startswith(f"| `{name}` |")]
    own = [task for task in SUITES[name].tasks if task not in TASKS]
    assert not own or f"`{own[0]}`" in line
