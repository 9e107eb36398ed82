"""What a run adds to its engine's own time, and what memory it takes, measured in one run.

    python benchmarks/eval.py --data DIR [--seconds 0.1] [--pairs 9] [--rows 60]

For each length of the data, pair after pair over the same rows, which of the two goes first
changing from pair to pair:
  (a) the engine alone: the oracle, which sleeps for each row as a GPU would be busy for it, given
      prompts that were rendered before; as in a run, it is the last to hold them,
  (b) the run: reading rows, rendering prompts to ids, the engine, journal, progress.
Told are the median of b / a over the pairs with its quartiles, and CPU time: of the thread that
steps the engine, which other work on the machine does not change much, and of the one that
renders. Memory is the peak of a whole `ruler-eval run` over a tenth of the rows, and over all.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, quantiles

from rich.console import Console
from rich.table import Table

from ruler_data.names import parse_config
from ruler_data.version import __version__
from ruler_eval.eval_config import EvalConfig
from ruler_eval.run_dir import RunFolder
from ruler_eval.runner import RunJob, open_job, requests, run_shard
from ruler_eval.sharding import Shard, items_of


@dataclass(frozen=True)
class Pair:
    """Seconds of the engine alone and of the run; CPU of its stepping and its other threads."""

    alone: float
    whole: float
    stepping: float
    rendering: float


def pairs(config: EvalConfig, number: int) -> Iterator[Pair]:
    """Yield what runs over the same rows cost beside their engine."""
    with tempfile.TemporaryDirectory() as scratch:
        for place in range(number):
            job = open_job(config)
            first = engine(job) if place % 2 else 0.0
            whole, stepping, cpu = run(job, RunFolder(Path(scratch, str(place))))
            yield Pair(first or engine(job), whole, stepping, cpu - stepping)


def engine(job: RunJob) -> float:
    """Return the seconds that the engine takes for prompts that are there."""
    ready = deque(requests(job, items_of(job.data)))
    begun = time.perf_counter()
    for _ in job.engine.generate(ready.popleft() for _ in range(len(ready))):
        pass
    return time.perf_counter() - begun


def run(job: RunJob, folder: RunFolder) -> list[float]:
    """Return seconds of a run: by the clock, of CPU in this thread, and in all threads."""
    clocks = (time.perf_counter, time.thread_time, time.process_time)
    begun = [clock() for clock in clocks]
    run_shard(job, folder, Shard())
    return [clock() - then for clock, then in zip(clocks, begun, strict=True)]


def memory(data: Path, rows: int) -> float:
    """Return the peak memory of a run over so many rows of each config, in megabytes."""
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, "
        "stdout=subprocess.DEVNULL); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    with tempfile.TemporaryDirectory() as scratch:
        command = [
            sys.executable, "-m", "ruler_eval", "run", "--data", str(data), "--model", "bench",
            "--engine", "oracle", "--rows", str(rows), "--out", scratch,
        ]  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", code, *command], check=True, capture_output=True, text=True
        )
    return int(done.stdout) / 1024  # Linux counts in kB


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--rows", type=int, default=60, help="of a length in each half of a pair")
    options = parser.parse_args()
    whole = EvalConfig(data=str(options.data), model="bench", engine="oracle")
    job = open_job(whole)
    console = Console(width=110)
    console.print(
        f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python "
        f"{platform.python_version()}, ruler-data {__version__}, tokenizer "
        f"{job.data.manifest.tokenizer.name}; {options.seconds * 1000:.0f} ms a row, "
        f"{options.pairs} pairs"
    )
    table = Table(
        "length", "rows", "run / engine", "quartiles", "stepping ms/row", "rendering ms/row",
        box=None,
    )  # fmt: skip
    for length in sorted({parse_config(config)[1] for config in job.data.rows}):
        configs = tuple(name for name in job.data.rows if parse_config(name)[1] == length)
        each = max(1, options.rows // len(configs))
        config = EvalConfig(
            data=str(options.data), model="bench", engine="oracle", configs=configs, rows=each,
            options={"seconds": options.seconds},
        )  # fmt: skip
        found = list(pairs(config, options.pairs))
        low, middle, high = quantiles(pair.whole / pair.alone for pair in found)
        rows = sum(min(each, job.data.rows[config]) for config in configs)
        table.add_row(
            str(length), str(rows), f"{middle:.4f}", f"{low:.4f} to {high:.4f}",
            f"{fmean(pair.stepping for pair in found) / rows * 1000:.2f}",
            f"{fmean(pair.rendering for pair in found) / rows * 1000:.1f}",
        )  # fmt: skip
    console.print(table)
    rows = max(job.data.rows.values())
    few, all_rows = memory(options.data, max(1, rows // 10)), memory(options.data, rows)
    console.print(
        f"peak memory: {few:.0f} MB with {max(1, rows // 10)} rows of each config, "
        f"{all_rows:.0f} MB with {rows}: {all_rows / few:.2f}"
    )


if __name__ == "__main__":
    main()
