"""Freezing: rows in groups that streaming can start from."""

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ruler_builders import freeze
from ruler_builders.freeze import row_groups, write_rows
from ruler_data import TASKS, digest_rows
from ruler_data.parquet import read_rows
from tests.rows import make


def test_a_file_has_groups_of_a_hundred_rows_and_says_what_they_are(tmp_path: Path) -> None:
    rows = [replace(make("mistral", "vt", 0, 1024), index=index) for index in range(205)]
    path = tmp_path / "vt_1024" / "rows.parquet"
    info = write_rows(path, iter(rows), TASKS["vt"], 1024, len(rows))
    layout = pq.read_metadata(path)
    assert [layout.row_group(n).num_rows for n in range(layout.num_row_groups)] == [100, 100, 5]
    assert list(read_rows(path)) == rows
    assert (info.rows, info.digest) == (len(rows), digest_rows(rows))


def test_groups_of_long_rows_end_earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [replace(make("mistral", "vt", 0, 1024), index=index) for index in range(45)]
    text = len(rows[0].context)
    monkeypatch.setattr(freeze, "GROUP_BYTES", 20 * text)
    assert [len(group) for group in row_groups(rows)] == [20, 20, 5]
    monkeypatch.setattr(freeze, "GROUP_BYTES", text - 1)
    assert [len(group) for group in row_groups(rows[:3])] == [1, 1, 1]
