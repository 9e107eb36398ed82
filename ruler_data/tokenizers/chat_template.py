"""Chat templates: programs that come with a model, run in the sandbox of Jinja.

The sandbox keeps a template from files and attributes, but not from endless loops and gigabytes of
text. So the template of a Hub id that is not in the registry runs in a child process, which has a
limit of memory and ends itself when a template takes too long. As a program, this module is that
child: it reads a request per line and writes an answer per line, both JSON.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from threading import Lock
from typing import Any, NoReturn

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

#: Limits of the child: seconds, bytes of memory, and characters that it adds to a turn.
SECONDS, MEMORY, ADDED = 10, 1 << 30, 1_000_000
TOO_MUCH = f"it takes more than {SECONDS} s, or too much memory"
#: Templates that print the date get this one, so that lengths do not depend on the day.
#: It is the default of Llama 3.1's template.
TODAY = "26 Jul 2024"


class TemplateError(Exception):
    """The template fails, refuses the turn, or exceeds a limit."""


def run_template(source: str, variables: Mapping[str, Any] | None) -> str:
    """Return what a template renders; without variables, only compile it.

    Raises:
        TemplateError: it fails.
    """
    try:
        program = _compiled(source)
    except Exception as error:
        msg = f"it does not compile: {first_line(error)}"
        raise TemplateError(msg) from error
    try:
        return program.render(variables) if variables is not None else ""
    except MemoryError:
        raise
    except Exception as error:  # a template is a program and may raise anything
        msg = first_line(error)
        refuses = isinstance(error, jinja2.TemplateRuntimeError)
        raise TemplateError(msg if refuses else f"it fails: {msg}") from error


def run_bounded_template(source: str, variables: Mapping[str, Any] | None) -> str:
    """Return what `run_template` does, from a child process with limits.

    Raises:
        TemplateError: it fails, or takes too much time or memory.
    """
    text, failure = _child(os.getpid()).run({"source": source, "variables": variables})
    if failure is not None:
        raise TemplateError(failure)
    return str(text)


@cache
def _compiled(source: str) -> jinja2.Template:
    """Compile a template once: every prompt of a run is rendered by it."""
    return _environment().from_string(source)


@cache
def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda _format: TODAY
    environment.filters["tojson"] = _tojson
    return environment


def _refuse(message: str) -> NoReturn:
    msg = f"it refuses one user turn: {message}"
    raise jinja2.TemplateRuntimeError(msg)


def _tojson(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def first_line(error: Exception) -> str:
    """Return the first line of what an error says, or its type."""
    return str(error).splitlines()[0][:300] if str(error) else type(error).__name__


class _Child:
    """A process that runs templates; after one that exceeds its limits, a new one is started."""

    def __init__(self) -> None:
        self._lock, self._process = Lock(), self._start()
        self._endless = set[object]()  # templates; none of them is waited for again
        atexit.register(self._stop)

    def _start(self) -> "subprocess.Popen[bytes]":
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        return subprocess.Popen(
            [sys.executable, "-P", __file__], stdin=pipe, stdout=pipe, stderr=null
        )

    def _stop(self) -> None:
        self._process.kill()
        with suppress(BrokenPipeError):
            self._process.communicate()

    def run(self, request: Mapping[str, object]) -> tuple[str | None, str | None]:
        """Return the text, or why there is none."""
        with self._lock:
            process, answer = self._process, b""
            assert process.stdin is not None and process.stdout is not None
            if request["source"] in self._endless:
                return None, TOO_MUCH
            try:
                with suppress(BrokenPipeError):
                    process.stdin.write(json.dumps(request).encode() + b"\n")
                    process.stdin.flush()
                    answer = process.stdout.readline()
            finally:
                if not answer:  # also after Ctrl-C: its next answer would be to this request
                    self._stop()
                    self._process = self._start()
        if not answer:
            self._endless.add(request["source"])
            return None, TOO_MUCH
        text, failure = json.loads(answer)
        return text, failure


@cache
def _child(_process: int) -> _Child:
    """Return the child of a process; one that was forked from it has its own."""
    return _Child()


def _serve() -> None:
    import resource

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles it and ends this process
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    for line in sys.stdin.buffer:
        signal.alarm(SECONDS)  # ends this process, whatever it is doing
        answer: tuple[str | None, str | None]
        try:
            answer = run_template(**json.loads(line)), None
        except TemplateError as error:
            answer = None, str(error)
        except MemoryError:
            os._exit(1)  # as the time limit ends this process
        if len(answer[0] or "") > len(line) + ADDED:
            answer = None, f"it makes {len(answer[0] or ''):,} characters of one turn"
        signal.alarm(0)
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _serve()
