"""A release and a run stay readable for ever.

`tests/frozen` holds releases and `tests/frozen_runs` runs as they were written, by the version that
wrote them. They are never written again; a change of the format adds one.
"""

import dataclasses
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ruler_builders
import ruler_eval
from ruler_data import UsageError, digest_rows, load
from ruler_data.manifest import (
    ConfigInfo,
    FileInfo,
    Manifest,
    SourceInfo,
    TokenizerInfo,
    read_manifest,
)
from tests.tampering import sealed

FROZEN = Path(__file__).parent / "frozen"
RELEASES = sorted(FROZEN.iterdir())
#: Digests of the rows of each release, written down here as well.
DIGESTS = {
    "0.1.0": {
        "vt_768": "sha256:417414c9bc4c3d2d7af73dfe6b4e688159e441e005223435c93dc46fbe1fbc95",
        "qa_1_768": "sha256:d5330bac28bb3238afa6efed597832913cee1d50a579d3947b670ea8a76fda77",
    },
    "1.0.0": {
        "niah_single_2_1024": "sha256:8ee17d78d886609a4ae39c4d66b3d773f6d1330bda7bf7265f6c3f69b68833b1",  # noqa: E501
        "vt_1024": "sha256:ad50c37747dd9286eecbeafc8dec9e418f5abde544a869aa538015dc6375caa6",
        "qa_1_1024": "sha256:5643c27a294e9f47548300da279a2ea58da160dd0b1220dc9171fa13b66e20b6",
    },
}


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this package be a later version, which may render the card in other words."""
    for module in ("proof", "folder_proof"):
        monkeypatch.setattr(f"ruler_builders.{module}.__version__", "999.0.0")


@pytest.mark.parametrize("folder", RELEASES, ids=lambda path: path.name)
def test_a_later_version_reads_and_verifies_a_frozen_release(folder: Path, later: None) -> None:
    data = load(folder)
    assert {name: digest_rows(rows) for name, rows in data.items()} == DIGESTS[folder.name]
    report = ruler_builders.verify(folder)
    assert report.clean, report.findings
    assert report.exit_status == 3 and set(report.unproved) == set(read_manifest(folder).files)
    assert f"pip install 'ruler-data=={folder.name}'" in report.notes[0]


def test_a_folder_before_1_2_0_must_have_its_registration(tmp_path: Path, later: None) -> None:
    folder = Path(shutil.copytree(FROZEN / "1.0.0", tmp_path / "copy"))
    rewrite(folder, lambda kind, part: part.get("files", {}).pop("eval.yaml", None))
    assert "does not name eval.yaml" in ruler_builders.verify(folder).findings[0]


def optional(kind: type) -> Iterator[str]:
    """Return the fields that were added later: those with a default."""
    for one in dataclasses.fields(kind):
        if one.default is not dataclasses.MISSING or one.default_factory is not dataclasses.MISSING:
            yield one.name


def parts(body: dict[str, Any]) -> Iterator[tuple[type, dict[str, Any]]]:
    """Return each part of a manifest's JSON with its class."""
    yield Manifest, body
    yield TokenizerInfo, body["tokenizer"]
    yield from ((SourceInfo, one) for one in body["sources"])
    yield from ((ConfigInfo, one) for one in body["configs"].values())
    yield from ((FileInfo, one) for one in body["files"].values())


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RELEASES[0], tmp_path / "copy"))


def rewrite(folder: Path, change: Callable[[type, dict[str, Any]], None]) -> None:
    """Change every part of a folder's manifest, and seal it."""
    path = folder / "manifest.json"
    body = json.loads(path.read_text(encoding="utf-8"))
    for kind, part in parts(body):
        change(kind, part)
    path.write_text(sealed(body), encoding="utf-8")


def test_a_manifest_of_an_older_version_lacks_what_was_added_later(copy: Path) -> None:
    def age(kind: type, part: dict[str, Any]) -> None:
        for name in optional(kind):
            if name != "format":
                part.pop(name, None)
        if kind is Manifest:
            part["package_version"] = "0.1.0"

    rewrite(copy, age)
    assert len(load(copy, "vt_768")) == 2
    assert all(" exhausted " in line for line in ruler_builders.verify(copy).findings)


def test_a_manifest_of_a_newer_version_has_keys_that_are_ignored(copy: Path) -> None:
    rewrite(copy, lambda _, part: part.update(later={"of": ["any", "kind"]}))
    assert len(load(copy, "vt_768")) == 2
    assert ruler_builders.verify(copy).clean


def test_of_a_newer_format_it_is_said_which_version_reads_it(copy: Path) -> None:
    def renew(kind: type, part: dict[str, Any]) -> None:
        if kind is Manifest:
            part.update(format=2, package_version="7.1.0")

    rewrite(copy, renew)
    for read in load, ruler_builders.verify:
        with pytest.raises(UsageError, match=r"of version '7\.1\.0' .* pip install -U") as error:
            read(copy)
        assert "\n" not in str(error.value)


def test_a_run_of_an_older_version_is_scored(tmp_path: Path) -> None:
    run = shutil.copytree(FROZEN.parent / "frozen_runs" / "1.0.0", tmp_path / "run")
    table = ruler_eval.score(run, FROZEN / "1.0.0")
    found = table.groupby("task").official.mean().to_dict()
    assert found == {"niah_single_2": 0.5, "vt": 0.1, "qa_1": 0.5}
