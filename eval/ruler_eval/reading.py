"""Rows read from a config's file one by one: each in its place, or the file is called spoilt."""

from collections.abc import Collection, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa

from ruler_data.errors import RulerError
from ruler_data.parquet import SCHEMA, UNREADABLE, read_columns, read_groups, row_at
from ruler_data.row import Row

#: Rows that are held to be sorted.
ALIKE = 100


@dataclass(frozen=True)
class Size:
    """What a row costs, read without its text.

    Attributes:
        length: tokens of the prompt as its tokenizer counts it, room for the answer included.
        max_new_tokens: tokens that the answer may take.
    """

    length: int
    max_new_tokens: int


def read(path: Path, config: str, rows: int) -> Generator[Row, None, None]:
    """Yield the first rows of a file, in order.

    Raises:
        RulerError: the file cannot be read, or rows are not where they belong.
    """
    with _readable(config), closing(_places(path, config, rows)) as places:
        for _, group, place in places:
            yield _row(group, place)


def read_alike(
    path: Path, config: str, rows: int, indices: Collection[int]
) -> Generator[Row, None, None]:
    """Yield those of a file's first rows that are asked, `ALIKE` at a time sorted by their text.

    Those that begin alike follow one another, and a prefix cache that holds no more than the last
    row saves as much as one without limit.

    Raises:
        RulerError: the file cannot be read, or rows are not where they belong.
    """
    with _readable(config), closing(_places(path, config, rows)) as places:
        wanted = ((group, place) for index, group, place in places if index in indices)
        while held := list(islice(wanted, ALIKE)):
            for group, place in sorted(held, key=_text):
                yield _row(group, place)


def read_sizes(path: Path, config: str, rows: int) -> list[Size]:
    """Return what each of the first rows costs.

    Raises:
        RulerError: the file cannot be read, or holds fewer rows.
    """
    columns = ["length", "max_new_tokens"]
    with _readable(config):
        table = read_columns(path, columns)
        found = [Size(*map(int, pair)) for pair in zip(*map(table.column, columns), strict=True)]
    if len(found) < rows:
        raise _spoilt(config, f"it holds only {len(found)} rows")
    return found[:rows]


def _places(path: Path, config: str, rows: int) -> Generator[tuple[int, pa.Table, int], None, None]:
    """Yield the index of each row, the row group that it is in, and its place there."""
    end = 0
    with closing(read_groups(path)) as groups:
        for group in groups:
            table = group.select(SCHEMA.names).cast(SCHEMA)
            for place, index in enumerate(table["index"].to_pylist()[: rows - end]):
                if index != end:
                    raise _spoilt(config, f"row {end} is not in its place")
                yield index, table, place
                end += 1
            if end == rows:
                return
    raise _spoilt(config, f"row {end} is not in its place")


def _row(group: pa.Table, place: int) -> Row:
    row = row_at(group, place)
    if not row.outputs:
        msg = f"row {row.index} has no golden answer"
        raise ValueError(msg)
    return row


def _text(where: tuple[pa.Table, int]) -> bytes:
    """Return a row's context in UTF-8, whose order is that of its characters."""
    group, place = where
    text: bytes = group["context"][place].as_buffer().to_pybytes()
    return text


@contextmanager
def _readable(config: str) -> Iterator[None]:
    """Say of which config it is that a file cannot be read, or holds something else than rows."""
    try:
        yield
    except UNREADABLE as error:
        reason = (str(error).splitlines() or [""])[0]
        what = f"cannot be read ({type(error).__name__}: {reason})"
        raise _spoilt(config, what) from error


def _spoilt(config: str, what: str) -> RulerError:
    return RulerError(f"{config}: {what}; verify the data")
