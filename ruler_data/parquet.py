"""The parquet files of a dataset: their schema, and how rows become tables and are read back."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import accumulate, chain, pairwise, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ruler_data.files import open_file
from ruler_data.row import COLUMNS, PackedRow, Row, Span, Utf8, utf8

#: What is raised by reading a file that is damaged or holds something other than rows. A lack of
#: memory is not among it.
UNREADABLE = (
    pa.lib.ArrowCapacityError,
    pa.lib.ArrowIndexError,
    pa.lib.ArrowNotImplementedError,
    pa.lib.ArrowSerializationError,
    OSError,
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
)

_SPAN = pa.struct([("start", pa.int32()), ("end", pa.int32())])
_TYPES = {
    "index": pa.int32(),
    "task": pa.string(),
    "context": pa.string(),
    "question": pa.string(),
    "answer_prefix": pa.string(),
    "outputs": pa.list_(pa.string()),
    "max_new_tokens": pa.int32(),
    "length": pa.int32(),
    "evidence": pa.list_(_SPAN),
    "haystack": _SPAN,
}
SCHEMA = pa.schema(
    [pa.field(name, kind, nullable=name == "haystack") for name, kind in _TYPES.items()]
)
#: In the metadata of every file and on every card, so that a training corpus can be searched for
#: benchmark data.
CANARY = "ruler-data canary 7d0c6a1e-52b4-4f0e-9a53-c1f6b8d2e947: benchmark data, not for training"
#: Evidence of a row that has none.
NO_SPANS: NDArray[np.int64] = np.zeros((0, 2), dtype=np.int64)
NO_SPANS.setflags(write=False)


def texts_array(texts: Iterable[str | Utf8]) -> pa.StringArray:
    """Return texts as an array.

    `pa.array` looks whether Python values are of pandas, and imports it: a fifth of a second of
    each build.

    Raises:
        ValueError: bytes are not UTF-8.
    """
    encoded = [utf8(text) for text in texts]
    array = cut_text(b"".join(encoded), np.cumsum([*map(len, encoded)], dtype=np.int64))
    array.validate(full=True)
    return array


def cut_text(text: bytes, ends: NDArray[np.int64]) -> pa.StringArray:
    """Return the pieces of a text, which end at these bytes, as an array; nothing is copied."""
    edges = np.concatenate([[0], ends]).astype(np.int32)
    return pa.StringArray.from_buffers(len(ends), pa.py_buffer(edges), pa.py_buffer(text))


def int_array(values: NDArray[np.integer[Any]] | Sequence[int]) -> pa.Int32Array:
    """Return integers of 32 bits as an array; see `texts_array`."""
    data = pa.py_buffer(np.ascontiguousarray(values, dtype=np.int32))
    return pa.Int32Array.from_buffers(pa.int32(), len(values), [None, data])


def integers(array: pa.Array) -> NDArray[np.int64]:
    """Return an array of integers without gaps as numpy's; `to_numpy` imports pandas."""
    return np.from_dlpack(array).astype(np.int64)


def to_table(rows: Sequence[Row | PackedRow]) -> pa.Table:
    """Return rows as a table.

    Raises:
        ValueError: a packed row's context is not UTF-8.
    """
    columns = []
    for name, kind in _TYPES.items():
        values = [getattr(row, name) for row in rows]
        if kind == pa.string():
            columns.append(texts_array(values))
        elif kind == pa.int32():
            columns.append(int_array(values))
        elif name == "evidence":
            columns.append(_span_lists_array(values))
        elif name == "haystack":
            columns.append(_spans_array(values))
        else:
            ends = np.cumsum([0, *map(len, values)])
            texts = texts_array(chain.from_iterable(values))
            columns.append(pa.ListArray.from_arrays(int_array(ends), texts))
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _span_lists_array(values: Sequence[Any]) -> pa.ListArray:
    """Return the spans of rows as an array, in one step, because cwe has 300 a row."""
    spans = [np.array(value, dtype=np.int64).reshape(-1, 2) for value in values]
    ends = np.cumsum([0, *map(len, spans)])
    starts_and_ends = np.concatenate([NO_SPANS, *spans]).T
    pairs = pa.StructArray.from_arrays([*map(int_array, starts_and_ends)], fields=[*_SPAN])
    return pa.ListArray.from_arrays(int_array(ends), pairs)


def _spans_array(values: Sequence[Span | None]) -> pa.StructArray:
    """Return one span of each row, or none, as an array."""
    pairs = np.array([value or (0, 0) for value in values]).reshape(-1, 2)
    is_there = np.array([value is not None for value in values], bool)
    validity = pa.py_buffer(np.packbits(is_there, bitorder="little"))
    children = [int_array(side) for side in pairs.T]
    return pa.Array.from_buffers(_SPAN, len(values), [validity], children=children)


def conformed(table: pa.Table, columns: Sequence[str] = SCHEMA.names) -> pa.Table:
    """Return rows in columns of the types that are published.

    Raises:
        KeyError: a column is missing.
        ArrowInvalid: a column has another type.
    """
    table = table.select(columns)
    schema = pa.schema([SCHEMA.field(name) for name in columns])
    if table.schema.equals(schema):
        return table
    return table.cast(schema)


#: Rows that are decoded at once of a file whose row groups anybody may have made.
BATCH_ROWS = 64


class ParquetRows:
    """A parquet file that only this thread reads; see `opened`."""

    def __init__(self, file: Any) -> None:  # noqa: ANN401 - pyarrow has no types
        self._file = file

    @property
    def metadata(self) -> Any:  # noqa: ANN401 - pyarrow has no types
        """What the footer states."""
        return self._file.metadata

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self._file.schema_arrow.names)

    @property
    def starts(self) -> list[int]:
        """Index of the first row of each row group, and the number of rows."""
        numbers = range(self._file.num_row_groups)
        sizes = (self._file.metadata.row_group(number).num_rows for number in numbers)
        return list(accumulate(sizes, initial=0))

    def group(self, number: int, columns: Sequence[str] | None = None) -> pa.Table:
        """Return a row group."""
        return self._file.read_row_group(number, columns, use_threads=False)

    def groups(self, columns: Sequence[str] | None = None) -> Generator[pa.Table, None, None]:
        """Yield the row groups in order."""
        for number in range(self._file.num_row_groups):
            yield self.group(number, columns)

    def batches(self) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows in order, a few at a time, however large the file's row groups are."""
        yield from self._file.iter_batches(BATCH_ROWS, use_threads=False)


@contextmanager
def opened(path: Path) -> Generator[ParquetRows, None, None]:
    """Open a parquet file; the checksum of every page is checked as it is read.

    pyarrow is given an open file: it would interpret `~` and `file:` in a path. Its threads, which
    read ahead, are not used: one of them may outlive its reader and abort the process.
    """
    with open_file(path) as raw:
        options = {"page_checksum_verification": True, "pre_buffer": False}
        with pq.ParquetFile(raw, **options) as file:
            yield ParquetRows(file)


def read_groups(path: Path) -> Generator[pa.Table, None, None]:
    """Yield the row groups of a file in order, checking the checksum of every page."""
    with opened(path) as file:
        yield from file.groups()


def read_rows(path: Path) -> Generator[Row, None, None]:
    """Yield the rows of a file in order, checking the checksum of every page."""
    with closing(read_packed(path)) as rows:
        for row in rows:
            yield row.unpack()


def read_packed(path: Path) -> Generator[PackedRow, None, None]:
    """Yield the rows of a file as `read_rows` does, but packed."""
    first = 0
    with closing(read_groups(path)) as groups:
        for group in groups:
            yield from packed_rows(group, first)
            first += len(group)


def check_filled(group: pa.Table, first: int) -> None:
    """Raise ValueError if a value is missing in a row group, which begins with row `first`."""
    for name in SCHEMA.names:
        if name == "haystack" or name not in group.column_names:
            continue
        if any(map(_has_nulls, group[name].chunks)):
            column = group[name].combine_chunks()
            place = next(at for at in range(len(column)) if _has_nulls(column.slice(at, 1)))
            raise ValueError(f"row {first + place}: {name} has no value")


def _has_nulls(values: pa.Array) -> bool:
    """Whether a value is missing, or a part of one."""
    if values.null_count or not isinstance(values, pa.ListArray | pa.StructArray):
        return bool(values.null_count)
    if isinstance(values, pa.StructArray):
        return any(map(_has_nulls, values.flatten()))
    return _has_nulls(values.flatten())


def packed_rows(group: pa.Table, first: int) -> Generator[PackedRow, None, None]:
    """Yield the rows of a row group, which begins with row `first`.

    A column or a value that is missing raises one of `UNREADABLE`. Contexts are converted one by
    one: all at once would block other threads for a quarter of a second.
    """
    check_filled(group, first)
    for batch in conformed(group).to_batches():
        columns = dict(zip(SCHEMA.names, batch.columns, strict=True))
        texts = columns.pop("context").cast(pa.binary())
        evidence = columns.pop("evidence")
        spans = np.stack([integers(evidence.flatten().field(side)) for side in (0, 1)], axis=1)
        edges = _edges(evidence)
        haystacks = columns.pop("haystack").to_pylist()
        rows = zip(*(column.to_pylist() for column in columns.values()), strict=True)
        plain = (dict(zip(columns, row, strict=True)) for row in rows)
        for text, values, (start, end), span in zip(texts, plain, edges, haystacks, strict=True):
            values["outputs"] = tuple(values["outputs"])
            context = memoryview(text.as_buffer())
            haystack = None
            if span:
                haystack = Span(int(span["start"]), int(span["end"]))
            yield PackedRow(**values, context=context, evidence=spans[start:end], haystack=haystack)


def _edges(lists: pa.ListArray) -> Iterator[tuple[int, int]]:
    """Return where the items of each list begin and end among all of them."""
    ends = np.cumsum(integers(lists.value_lengths()))
    return pairwise([0, *ends.tolist()])


def rows_without_context(task: str, table: pa.Table) -> Iterator[Row]:
    """Return the rows of a table that has no contexts, and evidence only where it is asked for."""
    columns = {name: table[name] for name in table.column_names}
    spans: Iterable[tuple[Span, ...]] = repeat(())
    if "evidence" in columns:
        evidence = columns.pop("evidence").combine_chunks()
        sides = [evidence.flatten().field(side).to_pylist() for side in (0, 1)]
        pairs = [*map(Span, *sides)]
        spans = (tuple(pairs[start:end]) for start, end in _edges(evidence))
    values: dict[str, Any] = {}
    values |= {"task": repeat(task), "context": repeat(""), "haystack": repeat(None)}
    values |= {name: column.to_pylist() for name, column in columns.items()}
    values["outputs"] = map(tuple, values["outputs"])
    values["haystack"] = (span and Span(**span) for span in values["haystack"])
    values["evidence"] = spans
    return map(Row, *(values[name] for name in COLUMNS))
