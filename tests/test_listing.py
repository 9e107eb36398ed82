"""Listings of folders, and in what two files differ, in words."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ruler_builders.card import excerpt
from ruler_builders.checks.defects import measure_defects
from ruler_builders.listing import (
    check_columns,
    differences,
    folder_listing,
    line_difference,
    lists,
    pyarrow_of,
    row_differences,
    unequal_values,
)
from ruler_data import TASKS
from ruler_data.hub.repo import Entry, PushFile
from ruler_data.index import Index
from ruler_data.parquet import to_table
from ruler_data.row import Row, Span
from tests.test_show import RELEASE


def entry(data: bytes) -> Entry:
    return Entry(len(data), hashlib.sha256(data).hexdigest())


def test_a_folder_is_listed_without_what_clients_of_the_hub_add(tmp_path: Path) -> None:
    for name in ("a", "vt/b", ".git/x", ".cache/y", "vt/.cache", ".other"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / ".gitattributes").symlink_to("a")
    (tmp_path / ".huggingface").touch()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("vt")
    assert folder_listing(tmp_path) == {
        **{name: entry(name.encode()) for name in ("a", "vt/b", "vt/.cache", ".other")},
        ".gitattributes": Entry(kind="a symbolic link"),
        "link": Entry(kind="a symbolic link"),
        "pipe": Entry(kind="neither a file nor a folder"),
    }


def test_links_of_a_hubs_cache_are_files_if_they_lead_into_its_blobs(tmp_path: Path) -> None:
    blobs = tmp_path / "blobs"
    (blobs / "sub").mkdir(parents=True)
    (blobs / "1").write_bytes(b"one")
    (blobs / "sub" / "2").write_bytes(b"two")
    for commit, is_cache in (("c" * 40, True), ("c" * 39, False)):
        folder = tmp_path / "snapshots" / commit
        folder.mkdir(parents=True)
        for name, target in (("a", "1"), ("b", "sub/2"), ("c", "sub"), ("d", "none")):
            (folder / name).symlink_to(blobs / target)
        link = Entry(kind="a symbolic link")
        first = entry(b"one") if is_cache else link
        assert folder_listing(folder) == {"a": first, "b": link, "c": link, "d": link}


def test_an_index_lists_a_repo_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "index.json"
    path.write_text(Index((RELEASE,)).to_json())
    assert lists(path, {"org/ruler"}) and not lists(path, {"org/other"}) and not lists(path, ())
    path.write_text("{")
    assert not lists(path, {"org/ruler"})


def test_each_path_that_is_not_the_same_is_named_with_what_it_is() -> None:
    names = ("same", "git", "other", "gone", "larger", "git2", "link")
    made = {name: PushFile.of_bytes(name, name.encode()) for name in names}
    hashes = {name: file.git_oid for name, file in made.items()}
    listing = {
        "same": entry(b"same"), "git": Entry(3, git_hash=hashes["git"]), "other": entry(b"rehto"),
        "larger": Entry(1_000, made["larger"].sha256), "git2": Entry(4, git_hash="0" * 40),
        "link": Entry(kind="a symbolic link"), ".build/x": entry(b"x"), "stray": entry(b"x"),
    }  # fmt: skip
    assert dict(differences(listing, made)) == {
        ".build/x": "left by an unfinished build; run the build again",
        "git2": f"expected 4 bytes, git's hash {hashes['git2']}, "
                f"found 4 bytes, git's hash {'0' * 40}",
        "gone": "missing",
        "larger": f"expected 6 bytes, sha256 {made['larger'].sha256}, "
                  f"found 1,000 bytes, sha256 {made['larger'].sha256}",
        "link": "is a symbolic link",
        "other": f"expected 5 bytes, sha256 {made['other'].sha256}, "
                 f"found 5 bytes, sha256 {hashlib.sha256(b'rehto').hexdigest()}",
        "stray": "no build makes it",
    }  # fmt: skip
    assert [path for path, _ in differences(listing, made)] == sorted(
        {*listing, *made} - {"same", "git"}
    )


ROW = Row(0, "vt", "a" * 100, "q?", "A:", ("x", "y"), 30, 90, (Span(1, 2),), Span(0, 100))


def written(path: Path, *rows: Row, **changes: Any) -> Path:  # noqa: ANN401 - columns
    table = to_table(rows)
    for name, values in changes.items():
        table = table.set_column(table.schema.names.index(name), name, values)
    pq.write_table(table, path)
    return path


#: What is changed of the second of three rows, and how it is said.
ROWS: list[tuple[Callable[[Row], Row], str]] = [
    (lambda row: row, ""),
    (lambda row: replace(row, length=91), "length is 91, made again 90"),
    (lambda row: replace(row, outputs=("x",)), "outputs is ['x'], made again ['x', 'y']"),
    (lambda row: replace(row, question="r?"), "question is 'r?', made again 'q?'"),
    (lambda row: replace(row, context="a" * 50 + "b" * 50),
     f"context is {'a' * 20 + 'b' * 40!r}, made again {'a' * 60!r}"),
    (lambda row: replace(row, context="b" + "a" * 99),
     f"context is {'b' + 'a' * 59!r}, made again {'a' * 60!r}"),
    (lambda row: replace(row, context="a" * 99),
     f"context is {'a' * 20!r}, made again {'a' * 21!r}"),
    (lambda row: replace(row, haystack=Span(0, 99)),
     "haystack is {'start': 0, 'end': 99}, made again {'start': 0, 'end': 100}"),
    (lambda row: replace(row, evidence=(Span(1, 3),)),
     "evidence is [{'start': 1, 'end': 3}], made again [{'start': 1, 'end': 2}]"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_the_first_column_in_which_a_row_differs_is_named(number: int, tmp_path: Path) -> None:
    edit, said = ROWS[number]
    rows = [replace(ROW, index=index) for index in range(3)]
    made = written(tmp_path / "made", *rows)
    there = written(tmp_path / "there", rows[0], edit(rows[1]), rows[2])
    assert [*row_differences("vt_4", there, made, None)] == ([f"vt_4/1: {said}"] if said else [])
    assert [*row_differences("vt_4", there, made, 1)] == []


def test_rows_too_few_or_too_many_are_named(tmp_path: Path) -> None:
    rows = [replace(ROW, index=index) for index in range(3)]
    three, two = written(tmp_path / "a", *rows), written(tmp_path / "b", *rows[:2])
    assert [*row_differences("vt_4", two, three, None)] == ["vt_4/2: is missing"]
    assert [*row_differences("vt_4", three, two, None)] == ["vt_4/2: no build makes it"]
    assert [*row_differences("vt_4", three, two, 2)] == []


def test_a_file_says_who_wrote_it_and_which_columns_it_has(tmp_path: Path) -> None:
    path = written(tmp_path / "a", ROW)
    assert pyarrow_of(path) == pa.__version__
    check_columns(path)
    pq.write_table(to_table([ROW]).select(["index", "task"]), path)
    with pytest.raises(ValueError, match=r"^columns expected index: int32, task: string, context: s"
                       r".*, found index: int32, task: string$"):  # fmt: skip
        check_columns(path)


def test_values_that_differ_are_found_at_their_place() -> None:
    here = {"a": [1, {"b": 2}], "c": 3, "e": [1], "f": [1, 2]}
    there = {"a": [1, {"b": 4}], "d": 5, "e": [1, 2], "f": [1, 2]}
    assert [*unequal_values(here, there)] == [
        (("a", "1", "b"), 2, 4), (("c",), 3, None), (("e",), [1], [1, 2]), (("d",), None, 5),
    ]  # fmt: skip
    assert [*unequal_values(here, here)] == []


@pytest.mark.parametrize(
    ("actual", "expected", "said"),
    [
        (b"a\nb", b"a\nb", ""), (b"a\nb\n", b"a\nc\n", "line 2: expected 'c', found 'b'"),
        (b"a\n", b"a", "line 2: expected 'nothing', found ''"),
        (b"", b"a", "line 1: expected 'a', found ''"),
        (b"\xff", b"a", "line 1: expected 'a', found '\\ufffd'"),
    ],
)  # fmt: skip
def test_the_first_line_in_which_texts_differ_is_named(
    actual: bytes, expected: bytes, said: str
) -> None:
    assert line_difference(actual, expected) == said


def test_an_excerpt_of_a_card_begins_at_words_and_marks_what_is_left_out() -> None:
    words = " ".join(f"w{number:03}" for number in range(400))
    place = words.index("w200")
    row = replace(ROW, context=words, evidence=(Span(place, place + 4),))
    shown = excerpt(row, 50)
    begin, middle, end = shown.split(" [...] ")
    assert words.startswith(begin) and len(begin) <= 100 and words[len(begin)] == " "
    assert words.endswith(end) and len(end) <= 50 and words[-len(end) - 1] == " "
    assert middle == " ".join(f"w{number}" for number in range(191, 204))
    assert excerpt(replace(row, context="short", evidence=()), 50) == "short"


def documents(gold: int, size: int) -> Row:
    text = "\n\n".join(f"Document {number}:\ntext {number}" for number in range(1, size + 1))
    start = text.index(f"text {gold}")
    return replace(ROW, context=text, question=f"{gold}/{size}", evidence=(Span(start, start + 5),))


def test_defects_are_counted_with_how_often_they_are() -> None:
    rows = [documents(2, 5)] * 4 + [documents(n, 5) for n in (1, 3)] + [documents(3, 4)] * 2
    assert measure_defects(TASKS["qa_1"], rows) == {
        "same prompt as an earlier row": "4 of 8 rows",
        "gold document is 2 of 5": "4 of 8 rows",
        "gold document is 3 of 4": "2 of 8 rows",
    }
    often = [documents(2, 5)] * 3 + [documents(number, 5) for number in (1, 3)]
    assert [*measure_defects(TASKS["qa_1"], often)] == ["same prompt as an earlier row"]
    one = [documents(number, 5) for number in range(1, 6)]
    assert measure_defects(TASKS["qa_1"], one) == measure_defects(TASKS["qa_1"], one[:1]) == {}
    many = [documents(n, n + 3) for n in (2, 3, 4, 5) for _ in range(8 - n)]
    assert [*measure_defects(TASKS["qa_1"], many).values()] == [
        "14 of 18 rows", "6 of 18 rows", "5 of 18 rows", "4 of 18 rows"
    ]  # fmt: skip
    needle = "One of the special magic numbers for a-b is: {}."
    once = replace(
        ROW, context=needle.format(1), question="What is it for a-b mentioned in the provided text?"
    )
    twice = replace(once, context=f"{needle.format(1)} {needle.format(2)}")
    assert measure_defects(TASKS["niah_single_1"], [once, twice]) == {
        "queried key is not unique": "1 of 2 rows"
    }
    assert measure_defects(TASKS["niah_multivalue"], [once, twice]) == {}
    texts = ["aa bb aa cc", "dd ee dd ff", "gg gg hh ii"]
    coded = [replace(ROW, context=text, evidence=()) for text in texts]
    assert measure_defects(TASKS["fwe"], coded) == {"different layouts": "2 in 3 rows"}
    assert measure_defects(TASKS["fwe"], coded[1:]) == {}
    listed = [
        replace(ROW, context=text, evidence=(Span(3, 5),)) for text in ("1. aa", "1. bb", "7. cc")
    ]
    assert measure_defects(TASKS["cwe"], listed) == {"different layouts": "2 in 3 rows"}


def test_a_row_names_itself() -> None:
    named = replace(ROW, index=17, question="What?\n", config="vt_4096")
    assert (ROW.id, named.id) == ("vt/0", "vt_4096/17")
    assert repr(named) == "<Row vt_4096/17: 90 tokens, 'What?\\n'>"
    assert replace(named, config="") == replace(named, config="x")
