"""Chat templates and tokenizers of models run here, in a child process with limits.

Jinja's sandbox keeps a template from files and attributes, but not from endless loops and gigabytes
of text; a tokenizer has regular expressions and rules that rewrite text. So what runs them is a
process with a limit of memory and of CPU time for each call; after a call that exceeds them, a new
one is started. In this process run those of the registry, and, where the user says `--trust` or
RULER_TRUST=1, all of them.

As a program, this module is that child: calls come in and results go out, as Python's pickles. Long
texts follow a call as they are, uncopied.
"""

import atexit
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Hashable
from contextlib import suppress
from functools import cache
from importlib import import_module
from threading import Lock
from typing import Any

#: Limits of the child: bytes of memory; seconds of CPU time for a call, and more for each byte.
MEMORY, SECONDS, SECONDS_PER_BYTE = 3 << 30, 15.0, 1e-5
#: Most bytes of a result: so many times those of the call, and so many more.
TIMES, MORE = 16, 2_000_000
TOO_MUCH = "it takes too much time or memory"
#: Bytes of a pipe: a prompt of 131,072 tokens is sent at once.
PIPE = 1 << 20
#: Variable that is set where all templates and tokenizers are trusted.
TRUST = "RULER_TRUST"


class ChildError(Exception):
    """A call failed in the child, or exceeded its limits."""


def is_trusting() -> bool:
    """Whether the user trusts all templates and tokenizers."""
    return os.environ.get(TRUST, "0") not in ("", "0")


def bounded(function: str, subject: Hashable, *arguments: object) -> Any:  # noqa: ANN401
    """Return what a function does, from the child process.

    Args:
        function: its module and name, e.g. `ruler_data.tokenizers.chat_template:run_template`.
        subject: its first argument, what may take too much; then no call for it is made again.
        arguments: the others.

    Raises:
        ChildError: it fails, or takes too much time or memory.
    """
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


def _serve() -> None:
    """Answer calls until the parent ends."""
    import resource

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles it and ends this process
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    calls, results = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            sizes = pickle.load(calls)
        except EOFError:
            return
        call, *texts = map(calls.read, sizes)
        # Ends this process, whatever it is doing. CPU time: a busy machine is no reason.
        signal.setitimer(signal.ITIMER_PROF, SECONDS + SECONDS_PER_BYTE * sum(sizes))
        answer: tuple[Any, str | None]
        try:
            name, subject, *arguments = pickle.loads(call, buffers=texts)
            module, _, function = name.partition(":")
            answer = getattr(import_module(module), function)(subject, *arguments), None
        except MemoryError:
            os._exit(1)  # as the time limit ends this process
        except Exception as error:  # a template is a program and may raise anything
            answer = None, first_line(error)
        data = pickle.dumps(answer)
        if len(data) > TIMES * sum(sizes) + MORE:
            data = pickle.dumps((None, f"it makes {len(data):,} bytes of {sum(sizes):,}"))
        signal.setitimer(signal.ITIMER_PROF, 0)
        results.write(data)
        results.flush()


def first_line(error: Exception) -> str:
    """Return the first line of what an error says, or its type."""
    return str(error).splitlines()[0][:300] if str(error) else type(error).__name__


if __name__ == "__main__":
    _serve()
