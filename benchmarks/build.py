"""What a row of a build costs, and the check of each row beside it: `make bench`.

    python benchmarks/build.py --tokenizer TOKENIZER --sources DIR [--rows 100]

Prints CPU milliseconds of a row for each length, over the 13 tasks: drawing, counting and writing
it; what no build of the same bytes can leave out (its limit: one count of the finished prompt, one
join of its text, the digest of its rows, one compression, and the hash of the file); and checking
it. Start-up is left out: a row of each task is made before.
"""

import argparse
import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from measuring import cpu

from ruler_builders.checks.solvers import row_findings
from ruler_builders.pipeline.build_dir import GROUP_ROWS, parquet_options, write_rows
from ruler_builders.pipeline.build_one import BuildContext, made_rows, open_context
from ruler_builders.pipeline.plan import BuildPlan
from ruler_data.names import config_file, config_name
from ruler_data.row import PackedRow, no_cycles
from ruler_data.suites import RULER
from ruler_data.tasks import TASKS, Task


@no_cycles()
def costs(
    plan: BuildPlan, context: BuildContext, task: Task, length: int, rows: int
) -> tuple[float, float, float]:
    """Return the CPU seconds of making and writing rows of a config, of its limit, of its check."""
    name = config_name(task.name, length)
    made = list[PackedRow]()

    def seen() -> Iterator[PackedRow]:
        for row in made_rows(plan, context, name, rows, range(rows), set()):
            made.append(row)
            yield row

    def make() -> None:
        write_rows(folder / config_file(name), seen(), task, length, rows)

    def limit() -> None:
        level = parquet_options(task)["compression_level"]
        codec = pa.Codec("zstd", compression_level=level)
        digest = hashlib.sha256()
        for start in range(0, rows, GROUP_ROWS):
            group = made[start : start + GROUP_ROWS]
            for row in group:
                text = bytes(row.context) + row.question.encode()
                context.tokenizer.count_prompt(text, row.answer_prefix)
                digest.update(text)
            hashlib.sha256(codec.compress(b"".join(row.context for row in group)))

    def check() -> None:
        for place, row in enumerate(made):
            assert not [*row_findings(task, length, place, row.unpack())]

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        making = cpu(make)
    return making, cpu(limit), cpu(check)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenizer", default="mistral")
    parser.add_argument("--sources", type=Path)
    parser.add_argument("--rows", type=int, default=100)
    options = parser.parse_args()
    plan = BuildPlan(options.tokenizer, RULER, Path(), 42, sources=options.sources)
    context = open_context(plan)
    for task in TASKS.values():  # what is read and counted once
        costs(plan, context, task, 4096, 1)
    print("| length | make ms | limit ms | make / limit | check ms |\n|--:|--:|--:|--:|--:|")
    for length in RULER.lengths:
        seconds = [costs(plan, context, task, length, options.rows) for task in TASKS.values()]
        sums = map(sum, zip(*seconds, strict=True))
        made, limit, checked = (1000 * total / len(TASKS) / options.rows for total in sums)
        figures = f"{made:.2f} | {limit:.2f} | {made / limit:.1f} | {checked:.2f}"
        print(f"| {length} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
