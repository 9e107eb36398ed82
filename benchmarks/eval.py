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
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, quantiles

import measuring
from measuring import about, facts, table

from ruler_data.names import parse_config
from ruler_eval.running.config import EvalConfig
from ruler_eval.running.run_dir import RunFolder
from ruler_eval.running.runner import RunJob, open_job, requests, run_shard
from ruler_eval.running.sharding import Shard, shares_of


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
    ready = deque(requests(job, shares_of(job.data)[0]))
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
    with tempfile.TemporaryDirectory() as scratch:
        command = [
            *(sys.executable, "-m", "ruler_cli", "run", "--data", str(data), "--model", "bench"),
            *("--engine", "oracle", "--rows", str(rows), "--out", scratch),
        ]
        return measuring.run(command).peak / 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--rows", type=int, default=60, help="of a length in each half of a pair")
    options = parser.parse_args()
    job = open_job(EvalConfig(options.data, model="bench", engine="oracle"))
    setting = {
        "load": f"{os.getloadavg()[0]:.1f}",
        "tokenizer": job.data.manifest.tokenizer.name,
        "engine": f"{options.seconds * 1000:.0f} ms a row; {options.pairs} pairs",
    }
    lines = []
    for length in sorted({parse_config(config)[1] for config in job.data.rows}):
        configs = [name for name in job.data.rows if parse_config(name)[1] == length]
        each = max(1, options.rows // len(configs))
        config = EvalConfig(
            options.data,
            model="bench",
            engine="oracle",
            lengths=[length],
            rows=each,
            options={"seconds": options.seconds},
        )
        found = list(pairs(config, options.pairs))
        low, middle, high = quantiles(pair.whole / pair.alone for pair in found)
        rows = sum(min(each, job.data.rows[config]) for config in configs)
        stepping, rendering = (
            1000 * fmean(getattr(pair, name) for pair in found) / rows
            for name in ("stepping", "rendering")
        )
        quartiles = f"{low:.4f} to {high:.4f}"
        lines.append((length, rows, f"{middle:.4f}", quartiles, stepping, rendering))
    heads = ("length", "rows", "run / engine", "quartiles", "stepping ms/row", "rendering ms/row")
    print(*facts(about("ruler-data", "pyarrow") | setting), "", *table(heads, lines), sep="\n")
    most = max(job.data.rows.values())
    few = max(1, most // 10)
    low, high = (memory(options.data, rows) for rows in (few, most))
    print(
        f"\npeak memory: {low:.0f} MB with {few} rows of each config, {high:.0f} MB with {most}: "
        f"{high / low:.2f}"
    )


if __name__ == "__main__":
    main()
