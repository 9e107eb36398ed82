"""The journal: whatever happens to it, every row ends up answered exactly once."""

import gzip
import json
import os
import re
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ruler_eval
from ruler_data import RulerError
from ruler_eval.running.answers import Answer, settle
from ruler_eval.running.journal import NAME, Lines, read, to_line, unique

HOSTILE = [
    "",
    "\x00",
    "\x1b[31mred",
    "\u2028line\u0085feed\r\n",
    "\ud800 alone",
    "</script>",
    "=1+1",
]


def answer(index: int, text: str | None = "yes", error: str | None = None) -> Answer:
    return Answer("vt_4096", index, text, "stop", 10, 2, 0.5, error)


def write(folder: Path, *answers: Answer, shard: str = "0-of-1", run: str = "3f2a") -> Path:
    with closing(Lines(folder / NAME.format(shard, unique(), run))) as journal:
        for one in answers:
            journal.append(to_line(one))
    return journal.path


def indices(path: Path, torn: list[str] | None = None) -> list[int]:
    return [one.index for one in read(path, torn)]


@given(st.text(st.characters(), max_size=200) | st.sampled_from(HOSTILE))
def test_any_record_comes_back(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("one") / "answers-0-of-1.jsonl"
    for record, name in ((answer(0, text), "text"), (answer(0, None, text), "error")):
        line = to_line(record)
        assert line.count(b"\n") == 1 and len(line.decode("utf-8").splitlines()) == 1
        path.write_bytes(line)
        (one,) = read(path)
        found = str(getattr(one, name))
        found.encode("utf-8")
        assert found == text or any(0xD800 <= ord(c) < 0xE000 for c in text)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("\ud800 alone", "\ufffd alone"),
        ("4\udfff2", "4\ufffd2"),
        ("cut \ud83d", "cut \ufffd"),
    ],
)
def test_a_lone_surrogate_of_an_answer_is_seen_to_have_been_there(text: str, kept: str) -> None:
    assert json.loads(to_line(answer(0, text)))["text"] == kept


def test_a_line_has_what_every_answer_has_and_else_only_what_is_known() -> None:
    every = {"config", "index", "text", "finish", "prompt_tokens", "answer_tokens"}
    every |= {"seconds", "error"}
    assert json.loads(to_line(Answer("vt_4096", 0))).keys() == every
    some = json.loads(to_line(Answer("vt_4096", 0, sample=1, cost=0.5)))
    assert some.keys() == {*every, "sample", "cost"}
    zero = json.loads(to_line(Answer("vt_4096", 0, cached_tokens=0, cost=0.0)))  # known to be none
    assert zero.keys() == {*every, "cached_tokens", "cost"}


@given(cut=st.integers(0, 400))
def test_a_cut_journal_keeps_its_lines(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    folder = tmp_path_factory.mktemp("cut")
    path = write(folder, *(answer(index) for index in range(3)))
    data = path.read_bytes()[:cut]
    path.write_bytes(data)
    whole = [n for n in range(3) if data.count(b"}") > n]
    torn: list[str] = []
    assert indices(path, torn) == whole
    assert len(torn) == (not data.endswith((b"}", b"\n")) and len(data) > 0)
    write(folder, *(answer(index) for index in range(3) if index not in whole))
    records = (one for each in sorted(folder.iterdir()) for one in read(each))
    assert sorted(settle(records)) == [("vt_4096", index, 0) for index in range(3)]
    assert path.read_bytes() == data


@pytest.mark.parametrize(
    "line",
    [
        b"\0" * 4096,
        b"\0" * 10 + b"}\n",
        b'{"config":',
        b"not json\n",
        b'{"config":"vt_4096"}\n',
        to_line(answer(5)).replace(b'"index":5', b'"index":"5"'),
        b"[" * 100_000 + b'"\\ud800"\n',
    ],
)
def test_a_row_without_a_record_is_asked_again(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "answers-0-of-1.jsonl"
    path.write_bytes(to_line(answer(0)) + line + b"\n" + to_line(answer(1)))
    torn: list[str] = []
    assert indices(path, torn) == [0, 1]
    assert torn == [f"{path.name} line 2: torn or not a line of a journal; ignored"]


def test_an_answer_of_a_megabyte_and_keys_of_a_later_version_are_read(tmp_path: Path) -> None:
    path = write(tmp_path, answer(0, "x" * 1_000_000))
    path.write_bytes(path.read_bytes().replace(b"{", b'{"later":[1],', 1))
    (one,) = read(path)
    assert len(one.text or "") == 1_000_000


def test_every_process_writes_a_file_of_its_own_and_the_first_answer_counts(tmp_path: Path) -> None:
    written = {write(tmp_path, answer(0, f"text {n}")) for n in range(20)}
    assert len(written) == 20
    first = json.loads(min(written).read_text())["text"]
    records = (one for path in sorted(written) for one in read(path))
    assert settle(records)["vt_4096", 0, 0].text == first


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_on_a_full_disk_the_journal_stays_readable(tmp_path: Path) -> None:
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        with closing(Lines(place / NAME.format("0-of-1", unique(), "3f2a"))) as journal:
            with pytest.raises(RulerError, match="No space left on device; free space"):
                for index in range(100):
                    journal.append(to_line(answer(index, "x" * 3000)))
            assert indices(journal.path) == list(range(index))  # a part of a line is no record
            assert index > 10
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize(
    "damage",
    [
        lambda body: body.decode().encode("utf-16"),
        gzip.compress,
        lambda body: body.replace(b"\n", b"\r"),
    ],
)
def test_what_is_ignored_is_told(
    damage: Callable[[bytes], bytes], frozen: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    ruler_eval.run(frozen, out=run, engine="oracle", model="golden", rows=2)
    (journal,) = run.glob("answers-*.jsonl")
    journal.write_bytes(damage(journal.read_bytes()))
    told = re.compile(rf"{journal.name}.*torn or not")
    assert any(map(told.search, ruler_eval.status(run).notes))
    with pytest.raises(RulerError, match=told):
        ruler_eval.score(run, frozen)
