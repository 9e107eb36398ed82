"""What ends a process: Ctrl-C, even where it was swallowed; limits, in workers and our program."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Condition
from types import SimpleNamespace

import pytest

from ruler_builders.pipeline.pool import Progress, run_jobs, silent
from ruler_data import terminal
from ruler_data.errors import RulerError
from ruler_data.progress import progress
from ruler_data.terminal import block_sigint_in_children, run
from ruler_data.tokenizers import load_tokenizer
from ruler_data.untrusted import child
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


@pytest.mark.parametrize("workers", [1, 2])
def test_every_row_is_reported(workers: int) -> None:
    reported = Counter[str]()

    def report(name: str, rows: int) -> None:
        reported[name] += rows

    list(run_jobs(many, range(4), workers, 0, None, report))
    assert reported == {f"config {job}": 50 for job in range(4)}


def forever(_: object) -> None:
    while True:
        pass


def too_much_memory(_: object) -> bytes:
    return bytes(2 * child.MEMORY)


def panic(_: object) -> None:
    os.write(2, b"thread panicked")
    raise BaseException  # as tokenizers does where Rust has no memory


def stopped(_: object) -> str:
    signal.raise_signal(signal.SIGINT)
    return "the signal waits for the end of the call"


def fails(_: object) -> None:
    msg = "no such token"
    raise ValueError(msg)


def long_text(_: object) -> str:
    return "x" * 3_000_000


def call_in_worker(function: str, _: object) -> str:
    child.SECONDS, child.MEMORY = 0.5, 256 << 20
    try:
        child.bounded(f"{__name__}:{function}", "a tokenizer")
    except child.ChildError as error:
        return f"{error} (child: {multiprocessing.parent_process() is not None})"
    return "passed"


@pytest.mark.slow
@pytest.mark.parametrize("function", ["forever", "too_much_memory", "panic"])
def test_a_worker_ends_where_its_tokenizer_takes_too_much(
    function: str, tiny: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tokenizer, jobs = load_tokenizer(str(tiny)), [function] * 2
    with pytest.raises(RulerError, match="tokenizer tiny: it takes too much time or memory"):
        list(run_jobs(call_in_worker, jobs, 2, 0, tokenizer, silent))
    assert capfd.readouterr().err == ""


TOO_MUCH = f"{child.refusal('tiny')}\n"


@pytest.mark.parametrize(
    ("function", "code", "said"),
    [
        ("forever", 2, TOO_MUCH), ("too_much_memory", 2, TOO_MUCH), ("panic", 2, TOO_MUCH),
        ("stopped", 130, "stopped; run the same command again to resume\n"), ("fails", 0, ""),
    ],
)  # fmt: skip
def test_the_program_ends_where_its_tokenizer_takes_too_much(
    function: str, code: int, said: str
) -> None:
    script = f"""
from ruler_data import terminal
from ruler_data.untrusted import child
from tests.test_interrupts import call_in_worker
child.supervise("ruler-data")
child.announce("tiny")
terminal.run("ruler-data", lambda: call_in_worker("{function}", None))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr == (said and f"ruler-data: {said}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "why"), [("fails", "no such token"), ("long_text", "it makes 3,0")]
)
def test_a_call_in_a_worker_fails_as_one_in_a_child(function: str, why: str) -> None:
    for said in run_jobs(call_in_worker, [function] * 2, 2, 0, None, silent):
        assert said.startswith(why) and said.endswith("(child: True)")
    with pytest.raises(child.ChildError, match=why):
        child.bounded(f"{__name__}:{function}", "a tokenizer")
