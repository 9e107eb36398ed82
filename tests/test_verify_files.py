"""`ruler-data verify` on the folder and its manifest: what is missing, extra, renamed, edited."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ruler_data.manifest import FileInfo
from tests.conftest import Cli
from tests.tampering import (
    MANIFEST,
    copy_of,
    edit_config,
    edit_manifest,
    file_of,
    manifest_of,
    must_find,
    retype_manifest,
)

VT = file_of("vt_4096")
#: Make the rows of one task again: what is damaged is no other.
ONE = ("--tasks", "vt")
SHARD = "vt_4096/test-00001-of-00002.parquet"


def edit_card(folder: Path) -> None:
    with (folder / "README.md").open("a", encoding="utf-8") as card:
        card.write("better than before\n")


def put_folder(folder: Path) -> None:
    (folder / VT).unlink()
    (folder / VT).mkdir()


def put_dangling_link(folder: Path) -> None:
    (folder / VT).unlink()
    (folder / VT).symlink_to("nowhere")


def leave_build(folder: Path) -> None:
    (folder / ".build").mkdir()
    (folder / ".build" / "manifest.json").write_text("{}", encoding="ascii")


def no_utf8(folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9")).touch()


DAMAGES: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "no card": (lambda folder: (folder / "README.md").unlink(), ["README.md: missing"]),
    "no licences": (lambda folder: (folder / "LICENSES.md").unlink(), ["LICENSES.md: missing"]),
    "no rows": (lambda folder: (folder / VT).unlink(), [f"{VT}: missing"]),
    "no folder": (lambda folder: shutil.rmtree(folder / "vt_4096"), [f"{VT}: missing"]),
    "a card edited": (edit_card, ["README.md: sha256 expected", "README.md: line "]),
    "a file too many": (lambda folder: (folder / "notes.txt").touch(), ["notes.txt: not in"]),
    "a shard too many": (
        lambda folder: shutil.copy(folder / VT, folder / SHARD),
        [f"{SHARD}: not in the manifest"],
    ),
    "a file renamed": (
        lambda folder: (folder / VT).rename(folder / SHARD),
        [f"{VT}: missing", f"{SHARD}: not in the manifest"],
    ),
    "a folder renamed": (
        lambda folder: (folder / "vt_4096").rename(folder / "vt_8192"),
        [f"{VT}: missing", f"{file_of('vt_8192')}: not in the manifest"],
    ),
    "a folder for a file": (put_folder, [f"{VT}: missing"]),
    "a dangling link": (put_dangling_link, [f"{VT}: missing"]),
    "a folder linked in": (
        lambda folder: (folder / "more").symlink_to(folder / "vt_4096"),
        ["more"],
    ),
    "a build left over": (leave_build, [".build: left by an unfinished build"]),
    "a name on two lines": (lambda folder: (folder / "a\nb").touch(), ["a\\nb"]),
    "a name in no encoding": (no_utf8, ["caf"]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_missing_extra_renamed_or_edited_file_is_named(
    damage: str, sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(sample_build, tmp_path)
    act, words = DAMAGES[damage]
    act(copy)
    # Its output is strict UTF-8 (`call`), which has no half characters.
    found = must_find(cli("verify", copy, *ONE), *words)
    assert len(found) == len(words)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"seed": 42', '"seed": 43'),
        ('"digest": "sha256:', '"digest": "sha256:0'),
        ('"licence": "CC0-1.0"', '"licence": "MIT"'),
    ],
)
def test_an_edit_of_the_manifest_that_repairs_nothing_is_noticed(
    before: str, after: str, sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(sample_build, tmp_path)
    retype_manifest(copy, before, after)
    must_find(cli("verify", copy, *ONE), MANIFEST, "edited after it was written")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rows", 7),  # of each other field, the mutation test of `test_verify_attacks`
        ("file", "vt_4096.parquet"),
        ("file", f"../copy/{VT}"),
        ("file", "vt_4096/a\0b"),
        ("file", 5),
        ("rows", "6"),
        ("bytes", None),
        ("length_min", [1]),
    ],
)
def test_a_value_of_a_config_that_its_file_does_not_bear_out_is_named(
    field: str, value: object, sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    """The manifest's own digest is repaired, so only the file can tell."""
    copy = copy_of(sample_build, tmp_path)
    edit_config(copy, "vt_4096", **{field: value})
    must_find(cli("verify", copy, *ONE), "vt_4096", field)


def rename(configs: dict[str, Any], name: str) -> dict[str, Any]:
    return {name if key == "vt_4096" else key: info for key, info in configs.items()}


@pytest.mark.parametrize("name", ["vt_8192", "other_4096", "vt", "../vt_4096", "vt_4096\n"])
def test_a_config_of_another_name_is_named(
    name: str, sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(sample_build, tmp_path)
    edit_manifest(copy, configs=rename(manifest_of(copy).configs, name))
    must_find(cli("verify", copy), ascii(name)[1:-1])


@pytest.mark.parametrize("task", ["vt", "qa_2"])
def test_a_config_that_the_manifest_leaves_out_is_named(
    task: str, sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(sample_build, tmp_path)
    configs = manifest_of(copy).configs
    del configs[f"{task}_4096"]
    edit_manifest(copy, configs=configs)
    must_find(cli("verify", copy, "--tasks", "cwe"), file_of(f"{task}_4096"), "not in the manifest")


def test_a_file_outside_the_folder_is_no_part_of_it(
    sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(sample_build, tmp_path)
    card = manifest_of(copy).files["README.md"]
    shutil.copy(copy / "README.md", tmp_path / "secret.md")
    files = {**manifest_of(copy).files, "../secret.md": FileInfo(card.bytes, card.sha256)}
    edit_manifest(copy, files=files)
    must_find(cli("verify", copy, *ONE), "../secret.md")
