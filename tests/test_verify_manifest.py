"""`ruler-data verify` where there is no manifest that can be read: one line says so."""

from pathlib import Path

import pytest

from ruler_builders.pipeline.build_dir import STATE
from ruler_data import DATA_VERSION
from tests.commands import one_line
from tests.conftest import Cli
from tests.tampering import MANIFEST, copy_of, must_find, retype_manifest

UNREADABLE: dict[str, bytes] = {
    "empty": b"",
    "not JSON": b"seed: 42\n",
    "cut short": b'{"format": 1, "digest": "sha256:',
    "not UTF-8": b'{"suite": "caf\xe9"}',
    "UTF-16": '{"format": 1}'.encode("utf-16"),
    "NUL bytes": b"\0" * 4096,
    "a list": b"[]",
    "a number": b"1",
    "null": b"null",
    "an empty object": b"{}",
    "another format": b'{"format": 2}',
    "configs in a list": b'{"format": 1, "digest": "", "data_version": "1.0.0", "configs": []}',
    "an endless number": b'{"format": ' + b"1" * 5000 + b"}",
    "nested too deep": b"[" * 200_000,
}


@pytest.mark.parametrize("damage", UNREADABLE)
def test_a_manifest_that_cannot_be_read_is_named(
    damage: str, sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(sample_build, tmp_path)
    (copy / MANIFEST).write_bytes(UNREADABLE[damage])
    must_find(cli("verify", copy), MANIFEST)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"suite": "ruler"', r'"suite": "\ud800"'),
        ('"seed": 42', '"seed": NaN'),
        ('"seed": 42', '"seed": 42, "unknown": 1'),
        ('"seed": 42', '"seed": 7, "seed": 42'),
        ('"rows": 6', '"rows": 6, "unknown": 1'),
        (f'"data_version": "{DATA_VERSION}",', ""),
    ],
)
def test_a_manifest_with_odd_values_is_named(
    before: str, after: str, sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(sample_build, tmp_path)
    retype_manifest(copy, before, after)
    must_find(cli("verify", copy), MANIFEST)


def test_a_folder_without_a_manifest_is_not_finished(
    sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(sample_build, tmp_path)
    (copy / MANIFEST).unlink()
    must_find(cli("verify", copy), MANIFEST, "not finished")


@pytest.mark.parametrize("name", ["nowhere", "file", "new\nline"])
def test_what_is_no_folder_is_refused_as_usage(name: str, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "file").touch()
    done = cli("verify", tmp_path / name)
    assert done.returncode == 2
    assert "no such folder" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_folder_that_was_never_a_build_is_told_from_one_that_is_not_finished(
    tmp_path: Path, cli: Cli
) -> None:
    (tmp_path / "notes").mkdir()
    said = one_line(cli("verify", tmp_path / "notes"), 1)
    assert "is not the folder of a build" in said and "not finished" not in said
    (tmp_path / "begun" / STATE).mkdir(parents=True)
    assert "the build is not finished" in one_line(cli("verify", tmp_path / "begun"), 1)
