"""`ruler-data verify` on files: clean folders pass, damaged files are named."""

import hashlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ruler_data import TASKS
from tests.conftest import Cli
from tests.tampering import copy_of, edit_file, file_of, flip, must_find

VT = file_of("vt_4096")
CUTS: dict[str, Callable[[int], int]] = {
    "vt_4096": lambda size: 0,
    "cwe_4096": lambda size: 1,
    "fwe_4096": lambda size: size // 2,
    "qa_1_4096": lambda size: size - 8,  # only the length of the footer and the magic are gone
    "qa_2_4096": lambda size: size - 1,
}


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def as_built(folder: Path, _: Path) -> Path:
    return folder


def copied(folder: Path, elsewhere: Path) -> Path:
    shutil.copytree(folder, elsewhere / "a b", ignore=shutil.ignore_patterns(".build"))
    return elsewhere / "a b"


def linked(folder: Path, elsewhere: Path) -> Path:
    """A snapshot in the Hub's cache: real folders, and every file a link to a blob."""
    copy = copy_of(folder, elsewhere)
    for path in [path for path in copy.rglob("*") if path.is_file()]:
        path.unlink()
        path.symlink_to(folder / path.relative_to(copy))
    return copy


def downloaded(folder: Path, elsewhere: Path) -> Path:
    """A folder with what the Hub's clients leave beside the files."""
    copy = copy_of(folder, elsewhere)
    (copy / ".gitattributes").write_text("*.parquet filter=lfs\n", encoding="ascii")
    (copy / ".cache" / "huggingface").mkdir(parents=True)
    (copy / ".cache" / "huggingface" / "CACHEDIR.TAG").touch()
    return copy


@pytest.mark.parametrize("place", [as_built, copied, linked, downloaded])
def test_a_clean_folder_passes_wherever_it_lies(
    place: Callable[[Path, Path], Path], sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    done = cli("verify", place(sample_build, tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "proved; 13 configs, 78 rows" in done.stdout
    assert done.stderr == ""


@pytest.mark.slow
def test_verifying_changes_nothing(sample_build: Path, tmp_path: Path, cli: Cli) -> None:
    copy = copy_of(sample_build, tmp_path)
    before = contents(copy)
    assert cli("verify", copy, "--tasks", "vt,fwe", "--workers", 2).returncode == 0
    assert contents(copy) == before


def test_findings_are_json_on_request_and_still_fail(
    sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(sample_build, tmp_path)
    (copy / VT).unlink()
    done = cli("verify", copy, "--json")
    must_find(done)
    assert json.loads(done.stdout)["findings"] == [f"{VT}: missing"]
    assert json.loads(done.stdout)["clean"] is False


def test_truncated_files_are_named(sample_build: Path, tmp_path: Path, cli: Cli) -> None:
    copy = copy_of(sample_build, tmp_path)
    words = []
    for config, cut in CUTS.items():
        path = copy / file_of(config)
        whole = path.read_bytes()
        left = whole[: cut(len(whole))]
        path.write_bytes(left)
        words += [
            f"{file_of(config)}: sha256 expected {hashlib.sha256(whole).hexdigest()}, "
            f"found {hashlib.sha256(left).hexdigest()}",
            f"{file_of(config)}: bytes expected {len(whole)}, found {len(left)}",
        ]
    found = must_find(cli("verify", copy), *words)
    named = {line.partition(":")[0] for line in found}
    assert named == {file_of(config) for config in CUTS}


@pytest.mark.parametrize("seed", range(2))
def test_a_flipped_bit_in_each_config_is_named(
    seed: int, sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(sample_build, tmp_path)
    rng = random.Random(seed)
    for task in TASKS:
        path = copy / file_of(f"{task}_4096")
        data = path.read_bytes()
        path.write_bytes(flip(data, rng.randrange(len(data)), rng.randrange(8)))
    hashes = [
        f"{file_of(f'{task}_4096')}: sha256 expected "
        f"{hashlib.sha256((sample_build / file_of(f'{task}_4096')).read_bytes()).hexdigest()}"
        for task in TASKS
    ]
    must_find(cli("verify", copy), *hashes)


@pytest.mark.parametrize("seed", range(2))
def test_a_flipped_bit_of_the_rows_is_found_though_every_hash_was_repaired(
    seed: int, sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(sample_build, tmp_path)
    rng = random.Random(seed)
    flipped = [f"{task}_4096" for task in TASKS]
    for config in flipped:
        path = copy / file_of(config)
        with pq.ParquetFile(path) as file:
            context = file.metadata.row_group(0).column(2)
        end = context.data_page_offset + context.total_compressed_size
        place = rng.randrange(end - context.total_compressed_size // 4, end)
        edit_file(copy, config, flip(path.read_bytes(), place, rng.randrange(8)))
    found = must_find(cli("verify", copy), *map(file_of, flipped))
    assert not [line for line in found if "sha256" in line]
