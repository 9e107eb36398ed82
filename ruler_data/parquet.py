"""The parquet files of a dataset: their schema, and how rows become tables and are read back."""

import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from io import SEEK_END
from itertools import accumulate, pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ruler_data.row import NO_SPANS, PackedRow, Row, utf8

#: What is raised by reading a file that is damaged or holds something other than rows.
UNREADABLE = (pa.ArrowException, OSError, KeyError, TypeError, ValueError, AttributeError)

_TYPES = {
    "index": pa.int32(),
    "task": pa.string(),
    "context": pa.string(),
    "question": pa.string(),
    "answer_prefix": pa.string(),
    "outputs": pa.list_(pa.string()),
    "max_new_tokens": pa.int32(),
    "length": pa.int32(),
    "evidence": pa.list_(pa.struct([("start", pa.int32()), ("end", pa.int32())])),
}
SCHEMA = pa.schema([pa.field(name, kind, nullable=False) for name, kind in _TYPES.items()])

#: Position of the long column, which is read and written as UTF-8, and names of the others.
CONTEXT = SCHEMA.names.index("context")
SHORT = [name for name in SCHEMA.names if name != "context"]
SHORT_VALUES = attrgetter(*SHORT)


class TableBuilder:
    """Collects rows into a table.

    Each context is copied into one buffer, so the row's own memory can be used for the next row.
    That is cheaper than allocating new memory from the system for each row.
    """

    def __init__(self, room: int) -> None:
        """Start a table whose contexts have at most `room` bytes in all."""
        self._buffer = pa.allocate_buffer(room)
        self._edges = [0]
        self._rows: list[tuple[Any, ...]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def has_room(self, text: bytes | memoryview) -> bool:
        """Whether the buffer has room for a context."""
        return bool(self._edges[-1] + len(text) <= self._buffer.size)

    def add(self, row: Row | PackedRow, text: bytes | memoryview) -> None:
        """Add the next row, with its context in UTF-8.

        Raises:
            ValueError: there is no room for the context.
        """
        start, end = self._edges[-1], self._edges[-1] + len(text)
        memoryview(self._buffer).cast("B")[start:end] = text
        self._edges.append(end)
        self._rows.append(SHORT_VALUES(row))

    def table(self) -> pa.Table:
        """Return the rows so far as a table that shares the buffer.

        Raises:
            ValueError: a packed row's context is not UTF-8.
        """
        *plain, evidence = list(zip(*self._rows, strict=True)) or [()] * len(SHORT)
        columns = [pa.array(values, SCHEMA.field(SHORT[n]).type) for n, values in enumerate(plain)]
        buffers = [None, pa.py_buffer(np.array(self._edges, dtype=np.int32)), self._buffer]
        columns.insert(CONTEXT, pa.BinaryArray.from_buffers(pa.binary(), len(self), buffers))
        columns.append(_spans(evidence))
        # Casting bytes to a string checks that they are UTF-8.
        return pa.Table.from_arrays(
            [column.cast(field.type) for column, field in zip(columns, SCHEMA, strict=True)],
            schema=SCHEMA,
        )


def _spans(evidence: Sequence[Any]) -> pa.ListArray:
    """Return a column of spans, built in one step because cwe has 300 per row."""
    spans = np.concatenate(
        [NO_SPANS, *(np.array(spans, dtype=np.int64).reshape(-1, 2) for spans in evidence)]
    )
    pairs = pa.StructArray.from_arrays(
        [pa.array(side, pa.int32()) for side in spans.T],
        fields=list(SCHEMA.field("evidence").type.value_type),
    )
    ends = accumulate(map(len, evidence), initial=0)
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pairs)


def to_table(rows: Sequence[Row | PackedRow]) -> pa.Table:
    """Return rows as a table; see `TableBuilder`."""
    texts = [utf8(row.context) for row in rows]
    builder = TableBuilder(sum(map(len, texts)))
    for row, text in zip(rows, texts, strict=True):
        builder.add(row, text)
    return builder.table()


def read_rows(path: Path) -> Generator[Row, None, None]:
    """Yield the rows of a file in order, checking the checksum of every page."""
    with closing(read_packed(path)) as rows:
        for row in rows:
            yield row.unpack()


def read_packed(path: Path) -> Generator[PackedRow, None, None]:
    """Yield the rows of a file as `read_rows` does, but packed."""
    first, missing = 0, list[str]()
    with closing(read_groups(path)) as groups:
        for group in groups:
            missing += gaps(group, first)
            if not missing:
                yield from packed_rows(group)
            first += len(group)
    if missing:
        msg = f"{missing[0]} (rows without a value: {len(missing)} of {first})"
        raise ValueError(msg)


def read_groups(path: Path) -> Generator[pa.Table, None, None]:
    """Yield the row groups of a file in order, checking the checksum of every page."""
    with opened(path) as file:
        for group in range(file.num_row_groups):
            yield file.read_row_group(group, use_threads=False)


def gaps(group: pa.Table, first: int) -> list[str]:
    """Return what each row lacks that has a gap; the row group begins with row `first`."""
    found: dict[int, str] = {}
    for batch in group.select(SCHEMA.names).to_batches():
        for name, values in zip(SCHEMA.names, batch.columns, strict=True):
            for place in range(len(values)) if _has_nulls(name, values) else ():
                if _has_nulls(name, values.slice(place, 1)):
                    found.setdefault(first + place, name)
        first += len(batch)
    return [f"row {row}: {name} has no value" for row, name in sorted(found.items())]


def packed_rows(group: pa.Table) -> Generator[PackedRow, None, None]:
    """Yield the rows of a row group without `gaps`; see `UNREADABLE` for one of other columns.

    Contexts are converted one by one, since all at once would block other threads for a quarter of
    a second.
    """
    for batch in group.select(SCHEMA.names).to_batches():
        *plain, evidence = batch.columns
        texts = plain.pop(CONTEXT).cast(pa.binary())
        sides = [evidence.flatten().field(side).to_numpy() for side in ("start", "end")]
        pairs = np.stack(sides, axis=1).astype(np.int64)
        ends = np.cumsum(evidence.value_lengths()).tolist()
        spans = (pairs[start:end] for start, end in pairwise([0, *ends]))
        values = zip(texts, *(column.to_pylist() for column in plain), spans, strict=True)
        for text, index, task, question, prefix, outputs, budget, length, own in values:
            context = text.as_buffer().to_pybytes()
            yield PackedRow(
                index, task, context, question, prefix, tuple(outputs), budget, length, own
            )


def _has_nulls(name: str, values: pa.Array) -> bool:
    """Whether a value of a column is missing, or a part of one."""
    parts = [values]
    if name in ("outputs", "evidence"):
        parts.append(values.flatten())
    if name == "evidence":
        parts += parts[-1].flatten()
    return any(part.null_count for part in parts)


#: Bytes of one row group, decoded; the builder's hold 40 MB of text, or one longer row.
LARGEST_GROUP = 1 << 29
#: Bytes of the header of a page; its statistics are most of it.
LARGEST_HEADER = 1 << 16

#: Types of fields in Thrift's compact protocol: integers of 32 and 64 bits, lists, structs.
_I32, _I64, _LIST, _STRUCT = 5, 6, 9, 12
#: Fields of a file's footer: its row groups, of these the columns, of these the description.
_ROW_GROUPS, _COLUMNS, _COLUMN = (_LIST, 4), (_LIST, 1), (_STRUCT, 3)
#: Fields of a column's description: values, bytes, and where data and a dictionary begin.
_VALUES, _BYTES, _DATA_AT, _DICTIONARY_AT = (_I64, 5), (_I64, 7), (_I64, 9), (_I64, 11)
#: Fields of the header of a page: bytes decoded and in the file, and a page that is a dictionary.
_SIZE, _PACKED, _DICTIONARY = (_I32, 2), (_I32, 3), (_STRUCT, 7)
#: For both versions of a page of values, its field in the header, and there the field of its
#: encoding. Two encodings refer to a dictionary; one repeats the beginning of the previous value.
_ENCODINGS, _CODED, _REPEATING = {(_STRUCT, 5): (_I32, 2), (_STRUCT, 8): (_I32, 4)}, (2, 8), 7
#: Before 1.3, parquet-mr stated wrong sizes, and readers read on behind the end of a column.
_OLD_WRITER = re.compile(r"parquet-mr(?! version (1\.([3-9]|\d\d)|[2-9]))", re.IGNORECASE)


def _check_sizes(file: pq.ParquetFile, raw: BinaryIO, in_batches: bool) -> None:
    """Refuse a file that would fill the memory: a small one can hold gigabytes.

    The footer is read here, because asking pyarrow for a column's description aborts the process
    where the description contradicts itself.

    Raises:
        ValueError: a row group is too large, or for a file that is read in batches, a page.
    """
    if _OLD_WRITER.search(file.metadata.created_by or ""):
        msg = f"written by {file.metadata.created_by}; write it again with a newer version"
        raise ValueError(msg)
    raw.seek(-8, SEEK_END)
    length = int.from_bytes(raw.read(4), "little")
    raw.seek(-8 - length, SEEK_END)
    footer = raw.read(length)
    kinds = [file.schema.column(place).physical_type for place in range(len(file.schema))]
    try:
        for number, group in enumerate(_struct(footer)[0][_ROW_GROUPS]):
            columns = zip(group[_COLUMNS], kinds, strict=False)
            sizes = [
                size for column, kind in columns for size in _pages(raw, column[_COLUMN], kind)
            ]
            size = max(sizes, default=0) if in_batches else sum(sizes)
            if size > LARGEST_GROUP:
                msg = f"row group {number} holds up to {size:,} bytes, more than {LARGEST_GROUP:,}"
                raise ValueError(msg)
    except (IndexError, KeyError) as error:
        msg = "its footer, or the header of a page, is damaged"
        raise ValueError(msg) from error


def _pages(raw: BinaryIO, column: dict[tuple[int, int], Any], kind: str) -> Iterator[int]:
    """Yield the bytes that reading each page of a column may take.

    Readers go by the headers of pages; the footer of the file may claim less. A dictionary is
    counted as often as there are values, since reading writes out each of them.
    """
    at, first, dictionary = column[_DATA_AT], column.get(_DICTIONARY_AT, 0), 0
    at = first if 0 < first < at else at
    end = at + column[_BYTES] if column[_VALUES] else at  # then none is read
    while at < end:
        raw.seek(at)
        header, used = _struct(raw.read(LARGEST_HEADER))
        size, packed = header[_SIZE], header[_PACKED]
        if size < 0 or packed < 0:
            msg = "a page has a negative size"
            raise ValueError(msg)
        at += used + packed
        most = size
        for version in header.keys() & _ENCODINGS.keys():
            values, encoding = header[version][_I32, 1], header[version][_ENCODINGS[version]]
            repeated = {**dict.fromkeys(_CODED, dictionary), _REPEATING: size}.get(encoding, 0)
            is_text = kind in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
            most = max(most, 16 * values, repeated * values * is_text)  # 16: levels, and a number
        if _DICTIONARY in header:
            dictionary = size
        yield most


def _struct(data: bytes, at: int = 0, depth: int = 0) -> tuple[dict[tuple[int, int], Any], int]:
    """Return the fields of a struct by type and number, and where it ends.

    As in other readers, a field of another type than its number should have is another field.
    Texts, fractions and truth values are left out.

    Format: https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md

    Raises:
        IndexError: it is cut off, or has a field that no footer and no header of a page has.
    """

    def integer() -> int:
        nonlocal at
        value = shift = 0
        while shift < 64:
            value |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128:
                return value
        raise IndexError(value)

    def value(kind: int) -> Any:  # noqa: ANN401 - an integer, a list or a struct
        nonlocal at
        if kind in (4, _I32, _I64):
            bits = integer() & (1 << (64 if kind == _I64 else 32)) - 1
            return bits >> 1 ^ -(bits & 1)
        if kind == 8:  # text
            length = integer()
            at += length
        elif kind == _LIST:
            head, at = data[at], at + 1
            size = integer() if head >> 4 == 15 else head >> 4
            if size > len(data):
                raise IndexError(size)
            # A truth value in a list takes a byte; a byte is type 3, and a fraction 7.
            return [value(3 if head & 15 < 3 else head & 15) for _ in range(size)]
        elif kind == _STRUCT:
            fields, at = _struct(data, at, depth + 1)
            return fields
        elif kind in (3, 7):
            at += 1 if kind == 3 else 8
        else:
            raise IndexError(kind)
        return None

    fields, number = dict[tuple[int, int], Any](), 0
    while kind := data[at] & 15:
        step, at = data[at] >> 4, at + 1
        number += step
        if not step or number > 31 or depth > 7:
            raise IndexError(number)
        fields[kind, number] = value(kind) if kind > 2 else None  # not true or false
    return fields, at + 1


@contextmanager
def opened(path: Path, *, in_batches: bool = False) -> Iterator[pq.ParquetFile]:
    """Open a file that only this thread reads: a row group at a time, or in batches of some rows.

    `pq.read_table` starts threads that read ahead. One of them may outlive its reader, and aborts
    the process if it exits meanwhile.
    """
    # Opened by Python, because pyarrow would interpret `~` and `file:` in a path.
    with (
        path.open("rb") as raw,
        pq.ParquetFile(raw, page_checksum_verification=True, pre_buffer=False) as file,
    ):
        _check_sizes(file, raw, in_batches)
        yield file
