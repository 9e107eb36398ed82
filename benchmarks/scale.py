"""How the cost of a build grows: with length, with rows, with workers, with the tokenizer."""

import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from clock import Run, cpu, peak, run, spent
from costs import TIMES, build

from ruler_builders.pipeline.build_context import BuildContext, open_context
from ruler_builders.sources import Library
from ruler_data import TASKS
from ruler_data.tokenizers.counters import CounterName

#: Lines of a table: heading -> figure.
Figures = list[dict[str, str | float]]

#: Rows of a config whose memory is looked at: some row groups.
MEMORY_ROWS = 200

#: Tokens of each task at each length of `by_length`, so that all are measured over as much text.
TOKENS = 2**21


def open_shop(tokenizer: str, sources: Path, counter: CounterName = "auto") -> BuildContext:
    """Open a workshop and make a row of each task: sources are read, their units counted."""
    shop = open_context(tokenizer, Library(sources, "real"), counter=counter)
    seconds(shop, 4096, 1)
    return shop


def seconds(shop: BuildContext, length: int, rows: int) -> float:
    """Return the CPU seconds of building all tasks at a length."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "config" / "rows.parquet"
        return cpu(lambda: [build(shop, task, length, rows, path) for task in TASKS.values()])


def by_length(shop: BuildContext, lengths: Sequence[int]) -> Figures:
    """Return the CPU time of a token at each length, and in that of the first length."""
    found: Figures = []
    for length in lengths:
        rows = max(TOKENS // length, 2)
        seconds(shop, length, 1)  # noise is repeated and needles are drawn as far as this takes
        token = 1e9 * seconds(shop, length, rows) / (len(TASKS) * rows * length)
        first = float(found[0]["ns a token"]) if found else token
        found.append(
            {"length": length, "rows": rows, "ns a token": token, "of the first": token / first}
        )
    return found


def by_rows(shop: BuildContext, length: int, rows: Sequence[int]) -> Figures:
    """Return the CPU time of a row for more and more rows."""
    found: Figures = []
    for many in rows:
        row = 1e3 * seconds(shop, length, many) / (len(TASKS) * many)
        first = float(found[0]["ms a row"]) if found else row
        found.append({"length": length, "rows": many, "ms a row": row, "of the first": row / first})
    return found


def by_tokenizer(
    names: Sequence[tuple[str, CounterName]], sources: Path, lengths: Sequence[int], rows: int
) -> Figures:
    """Return the CPU time of all tasks and lengths in each tokenizer, and in that of the first.

    All are built `TIMES` times, and the cheapest counts.
    """
    found: Figures = []
    for name, counter in names:
        shop = open_shop(name, sources, counter)
        passes = [sum(seconds(shop, length, rows) for length in lengths) for _ in range(TIMES)]
        spent = min(passes)
        first = float(found[0]["CPU s"]) if found else spent
        found.append({
            "tokenizer": shop.tokenizer_info.name, "counter": shop.tokenizer_info.engine,
            "CPU s": spent, "of the first": spent / first,
            "core-hours for 500 rows": spent / rows * 500 / 3600,
        })  # fmt: skip
    return found


def by_workers(
    tokenizer: str, sources: Path, lengths: Sequence[int], rows: int, workers: Sequence[int]
) -> Figures:
    """Return what whole commands take, start-up and audit and all, with each number of workers.

    Each is run `TIMES` times, in turn with the others, and the fastest counts. Memory is that of a
    build of `MEMORY_ROWS` of the greatest length, by itself. Last, as many commands of one worker
    at once as there were workers: what the machine gives to so many processes that have nothing to
    do with one another.
    """
    found: Figures = []

    def command(many: int, scratch: str, sizes: Sequence[int], each: int) -> list[str]:
        return [
            sys.executable, "-m", "ruler_builders", "build", "--tokenizer", tokenizer, "--sources",
            str(sources), "--lengths", ",".join(map(str, sizes)), "--rows", str(each), "--workers",
            str(many), "--out", f"{scratch}/out",
        ]  # fmt: skip

    def timed(many: int) -> Run:
        with tempfile.TemporaryDirectory() as scratch:
            return run(command(many, scratch, lengths, rows))

    def tell(what: str, took: Run, memory: float | str, builds: int = 1) -> None:
        first = float(found[0]["wall s"]) if found else took.wall
        found.append({
            "lengths": f"{lengths[0]:,} to {lengths[-1]:,}" if lengths[1:] else f"{lengths[0]:,}",
            "rows": rows, "what": what, "wall s": took.wall,
            "times as fast": builds * first / took.wall, "CPU s": took.cpu, "peak GB": memory,
        })  # fmt: skip

    runs = [[timed(many) for many in workers] for _ in range(TIMES)]
    for many, took in zip(workers, zip(*runs, strict=True), strict=True):
        with tempfile.TemporaryDirectory() as scratch:
            memory = peak(command(many, scratch, [max(lengths)], min(rows, MEMORY_ROWS))) / 1e9
        tell(f"workers: {many}", min(took, key=lambda one: one.wall), memory)
    if (many := max(workers)) > 1 and min(workers) == 1:
        before = spent()
        with ThreadPoolExecutor(many) as pool:
            each = list(pool.map(timed, [1] * many))
        whole = Run(max(one.wall for one in each), spent() - before)
        tell(f"builds at once, a worker each: {many}", whole, "-", many)
    return found
