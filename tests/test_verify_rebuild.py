"""`ruler-data verify --rebuild N`: folders that agree with themselves and not with their seed."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ruler_data import Row, Span
from tests.conftest import Cli
from tests.tampering import (
    Edit,
    at,
    copy_of,
    edit_config,
    edit_file,
    edit_manifest,
    file_of,
    forge,
    manifest_of,
    must_find,
)

ROWS = 3
NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
ALL = ("--rows", 2 * ROWS)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, cli: Cli) -> Path:
    """Two configs of a few short rows."""
    folder = tmp_path_factory.mktemp("small") / "build"
    options = ("--tasks", "niah_single_2,vt", "--lengths", 1024, "--rows", ROWS)
    done = cli("build", *options, "--sources-kind", "sample", "--out", folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize(("asked", "rebuilt"), [(2, 2), (2 * ROWS, 2 * ROWS), (999, 2 * ROWS)])
def test_as_many_rows_are_rebuilt_as_asked_and_there_are(
    asked: int, rebuilt: int, small: Path, cli: Cli
) -> None:
    done = cli("verify", small, "--rows", asked, "--json")
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["rebuilt"] == rebuilt


def test_every_row_is_rebuilt_where_lengths_are_counted(small: Path, cli: Cli) -> None:
    done = cli("verify", small, "--json")
    assert json.loads(done.stdout)["rebuilt"] == 2 * ROWS


def one_line_up(row: Row) -> Row:
    """Move an assignment before the line of noise above it: a hundredth of the depth."""
    for number, (start, end) in enumerate(row.evidence):
        place = row.context.rfind(f"\n{NOISE}\n", 0, start) + 1
        if place + len(NOISE) + 1 == start:
            text = row.context[start:].partition("\n")[0]
            context = f"{row.context[:place]}{text}\n{NOISE}{row.context[start + len(text) :]}"
            spans = [*row.evidence]
            spans[number] = Span(place, place + end - start)
            return replace(row, context=context, evidence=tuple(spans))
    raise AssertionError


FORGERIES: dict[str, tuple[Edit, list[int]]] = {"a line moved": (at(2, one_line_up), [2])}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forgery_that_nothing_else_shows_is_found_by_rebuilding(
    forgery: str, small: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(small, tmp_path)
    edit, indices = FORGERIES[forgery]
    forge(copy, "vt_1024", edit)
    assert cli("verify", copy, "--rows", 0).returncode == 0
    must_find(cli("verify", copy), "vt_1024/2: differs from the row built again: context has")
    found = must_find(cli("verify", copy, *ALL))
    rows = [line.partition(":")[0] for line in found]
    assert rows == [f"vt_1024/{index}" for index in indices]


@pytest.mark.parametrize("changes", [{"seed": 43}, {"rows_version": "2.0.0"}])
def test_another_seed_or_version_in_the_manifest_is_found_by_rebuilding(
    changes: dict[str, Any], small: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(small, tmp_path)
    edit_manifest(copy, **changes)
    assert must_find(cli("verify", copy, *ALL))


@pytest.mark.parametrize("damage", ["missing", "truncated", "of no task"])
def test_a_damaged_config_is_named_though_it_is_to_be_rebuilt(
    damage: str, small: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(small, tmp_path)
    if damage == "missing":
        (copy / file_of("vt_1024")).unlink()
    elif damage == "truncated":
        edit_file(copy, "vt_1024", (copy / file_of("vt_1024")).read_bytes()[:-9])
    else:
        configs = manifest_of(copy).configs
        edit_manifest(copy, configs={**configs, "tv_1024": configs["vt_1024"]})
    word = "tv_1024" if damage == "of no task" else file_of("vt_1024")
    must_find(cli("verify", copy, "--rows", 99), word)


def test_a_row_that_only_the_manifest_has_is_named(small: Path, tmp_path: Path, cli: Cli) -> None:
    copy = copy_of(small, tmp_path)
    edit_config(copy, "vt_1024", rows=ROWS + 1)
    done = cli("verify", copy, "--rows", 99)
    must_find(done, f"rows expected {ROWS + 1}, found {ROWS}", f"vt_1024/{ROWS}: ")


@pytest.mark.slow
def test_an_edited_essay_is_found_without_the_model_that_cuts_sentences(
    shared: Path, tmp_path: Path, cli: Cli
) -> None:
    folder, essays, found = tmp_path / "build", tmp_path / "essays", "PaulGrahamEssays.json"
    options = ("--tasks", "niah_single_2", "--lengths", 1024, "--rows", 2)
    built = cli("build", *options, "--sources", shared / "sources", "--out", folder)
    assert built.returncode == 0, built.stderr
    essays.mkdir()
    (essays / found).symlink_to(shared / "sources" / found)
    bare = {"RULER_CACHE": str(tmp_path / "cache"), "HOME": str(tmp_path), "NLTK_DATA": ""}
    verify = ("verify", folder, "--sources", essays)
    clean = cli(*verify, env=bare)
    assert clean.returncode == 0, clean.stdout
    assert "not built again: punkt_tab" in clean.stderr
    forge(folder, "niah_single_2_1024", at(1, other_word))
    words = "niah_single_2_1024/1: the haystack is not that of the essays"
    must_find(cli(*verify, "--rows", 0, env=bare), words)


def other_word(row: Row) -> Row:
    """Replace a word of the last sentences by one as long."""
    place = row.context.rindex(" the ")
    context = row.context[:place] + " thy " + row.context[place + 5 :]
    return replace(row, context=context)


def squad(names: str, folder: Path) -> Path:
    """Write a source of a user's own: one paragraph with one question for each letter."""
    folder.mkdir()
    paragraphs = []
    for name in names:
        answers = [{"text": f"Ann{name}"}]
        question = {"question": f"Who keeps {name}?", "answers": answers, "is_impossible": False}
        paragraphs.append({"context": f"The keeper of {name} is Ann{name}.", "qas": [question]})
    body = {"data": [{"title": "Towers", "paragraphs": paragraphs}]}
    (folder / "squad.json").write_text(json.dumps(body), encoding="utf-8")
    return folder


def test_rebuilding_from_other_sources_says_so(tmp_path: Path, cli: Cli) -> None:
    mine = squad("abcdefghijklmnop", tmp_path / "mine")
    theirs = squad("abcdefghijklmnoq", tmp_path / "theirs")
    folder = tmp_path / "build"
    options = ("--tasks", "qa_1", "--lengths", 512, "--rows", 2, "--sources-kind", "real")
    built = cli("build", *options, "--sources", mine, "--out", folder)
    assert built.returncode == 0, built.stderr
    verify = ("verify", folder, "--rows", 2)
    again = cli(*verify, "--sources", mine)
    assert again.returncode == 0, again.stdout
    expected = f"source squad: sha256 expected {manifest_of(folder).sources[0].sha256}"
    must_find(cli(*verify, "--sources", theirs), expected, "found", "--sources")
    must_find(cli(*verify), expected, "found", "--sources")
