"""Floors of all tasks of the package's suites, the table that ships with it.

    python benchmarks/floors.py --sources ../shared/sources > \
        builders/ruler_builders/checks/floors.json

A floor is what answers score that ignore the question (`ruler_builders.checks.floors`); each is
measured on 100 rows. A source that is missing is taken from the sample.
"""

import argparse
import json
import sys
from dataclasses import astuple
from pathlib import Path

from ruler_builders.checks.floors import ROWS, FloorMeter
from ruler_builders.pipeline.build_context import BuildContext, open_context
from ruler_builders.pipeline.fit import make_rows
from ruler_builders.pipeline.plan import BuildPlan
from ruler_data.manifest import Floor
from ruler_data.suites import RULER, packaged
from ruler_data.tasks import Task


def floor(context: BuildContext, task: Task, length: int) -> Floor | None:
    """Measure the floor of a task at a length (tokens)."""
    rows = ROWS
    if not task.fills:  # its rows differ in nothing but the question
        rows = min(rows, len(context.sources.corpus(task.sources[0]).questions))
    meter = FloorMeter(task, rows)
    for row in make_rows(task, context.sources, range(rows), context.target(length)):
        meter.add(row.index, row.unpack())
    return meter.floor()


def main() -> None:
    """Measure all floors and print the table as JSON, a task a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=Path)
    parser.add_argument("--tokenizer", default="mistral")
    options = parser.parse_args()
    plan = BuildPlan(options.tokenizer, RULER, Path(), 42, sources=options.sources)
    context = open_context(plan)
    tasks = {name: task for suite in packaged().values() for name, task in suite.tasks.items()}
    lines = []
    for name, task in tasks.items():
        floors = {length: floor(context, task, length) for length in RULER.lengths}
        table = {str(length): astuple(one) for length, one in floors.items() if one}
        lines.append(f"{json.dumps(name)}: {json.dumps(table)}")
        print(name, file=sys.stderr, flush=True)
    print("{\n" + ",\n".join(lines) + "\n}")


if __name__ == "__main__":
    main()
