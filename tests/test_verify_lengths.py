"""`ruler-data verify` counts every prompt again, in the tokenizer that the manifest names."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ruler_data import Row
from tests.conftest import Cli
from tests.tampering import (
    at,
    copy_of,
    edit_manifest,
    forge,
    manifest_of,
    must_find,
    render,
    rows_of,
)

NOISE = "The grass is green. "


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, cli: Cli) -> Path:
    """A few short rows: their lengths are quickly counted."""
    folder = tmp_path_factory.mktemp("small") / "build"
    options = ("--tasks", "vt", "--lengths", 1024, "--rows", 3, "--sources-kind", "sample")
    done = cli("build", *options, "--out", folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_lengths_are_counted_unless_told_not_to(small: Path, cli: Cli) -> None:
    counted, not_counted = cli("verify", small), cli("verify", small, "--rows", 0)
    assert (counted.returncode, not_counted.returncode) == (0, 0), counted.stdout
    assert "lengths not counted" not in counted.stdout
    assert "lengths not counted" in not_counted.stdout


@pytest.mark.parametrize(("step", "counter"), [(-1, "auto"), (1, "tokenizers"), (1, "gigatoken")])
def test_a_length_that_is_off_by_one_is_named(
    step: int, counter: str, small: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(small, tmp_path)
    length = rows_of(copy, "vt_1024")[1].length
    forge(copy, "vt_1024", at(1, lambda row: replace(row, length=length + step)))
    verified = cli("verify", copy, "--counter", counter)
    found = must_find(verified, f"says {length + step}", f"counts {length}")
    assert all(line.startswith("vt_1024/1: ") for line in found)


def cut(row: Row) -> Row:
    """Leave out a sentence of the noise, behind all evidence."""
    place = row.context.rindex(NOISE)
    assert place > row.evidence[-1].end
    return replace(row, context=row.context[:place] + row.context[place + len(NOISE) :])


def test_text_cut_out_is_found_by_counting(small: Path, tmp_path: Path, cli: Cli) -> None:
    copy = copy_of(small, tmp_path)
    forge(copy, "vt_1024", at(0, cut))
    must_find(cli("verify", copy), "vt_1024/0: length says ")


@pytest.mark.parametrize(
    "wrong", [{"template_reserve": 9}, {"files": {"tekken_240911.json": "0" * 64}}]
)
def test_another_tokenizer_than_the_manifests_is_named(
    wrong: dict[str, Any], small: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(small, tmp_path)
    edit_manifest(copy, tokenizer=replace(manifest_of(copy).tokenizer, **wrong))
    must_find(cli("verify", copy, "--tokenizer", "mistral"), "tokenizer mistral", "expected")


def test_counting_with_another_tokenizer_names_its_file_and_the_rows(small: Path, cli: Cli) -> None:
    must_find(
        cli("verify", small, "--tokenizer", "mistral-v0.2"), "tekken_240911.json", "vt_1024/0"
    )


def test_a_tokenizer_that_is_not_at_hand_is_asked_for(
    small: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(small, tmp_path)
    files = {"tokenizer.json": "0" * 64}
    mine: dict[str, Any] = {"name": "mine", "revision": None, "files": files}
    edit_manifest(copy, tokenizer=replace(manifest_of(copy).tokenizer, **mine))
    render(copy)
    done = cli("verify", copy)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "'mine'" in done.stderr
    assert "--tokenizer" in done.stderr
    assert cli("verify", copy, "--rows", 0).returncode == 0


@pytest.mark.slow
def test_a_tokenizer_from_a_folder_is_found_again_without_it(
    llama3: str, tmp_path: Path, cli: Cli
) -> None:
    """Its files are kept by hash when it builds, so the same machine can verify later."""
    folder = tmp_path / "build"
    build = ("build", "--tasks", "vt", "--lengths", 1024, "--rows", 1, "--sources-kind", "sample")
    env = {"RULER_CACHE": str(tmp_path / "cache")}
    assert cli(*build, "--tokenizer", llama3, "--out", folder, env=env).returncode == 0
    assert cli("verify", folder, env=env).returncode == 0
    elsewhere = {"RULER_CACHE": str(tmp_path / "elsewhere")}
    assert cli("verify", folder, env=elsewhere).returncode == 2
    assert cli("verify", folder, "--tokenizer", llama3, env=elsewhere).returncode == 0
