"""What a row of a build costs, and the check of each row beside it: `make bench`.

    python benchmarks/build.py --tokenizer TOKENIZER --sources DIR [--rows 20]

Prints CPU milliseconds of a row for each length, over the 13 tasks: drawing, counting and writing
it, and checking it. Start-up is left out: a row of each task is made before.
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from measuring import cpu

from ruler_builders.checks.solvers import row_findings
from ruler_builders.pipeline.build_dir import write_rows
from ruler_builders.pipeline.build_one import BuildContext, made_rows, open_context
from ruler_builders.pipeline.plan import BuildPlan
from ruler_data.names import config_file, config_name
from ruler_data.row import PackedRow, no_cycles
from ruler_data.suites import RULER
from ruler_data.tasks import TASKS, Task


@no_cycles()
def costs(
    plan: BuildPlan, context: BuildContext, task: Task, length: int, rows: int
) -> tuple[float, float]:
    """Return the CPU seconds of making and writing the rows of a config, and of checking them."""
    name, kept = config_name(task.name, length), list[PackedRow]()

    def seen() -> Iterator[PackedRow]:
        for row in made_rows(plan, context, name, rows, range(rows), set()):
            kept.append(row)
            yield row

    def make() -> None:
        with tempfile.TemporaryDirectory() as scratch:
            write_rows(Path(scratch) / config_file(name), seen(), task, length, rows)

    def check() -> None:
        for place, row in enumerate(kept):
            assert not [*row_findings(task, length, place, row.unpack())]

    return cpu(make), cpu(check)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenizer", default="mistral")
    parser.add_argument("--sources", type=Path)
    parser.add_argument("--rows", type=int, default=20)
    options = parser.parse_args()
    plan = BuildPlan(options.tokenizer, RULER, Path(), 42, sources=options.sources)
    context = open_context(plan)
    for task in TASKS.values():  # what is read and counted once
        costs(plan, context, task, 4096, 1)
    print("| length | make ms | check ms | ratio |\n|--:|--:|--:|--:|")
    for length in RULER.lengths:
        each = [costs(plan, context, task, length, options.rows) for task in TASKS.values()]
        sums = map(sum, zip(*each, strict=True))
        made, checked = (1000 * one / len(each) / options.rows for one in sums)
        print(f"| {length} | {made:.2f} | {checked:.2f} | {checked / made:.2f} |", flush=True)


if __name__ == "__main__":
    main()
