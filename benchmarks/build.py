"""What a build costs, as ratios of CPU time measured in one run. Prints a page of Markdown.

    python benchmarks/build.py --tokenizer DIR --sources DIR [--json FILE]
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
import json
import os
import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tokenizers
from build_costs import Figures, by_length, by_rows, by_tokenizer, by_workers, measure, warm_context
from measuring import about, spent, table
from upstream import Upstream

from ruler_builders.pipeline.build_context import BuildContext
from ruler_data import TASKS
from ruler_data.tokenizers.counters import CounterName

Cost = Mapping[str, Any]

#: Rows of a config in the published dataset.
PUBLISHED = 500

#: Columns: heading, and the value for a group of costs.
COLUMNS: dict[str, Callable[[Sequence[Cost]], float | None]] = {
    "build, CPU s": lambda costs: _sum(costs, "build"),
    "rows/s": lambda costs: _sum(costs, "rows") / _sum(costs, "build"),
    "M tokens/s": lambda costs: _sum(costs, "tokens") / _sum(costs, "build") / 1e6,
    "audit / build": lambda costs: _sum(costs, "audit") / _sum(costs, "build"),
    "build / (1.5 floor + count)": lambda costs: (
        _sum(costs, "build") / (1.5 * _sum(costs, "floor") + _sum(costs, "count"))
    ),
    "build / (floor + count)": lambda costs: (
        _sum(costs, "build") / (_sum(costs, "floor") + _sum(costs, "count"))
    ),
    "stock / build": lambda costs: _ratio(costs, "stock"),
    "upstream / build": lambda costs: _ratio(costs, "upstream"),
}

PARTS = ("cost", "length", "rows", "tokenizers", "workers")
#: Lengths at which the cost of a token is compared.
GROWTH = (4096, 16_384, 65_536, 262_144, 1_048_576)


def costs(context: BuildContext, options: argparse.Namespace) -> Figures:
    """Return the costs of every task at every length."""
    stock = tokenizers.Tokenizer.from_file(str(options.tokenizer / "tokenizer.json"))
    measure(context, "vt", 4096, 1, stock)  # loads what was not loaded
    found = []
    for length in options.lengths:
        for name in TASKS:
            upstream = None
            wanted = length in options.upstream_lengths and name in options.upstream_tasks
            if options.upstream and wanted:
                upstream = Upstream(
                    options.upstream, options.upstream_python, options.tokenizer,
                    max(options.upstream_tokens // length, 2),
                )  # fmt: skip
            found.append(asdict(measure(context, name, length, options.rows, stock, upstream)))
            print(found[-1], file=sys.stderr, flush=True)
    return found


def measure_parts(options: argparse.Namespace) -> dict[str, object]:
    """Measure the selected parts."""
    before = spent()
    context = warm_context(str(options.tokenizer), options.sources)
    start = spent() - before
    found: dict[str, object] = {}
    if "cost" in options.parts:
        found["costs"] = costs(context, options)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    facts = about("tokenizers", "pyarrow", "numpy") | {
        "counter": context.tokenizer_info.engine,
        "tokenizer": options.tokenizer.resolve().name,
        "rows of each config": str(options.rows),
        "start-up, CPU s": f"{start:.1f}",
    }
    if "cost" in options.parts:
        facts["peak memory of this part with all its rows, GB"] = f"{memory / 1e6:.2f}"
    tables: dict[str, Figures] = {}
    if "length" in options.parts:
        tables["A token at greater lengths"] = by_length(context, GROWTH)
    if "rows" in options.parts:
        tables["A row among more rows"] = by_rows(context, 8192, (25, 50, 100, 200))
    main, sources = str(options.tokenizer), options.sources
    if "tokenizers" in options.parts:
        names: list[tuple[str, CounterName]] = [
            (name, "auto") for name in (main, *options.others)
        ] + [(main, "tokenizers")]
        tables["Other tokenizers, and stock tokenizers as the counter"] = by_tokenizer(
            names, sources, options.lengths, options.other_rows
        )
    if "workers" in options.parts:
        tables["Whole commands, audited"] = [
            *by_workers(main, sources, options.lengths, options.worker_rows, (1, 2)),
            *by_workers(main, sources, [4096], 500, (os.cpu_count() or 1,)),
        ]
    return {"about": facts, **found, "tables": tables}


def page(measured: Mapping[str, Any]) -> str:
    """Return what was measured as Markdown."""
    lines = ["# Cost of a build", "", "CPU seconds, and ratios of them, measured in one run.", ""]
    lines += [f"- {name}: {value}" for name, value in measured["about"].items()]
    for title, rows in measured["tables"].items():
        lines += ["", f"## {title}", "", *table(list(rows[0]), [row.values() for row in rows])]
    if "costs" in measured:
        lines += ["", f"## {PUBLISHED} rows of each config, extrapolated", ""]
        lines += _whole(measured["costs"])
        lines += ["", "## Tasks and lengths", "", *_costs(measured["costs"])]
    return "\n".join(lines) + "\n"


def _whole(costs: Sequence[Cost]) -> list[str]:
    """Return the cost of the whole dataset, extrapolated from the measured rows."""
    fields = {"build": "build", "audit": "audit", "floor": "the floor", "count": "one fast count"}
    fields |= {"stock": "one pass of stock tokenizers"}
    rows = [
        (name, 1.0 * PUBLISHED * sum(cost[field] / cost["rows"] for cost in costs))
        for field, name in fields.items()
        if costs[0][field] is not None
    ]
    return table(["what", "CPU s"], rows)


def _costs(costs: Sequence[Cost]) -> list[str]:
    lengths = sorted({cost["length"] for cost in costs})
    tasks = list(dict.fromkeys(cost["task"] for cost in costs))
    groups: list[tuple[str, object, Sequence[Cost]]] = [("**all**", "all", costs)]
    groups += [("all", n, [c for c in costs if c["length"] == n]) for n in lengths]
    groups += [(task, "all", [c for c in costs if c["task"] == task]) for task in tasks]
    groups += [(cost["task"], cost["length"], [cost]) for cost in costs]
    rows = [
        (task, str(length), *(column(some) for column in COLUMNS.values()))
        for task, length, some in groups
    ]
    return table(["task", "length", *COLUMNS], rows)


def _sum(costs: Sequence[Cost], field: str) -> float:
    return float(sum(cost[field] for cost in costs))


def _ratio(costs: Sequence[Cost], field: str) -> float | None:
    """Return the ratio of a field to the build, over the costs that have this field."""
    known = [cost for cost in costs if cost[field] is not None]
    return _sum(known, field) / _sum(known, "build") if known else None


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokenizer", type=Path, required=True, help="folder of tokenizer.json")
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    parser.add_argument("--parts", type=lambda text: text.split(","), default=list(PARTS))
    parser.add_argument("--rows", type=int, default=100, help="of each config")
    lengths = [4096, 8192, 16384, 32768, 65536, 131072]
    parser.add_argument("--lengths", type=_numbers, default=lengths)
    parser.add_argument("--others", type=_names, default=["mistral"])
    parser.add_argument("--other-rows", type=int, default=20, help="of other tokenizers' configs")
    parser.add_argument("--worker-rows", type=int, default=100, help="of whole commands")
    parser.add_argument("--upstream", type=Path)
    parser.add_argument("--upstream-python", default=sys.executable)
    parser.add_argument("--upstream-tokens", type=int, default=1_300_000, help="of each config")
    parser.add_argument("--upstream-lengths", type=_numbers, default=[4096, 131072])
    parser.add_argument("--upstream-tasks", type=lambda text: text.split(","), default=list(TASKS))
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"unknown part {unknown.pop()!r}; known: {', '.join(PARTS)}")
    return options


if __name__ == "__main__":
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one core, like everything else
    options = _options()
    measured = measure_parts(options)
    print(page(measured))
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
