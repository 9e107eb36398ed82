"""`ruler-data show`: one row for a person or a program, and what cannot be shown."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.conftest import Cli
from tests.tampering import at, copy_of, edit_file, file_of, forge, manifest_of, rows_of

BOLD = re.compile("\x1b\\[1;33m(.*?)\x1b\\[0m")


def squeeze(text: str) -> str:
    """Leave out what a panel adds to a text: borders, padding and line ends."""
    return re.sub(r"[\s│]+", "", text)


@pytest.mark.parametrize(
    ("task", "index"), [("niah_multiquery", 4), ("vt", 0), ("vt", 5), ("qa_2", 4)]
)
def test_a_row_as_json_is_the_files_record(
    task: str, index: int, sample_build: Path, cli: Cli
) -> None:
    done = cli("show", sample_build, f"{task}_4096", index, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    with pq.ParquetFile(sample_build / file_of(f"{task}_4096")) as file:
        record = file.read().slice(index, 1).to_pylist()[0]
    assert json.loads(done.stdout) == record
    assert list(json.loads(done.stdout)) == list(record)


@pytest.mark.parametrize("task", ["niah_multiquery", "vt"])
def test_a_row_is_shown_with_question_answers_and_whole_context_on_request(
    task: str, sample_build: Path, cli: Cli
) -> None:
    row = rows_of(sample_build, f"{task}_4096")[3]
    full = cli("show", sample_build, f"{task}_4096", 3, "--full")
    short = cli("show", sample_build, f"{task}_4096", 3)
    assert (full.returncode, full.stderr) == (0, "")
    for done in (full, short):
        shown = squeeze(done.stdout)
        assert f"{task}_4096/3" in shown
        assert f"{row.length}tokens" in shown
        assert squeeze(row.question) in shown
        assert squeeze(row.answer_prefix) in shown
        assert all(squeeze(output) in shown for output in row.outputs)
    assert squeeze(row.context) in squeeze(full.stdout)
    assert squeeze(row.context) not in squeeze(short.stdout)
    assert "characters ...]" in short.stdout


def test_without_a_config_the_digests_of_all_are_listed(sample_build: Path, cli: Cli) -> None:
    configs = manifest_of(sample_build).configs
    listed = {line.split()[0]: line for line in cli("show", sample_build).stdout.splitlines()[1:]}
    assert list(listed) == list(configs)
    for name, info in configs.items():
        assert info.floor
        floor = f"{100 * info.floor.score:.1f}"
        assert listed[name].split() == [name, "6", floor, info.question_digest, info.digest]
    found = json.loads(cli("show", sample_build, "--json").stdout)
    assert found == json.loads((sample_build / "manifest.json").read_text())["configs"]


def test_evidence_is_highlighted_where_colours_are(sample_build: Path, cli: Cli) -> None:
    row = rows_of(sample_build, "niah_multivalue_4096")[1]
    shown = cli("show", sample_build, "niah_multivalue_4096", 1, env={"FORCE_COLOR": "1"}).stdout
    marked = squeeze("".join(BOLD.findall(shown)))
    assert marked == squeeze("".join(row.context[s.start : s.end] for s in row.evidence))
    plain = cli("show", sample_build, "niah_multivalue_4096", 1).stdout
    assert "\x1b" not in plain


def test_text_that_looks_like_markup_or_a_terminals_command_is_shown_as_text(
    sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(sample_build, tmp_path)
    odd = "[bold]:smile:[/bold] \x1b[31mred\x1b[0m \x1b]0;title\x07 naïve 東京"
    forge(copy, "vt_4096", at(0, lambda row: replace(row, question=odd)))
    done = cli("show", copy, "vt_4096", 0)
    assert done.returncode == 0, done.stderr
    assert "[bold]:smile:[/bold]" in done.stdout
    assert "naïve 東京" in done.stdout
    assert "\x1b" not in done.stdout
    as_json = cli("show", copy, "vt_4096", 0, "--json")
    assert json.loads(as_json.stdout)["question"] == odd


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_letters_that_the_output_cannot_hold_are_replaced(
    options: tuple[str, ...], sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(sample_build, tmp_path)
    forge(copy, "vt_4096", at(0, lambda row: replace(row, question="naïve 東京?")))
    done = cli("show", copy, "vt_4096", *options, env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    assert "VAR" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("vt_8192",), ["'vt_8192'", "vt_4096", "qa_2_4096"]),
        (("vt",), ["'vt'", "TASK_LENGTH"]),
        (("../vt_4096",), ["'../vt_4096'", "TASK_LENGTH"]),
        (("vt_4096\n",), ["'vt_4096\\n'", "TASK_LENGTH"]),
        (("x" * 300,), ["'xxx", "TASK_LENGTH"]),
        (("vt_4096", "6"), ["0 to 5", "6"]),
        (("vt_4096", "99999999999999999999"), ["0 to 5"]),
        (("vt_4096", "--", "-1"), ["index '-1'"]),
        (("vt_4096", "one"), ["index 'one'"]),
    ],
)
def test_a_row_that_is_not_there_is_refused_and_those_that_are_are_named(
    arguments: tuple[str, ...], words: list[str], sample_build: Path, cli: Cli
) -> None:
    done = cli("show", sample_build, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert all(word in done.stderr for word in words), done.stderr
    assert "Traceback" not in done.stderr


def remove(folder: Path) -> None:
    (folder / file_of("vt_4096")).unlink()


def truncate(folder: Path) -> None:
    edit_file(folder, "vt_4096", (folder / file_of("vt_4096")).read_bytes()[:1000])


def renumber(folder: Path) -> None:
    forge(folder, "vt_4096", at(3, lambda row: replace(row, index=7)))


def drop_columns(folder: Path) -> None:
    table = pq.read_table(folder / file_of("fwe_4096")).select(["index", "context"])
    pq.write_table(table, folder / file_of("vt_4096"))


@pytest.mark.parametrize("damage", [remove, truncate, renumber, drop_columns])
def test_a_damaged_file_is_named_in_one_line(
    damage: Callable[[Path], None], sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(sample_build, tmp_path)
    damage(copy)
    done = cli("show", copy, "vt_4096", 3)
    assert done.returncode == 1
    assert "vt_4096" in done.stderr
    assert (done.stdout, len(done.stderr.splitlines())) == ("", 1)
