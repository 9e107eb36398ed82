"""What every command has in common on a terminal, in a log, in a shell and on another system."""

import errno
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Condition, Timer

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_data import progress, terminal
from ruler_data.errors import Stopped, UsageError
from ruler_data.files import unwritable
from ruler_data.names import parse_length
from tests import commands
from tests.commands import HANG, call, line, one_line, spawn, succeeded
from tests.conftest import Cli


@given(st.integers(1, 97_000), st.sampled_from("kK"))
def test_k_is_1024_tokens(number: int, suffix: str) -> None:
    assert parse_length(f"{number}{suffix}") == 1024 * number


@pytest.mark.parametrize("text", ["", "k", "0", "-4k", "4kk", "1.5k", "4 k", "٤k", "99999k", "4g"])
def test_what_is_no_length_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match=r"not a number of tokens .* e\.g\. 4096 or 4k"):
        parse_length(text)


def test_every_option_that_takes_lengths_takes_4k(cli: Cli, tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    build = ("build", "--tokenizer", tiny, "--tasks", "vt", "--lengths", "2k,4k", "--rows", 2)
    succeeded(cli(*build, "--sources", "sample", "--out", out))
    assert {path.name for path in out.glob("vt_*")} == {"vt_2048", "vt_4096"}
    done = cli("verify", out, "--lengths", "4K")
    assert done.returncode == 3, done.stderr
    assert "not proved: vt_2048: left out by --tasks or --lengths" in done.stderr
    assert "vt_4096" not in done.stderr
    run = ("run", "--data", out, "--model", "gold", "--engine", "oracle", "--out", tmp_path / "run")
    done = succeeded(call("ruler-eval", *run, "--rows", "2k:1,4k:2"))
    assert "3 of 3 rows" in done.stdout
    succeeded(cli("export", out, "--for", "jsonl", "--lengths", "2k", "--out", tmp_path / "jsonl"))
    rows = tmp_path / "jsonl" / "vt_2048.jsonl"
    rows.rename(tmp_path / "vt.jsonl")
    imported = ("identify", tmp_path / "vt.jsonl", "--tokenizer", tiny, "--length", "2k")
    succeeded(cli(*imported, "--out", tmp_path / "imported"))
    assert (tmp_path / "imported" / "vt_2048").is_dir()


def test_windows_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert "Windows is not supported" in one_line(call("ruler-data", "list", "suites"), 2)


@pytest.mark.parametrize(
    ("shell", "variable"), [("bash", "COMP_WORDS"), ("zsh", "_TYPER_COMPLETE_ARGS")]
)
def test_a_shell_completes_options_of_a_command(shell: str, variable: str) -> None:
    env = {variable: "ruler-data build --len", "COMP_CWORD": "2"}
    env["_RULER_DATA_COMPLETE"] = f"complete_{shell}"
    done = succeeded(spawn("ruler-data", env=env))
    assert "--lengths" in done.stdout
    assert "--tokenizer" not in done.stdout


def test_tables_in_a_pipe_are_as_wide_as_columns_says() -> None:
    done = succeeded(spawn("ruler-data", "list", "suites", env={"COLUMNS": "60"}))
    assert max(map(len, done.stdout.splitlines())) <= 60


def test_a_log_gets_no_lines_about_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress(2 * 4096) as advance:
        advance("vt_4096", 1)
    assert list(progress.track("ab", "scoring")) == ["a", "b"]
    assert not capsys.readouterr().err


@pytest.mark.slow
def test_a_terminal_gets_a_bar_with_rate_and_remaining_time(sample_build: Path) -> None:
    ours, theirs = pty.openpty()
    command = line("ruler-data", "verify", sample_build, "--lengths", "4k", "--tasks", "cwe")
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, "COLUMNS": "120", "TERM": "xterm"},
    )
    os.close(theirs)
    shown = b""
    with os.fdopen(ours, "rb", buffering=0) as terminal_output:
        try:
            while piece := terminal_output.read(4096):
                shown += piece
        except OSError:  # Linux: the other end is closed
            pass
    assert process.wait(HANG) == 3  # the other configs are not proved
    assert all(text in shown for text in (b"cwe_4096", b"6 rows", b"rows/s", b"left"))


@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_a_command_without_an_output_runs_to_its_end(closed: str) -> None:
    shell = [
        "sh",
        "-c",
        f'exec "$@" {closed}',
        "sh",
        *line("ruler-data", "list", "suites", "--json"),
    ]
    done = subprocess.run(shell, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) == (closed == "2>&-")


@pytest.mark.parametrize(
    ("number", "is_space"), [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EACCES, False)]
)
def test_only_a_full_disk_asks_for_space(number: int, is_space: bool) -> None:
    error = unwritable(Path("x"), OSError(number, os.strerror(number)), "it needs 10,157 bytes; ")
    assert ("it needs 10,157 bytes; free space" in str(error)) == is_space
    assert ("make it writable" in str(error)) != is_space


def test_one_ctrl_c_stops_while_threads_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "_signals", [])
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    with commands.process_kept():
        signal.signal(signal.SIGINT, terminal._stop)
        waiting = Condition()
        sender = Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        sender.start()
        with waiting, pytest.raises(Stopped):
            waiting.wait(0.055)
            terminal.raise_if_interrupted()
            time.sleep(HANG)
        time.sleep(0.05)  # a second exception would come now
        sender.join()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("build --rows abc", "ruler-data: --rows 'abc': Input should be a valid integer"),
        ("build --workers -1", "ruler-data: --workers '-1': Input should be greater than or"),
        ("export x --for rya", "--for: 'rya' is not one of 'nemo', 'kvpress', 'lm-eval', "),
        ("build llama3", "unexpected extra argument(s) (llama3); see `ruler-data build --help`"),
        ("build --rose 3", "No such option: --rose"),
        ("build --rows", "Option '--rows' requires an argument; see `ruler-data build --help`"),
        ("export mine", "Missing option '--for'. Choose from: nemo, kvpress, lm-eval"),
        ("verify", "Missing argument 'data'; see `ruler-data verify --help`"),
        ("bild", "No such command 'bild'. Did you mean 'build'?; see `ruler-data --help`"),
        ("build --tasks VT", "no such task; did you mean vt; known"),
    ],
)
def test_a_word_is_answered_with_its_option(words: str, said: str, cli: Cli) -> None:
    assert said in one_line(cli(*words.split()), 2)


def test_an_empty_path_is_not_the_working_directory(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (
        ("list", "sources", "--download", ""), ("build", "--out", ""),
        ("verify", "x", "--revision", ""), ("find", "--model", "x", "--in", ""),
    ):  # fmt: skip
        option = command[-2]
        assert f"{option}: is empty; give a value, or leave it out" in one_line(cli(*command), 2)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("publish", "x", "--repo", "org/ruler", "--version", ""), "--version"),
        (("publish", "x", "--repo", "org/ruler", "--index", ""), "--index"),
        (("show", "x", "--repo", ""), "--repo"),
        (("show", "x", ""), "CONFIG"),
    ],
)
def test_an_empty_value_is_not_one_that_was_left_out(
    command: tuple[str, ...], name: str, cli: Cli
) -> None:
    assert f"{name}: is empty; give a value, or leave it out" in one_line(cli(*command), 2)
