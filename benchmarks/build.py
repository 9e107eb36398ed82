"""What a build costs, as ratios of CPU time measured in one run. Prints a page of Markdown.

    python benchmarks/build.py --tokenizer DIR --sources DIR
        [--parts cost,length,rows,tokenizers,workers] [--rows N]
        [--others NAME,DIR,... --other-rows N] [--worker-rows N]
        [--upstream CHECKOUT --upstream-python PYTHON --upstream-tokens N
         --upstream-lengths N,... --upstream-tasks NAME,...]

Parts:
  cost        every task at every length, compared with
              - the audit of the same rows
              - floor: writing the finished strings to the same Parquet and nothing else
              - count: one count of every finished prompt by the counter of the build
              - stock: one `encode_batch_fast` of finished prompts by Hugging Face tokenizers
              - upstream, if a checkout of NVIDIA/RULER is given: fewer rows, lengths and tasks,
                because all of them take hours
  length      the cost of a token from 4,096 to 1,048,576 tokens
  rows        the cost of a row from 25 to 200 rows
  tokenizers  all tasks and lengths in other tokenizers, and with stock tokenizers as the counter
  workers     whole commands: wall time, CPU time and memory with one worker and with two, two
              commands at once, and the build that `make build` runs without options

CPU time is user plus system time of this process and its children, on one core except for whole
commands. A cost is the minimum of three measurements, because other work on a machine only adds to
it. Start-up (loading tokenizer and sources) is measured once and apart, except for whole commands.
"""

import argparse
import os
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import tokenizers
from build_costs import (
    Cost,
    Figures,
    by_length,
    by_rows,
    by_tokenizer,
    by_workers,
    measure,
    warm_context,
)
from measuring import about, facts, spent, table
from upstream import Upstream

from ruler_builders.pipeline.build_context import BuildContext
from ruler_data import TASKS

#: Rows of a config in the published dataset.
PUBLISHED = 500


def _sum(costs: Sequence[Cost], field: str) -> float:
    return float(sum(getattr(cost, field) for cost in costs))


def _ratio(costs: Sequence[Cost], field: str) -> float | None:
    """Return the ratio of a field to the build, over the costs that have this field."""
    known = [cost for cost in costs if getattr(cost, field) is not None]
    return _sum(known, field) / _sum(known, "build") if known else None


def _over_floor(costs: Sequence[Cost], floors: float) -> float:
    return _sum(costs, "build") / (floors * _sum(costs, "floor") + _sum(costs, "count"))


#: Columns: heading, and the value for a group of costs.
COLUMNS: dict[str, Callable[[Sequence[Cost]], float | None]] = {
    "build, CPU s": lambda costs: _sum(costs, "build"),
    "rows/s": lambda costs: _sum(costs, "rows") / _sum(costs, "build"),
    "M tokens/s": lambda costs: _sum(costs, "tokens") / _sum(costs, "build") / 1e6,
    "audit / build": partial(_ratio, field="audit"),
    "build / (1.5 floor + count)": partial(_over_floor, floors=1.5),
    "build / (floor + count)": partial(_over_floor, floors=1),
    "stock / build": partial(_ratio, field="stock"),
    "upstream / build": partial(_ratio, field="upstream"),
}
#: What the whole dataset costs: field of a cost, and its name.
WHOLE = {
    "build": "build",
    "audit": "audit",
    "floor": "the floor",
    "count": "one fast count",
    "stock": "one pass of stock tokenizers",
}
PARTS = ("cost", "length", "rows", "tokenizers", "workers")
#: Lengths at which the cost of a token is compared.
GROWTH = (4096, 16_384, 65_536, 262_144, 1_048_576)


def costs(context: BuildContext, options: argparse.Namespace) -> Iterator[Cost]:
    """Yield the costs of every task at every length."""
    stock = tokenizers.Tokenizer.from_file(str(options.tokenizer / "tokenizer.json"))
    measure(context, "vt", 4096, 1, stock)  # loads what was not loaded
    upstream = None
    if options.upstream:
        upstream = Upstream(
            options.upstream, options.upstream_python, options.tokenizer, options.upstream_tokens
        )
    for length in options.lengths:
        for name in TASKS:
            wanted = length in options.upstream_lengths and name in options.upstream_tasks
            beside = upstream if wanted else None
            found = measure(context, name, length, options.rows, stock, beside)
            print(found, file=sys.stderr, flush=True)
            yield found


def show_costs(costs: Sequence[Cost]) -> None:
    """Print the cost of the whole dataset, extrapolated, and of each task and length."""
    whole = [
        (name, PUBLISHED * sum(getattr(cost, field) / cost.rows for cost in costs))
        for field, name in WHOLE.items()
    ]
    show(f"{PUBLISHED} rows of each config, extrapolated", ["what", "CPU s"], whole)
    lengths = dict.fromkeys(cost.length for cost in costs)
    tasks = dict.fromkeys(cost.task for cost in costs)
    groups: list[tuple[str, object, Sequence[Cost]]] = [("**all**", "all", costs)]
    groups += [("all", n, [cost for cost in costs if cost.length == n]) for n in lengths]
    groups += [(task, "all", [cost for cost in costs if cost.task == task]) for task in tasks]
    groups += [(cost.task, cost.length, [cost]) for cost in costs]
    rows = [
        (task, str(length), *(column(some) for column in COLUMNS.values()))
        for task, length, some in groups
    ]
    show("Tasks and lengths", ["task", "length", *COLUMNS], rows)


def show(title: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table below its title."""
    print(f"\n## {title}\n", *table(heads, rows), sep="\n", flush=True)


def main() -> None:
    """Measure the selected parts, and print each as it is measured."""
    options = _options()
    before = spent()
    context = warm_context(str(options.tokenizer), options.sources)
    setting = {
        "counter": context.tokenizer_info.engine,
        "tokenizer": options.tokenizer.resolve().name,
        "rows of each config": options.rows,
        "start-up, CPU s": f"{spent() - before:.1f}",
    }
    print("# Cost of a build\n\nCPU seconds, and ratios of them, measured in one run.\n")
    print(*facts(about("tokenizers", "pyarrow", "numpy") | setting), sep="\n")
    main_tokenizer, sources, lengths = str(options.tokenizer), options.sources, options.lengths
    if "cost" in options.parts:
        show_costs(list(costs(context, options)))
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"\nPeak memory of this part with all its rows: {memory:.2f} GB")
    parts: dict[str, tuple[str, Callable[[], Figures]]] = {
        "length": ("A token at greater lengths", lambda: by_length(context, GROWTH)),
        "rows": ("A row among more rows", lambda: by_rows(context, 8192, (25, 50, 100, 200))),
        "tokenizers": (
            "Other tokenizers, and stock tokenizers as the counter",
            lambda: by_tokenizer(
                [main_tokenizer, *options.others], sources, lengths, options.other_rows
            ),
        ),
        "workers": (
            "Whole commands, audited",
            lambda: [
                *by_workers(main_tokenizer, sources, lengths, options.worker_rows, (1, 2)),
                *by_workers(main_tokenizer, sources, [4096], 500, (os.cpu_count() or 1,)),
            ],
        ),
    }
    for name in options.parts:
        if name in parts:
            title, work = parts[name]
            measured = work()
            show(title, list(measured[0]), [list(row.values()) for row in measured])


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokenizer", type=Path, required=True, help="folder of tokenizer.json")
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--parts", type=_names, default=list(PARTS))
    parser.add_argument("--rows", type=int, default=100, help="of each config")
    parser.add_argument("--lengths", type=_numbers, default=[4096 << place for place in range(6)])
    parser.add_argument("--others", type=_names, default=["mistral"])
    parser.add_argument("--other-rows", type=int, default=20, help="of other tokenizers' configs")
    parser.add_argument("--worker-rows", type=int, default=100, help="of whole commands")
    parser.add_argument("--upstream", type=Path)
    parser.add_argument("--upstream-python", default=sys.executable)
    parser.add_argument("--upstream-tokens", type=int, default=1_300_000, help="of each config")
    parser.add_argument("--upstream-lengths", type=_numbers, default=[4096, 131072])
    parser.add_argument("--upstream-tasks", type=_names, default=list(TASKS))
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"unknown part {unknown.pop()!r}; known: {', '.join(PARTS)}")
    return options


if __name__ == "__main__":
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one core, like everything else
    main()
