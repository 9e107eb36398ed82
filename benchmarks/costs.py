"""The cost of one task at one length: ours, and what there is to hold it against."""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import tokenizers
from clock import cpu, least
from upstream import Upstream

from ruler_builders.checks.audit_rows import audit_rows
from ruler_builders.pipeline.build_context import BuildContext
from ruler_builders.pipeline.fit import make_rows
from ruler_builders.pipeline.write_parquet import layout, write_rows
from ruler_data import TASKS, Row, Task
from ruler_data.parquet import (
    CONTEXT,
    SCHEMA,
    read_groups,
    read_packed,
    read_rows,
    row_at,
    to_table,
)

#: Times that everything but stock tokenizers and upstream is done; the cheapest counts.
TIMES = 3

#: Rows that stock tokenizers are given: all 500 of each config would take them half an hour.
STOCK_ROWS = 20


@dataclass(frozen=True)
class Cost:
    """CPU seconds of one task at one length, the least of `TIMES`, and the tokens of its rows.

    Attributes:
        ours: drawing, fitting, counting every finished prompt, writing, digest and all.
        audit: the checks of the finished file, solvers included.
        count: one count of every finished prompt by the counter that the build used.
        floor: writing the finished strings to the same parquet and nothing else.
        stock: one `encode_batch_fast` of every finished prompt, reckoned from the first
            `STOCK_ROWS` of them; None where it was not asked for.
        upstream: NVIDIA/RULER for as many rows, its start-up taken off; None where not measured.
    """

    task: str
    length: int
    rows: int
    tokens: int
    ours: float
    audit: float
    count: float
    floor: float
    stock: float | None
    upstream: float | None


def measure(
    shop: BuildContext, task: str, length: int, rows: int,
    stock: tokenizers.Tokenizer | None = None, upstream: Upstream | None = None,
) -> Cost:  # fmt: skip
    """Measure one task at one length; sources were read and their units counted before."""
    entry = TASKS[task]
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "config" / "rows.parquet"
        ours = least(lambda: build(shop, entry, length, rows, path), TIMES)
        audit = least(lambda: audit_rows(task, entry, length, read_packed(path)), TIMES)
        again = [grouped(path) for _ in range(TIMES)]  # a string remembers its UTF-8
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
        ours=ours,
        audit=audit,
        count=least(lambda: [shop.tokenizer.count_prompt(*part) for part in parts], TIMES),
        floor=floor,
        stock=cpu(lambda: stock.encode_batch_fast(prompts)) / share if stock else None,
        upstream=upstream.cost(task, length, rows) if upstream else None,
    )


def build(shop: BuildContext, task: Task, length: int, rows: int, path: Path) -> None:
    """Build one config as `ruler-data build` does, less its audit."""
    fitted = make_rows(task, shop.sources, range(rows), shop.target(length))
    write_rows(path, (one.row for one in fitted), task, length, rows)


def grouped(path: Path) -> list[tuple[list[Row], list[str]]]:
    """Return the rows of a file by row group, their contexts apart."""
    found = []
    for group in read_groups(path):
        rows = [row_at(group, place) for place in range(len(group))]
        found.append(([replace(row, context="") for row in rows], [row.context for row in rows]))
    return found


def write_plainly(groups: list[tuple[list[Row], list[str]]], task: Task, path: Path) -> None:
    """Write rows to the same parquet, without digest, hash or a word of safety."""
    with pq.ParquetWriter(path, SCHEMA, **layout(task)) as writer:
        for rows, contexts in groups:
            texts = pa.array(contexts, pa.string())
            table = to_table(rows).set_column(CONTEXT, SCHEMA.field(CONTEXT), texts)
            writer.write_table(table, row_group_size=len(rows))
