"""What a build costs, as ratios of CPU time measured in one run.

    python benchmarks/build.py --tokenizer DIR --sources DIR --out results/build
        [--parts cost,length,rows,tokenizers,workers] [--rows N]
        [--others NAME,DIR,... --other-rows N] [--worker-rows N]
        [--upstream CHECKOUT --upstream-python PYTHON --upstream-tokens N
         --upstream-lengths N,... --upstream-tasks NAME,...]

Parts:
  cost        every task at every length: (a) ours; and the audit apart, (b) one
              `encode_batch_fast` of finished prompts, by Hugging Face tokenizers, (c) the
              floor: writing the finished strings to the same parquet and nothing else; and one
              count of every finished prompt by the counter that the build used, (d) upstream,
              where a checkout of NVIDIA/RULER is given: at the lengths and for the tasks asked
              for, with rows of its own number, since all take it hours
  length      the cost of a token from 4,096 to 1,048,576 tokens
  rows        the cost of a row from 25 to 200 rows
  tokenizers  all tasks and lengths in other tokenizers, and with stock tokenizers as the counter
  workers     whole commands: time on the wall, CPU time and memory with one worker and with two,
              two commands at once, and the build that `make build` runs without options

CPU time is user plus system time of this process and its children, all of it on one core but for
whole commands. Costs are the least of three times, since other work on a machine only adds to them.
Start-up (loading tokenizer and sources) is measured apart, once, except for whole commands. Writes
a page (Markdown), the figures (JSON) and a picture (SVG) beside each other.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import tokenizers
from clock import spent
from costs import measure
from report import write
from scale import Figures, by_length, by_rows, by_tokenizer, by_workers, open_shop
from upstream import Upstream

from ruler_builders.pipeline.build_context import BuildContext
from ruler_data import TASKS

PARTS = ("cost", "length", "rows", "tokenizers", "workers")
#: Lengths at which the cost of a token is compared.
GROWTH = (4096, 16_384, 65_536, 262_144, 1_048_576)


def costs(shop: BuildContext, options: argparse.Namespace) -> Figures:
    """Return the costs of every task at every length."""
    stock = tokenizers.Tokenizer.from_file(str(options.tokenizer / "tokenizer.json"))
    measure(shop, "vt", 4096, 1, stock)  # loads what was not loaded
    found = []
    for length in options.lengths:
        for name in TASKS:
            theirs = None
            wanted = length in options.upstream_lengths and name in options.upstream_tasks
            if options.upstream and wanted:
                theirs = Upstream(
                    options.upstream, options.upstream_python, options.tokenizer,
                    max(options.upstream_tokens // length, 2),
                )  # fmt: skip
            found.append(asdict(measure(shop, name, length, options.rows, stock, theirs)))
            print(found[-1], file=sys.stderr, flush=True)
    return found


def figures(options: argparse.Namespace) -> dict[str, object]:
    """Measure the parts that were asked for."""
    before = spent()
    shop = open_shop(str(options.tokenizer), options.sources)
    start = spent() - before
    found: dict[str, object] = {}
    if "cost" in options.parts:
        found["costs"] = costs(shop, options)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    about = environment(options, shop) | {"start-up, CPU s": f"{start:.1f}"}
    if "cost" in options.parts:
        about["peak memory of this part, all its rows kept, GB"] = f"{memory / 1e6:.2f}"
    tables: dict[str, Figures] = {}
    if "length" in options.parts:
        tables["A token at greater lengths"] = by_length(shop, GROWTH)
    if "rows" in options.parts:
        tables["A row among more rows"] = by_rows(shop, 8192, (25, 50, 100, 200))
    main, sources = str(options.tokenizer), options.sources
    if "tokenizers" in options.parts:
        names = [(name, "auto") for name in (main, *options.others)] + [(main, "tokenizers")]
        tables["Other tokenizers, and stock tokenizers as the counter"] = by_tokenizer(
            names, sources, options.lengths, options.other_rows
        )
    if "workers" in options.parts:
        tables["Whole commands, audited"] = [
            *by_workers(main, sources, options.lengths, options.worker_rows, (1, 2)),
            *by_workers(main, sources, [4096], 500, (os.cpu_count() or 1,)),
        ]
    return {"about": about, **found, "tables": tables}


def environment(options: argparse.Namespace, shop: BuildContext) -> dict[str, str]:
    """Return machine, commit and versions."""
    git = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return {
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.machine()}",
        "commit": git.stdout.strip() or "unknown",
        "python": platform.python_version(),
        **{name: version(name) for name in ("tokenizers", "pyarrow", "numpy")},
        "counter": shop.tokenizer_info.engine,
        "tokenizer": options.tokenizer.resolve().name,
        "rows of each config": str(options.rows),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(": ")[1] for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokenizer", type=Path, required=True, help="folder of tokenizer.json")
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--out", type=Path, help="where to write .md, .json and .svg")
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
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # on one core, as everything else
    asked = _options()
    write(json.dumps(figures(asked), indent=1), asked.out)
