"""Forgeries that hide no needle elsewhere: other questions, emptied haystacks, renamed sources."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ruler_data import Row, Span
from tests.conftest import Cli
from tests.tampering import at, copy_of, edit_manifest, forge, manifest_of, must_find


def bare(row: Row) -> Row:
    """Return a niah row with nothing left of its haystack but the needle."""
    head = row.context.index("\n") + 1
    needle = row.context[row.evidence[0].start : row.evidence[0].end]
    context = row.context[:head] + needle + "\n"
    return replace(row, context=context, length=300, evidence=(Span(head, head + len(needle)),))


CHANGES: dict[str, tuple[str, Callable[[Row], Row], str]] = {
    "no prefix": ("vt", lambda row: replace(row, answer_prefix=""), "answer_prefix is ''"),
    "another question": (
        "cwe",
        lambda row: replace(row, question="Question: What are the 10 rarest words?"),
        "question is 'Question: What are the 10 rarest",
    ),
    "another instruction": (
        "fwe",
        lambda row: replace(row, context=row.context.replace("three most", "four most", 1)),
        "context begins with",
    ),
    "a space before the question mark": (
        "niah_single_1",
        lambda row: replace(row, question=row.question.replace("?", " ?")),
        "question is 'What is the special magic number",
    ),
    "no haystack": ("niah_single_2", bare, "length 300 leaves the config unfilled"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_row_that_is_not_the_benchmarks_is_named(
    name: str, sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    task, change, said = CHANGES[name]
    copy = copy_of(sample_build, tmp_path)
    forge(copy, f"{task}_4096", at(2, change))
    must_find(cli("verify", copy, "--rows", 0), f"{task}_4096/2: ", said)


def test_a_sample_that_is_called_real_is_named(
    sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(sample_build, tmp_path)
    sources = tuple(replace(one, kind="real") for one in manifest_of(copy).sources)
    edit_manifest(copy, sources=sources)
    must_find(cli("verify", copy, "--rows", 0), "source squad", "source essays")


def test_sources_that_are_not_named_are_missed(
    sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(sample_build, tmp_path)
    edit_manifest(copy, sources=())
    must_find(cli("verify", copy, "--rows", 0), "does not name the source words")


def test_a_folder_without_configs_is_not_clean(
    sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(sample_build, tmp_path)
    edit_manifest(copy, configs={})
    must_find(cli("verify", copy, "--rows", 0), "names no config")


def test_a_manifest_leads_no_command_outside_its_folder(
    sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(sample_build, tmp_path)
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "test-00000-of-00001.parquet").write_bytes(b"precious")
    configs = manifest_of(copy).configs
    stray = replace(configs["vt_4096"], file="../victim/test-00000-of-00001.parquet")
    edit_manifest(copy, configs={**configs, "../victim": stray})
    must_find(cli("verify", copy, "--rows", 0), "'../victim'")
    cli("build", "--tasks", "vt", "--rows", 2, "--sources-kind", "sample", "--out", copy, "--force")
    assert (victim / "test-00000-of-00001.parquet").read_bytes() == b"precious"
