"""Chat templates and tokenizers of models run here, in a process with limits.

Jinja's sandbox keeps a template from files and attributes, but not from endless loops and gigabytes
of text; a tokenizer has regular expressions and rules that rewrite text. So what runs them is a
process with a limit of memory and of CPU time for each call; after a call that exceeds them, a new
one is started. The program `ruler-data` is such a process itself (`supervise`), and so are workers
of a build (`confine`): there a call goes through no pipe. Tokenizers of the registry run without
limits, and, where the user says `--trust` or RULER_TRUST=1, all of them.

As a program, this module is that child: calls come in and results go out, as Python's pickles. Long
texts follow a call as they are, uncopied.
"""

import atexit
import ctypes
import mmap
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any

from ruler_data.errors import Stopped

#: Limits of a call: bytes of memory; seconds of CPU time, and more for each byte of its texts.
MEMORY, SECONDS, SECONDS_PER_BYTE = 2_560 << 20, 15.0, 1e-5
#: Most bytes of a result: so many times those of the call, and so many more.
RESULT_FACTOR, RESULT_SLACK = 16, 2_000_000
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
        subject: its first argument, the template or tokenizer; after one call over the limits, no
            other is made for it.
        arguments: the others.

    Raises:
        ChildError: it fails, or takes too much time or memory.
    """
    if _is_confined:
        size = _size(arguments)
        with _limited(size):
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


#: Where Linux tells a process its memory, in pages; the sixth number is what the limit counts.
STATM = Path("/proc/self/statm")

_is_confined = False


def confine() -> None:
    """Let calls run in this process, which ends if one exceeds its limits; one thread makes them.

    Its parent knows it by `exceeded`. The system must tell a process its memory, as Linux does.
    """
    global _is_confined
    _is_confined = STATM.exists()


def exceeded(exit_code: int | None) -> bool:
    """Whether a confined process ended so because a call exceeded its limits."""
    return exit_code in (EXCEEDED, -signal.SIGPROF, -signal.SIGABRT)


def refusal(tokenizer: str) -> str:
    """Return what the user reads of a tokenizer for which a confined process ended."""
    return f"tokenizer {tokenizer}: {TOO_MUCH}; if you know its files, --trust lifts the limits"


#: Number of the call that names a signal for when the parent ends (Linux, sys/prctl.h).
PR_SET_PDEATHSIG = 1
#: Name of the tokenizer that runs here within limits, for the process that waits for this one.
_announced = mmap.mmap(-1, 256)
#: The process that the user started, if it waits for this one.
_started = 0


def announce(tokenizer: str) -> None:
    """Say which tokenizer now runs within limits."""
    _announced[:] = tokenizer.encode(errors="replace")[:256].ljust(256, b"\0")


def supervise(program: str) -> None:
    """Go on in a confined copy of this process, which waits for it and ends as it does.

    Signals are passed on to the copy. There must be no threads yet.
    """
    global _started
    if not STATM.exists():
        return
    started = os.getpid()
    try:
        copy = os.fork()
    except OSError:  # no more processes are allowed: calls go to a child, or say why not
        return
    if not copy:
        _started = started
        confine()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # end if the other is killed
        if os.getppid() != started:  # it ended before that call
            os._exit(1)
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: os.kill(copy, number))
    code = os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])
    name = _announced[:].rstrip(b"\0").decode(errors="replace")
    if exceeded(code) and name:
        code, said = 2, refusal(name)
    else:
        said = "killed, possibly out of memory" if code == -signal.SIGKILL else ""
    if said:
        cursor = "\n\x1b[?25h" if os.isatty(2) else ""  # a progress bar hides it
        with suppress(OSError):  # standard error may be closed
            os.write(2, f"{cursor}{program}: {said}\n".encode())
    if code in (-signal.SIGINT, -signal.SIGTERM):
        signal.signal(-code, signal.SIG_DFL)
        os.kill(started, -code)
    sys.exit(code if code >= 0 else 128 - code)


def started_process() -> int:
    """Return the process that the user started: this one, or the one that waits for it."""
    return _started or os.getpid()


def _size(value: object) -> int:
    """Return the bytes or characters of the texts in a value; a number counts as one.

    >>> _size(("ids", ["ab", "c"], {"n": 1})), _size([7, 8])
    (7, 2)
    """
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, Mapping):
        value = (*value.values(),)
    if isinstance(value, list) and value and isinstance(value[0], str | bytes | int):
        return len(value) if isinstance(value[0], int) else sum(map(len, value))
    return sum(map(_size, value)) if isinstance(value, list | tuple) else 1


def _excess(result: int, size: int) -> str | None:
    """Return why a result is refused: it is many times as large as the texts that it is of."""
    is_large = result > RESULT_FACTOR * size + RESULT_SLACK
    return f"it makes {result:,} bytes of {size:,}" if is_large else None


#: Whether a call runs within limits here, and the signals that wait for its end: it gives back
#: standard error, timer and memory first.
is_limited = False
delayed: list[int] = []


@contextmanager
def _limited(size: int) -> Iterator[None]:
    """End this process, silently, if a call with texts of this size exceeds its limits."""
    global is_limited
    import resource

    is_limited = True
    (null, errors), (limits, before) = _null_and_errors(), _memory(int(10 * monotonic()))
    resource.setrlimit(resource.RLIMIT_DATA, limits)
    # Ends this process, whatever it is doing. CPU time: a busy machine is no reason.
    signal.setitimer(signal.ITIMER_PROF, SECONDS + SECONDS_PER_BYTE * size)
    os.dup2(null, 2)  # a library may print much while it ends
    try:
        yield
    except BaseException:  # of Python or of Rust, whose panics are no `Exception`
        os._exit(EXCEEDED)
    finally:
        os.dup2(errors, 2)
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_DATA, before)
        is_limited = False
    if delayed:
        raise Stopped(delayed.pop())


@cache
def _null_and_errors() -> tuple[int, int]:
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        return null, os.dup(2)
    except OSError:  # it is closed
        return null, null


@lru_cache(maxsize=1)
def _memory(_tenth: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the limits of memory during a call, and outside, for this tenth of a second.

    A process grows by little in that time, and asking at each call would take longer than the rest.
    """
    import resource

    before = soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    pages = int(STATM.read_bytes().split()[5]) if STATM.exists() else 0
    limit = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY
    return (limit if soft == resource.RLIM_INFINITY else min(limit, soft), hard), before


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
