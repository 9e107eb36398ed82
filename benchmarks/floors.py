"""Floors of the tasks of the package's suites: measures the table that ships with it.

    python benchmarks/floors.py --sources SOURCES [--tasks NAME,NAME] [--lengths 4096,131072]
    python benchmarks/floors.py --sources SOURCES --again 131072

Writes what it measures into `ruler_data/floors.json` and keeps all else there
(`tests/proof/floors.py` says what a floor is). Floors are measured on 100 rows; blind
ones of qa, cwe and RULER v2 on 500, whose questions are the same at every length. A source that is
missing is taken from the sample; the table that ships was measured on real sources, MMLU without
`auxiliary_train`. Where the candidates do not depend on the length, one length is measured;
`--again` measures all tasks at a length and prints which floors are not those of the table, which
for tasks of one length are those.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import astuple, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ruler_builders.pipeline.build_one import BuildContext, open_context
from ruler_builders.pipeline.fit import make_rows
from ruler_builders.pipeline.plan import BuildPlan
from ruler_data.floors import floor, table
from ruler_data.manifest import Floor
from ruler_data.row import Row
from ruler_data.suites import RULER, packaged
from ruler_data.tasks import Cwe, Fwe, Niah, Qa, Ruler2, Task
from tests.proof.floors import ROWS, FloorMeter

TABLE = Path(__file__).parents[1] / "ruler_data" / "floors.json"
BLIND_ROWS, BLIND_LENGTH = 500, 4096


def made(context: BuildContext, task: Task, length: int, rows: int) -> Iterator[Row]:
    """Yield the first rows of a task at a length (tokens)."""
    if not task.fills:  # its rows differ in nothing but the question
        rows = min(rows, len(context.sources.corpus(task.sources[0]).questions))
    for row in make_rows(task, context.sources, range(rows), context.target(length)):
        yield row.unpack()


def floors(context: BuildContext, task: Task, lengths: list[int]) -> Iterator[tuple[int, Floor]]:
    """Measure the floors of a task by length (tokens)."""
    questions = list[Row]()
    if isinstance(task.params, Qa | Ruler2 | Cwe):  # answers that rows share
        rows = made(context, task, BLIND_LENGTH, BLIND_ROWS)
        questions = [replace(row, context="", evidence=()) for row in rows]
    for length in lengths:
        meter = FloorMeter(task, ROWS)
        for row in made(context, task, length, ROWS):
            meter.add(row.index, row)
        if measured := meter.floor(questions):
            yield length, measured


def varies(task: Task) -> bool:
    """Whether other candidates stand in a longer context."""
    match task.params:
        case Niah() as niah:
            return niah.haystack == "needles"
        case Cwe() | Fwe() | Ruler2():
            return True
        case _:
            return isinstance(task.params, Qa) and task.fills


def differences(context: BuildContext, names: list[str], length: int) -> Iterator[str]:
    """Yield a line for each task whose floor at a length is not the one of the table."""
    for name in names:
        ((_, measured),) = floors(context, packaged_tasks()[name], [length])
        if measured != (stated := floor(name, length)):
            yield f"{name}: the table has {stated}, measured at {length:,} {measured}"


def packaged_tasks() -> dict[str, Task]:
    """Return the tasks of all suites of the package by name."""
    return {name: task for suite in packaged().values() for name, task in suite.tasks.items()}


def main() -> None:
    """Measure floors and write the table as JSON, a task a line."""
    tasks = packaged_tasks()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=Path)
    parser.add_argument("--tokenizer", default="mistral")
    parser.add_argument("--tasks", type=lambda text: text.split(","), default=[*tasks])
    parser.add_argument(
        "--lengths", type=lambda text: [*map(int, text.split(","))], default=RULER.lengths
    )
    parser.add_argument("--again", type=int)
    options = parser.parse_args()
    plan = BuildPlan(options.tokenizer, RULER, Path(), 42, sources=options.sources)
    context = open_context(plan)
    if options.again:
        for line in differences(context, options.tasks, options.again):
            print(line, flush=True)
        return
    entries = {name: table().get(name, {}) for name in tasks}
    for name in options.tasks:
        lengths = options.lengths if varies(tasks[name]) else [BLIND_LENGTH]
        old = entries[name] if varies(tasks[name]) else {}
        new = floors(context, tasks[name], lengths)
        entries[name] = dict(sorted({**old, **dict(new)}.items()))
        lines = (
            f"{json.dumps(task)}: {json.dumps({n: astuple(floor) for n, floor in table.items()})}"
            for task, table in entries.items()
        )
        TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="ascii")
        print(name, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
