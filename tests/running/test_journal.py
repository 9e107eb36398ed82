"""The journal: whatever happens to it, every row ends up answered exactly once."""

import json
import os
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_data import RulerError
from ruler_eval.answers import Answer
from ruler_eval.journal import Journal, parse, read, to_line

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


def written(path: Path, *answers: Answer) -> bytes:
    with closing(Journal(path)) as journal:
        for one in answers:
            journal.add(one)
    return path.read_bytes()


@given(st.text(st.characters(), max_size=200) | st.sampled_from(HOSTILE))
def test_any_answer_is_one_line_of_utf8_json_and_comes_back(text: str) -> None:
    line = to_line(answer(0, text))
    assert line.count(b"\n") == 1 and len(line.decode("utf-8").splitlines()) == 1
    said = json.loads(line)["text"]
    said.encode("utf-8")
    assert said == text or any(0xD800 <= ord(c) < 0xE000 for c in text)


@given(st.text(st.characters(), max_size=200) | st.sampled_from(HOSTILE))
def test_any_reason_why_a_row_is_unscored_is_a_line_that_is_read_again(reason: str) -> None:
    found = parse(to_line(answer(0, None, reason)), "line").error
    assert found == reason or any(0xD800 <= ord(c) < 0xE000 for c in reason)


def test_an_answer_of_a_megabyte_comes_back(tmp_path: Path) -> None:
    written(tmp_path / "answers-0-of-1.jsonl", answer(0, "x" * 1_000_000))
    assert len(next(read(tmp_path / "answers-0-of-1.jsonl")).text or "") == 1_000_000


@given(cut=st.integers(0, 400))
def test_a_journal_cut_anywhere_keeps_every_whole_line(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("cut") / "answers-0-of-1.jsonl"
    data = written(path, *(answer(index) for index in range(3)))
    cut = min(cut, len(data))
    path.write_bytes(data[:cut])
    whole = data[:cut].count(b"\n")
    assert mend(path).cut == cut - (data[:cut].rfind(b"\n") + 1)
    assert [one.index for one in read(path)] == list(range(whole))


@pytest.mark.parametrize("tail", [b"\0" * 4096, b"\0" * 10 + b"}\n", b'{"config":', b"\n"])
def test_what_a_power_cut_leaves_behind_is_cut_off(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "answers-0-of-1.jsonl"
    data = written(path, answer(0), answer(1))
    path.write_bytes(data + tail)
    assert mend(path) == Mended(len(tail), 0, 2)
    assert path.read_bytes() == data


def test_an_empty_journal_is_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "answers-0-of-1.jsonl"
    path.touch()
    assert mend(path) == Mended(0, 0)


def test_rows_that_could_not_be_answered_are_taken_out_to_be_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "answers-0-of-1.jsonl"
    written(path, answer(0), answer(1, None, "server said 500"), answer(2))
    assert mend(path) == Mended(0, 1, 2)
    assert [one.index for one in read(path)] == [0, 2]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"not json\n", "answers-0-of-1.jsonl:2: not a line of a journal"),
        (b'{"config":"vt_4096"}\n', "answers-0-of-1.jsonl:2: not a line of a journal"),
        (to_line(answer(5)).replace(b'"finish"', b'"finnish"'), "finnish: Unexpected"),
        (to_line(answer(0)), "answers-0-of-1.jsonl:2: vt_4096/0 occurs twice"),
        (to_line(answer(5, None)), "neither answered nor unscored"),
        (b"[" * 100_000 + b'"\\ud800"\n', "not a line of a journal: Invalid JSON"),
    ],
)
def test_a_bad_line_before_the_end_is_named_and_nothing_is_lost(
    tmp_path: Path, line: bytes, said: str
) -> None:
    path = tmp_path / "answers-0-of-1.jsonl"
    data = to_line(answer(0)) + line + to_line(answer(1))
    path.write_bytes(data)
    with pytest.raises(RulerError, match=said):
        mend(path)
    assert path.read_bytes() == data


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_on_a_full_disk_the_journal_stays_whole(tmp_path: Path) -> None:
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    path = place / "answers-0-of-1.jsonl"
    try:
        with closing(Journal(path)) as journal:
            with pytest.raises(RulerError, match="No space left on device; free space"):
                for index in range(100):
                    journal.add(answer(index, "x" * 3000))
            indices = [one.index for one in read(path)]
            assert indices == list(range(len(indices))) and len(indices) > 10
            assert path.read_bytes().endswith(b"}\n")
    finally:
        subprocess.run(["umount", str(place)], check=True)
