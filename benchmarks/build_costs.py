"""The cost of one task at one length, and how cost grows with length, rows and workers."""

import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import tokenizers
from measuring import Run, cpu, least, peak, run
from upstream import Upstream

from ruler_builders.checks.row_check import row_findings
from ruler_builders.pipeline.build_context import BuildContext, open_context
from ruler_builders.pipeline.fit import make_rows
from ruler_builders.pipeline.plan import BuildPlan
from ruler_builders.pipeline.write_parquet import parquet_options, write_rows
from ruler_data import TASKS, Row, Task
from ruler_data.parquet import (
    SCHEMA,
    packed_rows,
    read_groups,
    read_rows,
    to_table,
)
from ruler_data.suites import RULER
from ruler_data.tokenizers.counters import CounterName

#: Lines of a table: heading -> value.
Figures = list[dict[str, str | float]]

#: Rows of a config whose memory is measured: some row groups.
MEMORY_ROWS = 200

#: Tokens of each task at each length of `by_length`, so that all are measured over as much text.
TOKENS = 2**21

#: Repetitions of everything except stock tokenizers and upstream; the minimum counts.
TIMES = 3

#: Rows for stock tokenizers: 500 of each config would take half an hour.
STOCK_ROWS = 20


@dataclass(frozen=True)
class Cost:
    """CPU seconds of one task at one length, the least of `TIMES`, and the tokens of its rows.

    Attributes:
        build: drawing, fitting, counting every finished prompt, writing, digest and all.
        audit: the checks of the finished file, solvers included.
        count: one count of every finished prompt by the counter that the build used.
        floor: writing the finished strings to the same parquet and nothing else.
        stock: one `encode_batch_fast` of every finished prompt, extrapolated from
            the first `STOCK_ROWS` of them; None if not measured.
        upstream: NVIDIA/RULER for as many rows, without its start-up; None if not measured.
    """

    task: str
    length: int
    rows: int
    tokens: int
    build: float
    audit: float
    count: float
    floor: float
    stock: float | None
    upstream: float | None


def measure(
    context: BuildContext, task: str, length: int, rows: int,
    stock: tokenizers.Tokenizer | None = None, upstream: Upstream | None = None,
) -> Cost:  # fmt: skip
    """Measure one task at one length; sources have been read and counted before."""
    entry = TASKS[task]
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "config" / "rows.parquet"
        spent_building = least(lambda: build(context, entry, length, rows, path), TIMES)
        audit = least(lambda: check(entry, length, path), TIMES)
        again = [grouped(path) for _ in range(TIMES)]  # a string caches its UTF-8
        floor = least(lambda: write_plainly(again.pop(), entry, path), TIMES)
        made = list(read_rows(path))
    parts = [(row.context + row.question, row.answer_prefix) for row in made]
    prompts = [row.prompt for row in made[:STOCK_ROWS]]
    share = len(prompts) / len(made)
    return Cost(
        task=task,
        length=length,
        rows=rows,
        tokens=sum(row.length for row in made),
        build=spent_building,
        audit=audit,
        count=least(lambda: [context.tokenizer.count_prompt(*part) for part in parts], TIMES),
        floor=floor,
        stock=cpu(lambda: stock.encode_batch_fast(prompts)) / share if stock else None,
        upstream=upstream.cost(task, length, rows) if upstream else None,
    )


def build(context: BuildContext, task: Task, length: int, rows: int, path: Path) -> None:
    """Build one config as `ruler-data build` does, without its audit."""
    made = make_rows(task, context.sources, range(rows), context.target(length))
    write_rows(path, made, task, length, rows)


def check(task: Task, length: int, path: Path) -> None:
    """Check every row of a config as a build does."""
    for place, row in enumerate(read_rows(path)):
        assert not [*row_findings(task, length, place, row)]


def grouped(path: Path) -> list[tuple[list[Row], list[str]]]:
    """Return the rows of a file by row group, their contexts apart."""
    found = []
    for group in read_groups(path):
        rows = [row.unpack() for row in packed_rows(group)]
        found.append(([replace(row, context="") for row in rows], [row.context for row in rows]))
    return found


def write_plainly(groups: list[tuple[list[Row], list[str]]], task: Task, path: Path) -> None:
    """Write rows to the same parquet, without digest, hash or checks."""
    with pq.ParquetWriter(path, SCHEMA, **parquet_options(task)) as writer:
        for rows, contexts in groups:
            texts = pa.array(contexts, pa.string())
            table = to_table(rows).set_column(
                SCHEMA.get_field_index("context"), SCHEMA.field("context"), texts
            )
            writer.write_table(table, row_group_size=len(rows))


def warm_context(tokenizer: str, sources: Path, counter: CounterName = "auto") -> BuildContext:
    """Open a build context and make a row of each task, so that sources are read and counted."""
    context = open_context(
        BuildPlan(
            tokenizer, RULER, Path(), 42, sources=sources, sources_kind="real", counter=counter
        )
    )
    seconds(context, 4096, 1)
    return context


def seconds(context: BuildContext, length: int, rows: int) -> float:
    """Return the CPU seconds of building all tasks at a length."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "config" / "rows.parquet"
        return cpu(lambda: build_all(context, length, rows, path))


def build_all(context: BuildContext, length: int, rows: int, path: Path) -> None:
    """Build one config of every task, each in place of the one before."""
    for task in TASKS.values():
        build(context, task, length, rows, path)


def by_length(context: BuildContext, lengths: Sequence[int]) -> Figures:
    """Return the CPU time of a token at each length, and relative to the first length."""
    found: Figures = []
    for length in lengths:
        rows = max(TOKENS // length, 2)
        seconds(context, length, 1)  # sources are repeated up to this length
        token = 1e9 * seconds(context, length, rows) / (len(TASKS) * rows * length)
        first = float(found[0]["ns a token"]) if found else token
        found.append(
            {"length": length, "rows": rows, "ns a token": token, "relative": token / first}
        )
    return found


def by_rows(context: BuildContext, length: int, rows: Sequence[int]) -> Figures:
    """Return the CPU time of a row for growing numbers of rows."""
    found: Figures = []
    for many in rows:
        row = 1e3 * seconds(context, length, many) / (len(TASKS) * many)
        first = float(found[0]["ms a row"]) if found else row
        found.append({"length": length, "rows": many, "ms a row": row, "relative": row / first})
    return found


def by_tokenizer(names: Sequence[str], sources: Path, lengths: Sequence[int], rows: int) -> Figures:
    """Return the CPU time of all tasks and lengths in each tokenizer, and relative to the first.

    The first is also built with stock tokenizers as the counter. Each is built `TIMES` times; the
    minimum counts.
    """
    found: Figures = []
    counters: list[tuple[str, CounterName]] = [(name, "auto") for name in names]
    for name, counter in (*counters, (names[0], "tokenizers")):
        context = warm_context(name, sources, counter)
        passes = [sum(seconds(context, length, rows) for length in lengths) for _ in range(TIMES)]
        spent = min(passes)
        first = float(found[0]["CPU s"]) if found else spent
        found.append({
            "tokenizer": context.tokenizer_info.name, "counter": context.tokenizer_info.engine,
            "CPU s": spent, "relative": spent / first,
            "core-hours for 500 rows": spent / rows * 500 / 3600,
        })  # fmt: skip
    return found


def by_workers(
    tokenizer: str, sources: Path, lengths: Sequence[int], rows: int, workers: Sequence[int]
) -> Figures:
    """Return the cost of whole commands, start-up and audit included, for each number of workers.

    Each is run `TIMES` times, in turn with the others, and the fastest counts. Memory is measured
    in a separate build of `MEMORY_ROWS` of the greatest length. The last line is the limit of the
    machine: as many independent commands of one worker at once as there were workers.
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

    def add(what: str, took: Run, memory: float | str, builds: int = 1) -> None:
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
        add(f"workers: {many}", min(took, key=lambda one: one.wall), memory)
    if (many := max(workers)) > 1 and min(workers) == 1:
        with ThreadPoolExecutor(many) as pool:
            each = list(pool.map(timed, [1] * many))
        whole = Run(max(one.wall for one in each), sum(one.cpu for one in each))
        add(f"independent builds at once: {many}", whole, "-", many)
    return found
