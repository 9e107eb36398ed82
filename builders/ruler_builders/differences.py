"""In what two files of a dataset differ, in words: by row, column, field or line."""

import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from ruler_data.names import quote
from ruler_data.parquet import SCHEMA, opened, read_packed
from ruler_data.row import PackedRow, serialize

#: How pyarrow names itself in a file.
WRITER = re.compile(r"parquet-cpp-arrow version (\d+(?:\.\d+){1,3})")
#: Characters of a text before its first difference.
BEFORE = 20
#: Characters of a text in all.
SHOWN = 60


def pyarrow_of(path: Path) -> str:
    """Return the version of pyarrow that a file says to be written by; empty for anything else."""
    with opened(path) as file:
        match = WRITER.fullmatch(file.metadata.created_by or "")
    if match is None:
        return ""
    return match[1]


def check_columns(path: Path) -> None:
    """Raise ValueError if a file has other columns than rows have."""
    with opened(path) as file:
        schema = file.metadata.schema.to_arrow_schema()
    expected = [(field.name, field.type) for field in SCHEMA]
    actual = [(field.name, field.type) for field in schema]
    if actual != expected:
        raise ValueError(f"columns expected {_columns(expected)}, found {_columns(actual)}")


def _columns(fields: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{name}: {kind}" for name, kind in fields)


def row_differences(name: str, path: Path, made: Path, rows: int | None) -> Iterator[str]:
    """Yield how the rows of a config's file differ from those made: all, or the first `rows`."""
    with closing(read_packed(path)) as rows_there, closing(read_packed(made)) as rows_made:
        pairs = islice(zip_longest(rows_there, rows_made), rows)
        for place, (row, row_made) in enumerate(pairs):
            if row is None:
                yield f"{name}/{place}: is missing"
            elif row_made is None:
                yield f"{name}/{place}: no build makes it"
            elif difference := _row_difference(row, row_made):
                yield f"{name}/{row.index}: {difference}"


def _row_difference(row: PackedRow, made: PackedRow) -> str:
    """Return the first column in which two rows differ, and its values; empty if in none."""
    if serialize(row) == serialize(made) and row.haystack == made.haystack:
        return ""
    columns_made = made.unpack().to_record()
    for name, value in row.unpack().to_record().items():
        value_made = columns_made[name]
        if value == value_made:
            continue
        if isinstance(value, str) and isinstance(value_made, str):
            start = max(_first_difference(value, value_made) - BEFORE, 0)
            value = value[start : start + SHOWN]
            value_made = value_made[start : start + SHOWN]
        return f"{name} is {value!r:.200}, made again {value_made!r:.200}"
    return "other bytes than the row made again"


def _first_difference(text: str, other: str) -> int:
    """Return the place of the first character in which two unequal texts differ."""
    pairs = enumerate(zip_longest(text, other))
    return next(place for place, (a, b) in pairs if a != b)


def container_difference(path: Path, made: Path) -> str:
    """Return in what a parquet file of the right rows is not the file that was made."""
    with opened(path) as file, opened(made) as file_made:
        metadata = file.metadata.to_dict()
        metadata_made = file_made.metadata.to_dict()
    for place, value, value_made in unequal_values(metadata, metadata_made):
        text = quote(str(value), 90)
        text_made = quote(str(value_made), 90)
        return f"{'.'.join(place)} expected {text_made}, found {text}"
    return "other bytes between or in its pages"


def unequal_values(actual: Any, expected: Any, *place: str) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401 - JSON
    """Yield where two parsed texts differ, and both values."""
    if isinstance(actual, list) and isinstance(expected, list) and len(actual) == len(expected):
        actual = _numbered(actual)
        expected = _numbered(expected)
    if isinstance(actual, dict) and isinstance(expected, dict):
        for key in {**actual, **expected}:
            yield from unequal_values(actual.get(key), expected.get(key), *place, key)
    elif actual != expected:
        yield place, actual, expected


def _numbered(values: list[Any]) -> dict[str, Any]:
    return {str(place): value for place, value in enumerate(values)}


def line_difference(actual: bytes, expected: bytes) -> str:
    """Return the first line in which two texts differ; empty if in none."""
    lines = zip_longest(actual.split(b"\n"), expected.split(b"\n"), fillvalue=b"nothing")
    for number, (line, line_expected) in enumerate(lines, 1):
        if line != line_expected:
            text = quote(line.decode(errors="replace"))
            text_expected = quote(line_expected.decode(errors="replace"))
            return f"line {number}: expected {text_expected}, found {text}"
    return ""
