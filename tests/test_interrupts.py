"""What ends a process: Ctrl-C, even where it was swallowed; a lack of memory."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Condition
from types import SimpleNamespace

import pyarrow as pa
import pytest

from ruler_builders.pipeline.pool import Progress, run_jobs
from ruler_data import memory, terminal
from ruler_data.progress import progress
from ruler_data.terminal import block_sigint_in_children, run
from tests.commands import HANG
from tests.conftest import ROOT


@pytest.fixture(autouse=True)
def kept() -> Iterator[None]:
    """Give back the handlers of signals that a command takes for itself, and forget what came."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terminal, "_signals", [])
        patch.setattr(sys, "unraisablehook", sys.unraisablehook)
        yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_swallowed_signal_stops_at_the_next_row(capsys: pytest.CaptureFixture[str]) -> None:
    done = []

    def work() -> None:
        with progress(None) as advance:
            with suppress(BaseException):  # as a bare `except` in somebody's import does
                signal.raise_signal(signal.SIGINT)
            done.append("went on")
            advance("vt_4096", 1)
            done.append("not this")

    with pytest.raises(SystemExit) as end:
        run("ruler-data", work)
    assert end.value.code == 130 and done == ["went on"]
    assert capsys.readouterr().err == "ruler-data: stopped; run the same command again to resume\n"


def test_a_signal_that_a_library_cannot_pass_on_prints_no_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)

    class Lost:
        def __del__(self) -> None:  # as PyO3 does, asking whether a text is a sequence
            signal.raise_signal(signal.SIGINT)

    def work() -> None:
        with progress(None) as advance:
            Lost()
            advance("vt_4096", 1)

    with pytest.raises(SystemExit) as end:
        run("ruler-data", work)
    assert end.value.code == 130
    assert capsys.readouterr().err == "ruler-data: stopped; run the same command again to resume\n"


def test_a_signal_between_taking_a_lock_and_its_block_does_not_leave_the_lock_held() -> None:
    given_back = []
    lock = SimpleNamespace(
        acquire=None, release=None, __enter__=partial(signal.raise_signal, signal.SIGINT),
        __exit__=lambda *_: given_back.append(True),
    )  # fmt: skip

    def work() -> None:
        with Condition(lock):  # type: ignore[arg-type]
            time.sleep(HANG)

    with pytest.raises(SystemExit) as end:
        run("ruler-data", work)
    assert end.value.code == 130 and given_back == [True]


@pytest.mark.slow
def test_a_second_signal_ends_a_command_at_once_but_not_the_same_one_sent_twice() -> None:
    code = """
import time
from ruler_data.terminal import run
def work():
    try:
        print("up", flush=True)
        time.sleep(60)
    finally:
        print("exit", flush=True)
        time.sleep(60)
run("ruler-data", work)
"""
    command = [sys.executable, "-c", code]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:  # type: ignore[call-overload]
        for word in ("up", "exit"):
            assert process.stdout.readline() == f"{word}\n"
            process.send_signal(signal.SIGINT)  # the second time, by a wrapper
        time.sleep(terminal.SAME_SIGNAL + 0.2)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=HANG)
    assert process.returncode == 143
    assert said == "stopped at once; run the same command again to resume\n"


@pytest.mark.slow
def test_a_signal_ends_a_library_that_does_not_return_to_python() -> None:
    code = """
import hashlib
from ruler_data.terminal import run
def work():
    print("up", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
run("ruler-data", work)
"""
    command = [sys.executable, "-c", code]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "up\n"
        time.sleep(0.5)  # until it is in the library
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=HANG)
    assert process.returncode == 130
    assert said == "stopped at once; run the same command again to resume\n"


def test_a_command_after_one_that_was_stopped_is_not() -> None:
    terminal._signals.append(signal.SIGINT)
    with pytest.raises(SystemExit) as end:
        run("ruler-data", lambda: None)
    assert end.value.code == 0
    with progress(None) as advance:
        advance("vt_4096", 1)


def test_a_child_begun_unheard_outlives_ctrl_c_and_its_parent_hears_it() -> None:
    code = "import time; print('up', flush=True); time.sleep(60)"
    with block_sigint_in_children():
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        try:
            with pytest.raises(KeyboardInterrupt):  # by another thread, while this one takes none
                os.kill(os.getpid(), signal.SIGINT)
                for _ in range(1000):
                    time.sleep(0.01)
            assert child.stdout and child.stdout.readline() == "up\n"
            child.send_signal(signal.SIGINT)
            time.sleep(0.3)
            assert child.poll() is None
        finally:
            child.kill()
            child.communicate()
    with pytest.raises(KeyboardInterrupt):  # and this one takes them again
        signal.raise_signal(signal.SIGINT)


def many(job: int, progress: Progress) -> int:
    for _ in range(50):
        progress(f"config {job}", 1)
    return job


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_every_row_is_reported(workers: int) -> None:
    reported = Counter[str]()

    def report(name: str, rows: int) -> None:
        reported[name] += rows

    list(run_jobs(many, range(4), workers, report))
    assert reported == {f"config {job}": 50 for job in range(4)}


def too_much_memory(_job: int, _: Progress) -> bytes:
    return bytes(1 << 40)


def too_much_for_a_library(_job: int, _: Progress) -> None:
    buffers = [pa.allocate_buffer(64 << 20) for _ in range(64)]
    assert buffers


@pytest.mark.slow
@pytest.mark.parametrize("work", [too_much_memory, too_much_for_a_library])
def test_a_worker_has_its_share_of_memory_and_says_so(work: Callable[..., object]) -> None:
    script = f"""
from ruler_builders.pipeline.pool import run_jobs, silent
from ruler_data import memory, terminal
from tests.test_interrupts import {work.__name__}
memory.limit_to(4 << 30)
terminal.run("ruler-data", lambda: list(run_jobs({work.__name__}, range(2), 2, silent)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (1, "")
    reason = "a worker takes more than the 2 GiB that this process may use"
    assert done.stderr == f"ruler-data: {reason}; RULER_MEMORY=4 for more\n"


@pytest.mark.parametrize(
    ("membership", "limit"),
    [("0::/slice/scope", "slice/memory.max"), ("5:cpu,memory:/a", "memory/memory.limit_in_bytes")],
)
def test_a_limit_of_a_group_above_is_a_limit_of_the_process(
    membership: str, limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cgroup").write_text(f"{membership}\n")
    (tmp_path / limit).parent.mkdir()
    (tmp_path / limit).write_text("123456789\n")
    monkeypatch.setattr(memory, "MEMBERSHIP", tmp_path / "cgroup")
    monkeypatch.setattr(memory, "GROUPS", tmp_path)
    assert memory.machine_memory() == 123_456_789


class PanicException(BaseException):
    """What is raised where Rust panics."""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "takes more memory than there is"),
        (PanicException("capacity overflow\nmore"), "a library failed (capacity overflow)"),
    ],
)
def test_a_lack_of_memory_is_one_line(
    error: BaseException,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ruler_data.memory.limit", lambda: None)

    def work() -> None:
        raise error

    with pytest.raises(SystemExit) as end:
        run("ruler-data", work)
    assert end.value.code == 1
    assert capsys.readouterr().err.startswith(f"ruler-data: {said}")
