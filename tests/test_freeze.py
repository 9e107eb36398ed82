"""Freezing: rows in groups that streaming can start from."""

import gc
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ruler_builders.pipeline import build_dir as freeze
from ruler_builders.pipeline.build_dir import row_groups, write_rows
from ruler_data import TASKS, digest_rows
from ruler_data.dataset import checked_rows
from ruler_data.errors import UsageError
from ruler_data.parquet import read_rows, to_table
from tests.conftest import Builds
from tests.rows import make
from tests.tampering import manifest_of, question_digest, rows_of


def test_a_file_has_groups_of_a_hundred_rows_and_says_what_they_are(tmp_path: Path) -> None:
    rows = [replace(make("mistral", "vt", 0, 1024), index=index) for index in range(205)]
    path = tmp_path / "vt_1024" / "rows.parquet"
    info = write_rows(path, iter(rows), TASKS["vt"], 1024, len(rows))
    layout = pq.read_metadata(path)
    assert [layout.row_group(n).num_rows for n in range(layout.num_row_groups)] == [100, 100, 5]
    assert list(read_rows(path)) == rows
    assert (info.rows, info.digest) == (len(rows), digest_rows(rows))


def test_a_config_of_ten_thousand_rows_is_written_and_of_one_more_is_refused(
    tmp_path: Path,
) -> None:
    rows = [make("mistral", "vt", 0, 1024)]  # the number that is expected decides
    path = tmp_path / "vt_1024" / "rows.parquet"
    assert write_rows(path, rows, TASKS["vt"], 1024, 10_000).rows == 1
    with pytest.raises(UsageError, match="vt_1024: 10,001 rows; a config has 10,000 at most"):
        write_rows(path, rows, TASKS["vt"], 1024, 10_001)


def test_lengths_and_fills_are_of_the_shortest_row_the_longest_and_the_mean(tmp_path: Path) -> None:
    row = make("mistral", "vt", 0, 1024)
    rows = [
        replace(row, index=index, length=tokens) for index, tokens in enumerate((1000, 1020, 900))
    ]
    info = write_rows(tmp_path / "vt_1024" / "rows.parquet", rows, TASKS["vt"], 1024, 3)
    assert (info.length_min, info.length_mean, info.length_max) == (900, 973.333, 1020)
    assert (info.fill_min, info.fill_mean) == (0.878906, 0.950521)


@pytest.mark.parametrize("rows", [0, 205])
def test_an_interrupt_while_a_file_is_closed_is_all_that_is_said(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the writer's own end would say beside it, pytest takes for a failure."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pq.ParquetWriter, "close", interrupted)
    made = (replace(make("mistral", "vt", 0, 1024), index=index) for index in range(rows))
    with pytest.raises(KeyboardInterrupt):
        write_rows(tmp_path / "vt_1024" / "rows.parquet", made, TASKS["vt"], 1024, rows)
    gc.collect()
    assert not list((tmp_path / "vt_1024").iterdir())


def test_groups_of_long_rows_end_earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [replace(make("mistral", "vt", 0, 1024), index=index) for index in range(45)]
    text = len(rows[0].context)
    monkeypatch.setattr(freeze, "GROUP_BYTES", 20 * text)
    assert [len(group) for group in row_groups(rows)] == [20, 20, 5]
    monkeypatch.setattr(freeze, "GROUP_BYTES", text - 1)
    assert [len(group) for group in row_groups(rows[:3])] == [1, 1, 1]


def test_a_row_with_a_missing_value_is_named_by_its_place_in_the_file() -> None:
    rows = [replace(make("mistral", "vt", 0, 1024), index=index) for index in (100, 101)]
    table = to_table(rows)
    missing = table.set_column(5, table.field(5), [[None, rows[0].outputs]])
    with pytest.raises(ValueError, match="row 100: outputs has no value"):
        next(checked_rows(missing, 100, "vt_1024"))
    assert list(checked_rows(table, 100, "vt_1024")) == rows


#: That it holds for every task, `test_suite_rows` proves row by row.
SEVERAL = "vt,qa_1"


def test_tokenizers_and_lengths_ask_the_same_and_seeds_do_not(builds: Builds) -> None:
    folder = builds(SEVERAL, 2048, rows=2)
    first, other, longer, reseeded = (
        list(manifest_of(one).configs.values())
        for one in (
            folder,
            builds(SEVERAL, 2048, rows=2, tokenizer="mistral"),
            builds(SEVERAL, 4096, rows=2),
            builds(SEVERAL, 2048, rows=2, seed=7),
        )
    )
    assert len(first) == 2
    for place, info in enumerate(first):
        alike = (info, other[place], longer[place])
        assert len({one.question_digest for one in alike}) == 1
        assert len({one.digest for one in alike}) == 3
        name = info.file.partition("/")[0]
        assert info.question_digest == question_digest(rows_of(folder, name))
        assert reseeded[place].question_digest != info.question_digest
