"""Chat templates and tokenizers of models run here, in a process with limits.

Jinja's sandbox keeps a template from files and attributes, but not from endless loops and gigabytes
of text; a tokenizer has regular expressions and rules that rewrite text. So what runs them is a
process with a limit of memory and of CPU time for each call; after a call that exceeds them, a new
one is started. A worker of a build is such a process itself (`confine`). In this process run those
of the registry, and, where the user says `--trust` or RULER_TRUST=1, all of them.

As a program, this module is that child: calls come in and results go out, as Python's pickles. Long
texts follow a call as they are, uncopied.
"""

import atexit
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

#: Limits of a call: bytes of memory; seconds of CPU time, and more for each byte of its texts.
MEMORY, SECONDS, SECONDS_PER_BYTE = 5 << 29, 15.0, 1e-5
#: Most bytes of a result: so many times those of the call, and so many more.
TIMES, MORE = 16, 2_000_000
TOO_MUCH = "it takes too much time or memory"
#: Bytes of a pipe: a prompt of 131,072 tokens is sent at once.
PIPE = 1 << 20
#: Exit status of a process in which a call exceeded its memory; a signal ends it after its time.
EXCEEDED = 99
#: Variable that is set where all templates and tokenizers are trusted.
TRUST = "RULER_TRUST"


class ChildError(Exception):
    """A call failed in the child, or exceeded its limits."""


def is_trusting() -> bool:
    """Whether the user trusts all templates and tokenizers."""
    return os.environ.get(TRUST, "0") not in ("", "0")


def bounded(function: str, subject: Hashable, *arguments: object) -> Any:  # noqa: ANN401
    """Return what a function does, from the child process or in a confined one.

    Args:
        function: its module and name, e.g. `ruler_data.tokenizers.chat_template:run_template`.
        subject: its first argument, what may take too much; then no call for it is made again.
        arguments: the others.

    Raises:
        ChildError: it fails, or takes too much time or memory.
    """
    if _is_confined:
        size = _size(arguments)
        with _silent(), _limited(size):
            result, failure = _run(function, (subject, *arguments))
            failure = failure or _excess(_size(result), size)
    else:
        result, failure = _child(os.getpid()).call(function, subject, arguments)
    if failure is not None:
        raise ChildError(failure)
    return result


class _Child:
    """The child of this process."""

    def __init__(self) -> None:
        self._lock, self._process = Lock(), self._start()
        self._excessive = set[Hashable]()
        atexit.register(self._stop)

    def _start(self) -> "subprocess.Popen[bytes]":
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        command = [sys.executable, "-P", "-m", "ruler_data.untrusted.child"]
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=null, pipesize=PIPE)

    def _stop(self) -> None:
        self._process.kill()
        with suppress(BrokenPipeError):
            self._process.communicate()

    def call(
        self, function: str, subject: Hashable, arguments: tuple[object, ...]
    ) -> tuple[Any, str | None]:
        """Return the result, or why there is none."""
        with self._lock:
            if subject in self._excessive:
                return None, TOO_MUCH
            process, answer = self._process, None
            assert process.stdin is not None and process.stdout is not None
            texts = list[pickle.PickleBuffer]()
            values = (function, subject, *map(_uncopied, arguments))
            call = pickle.dumps(values, 5, buffer_callback=texts.append)
            pieces: list[bytes | memoryview] = [call, *(text.raw() for text in texts)]
            try:
                with suppress(BrokenPipeError, EOFError, pickle.UnpicklingError):
                    process.stdin.write(pickle.dumps([*map(len, pieces)]))
                    process.stdin.writelines(pieces)
                    process.stdin.flush()
                    answer = pickle.load(process.stdout)
            finally:
                if answer is None:  # also after Ctrl-C: its next answer would be to this call
                    self._stop()
                    self._process = self._start()
            if answer is None:
                self._excessive.add(subject)
                return None, TOO_MUCH
            result, failure = answer
            return result, failure


def _uncopied(value: object) -> object:
    """Mark bytes, alone or in a list, as what follows a call."""
    if isinstance(value, list):
        return [*map(_uncopied, value)]
    return pickle.PickleBuffer(value) if isinstance(value, bytes) else value


@cache
def _child(_process: int) -> _Child:
    """Return the child of a process; one that was forked from it has its own."""
    return _Child()


_is_confined = False


def confine() -> None:
    """Let calls run in this process, which ends if one exceeds its limits.

    Its parent knows it by `exceeded`. The system must tell a process its memory, as Linux does.
    """
    global _is_confined
    _is_confined = Path(STATM).exists()


@contextmanager
def _silent() -> Iterator[None]:
    """Keep what a library says of its end from the terminal."""
    null, errors = _null_and_errors(os.getpid())
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(errors, 2)


@cache
def _null_and_errors(_process: int) -> tuple[int, int]:
    return os.open(os.devnull, os.O_WRONLY), os.dup(2)


def exceeded(exit_code: int | None) -> bool:
    """Whether a confined process ended so because a call exceeded its limits."""
    return exit_code in (EXCEEDED, -signal.SIGPROF, -signal.SIGABRT)


def _size(value: object) -> int:
    """Return the bytes or characters of the texts in a value; a number counts as one."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, Mapping):
        value = [*value.values()]
    if isinstance(value, list | tuple):
        is_plain = bool(value) and isinstance(value[0], int)  # token ids
        return len(value) if is_plain else sum(map(_size, value))
    return 1


def _excess(result: int, size: int) -> str | None:
    """Return why a result is refused: it is many times as large as the texts that it is of."""
    is_large = result > TIMES * size + MORE
    return f"it makes {result:,} bytes of {size:,}" if is_large else None


@contextmanager
def _limited(size: int) -> Iterator[None]:
    """End this process if a call with texts of this size exceeds its limits."""
    import resource

    before = soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = _data_bytes() + MEMORY
    limit = limit if soft == resource.RLIM_INFINITY else min(limit, soft)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    # Ends this process, whatever it is doing. CPU time: a busy machine is no reason.
    signal.setitimer(signal.ITIMER_PROF, SECONDS + SECONDS_PER_BYTE * size)
    try:
        yield
    except BaseException:  # of Python or of Rust, whose panics are no `Exception`
        os._exit(EXCEEDED)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _run(function: str, arguments: Sequence[object]) -> tuple[Any, str | None]:
    """Return the result of a call, or why it fails."""
    try:
        return _imported(function)(*arguments), None
    except MemoryError:
        raise
    except Exception as error:  # a template is a program and may raise anything
        return None, first_line(error)


@cache
def _imported(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    result: Callable[..., Any] = getattr(import_module(module), function)
    return result


#: Where Linux tells a process its memory, in pages; the sixth number is what the limit counts.
STATM = "/proc/self/statm"


def _data_bytes() -> int:
    """Return the bytes of memory that this process has for data; 0 where no system tells it."""
    file = _statm(os.getpid())
    return int(os.pread(file, 256, 0).split()[5]) * os.sysconf("SC_PAGE_SIZE") if file else 0


@cache
def _statm(_process: int) -> int:
    """Return an open file; 0 if there is none."""
    return os.open(STATM, os.O_RDONLY) if Path(STATM).exists() else 0


def _serve() -> None:
    """Answer calls until the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles it and ends this process
    calls, results = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            sizes = pickle.load(calls)
        except EOFError:
            return
        call, *texts = map(calls.read, sizes)
        size = sum(sizes)
        with _limited(size):
            function, *arguments = pickle.loads(call, buffers=texts)
            data = pickle.dumps(_run(function, arguments))
        if failure := _excess(len(data), size):
            data = pickle.dumps((None, failure))
        results.write(data)
        results.flush()


def first_line(error: Exception) -> str:
    """Return the first line of what an error says, or its type."""
    return str(error).splitlines()[0][:300] if str(error) else type(error).__name__


if __name__ == "__main__":
    _serve()
