"""Parquet files that anybody may have written: what a row group holds, by its pages' own headers.

Five kilobytes can hold ten gigabytes: a dictionary repeats one long value, neighbours share a
prefix, a list is as long as a number says. And what the footer states of sizes may be wrong. So the
header of each page is read first, in 20 µs: the bytes to which it is unpacked, the number of its
values and their encoding. pyarrow unpacks a page to exactly these bytes, or fails.

    page header (Thrift's compact protocol) | page | page header | page | ...
"""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ruler_data.untrusted.text import open_file

#: Most bytes of one row group, or of the rows that are decoded at once.
LARGEST = 1 << 29
#: Most bytes of all rows of a file whose rows are decoded a few at a time.
WHOLE = 1 << 34
#: Most bytes of a footer, which take 250 times as many in memory.
FOOTER = 1 << 20
#: Most values of a list's column in a row group; cwe has 30,000 spans in one.
LIST_VALUES = 1 << 20
#: Bytes that a value takes besides those of its page: levels, an offset or an index.
VALUE_BYTES = 16
#: Most rows that are decoded at once where a row group is not, and bytes of more than one.
ROWS, ROWS_BYTES = 64, 1 << 26
#: Encodings that are read: values as they are, runs of booleans, and numbers in a dictionary.
ENCODINGS = {0, 3, 2, 8}
#: Kinds of pages; of those with data, where the header has what is about it, and its encoding.
_DICTIONARY_PAGE, _DATA_PAGES = 2, {0: (5, 2), 3: (8, 4)}
#: Bytes of a page's header, which has the least and the largest value: first read, and at most.
_HEADER, _LARGEST_HEADER = 512, 1 << 16


class Pages(NamedTuple):
    """The pages of one column in a row group.

    Attributes:
        values: how many; nulls and empty lists count as one.
        plain: bytes of all pages but the dictionary's, once unpacked.
        page: bytes of the largest of them.
        longest: bytes of the longest value in the dictionary; 0 without one.
    """

    values: int
    plain: int
    page: int
    longest: int

    @property
    def whole(self) -> int:
        """Most bytes that the column takes once decoded."""
        return self.plain + self.values * (VALUE_BYTES + self.longest)


class ParquetRows:
    """A parquet file that only this thread reads; see `opened`."""

    def __init__(self, raw: BinaryIO, file: Any) -> None:  # noqa: ANN401 - pyarrow has no types
        self._raw, self._file = raw, file

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
        groups = map(self._file.metadata.row_group, range(self._file.num_row_groups))
        return list(accumulate((group.num_rows for group in groups), initial=0))

    @cached_property
    def _paths(self) -> dict[int, str]:
        """The leaves of the schema by number."""
        schema = self._file.schema
        return {number: schema.column(number).path for number in range(len(schema))}

    def group(self, number: int, columns: Sequence[str] | None = None) -> pa.Table:
        """Return a row group, if it is small enough to be decoded at once.

        Raises:
            ValueError: it is too large, or not what its footer states.
        """
        size = sum(pages.whole for pages, _ in self._measured(number, columns))
        if size > LARGEST:
            msg = f"row group {number} holds up to {size:,} bytes, more than {LARGEST:,}"
            raise ValueError(msg)
        return self._file.read_row_group(number, columns, use_threads=False)

    def groups(self, columns: Sequence[str] | None = None) -> Generator[pa.Table, None, None]:
        """Yield the row groups in order; see `group`."""
        for number in range(self._file.num_row_groups):
            yield self.group(number, columns)

    def batches(
        self, columns: Sequence[str] | None = None
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows in order, a few at a time, however large the file's row groups are.

        Raises:
            ValueError: a value or the file is too large, or not what its footer states.
        """
        whole = 0
        for number in range(self._file.num_row_groups):
            row_bytes = 0
            for pages, is_list in self._measured(number, columns):
                row_bytes += pages.whole if is_list else max(pages.page, pages.longest)
                whole += pages.whole
            if whole > WHOLE:
                msg = f"the file holds up to {whole:,} bytes, more than {WHOLE:,}; split it"
                raise ValueError(msg)
            if row_bytes > LARGEST:
                size = f"{row_bytes:,} bytes, more than {LARGEST:,}"
                msg = f"a row of row group {number} holds up to {size}"
                raise ValueError(msg)
            rows = min(ROWS, ROWS_BYTES // max(row_bytes, 1)) or 1
            yield from self._file.iter_batches(rows, [number], columns, use_threads=False)

    def _measured(
        self, number: int, columns: Sequence[str] | None
    ) -> Generator[tuple[Pages, bool], None, None]:
        """Yield the pages of each column in a row group, and whether its values are lists."""
        # Asked for a column whose footer contradicts itself, pyarrow aborts the process. Asked to
        # read no rows, it raises.
        leaves = {
            n: path for n, path in self._paths.items() if columns is None or _is_of(path, columns)
        }
        list(
            self._file.reader.iter_batches(0, [number], column_indices=[*leaves], use_threads=False)
        )
        group = self._file.metadata.row_group(number)
        rows = group.num_rows
        for leaf, path in leaves.items():
            chunk = group.column(leaf)
            pages = _read_pages(self._raw.fileno(), chunk, f"row group {number}: {path}")
            is_list = "." in path  # or a part of another value
            if not rows <= pages.values <= max(rows, LIST_VALUES if is_list else 0):
                msg = f"row group {number}: {path} holds {pages.values:,} values in {rows:,} rows"
                raise ValueError(msg)
            yield pages, is_list


def _is_of(path: str, columns: Sequence[str]) -> bool:
    """Whether a leaf of the schema is of one of the columns, as pyarrow selects them."""
    return any(path == name or path.startswith(f"{name}.") for name in columns)


@contextmanager
def opened(path: Path) -> Generator[ParquetRows, None, None]:
    """Open a parquet file, of which no more is decoded at once than fits.

    pyarrow is given an open file: it would interpret `~` and `file:` in a path. Its threads, which
    read ahead, are not used: one of them may outlive its reader and abort the process.

    Raises:
        ValueError: the footer is too large.
    """
    with open_file(path) as raw:
        size = os.fstat(raw.fileno()).st_size
        footer = int.from_bytes(os.pread(raw.fileno(), 4, max(size - 8, 0)), "little")
        if min(footer, size) > FOOTER:
            msg = f"the footer holds {footer:,} bytes, and at most {FOOTER:,} are read"
            raise ValueError(msg)
        options = {"page_checksum_verification": True, "pre_buffer": False}
        with pq.ParquetFile(raw, **options) as file:
            yield ParquetRows(raw, file)


def _read_pages(handle: int, chunk: Any, where: str) -> Pages:  # noqa: ANN401
    """Return the pages of a column chunk.

    Raises:
        ValueError: they are not as the footer states, or in an encoding that is not read.
    """
    starts = chunk.data_page_offset, chunk.dictionary_page_offset
    at = min(filter(None, starts), default=0)
    end = at + chunk.total_compressed_size
    values = plain = largest = longest = 0
    while at < end:
        header, begin = _read_header(handle, at, where)
        at = begin + header[3]
        if header[1] == _DICTIONARY_PAGE:
            longest = max(longest, _longest_value(handle, begin, header, chunk))
            continue
        place, encoding = _DATA_PAGES[header[1]]
        about = header[place]
        if about[encoding] not in ENCODINGS or about[1] < 0:
            remedy = "write it plain, or with a dictionary"
            msg = f"{where} has the encoding {about[encoding]} of parquet; {remedy}"
            raise ValueError(msg)
        values += about[1]
        plain += header[2]
        largest = max(largest, header[2])
    if at != end or values != chunk.num_values:
        msg = f"{where}: its pages are not those of the footer"
        raise ValueError(msg)
    return Pages(values, plain, largest, longest)


def _longest_value(handle: int, begin: int, header: dict[int, Any], chunk: Any) -> int:  # noqa: ANN401
    """Return the bytes of the longest value in a dictionary, or those of all where that will do."""
    size: int = header[2]
    is_small = size * chunk.num_values <= LARGEST >> 4
    is_large = max(size, header[3]) > LARGEST >> 4 or header[7][1] > LIST_VALUES
    if chunk.physical_type != "BYTE_ARRAY" or is_small or is_large:
        return size
    page = os.pread(handle, header[3], begin)
    if chunk.compression != "UNCOMPRESSED":
        page = pa.Codec(chunk.compression.lower()).decompress(page, size, asbytes=True)
    at = longest = 0
    while at < size:
        length = int.from_bytes(page[at : at + 4], "little")
        at, longest = at + 4 + length, max(longest, length)
    return longest


def _read_header(handle: int, at: int, where: str) -> tuple[dict[int, Any], int]:
    """Return the fields of a page's header by number, and where the page begins."""
    for size in (_HEADER, _LARGEST_HEADER):
        try:
            fields, length = _struct(os.pread(handle, size, at), 0)
        except IndexError:  # it is longer
            continue
        except ValueError:
            break
        if min(fields.get(2, -1), fields.get(3, -1)) >= 0 and 1 in fields:
            return fields, at + length
        break
    msg = f"{where}: the header of a page is damaged"
    raise ValueError(msg)


def _struct(data: bytes, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Return the fields of a structure in Thrift's compact protocol, and where it ends.

    Fields rise, so none occurs twice. Texts are skipped, and headers have no lists.

    Raises:
        IndexError: it is cut short.
        ValueError: it holds what no header has.
    """
    fields, number = dict[int, Any](), 0
    while head := data[at]:
        at, number, kind = at + 1, number + (head >> 4), head & 15
        if head < 16 or depth > 4:
            raise ValueError
        if kind in (5, 6):  # whole numbers
            if (value := data[at]) < 128:
                at += 1
            else:
                value, at = _varint(data, at)
            fields[number] = (value >> 1) ^ -(value & 1)
        elif kind in (1, 2):
            fields[number] = kind == 1
        elif kind == 8:
            length, at = _varint(data, at)
            at += length
        elif kind == 12:
            fields[number], at = _struct(data, at, depth + 1)
        else:
            raise ValueError
    return fields, at + 1


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of seven bits a byte, and where it ends."""
    value = shift = 0
    while (byte := data[at]) & 128:
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if shift > 63:
            raise ValueError
    return value | byte << shift, at + 1
