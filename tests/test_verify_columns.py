"""`ruler-data verify` on forged columns: absent, of another type, with values left out."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from ruler_data.row import COLUMNS
from tests.conftest import Cli
from tests.tampering import copy_of, edit_table, must_find, table_of


def cast(column: str, to: pa.DataType) -> Callable[[pa.Table], pa.Table]:
    """Return the change of a column's type."""
    return lambda table: table.set_column(
        table.schema.get_field_index(column), column, table[column].cast(to)
    )


SPANS_64 = pa.list_(pa.struct([("start", pa.int64()), ("end", pa.int64())]))
TABLES: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "no index": (lambda table: table.drop_columns("index"), "index"),
    "no evidence": (lambda table: table.drop_columns("evidence"), "evidence"),
    "no columns": (lambda table: table.select([]), "columns"),
    "one more": (lambda table: table.append_column("note", table["task"]), "note"),
    "renamed": (lambda table: table.rename_columns({"outputs": "answers"}), "answers"),
    "other order": (lambda table: table.select(table.column_names[::-1]), "evidence"),
    "index in 64 bits": (cast("index", pa.int64()), "int64"),
    "length in words": (cast("length", pa.string()), "length: string"),
    "length in fractions": (cast("length", pa.float64()), "length: double"),
    "large strings": (cast("context", pa.large_string()), "large_string"),
    "bytes": (cast("context", pa.binary()), "context: binary"),
    "one answer": (
        lambda table: table.set_column(5, "outputs", table["task"]),
        "outputs: string",
    ),
    "spans in 64 bits": (cast("evidence", SPANS_64), "int64"),
    "no rows": (lambda table: table.slice(0, 0), "rows"),
}


@pytest.mark.parametrize("damage", TABLES)
def test_columns_that_are_not_the_contracts_are_named(
    damage: str, sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(sample_build, tmp_path)
    change, word = TABLES[damage]
    edit_table(copy, "vt_4096", change(table_of(copy, "vt_4096")))
    found = must_find(cli("verify", copy, "--tasks", "vt"), word)
    assert found[0].startswith("vt_4096")


ABSENT = {
    **{name: (name, None) for name in COLUMNS},
    "an answer": ("outputs", [None]),
    "a span": ("evidence", [None]),
    "where a span starts": ("evidence", [{"start": None, "end": 9}]),
}


@pytest.mark.parametrize("absent", ABSENT)
def test_an_absent_value_is_named(
    absent: str, sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(sample_build, tmp_path)
    table = table_of(copy, "vt_4096")
    column, value = ABSENT[absent]
    records = table.to_pylist()
    records[3][column] = records[5][column] = value
    schema = pa.schema([field.with_nullable(True) for field in table.schema])
    edit_table(copy, "vt_4096", pa.Table.from_pylist(records, schema))
    said = f"row 3: {column} has no value"
    found = must_find(cli("verify", copy, "--tasks", "vt"), said)
    assert all(line.startswith("vt_4096") for line in found)
