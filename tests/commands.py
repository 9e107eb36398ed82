"""Commands in tests: called in this process, or run, watched and killed in one of their own."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout, suppress
from importlib import import_module
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from tests import forks

#: Seconds after which something hangs; far more than anything here takes.
HANG = 240

#: Each program's module, for `python -m`, and that of its `main`.
PROGRAMS = {"ruler-data": "ruler_builders", "ruler-eval": "ruler_cli"}
MAINS = {"ruler-data": "ruler_builders.__main__", "ruler-eval": "ruler_cli"}

#: Variables that commands read when they run; any other takes a process of its own.
READ_LATE = {
    "COLUMNS", "CUDA_VISIBLE_DEVICES", "OPENAI_API_KEY", "RULER_CACHE", "RULER_MAKE",
    "RULER_SOURCES", "RULER_TOKENIZERS",
}  # fmt: skip

Done = subprocess.CompletedProcess[str]
Process = subprocess.Popen[str] | forks.Process


def run(
    program: str,
    *arguments: object,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    wrapper: tuple[str, ...] = (),
) -> Done:
    """Run a command to its end, in this process unless `env` or a `wrapper` takes another."""
    if wrapper or not (env or {}).keys() <= READ_LATE:
        return spawn(program, *arguments, cwd=cwd, env=env, wrapper=wrapper)
    return call(program, *arguments, cwd=cwd, env=env)


def call(
    program: str, *arguments: object, cwd: Path | None = None, env: dict[str, str] | None = None
) -> Done:
    """Call a command in this process, as its own would: what has been loaded stays loaded.

    A start of Python that loads a tokenizer takes seconds, of which a test of what a command says
    and writes learns nothing.
    """
    main = import_module(MAINS[program]).main
    said = {name: TextIOWrapper(BytesIO(), "utf-8", newline="") for name in ("stdout", "stderr")}
    typed = [program, *map(str, arguments)]
    with (
        process_kept(),
        chdir(cwd or Path()),
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(said["stdout"]),
        redirect_stderr(said["stderr"]),
        pytest.raises(SystemExit) as end,
    ):
        patch.setattr(sys, "argv", typed)
        # A program that runs as a module calls itself by that; this one is called as a script is.
        patch.setattr(sys.modules["__main__"], "__package__", None, raising=False)
        for name, value in (env or {}).items():
            patch.setenv(name, value)
        main()
    return Done(typed, int(end.value.code or 0), _text(said["stdout"]), _text(said["stderr"]))


def call_in(
    pool: ProcessPoolExecutor,
    program: str,
    *arguments: object,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
) -> Done:
    """Call a command in the process of a pool (`forks.pool`), which has its own environment."""
    return pool.submit(call, program, *arguments, cwd=cwd, env=env).result(HANG)


def spawn(
    program: str,
    *arguments: object,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    wrapper: tuple[str, ...] = (),
    timeout: float = HANG,
) -> Done:
    """Run a command to its end in a process of its own; a `wrapper` comes before it."""
    with started(program, *arguments, cwd=cwd, env=env, wrapper=wrapper) as process:
        return finish(process, timeout)


@contextmanager
def started(
    program: str,
    *arguments: object,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    wrapper: tuple[str, ...] = (),
) -> Iterator[Process]:
    """Start a command in a process group of its own; nothing of it outlives the block."""
    # Commands that were called in this process have left limits for Xet's client there.
    here = {name: value for name, value in os.environ.items() if not name.startswith("HF_XET_")}
    everything = {**here, **(env or {})}
    command = line(program, *arguments)
    process: Process
    # Ray keeps what it read of the environment when it was loaded, which may be before a fork.
    late = any(name.startswith(forks.AT_START) for name in env or ()) or "RAY_ADDRESS" in everything
    if wrapper or late:
        process = subprocess.Popen(
            [*wrapper, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env=everything,
            start_new_session=True,
        )
    else:
        process = forks.Process(PROGRAMS[program], command[3:], everything, cwd)
    try:
        yield process
    finally:
        kill_group(process)
        process.communicate(timeout=HANG)


def kill_group(process: Process) -> None:
    """Kill a command and all its workers, as far as they live."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def finish(process: Process, timeout: float = HANG) -> Done:
    """Wait for a started command and return how it ended."""
    output, errors = process.communicate(timeout=timeout)
    assert process.returncode is not None
    return Done(process.args, process.returncode, output, errors)


def succeeded(done: Done) -> Done:
    """Return a command's outcome, or say what went wrong when it must succeed and does not."""
    assert done.returncode == 0, done.stderr
    return done


#: A tokenizer of a known name is told to be of a folder.
OF_A_FOLDER = "warning: tokenizer "


def one_line(done: Done, code: int, beside: str | None = None) -> str:
    """Return the one line in which a command says why it does not do what it was asked.

    `beside` is how a warning begins that may stand beside it.
    """
    assert done.returncode == code, (done.returncode, done.stderr)
    lines = done.stderr.splitlines()
    if beside is not None:
        lines = [line for line in lines if not line.startswith(beside)]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith(tuple(f"{program}: " for program in PROGRAMS)), done.stderr
    return lines[0]


def line(program: str, *arguments: object) -> list[str]:
    """Return what starts a command in a process of its own."""
    return [sys.executable, "-m", PROGRAMS[program], *map(str, arguments)]


def _text(stream: TextIOWrapper) -> str:
    stream.flush()
    return stream.buffer.getvalue().decode()  # type: ignore[attr-defined, no-any-return]


@contextmanager
def process_kept() -> Iterator[None]:
    """Give back the handlers of signals and the limit of memory that a command sets for itself."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    memory = resource.getrlimit(resource.RLIMIT_DATA)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, memory)
        for number, handler in before.items():
            signal.signal(number, handler)
