"""Time and memory of rows of 131,072 tokens to 2,097,152, task by task, measured in one run.

    python benchmarks/long.py --tokenizer DIR --sources DIR [--rows N]

Every task works in a process of its own, at rising lengths. For each length, for one row: CPU
seconds (of the process, all its threads) to make it (draw, fit, count, write) and to audit it, the
fill, and the process' greatest resident memory up to there. After that, for each length, the row is
counted again by the reference, as a build does with a few rows of each config: CPU seconds and
memory.
Tasks are the thirteen and, of each suite, those that ask for most.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measuring import about, facts, table

from ruler_builders.checks.solvers import row_findings
from ruler_builders.pipeline.build_dir import write_rows
from ruler_builders.pipeline.build_one import BuildContext, open_context
from ruler_builders.pipeline.fit import make_row, make_rows
from ruler_builders.pipeline.plan import BuildPlan
from ruler_data import TASKS
from ruler_data.parquet import read_rows
from ruler_data.suites import RULER, packaged
from ruler_data.tasks import Task

LENGTHS = (131_072, 1_048_576, 2_097_152)
SUITES = (
    "niah_keys_64", "niah_values_8", "niah_queries_8", "niah_split_lookalikes", "niah_domain_code",
    "niah_domain_mixed", "vt_hops_12", "vt_chains_8", "fwe_alpha_1_5", "fwe_alpha_3_5",
)  # fmt: skip
#: Columns of the table, and how each shows its value.
COLUMNS = {
    "task": "{task}",
    "length": "{length:,}",
    "fill": "{fill:.6f}",
    "make": "{make:.2f}",
    "audit": "{audit:.2f}",
    "memory": "{memory:,.0f}",
    "reference's count": "{recount:.2f}",
    "memory with it": "{recounted:,.0f}",
}


def task_of(name: str) -> Task:
    """Return a task of the package."""
    return next(suite.tasks[name] for suite in packaged().values() if name in suite.tasks)


def peak() -> float:
    """Return the greatest resident memory of this process so far, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def measure(shop: BuildContext, task: Task, length: int, rows: int) -> dict[str, object]:
    """Measure one task at one length, CPU seconds for one row."""
    exhausted: set[str] = set()
    rows_made = (
        next(make_rows(task, shop.sources, [index], shop.target(length), exhausted))
        for index in range(rows)
    )
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "config" / "rows.parquet"
        began = time.process_time()
        info = write_rows(path, rows_made, task, length, rows)
        made = time.process_time()
        found = list(read_rows(path))
        began_audit = time.process_time()
        wrong = [one for n, row in enumerate(found) for one in row_findings(task, length, n, row)]
        audited = time.process_time()
        assert wrong == [], wrong[:1]
    return {
        "length": length,
        "make": (made - began) / rows,
        "audit": (audited - began_audit) / rows,
        "fill": info.fill_min,
        "memory": peak(),
        "repeats": ", ".join(sorted(exhausted)),
    }


def child(options: argparse.Namespace) -> None:
    """Measure one task, in this process; print a line of JSON for each length."""
    shop = open_context(
        BuildPlan(
            str(options.tokenizer), RULER, Path(), 42, sources=options.sources, sources_kind="real"
        )
    )
    task = task_of(options.task)
    start = {"engine": shop.tokenizer_info.engine, "start": peak()}
    measure(shop, task, 4096, 1)  # what is loaded and counted once
    measured = [measure(shop, task, length, options.rows) for length in LENGTHS]
    for found, length in zip(measured, LENGTHS, strict=True):
        print(json.dumps({**start, **found, **recount(shop, task, length)}), flush=True)


def recount(shop: BuildContext, task: Task, length: int) -> dict[str, float]:
    """Count a row again by the reference; return CPU seconds and memory."""
    row = make_row(task, shop.sources, 0, shop.target(length)).unpack()
    began = time.process_time()
    found = shop.tokenizer.recount_prompt(row.context + row.question, row.answer_prefix)
    assert found + row.max_new_tokens == row.length
    return {"recount": time.process_time() - began, "recounted": peak()}


def main() -> None:
    """Measure every task, each in a process of its own, and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--task")
    options = parser.parse_args()
    if options.task:
        child(options)
        return
    lines: list[dict[str, Any]] = []
    for task in (*TASKS, *SUITES):
        command = [sys.executable, __file__, *sys.argv[1:], "--task", task]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        lines += [{"task": task, **json.loads(line)} for line in done.stdout.splitlines()]
        print(task, file=sys.stderr, flush=True)
    print(page(lines, options))


def page(lines: list[dict[str, Any]], options: argparse.Namespace) -> str:
    """Return what was measured, as Markdown."""
    setting = {
        "tokenizer": f"{options.tokenizer.name}, counter {lines[0]['engine']}",
        "rows measured for each figure": options.rows,
        "memory when tokenizer and sources are open, MB": f"{lines[0]['start']:.0f}",
    }
    rows = [[text.format(**one) for text in COLUMNS.values()] for one in lines]
    return "\n".join(
        [
            "# Rows of a million tokens and more\n",
            *facts(about("numpy", "pyarrow", "tokenizers") | setting),
            "\nCPU seconds for one row. Memory, in MB, is the greatest of the process up to there: "
            "first for all three\nlengths without the count by the reference, then with it.\n",
            *table([*COLUMNS], rows),
            f"\nRepeats within a row: {repeats(lines)}.",
        ]
    )


def repeats(lines: list[dict[str, Any]]) -> str:
    """Return which tasks come to the end of a source, and from which length on."""
    first: dict[object, str] = {}
    for one in lines:
        if one.get("repeats"):
            first.setdefault(
                one["task"], f"{one['task']} from {one['length']:,} ({one['repeats']})"
            )
    return "; ".join(first.values()) or "none"


if __name__ == "__main__":
    main()
