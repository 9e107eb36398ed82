"""`ruler_data.load`: rows by config, from a folder or the Hub, checked before they are read."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import ruler_builders
from ruler_data import TASKS, RulerError, UsageError, load
from ruler_data.dataset import Rows
from ruler_data.hub.download import Snapshot
from ruler_data.parquet import SCHEMA, to_table
from tests.conftest import Builds
from tests.tampering import (
    MANIFEST,
    copy_of,
    edit_table,
    file_of,
    manifest_of,
    rows_of,
    sealed,
    table_of,
)

VT = "vt_1024"


@pytest.fixture(scope="module")
def folder(builds: Builds) -> Path:
    return builds("vt,fwe")


def test_rows_are_those_of_the_file_and_name_themselves(folder: Path) -> None:
    rows, expected = load(folder, VT), rows_of(folder, VT)
    assert [row.to_record() for row in rows] == [row.to_record() for row in expected]
    assert [row.id for row in rows] == ["vt_1024/0", "vt_1024/1", "vt_1024/2"]
    assert rows[1].prompt == expected[1].context + expected[1].question + expected[1].answer_prefix
    assert len(rows) == 3 and rows[-1] == rows[2] and rows[1:] == [rows[1], rows[2]]
    assert rows[-3] == rows[0]
    assert rows[0] in rows and next(reversed(rows)) == rows[2]
    assert list(rows) == expected, "whether or not they know their config"
    for beyond in (3, -4):
        with pytest.raises(IndexError):
            rows[beyond]


def test_without_a_config_all_configs_come_by_name(folder: Path) -> None:
    dataset = load(str(folder))
    assert list(dataset) == [VT, "fwe_1024"] and len(dataset) == 2
    assert "fwe_1024" in dataset and "fwe_2048" not in dataset and dataset.get("fwe_2048") is None
    assert {name: len(rows) for name, rows in dataset.items()} == {VT: 3, "fwe_1024": 3}
    assert dataset.manifest == manifest_of(folder)
    with pytest.raises(KeyError):
        dataset["vt_2048"]


def test_a_row_is_found_in_whichever_row_group_it_is(folder: Path, tmp_path: Path) -> None:
    copy = copy_of(folder, tmp_path)
    edit_table(copy, VT, table_of(copy, VT))
    rows = load(copy, VT)
    expected = rows_of(copy, VT)
    with pq.ParquetWriter(copy / file_of(VT), SCHEMA, write_page_checksum=True) as writer:
        for part in (expected[:1], [], expected[1:]):
            writer.write_table(to_table(part))
    assert [rows[at].to_record() for at in (2, 0, 1)] == [
        expected[at].to_record() for at in (2, 0, 1)
    ]


def test_records_and_views_are_for_people_and_their_tables(folder: Path) -> None:
    rows = load(folder, VT)
    first, *_ = rows.to_records()
    assert list(first) == ["id", *SCHEMA.names] and first["id"] == "vt_1024/0"
    assert repr(rows) == f"<Rows vt_1024: 3 rows of {folder}>"
    assert repr(load(folder)) == f"<Dataset {folder}: vt_1024, fwe_1024>"
    for thing in (rows[0], load(folder).manifest):
        assert "vt_1024" in repr(thing) and "\n" not in repr(thing)


def test_one_flipped_bit_is_refused_before_a_row_is_read(folder: Path, tmp_path: Path) -> None:
    copy = copy_of(folder, tmp_path)
    path = copy / file_of(VT)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(RulerError, match="refused: sha256 expected"):
        load(copy, VT)
    dataset = load(copy)
    assert len(dataset["fwe_1024"]) == 3
    with pytest.raises(RulerError, match="refused: sha256 expected"):
        dataset[VT]
    path.unlink()
    with pytest.raises(RulerError, match="cannot be read: No such file"):
        load(copy, VT)


def test_a_manifest_cannot_make_one_of_the_thirteen_another_task(folder: Path) -> None:
    manifest = manifest_of(folder)
    manifest.tasks["vt"] = TASKS["cwe"]
    assert manifest.table["vt"] == TASKS["vt"]


def test_rows_that_are_not_in_their_place_are_refused(folder: Path, tmp_path: Path) -> None:
    copy = copy_of(folder, tmp_path)
    edit_table(copy, VT, table_of(copy, VT).take([0, 2, 1]))
    rows = load(copy, VT)
    assert rows[0].index == 0
    for read in (lambda: rows[1], lambda: list(rows)):
        with pytest.raises(RulerError, match="vt_1024: row 1 is not in its place; verify the data"):
            read()


@pytest.mark.parametrize(
    ("source", "config", "revision", "said"),
    [
        (None, "vt_2048", None, "^'vt_2048' is not in .*; did you mean vt_1024; it has vt_1024, f"),
        (None, "qa", None, "'qa' is not in [^;]*; it has vt_1024, fwe_1024$"),
        (None, None, "v1.0.0", "is a folder and has no revisions"),
        ("org/ruler", None, None, "give a revision, e.g. v1.0.0"),
        ("", None, None, "not a Hub repo either"),
        ("./nowhere", None, "v1.0.0", "not a Hub repo either"),
    ],
)
def test_what_cannot_be_loaded_is_refused_in_one_line(
    source: str | None, config: str, revision: str | None, said: str, folder: Path
) -> None:
    with pytest.raises(UsageError, match=said) as error:
        load(source or folder if source is None else source, config, revision)
    assert "\n" not in str(error.value)


def test_a_mistyped_folder_is_told_with_the_dataset_beside_it(folder: Path, tmp_path: Path) -> None:
    copy_of(folder, tmp_path).rename(tmp_path / "llama3")
    with pytest.raises(UsageError, match="no such folder; did you mean llama3 in ") as error:
        load(tmp_path / "llama")
    assert "\n" not in str(error.value)
    with pytest.raises(UsageError, match="no such folder; not a Hub repo either"):
        load(tmp_path / "unlike")


def test_a_folder_may_be_given_from_home(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    copy = copy_of(folder, tmp_path)
    assert repr(load(f"~/{copy.name}")) == f"<Dataset {copy}: vt_1024, fwe_1024>"


def test_only_configs_asked_for_are_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[list[str]] = []
    release = Snapshot("org/ruler", "v1.0.0", "0" * 40, folder, manifest_of(folder))
    monkeypatch.setattr("ruler_data.hub.download.open_release", lambda *_: release)
    monkeypatch.setattr(Snapshot, "fetch", lambda _, configs: fetched.append(list(configs)))
    dataset = load("org/ruler", revision="v1.0.0")
    assert fetched == [] and VT in dataset
    assert isinstance(dataset[VT], Rows) and fetched == [[VT]]
    assert repr(dataset[VT]) == "<Rows vt_1024: 3 rows of org/ruler v1.0.0>"


def written_by_a_later_version(folder: Path, tmp_path: Path, **changes: Any) -> Path:  # noqa: ANN401
    """Return a copy of a folder with a field that is not known here, and other changes."""
    copy = copy_of(folder, tmp_path)
    body = json.loads((copy / MANIFEST).read_text(encoding="utf-8"))
    body |= {"later": {"of": ["any", "kind"]}, **changes}
    body["configs"][VT]["later"] = 1
    (copy / MANIFEST).write_text(sealed(body), encoding="utf-8")
    return copy


def test_fields_of_a_later_version_are_ignored_and_its_card_is_not_proved(
    folder: Path, tmp_path: Path
) -> None:
    copy = written_by_a_later_version(folder, tmp_path, package_version="1.7.0")
    assert len(load(copy, VT)) == 3
    report = ruler_builders.verify(copy)
    assert report.exit_status == 3, report.findings
    assert set(report.unproved) == set(manifest_of(copy).files)
    assert "pip install 'ruler-data==1.7.0'" in report.notes[0]


def test_of_a_later_format_it_is_said_which_version_reads_it(folder: Path, tmp_path: Path) -> None:
    copy = written_by_a_later_version(folder, tmp_path, format=2, package_version="7.1.0")
    for read in load, ruler_builders.verify:
        with pytest.raises(UsageError, match=r"of version '7\.1\.0' .* pip install -U") as error:
            read(copy)
        assert "\n" not in str(error.value)
