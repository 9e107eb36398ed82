"""The parquet files of a dataset: their schema, where they lie, and how their rows are read."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import accumulate
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ruler_data.names import config_file
from ruler_data.row import NO_SPANS, PackedRow, Row

__all__ = [
    "SCHEMA", "UNREADABLE", "config_file", "packed_at", "read_columns", "read_groups",
    "read_packed", "read_rows", "row_at", "to_table",
]  # fmt: skip

#: What reading a file raises that is damaged, or that holds something else than rows.
UNREADABLE = (pa.ArrowException, OSError, KeyError, TypeError, ValueError, AttributeError)

SCHEMA = pa.schema(
    [
        pa.field("index", pa.int32(), nullable=False),
        pa.field("task", pa.string(), nullable=False),
        pa.field("context", pa.string(), nullable=False),
        pa.field("question", pa.string(), nullable=False),
        pa.field("answer_prefix", pa.string(), nullable=False),
        pa.field("outputs", pa.list_(pa.string()), nullable=False),
        pa.field("max_new_tokens", pa.int32(), nullable=False),
        pa.field("length", pa.int32(), nullable=False),
        pa.field(
            "evidence",
            pa.list_(pa.struct([("start", pa.int32()), ("end", pa.int32())])),
            nullable=False,
        ),
    ]
)

#: Where the long column stands, which is read and written as UTF-8.
CONTEXT = SCHEMA.names.index("context")


def to_table(rows: Sequence[Row | PackedRow]) -> pa.Table:
    """Return rows as a table, made column by column, since cwe has 300 spans a row.

    Raises:
        ValueError: a packed row's context is not UTF-8.
    """
    columns = [_column(rows, field) for field in list(SCHEMA)[:-1]]
    spans = np.concatenate(
        [NO_SPANS, *(np.array(row.evidence, dtype=np.int64).reshape(-1, 2) for row in rows)]
    )
    pairs = pa.StructArray.from_arrays(
        [pa.array(side, pa.int32()) for side in spans.T],
        fields=list(SCHEMA.field("evidence").type.value_type),
    )
    ends = accumulate((len(row.evidence) for row in rows), initial=0)
    evidence = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pairs)
    return pa.Table.from_arrays(
        [*columns, evidence.cast(SCHEMA.field("evidence").type)], schema=SCHEMA
    )


def _column(rows: Sequence[Row | PackedRow], field: pa.Field) -> pa.Array:
    values = [getattr(row, field.name) for row in rows]
    if field.name != "context":
        return pa.array(values, field.type)
    # A packed row's is in UTF-8 already; the cast checks that it is.
    return pa.array(values, pa.binary()).cast(field.type)


def read_rows(path: Path) -> Generator[Row, None, None]:
    """Yield the rows of a file in order, checking the checksum of every page."""
    with closing(read_groups(path)) as groups:
        for group in groups:
            for place in range(len(group)):
                yield row_at(group, place)


def read_groups(path: Path) -> Generator[pa.Table, None, None]:
    """Yield the row groups of a file in order, checking the checksum of every page."""
    with _opened(path) as file:
        for group in range(file.num_row_groups):
            yield file.read_row_group(group, use_threads=False)


def read_packed(path: Path) -> Generator[PackedRow, None, None]:
    """Yield the rows of a file as `read_rows` does, their texts left in UTF-8."""
    with closing(read_groups(path)) as groups:
        for group in groups:
            for place in range(len(group)):
                yield packed_at(group, place)


def row_at(group: pa.Table, place: int) -> Row:
    """Return the row at a place of a row group.

    One by one as they are asked for: a group's rows made at once keep other threads from the
    interpreter for a quarter of a second.

    Raises:
        ValueError: a value is absent; see `UNREADABLE` for a table of other columns.
    """
    return packed_at(group, place).unpack()


def packed_at(group: pa.Table, place: int) -> PackedRow:
    """Return the row at a place of a row group, its text left in UTF-8; see `row_at`."""
    *plain, evidence = (group.column(name)[place] for name in SCHEMA.names)
    text = plain[CONTEXT].as_buffer()
    values = [value.as_py() for column, value in enumerate(plain) if column != CONTEXT]
    spans = evidence.values
    sides = [spans.field(side) for side in ("start", "end")]
    index, task, question, prefix, outputs, room, length = values
    lacking = text is None or None in values or None in outputs
    if lacking or any(part.null_count for part in (spans, *sides)):
        msg = f"row {place} of its group lacks a value"
        raise ValueError(msg)
    pairs = np.stack([side.to_numpy() for side in sides], axis=1).astype(np.int64)
    return PackedRow(
        index, task, text.to_pybytes(), question, prefix, tuple(outputs), room, length, pairs
    )


def read_columns(path: Path, columns: list[str]) -> pa.Table:
    """Return columns of a file as a table, checking the checksum of every page."""
    with _opened(path) as file:
        return file.read(columns=columns, use_threads=False)


@contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a file to be read by this thread alone.

    A thread of pyarrow's that reads ahead, as `pq.read_table` starts some, may outlive its reader,
    and aborts a process that ends meanwhile.
    """
    # Opened here, since pyarrow takes `~` and `file:` in a path for more than they are.
    with (
        path.open("rb") as raw,
        pq.ParquetFile(raw, page_checksum_verification=True, pre_buffer=False) as file,
    ):
        yield file
