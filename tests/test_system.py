"""How a program ends, what it prints, how much memory it takes, and which files it opens."""

import errno
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.table import Table

from ruler_data import files, memory, terminal
from ruler_data.errors import BudgetError, RulerError, Stopped, UsageError
from tests.commands import process_kept

GIB = 1 << 30


def raises(error: BaseException) -> Callable[[], object]:
    def command() -> None:
        raise error

    return command


def panic() -> BaseException:
    kind: type[BaseException] = type("PanicException", (BaseException,), {})
    return kind("no memory\nat line 5")


#: What a command raises, its exit status, and what is said.
ENDS: list[tuple[Callable[[], object], int, str]] = [
    (int, 0, ""),
    (raises(SystemExit()), 1, ""),
    (raises(SystemExit(0)), 0, ""),
    (raises(SystemExit(3)), 3, ""),
    (raises(SystemExit("x")), 1, ""),
    (raises(RulerError("a", "b\nc")), 1, "p: a: b\\nc"),
    (raises(UsageError("a")), 2, "p: a"),
    (raises(Stopped(2)), 130, "p: stopped; run the same command again to resume"),
    (raises(BrokenPipeError()), 1, ""),
    (raises(OSError(errno.ENOSPC, "full", "/x")), 1,
     "p: /x: full; free space, and run the same command again"),
    (raises(OSError(errno.EDQUOT, "quota")), 1,
     "p: a file cannot be written: quota; free space, and run the same command again"),
    (raises(OSError(errno.EACCES, "denied", "/x")), 1, "p: /x: denied"),
    (raises(OSError("odd")), 1, "p: system: odd"),
    (raises(panic()), 1,
     "p: a library failed (no memory), possibly for lack of memory; RULER_MEMORY=6 for more"),
    (raises(MemoryError()), 1,
     "p: takes more than the 3 GiB that this process may use; RULER_MEMORY=6 for more"),
]  # fmt: skip


@pytest.fixture
def three_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "limit", lambda: 3 * GIB)


@pytest.mark.usefixtures("three_gib")
@pytest.mark.parametrize("number", range(len(ENDS)))
def test_each_end_of_a_command_has_its_status_and_its_line(
    number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    command, status, said = ENDS[number]
    with process_kept(), pytest.raises(SystemExit) as end:
        terminal.run("p", command)
    assert end.value.code == status
    assert capsys.readouterr().err == (f"{said}\n" if said else "")


def test_a_bug_is_not_hidden() -> None:
    with process_kept(), pytest.raises(ZeroDivisionError):
        terminal.run("p", lambda: 1 // 0)


@pytest.mark.parametrize(("before", "status"), [(0, 1), (3, 3)])
def test_output_that_cannot_be_written_is_said_once(
    before: int, status: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for error, said in (
        (OSError(errno.ENOSPC, "full"), "p: standard output: full\n"), (BrokenPipeError(), ""),
    ):  # fmt: skip
        with Path(os.devnull).open("w") as stream, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", Unwritable(stream.fileno(), error))
            assert terminal._flushed("p", before) == status
        assert capsys.readouterr().err == ("" if before else said)


class Unwritable:
    """A standard output that fails."""

    def __init__(self, number: int, error: OSError) -> None:
        self.number = number
        self.error = error

    def flush(self) -> None:
        raise self.error

    def fileno(self) -> int:
        return self.number


def test_no_character_of_a_text_moves_a_cursor_or_reorders_a_line() -> None:
    assert (
        terminal.visible("a\n\t\0\x1b\x7f\x80\x9f\xa0")
        == "a\n\u2409\u2400\u241b\u2421\ufffd\ufffd\xa0"
    )
    odd = "\u2029\u202a\u202e\u202f\u2065\u2066\u2069\u206a"
    hidden = [letter for letter in odd if terminal.visible(letter) == "\ufffd"]
    assert hidden == ["\u202a", "\u202e", "\u2066", "\u2069"]
    assert terminal.visible_line("é\n\x1b\u202e") == "é\\n\\x1b\\u202e"


@pytest.mark.parametrize(
    ("columns", "width"), [("", 200), ("0", 200), ("x", 200), ("1", 1), ("300", 300)]
)
def test_a_pipe_is_as_wide_as_columns_says_or_wide_enough(
    columns: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert terminal.SafeConsole().size.width == width


def test_a_table_cuts_no_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    table = Table("name", box=None)
    table.add_row("0123456789abcdef" * 4)
    console = terminal.SafeConsole()
    with console.capture() as capture:
        console.print(table)
    assert "".join(capture.get().split()) == "name" + "0123456789abcdef" * 4


def test_a_result_is_printed_as_it_prints_itself_and_sets_the_status(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Result:
        exit_status = 3
        failure = "not\nall"
        notes = ("so",)

        def __str__(self) -> str:
            return "text"

        def to_record(self) -> dict[str, object]:
            return {"path": Path("x")}

    for as_json, said in ((False, "text\n"), (True, '{\n  "path": "x"\n}\n')):
        assert terminal.print_result("p", Result(), as_json=as_json) == 3
        printed = capsys.readouterr()
        assert printed.out == said and printed.err == "warning: so\np: not\\nall\n"
    assert terminal.print_result("p", None, as_json=False) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("three_gib")
def test_workers_share_the_limit_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [memory.most_workers(size) for size in (4096, 131_072, 131_073)] == [1, 1, 1]
    assert memory.shared(131_072) == "as each needs 2 of the 3 GiB for all; RULER_MEMORY=6 for more"
    assert memory.shared(131_073) == "as each needs 4 of the 3 GiB for all; RULER_MEMORY=6 for more"
    monkeypatch.setattr(memory, "limit", lambda: 8 * GIB)
    assert [memory.most_workers(size) for size in (131_072, 131_073)] == [4, 2]
    monkeypatch.setattr(memory, "limit", lambda: None)
    assert memory.most_workers(4096) is None
    assert memory.excess() == "takes more memory than there is"
    assert memory.failure(ValueError("x")) == ""


@pytest.mark.parametrize(
    ("machine", "setting", "size"),
    [
        (2, "", 4),
        (8, "", 4),
        (10, "", 5),
        (32, "", 16),
        (64, "", 16),
        (64, "2", 2),
        (2, "9.5", 9.5),
    ],
)
def test_the_limit_of_memory_is_half_of_the_machine_from_4_to_16_gib(
    machine: int, setting: str, size: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = list[int]()
    monkeypatch.setattr(memory, "machine_memory", lambda: machine * GIB)
    monkeypatch.setattr(memory, "limit_to", limits.append)
    monkeypatch.setenv("RULER_MEMORY", setting)
    memory.limit_process()
    assert limits == [int(size * GIB)]
    for wrong in ("1.9", "x", "nan", str(1 << 20)):
        monkeypatch.setenv("RULER_MEMORY", wrong)
        with pytest.raises(UsageError) as refused:
            memory.limit_process()
        assert str(refused.value) == f"RULER_MEMORY={wrong!r}: give a number of GiB, 2 or more"


def test_a_limit_is_lowered_and_never_raised_until_it_is_lifted() -> None:
    with process_kept():
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (1000 * GIB, hard))
        for size, expected in ((1001, 1000), (900, 900), (950, 900)):
            memory.limit_to(size * GIB)
            assert memory.limit() == expected * GIB
        memory.lift()
        assert resource.getrlimit(resource.RLIMIT_DATA)[0] == hard


def test_a_file_is_read_to_its_limit_and_no_further(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345\r\n7\r9")
    assert files.read_bytes(path, 10) == b"12345\r\n7\r9" and files.read_text(path) == "12345\n7\n9"
    for where, name in ((None, repr(str(path))), ("here", "here")):
        with pytest.raises(RulerError) as large:
            files.read_bytes(path, 9, where)
        assert str(large.value) == f"{name}: holds 10 bytes, and at most 9 are read"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RulerError, match="pipe': is not a regular file"):
        files.open_file(tmp_path / "pipe")


def test_lines_are_read_to_their_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"123\n1234\n12")
    assert [*files.read_lines(path, 5)] == [b"123\n", b"1234\n", b"12"]
    with pytest.raises(RulerError) as long:
        [*files.read_lines(path, 4)]
    assert str(long.value) == "a.jsonl line 2: holds more than 4 bytes"


@pytest.mark.parametrize("kind", [str.encode, str])
def test_json_holds_so_many_values_and_levels(
    kind: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "VALUES", 3)
    assert files.parse_json(kind('{"a": 1, "b": 2}')) == {"a": 1, "b": 2}
    with pytest.raises(ValueError, match=r"^it holds up to 4 values, and at most 3 are read$"):
        files.parse_json(kind('{"a": 1, "b": [2, 3]}'))
    with pytest.raises(ValueError, match="nested too deeply"):
        files.parse_json(kind("[" * 100_000))


def test_what_cannot_be_written_is_said_with_what_helps(tmp_path: Path) -> None:
    again = ", and run the same command again to resume"
    for error, need, said in (
        (OSError(errno.ENOSPC, "full"), "5 MB of ", "full; 5 MB of free space"),
        (OSError(errno.EDQUOT, "quota"), "", "quota; free space"),
        (OSError(errno.EACCES, "no"), "x", "no; make it writable, or choose another place"),
        (OSError("odd"), "", "odd; make it writable, or choose another place"),
    ):  # fmt: skip
        found = str(files.unwritable(Path("/a"), error, need))
        assert found == f"/a: cannot be written: {said}{again}"
    (tmp_path / "b").symlink_to(tmp_path)
    (tmp_path / "a").symlink_to("nowhere")
    with pytest.raises(UsageError) as linked:
        files.refuse_links(tmp_path)
    assert str(linked.value) == (
        f"--out {str(tmp_path)!r}: 'b' in it is a link to another folder, and nothing is written "
        "through links; remove the link"
    )
    os.mkfifo(tmp_path / "pipe")
    for write in (files.append_file, files.create_file):
        for name in ("a", "pipe"):
            with pytest.raises(OSError, match=r"symbolic|not a regular|No such device"):
                write(tmp_path / name)
    for write, expected in ((files.create_file, b"x"), (files.append_file, b"xx")):
        with write(tmp_path / "new") as file:
            file.write(b"x")
        assert (tmp_path / "new").read_bytes() == expected


def test_a_refused_budget_is_the_same_in_another_process() -> None:
    import pickle

    error = BudgetError("vt", 10, 5, "too long")
    again = pickle.loads(pickle.dumps(error))
    assert (again.task, again.need, again.limit, str(again)) == ("vt", 10, 5, "too long")
