"""Chat templates: programs that come with a model, run in a process with limits.

The sandbox of Jinja keeps a template from files and attributes, but not from endless loops and
gigabytes of text. So templates are compiled and run in one child process, which has a limit of
memory and ends itself when a template takes too long. As a program, this module is that child: it
reads a request per line and writes an answer per line, both JSON.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from threading import Lock
from typing import Any, NoReturn

#: Limits of a template: seconds, bytes of memory, and characters that it adds to a turn.
SECONDS, MEMORY, ADDED = 10, 1 << 30, 1_000_000
#: Templates that print the date get this one, so that lengths do not depend on the day.
#: It is the default of Llama 3.1's template.
TODAY = "26 Jul 2024"

#: Bytes that a pipe is read in.
BUFFER = 1 << 20

#: The child of this process, while it has one.
_child: list["subprocess.Popen[bytes]"] = []
#: Templates that exceeded the limits before; none of them is waited for again.
_endless: set[str] = set()
_lock = Lock()


class TemplateError(Exception):
    """The template fails, refuses the turn, or exceeds a limit."""


def run_template(source: str, variables: Mapping[str, Any] | None) -> str:
    """Return what a template renders; without variables, only compile it.

    Raises:
        TemplateError: it fails, or takes too much time or memory.
    """
    endless = f"it takes more than {SECONDS} s, or too much memory"
    request = json.dumps({"source": source, "variables": variables}).encode() + b"\n"
    with _lock:
        if source in _endless:
            raise TemplateError(endless)
        if not _child:
            command = [sys.executable, "-P", __file__]
            pipe, null = subprocess.PIPE, subprocess.DEVNULL
            _child.append(subprocess.Popen(command, BUFFER, None, pipe, pipe, null))
        child = _child[0]
        assert child.stdin is not None and child.stdout is not None
        try:
            child.stdin.write(request)
            child.stdin.flush()
            answer = child.stdout.readline()
        except BaseException as error:  # its next answer would be to this request
            _stop()
            if isinstance(error, BrokenPipeError):
                answer = b""
            else:
                raise
        if not answer:
            _stop()
            _endless.add(source)
            raise TemplateError(endless)
    text, wrong = json.loads(answer)
    if wrong is not None:
        raise TemplateError(wrong)
    return str(text)


def _stop() -> None:
    """End the child."""
    while _child:
        child = _child.pop()
        child.kill()
        child.communicate()


def _forget() -> None:
    """Leave the child to the process that this one was forked from."""
    global _lock
    _lock = Lock()
    for child in _child:
        child.returncode = 0  # it is not this process's to wait for
    _child.clear()


atexit.register(_stop)
os.register_at_fork(after_in_child=_forget)


def _serve() -> None:
    import resource
    from functools import cache

    import jinja2
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's to handle, which then ends this
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda _format: TODAY
    environment.filters["tojson"] = _tojson
    compiled = cache(environment.from_string)

    def answer(most: int, source: str, variables: dict[str, Any] | None) -> list[str | None]:
        try:
            program = compiled(source)
        except Exception as error:
            return [None, f"it does not compile: {_first_line(error)}"]
        try:
            text = program.render(variables) if variables is not None else ""
        except MemoryError:
            os._exit(1)  # as the time limit ends this process
        except jinja2.TemplateRuntimeError as error:
            return [None, _first_line(error)]
        except Exception as error:  # a template is a program and may raise anything
            return [None, f"it fails: {_first_line(error)}"]
        if len(text) > most:
            return [None, f"it makes {len(text):,} characters of one turn"]
        return [text, None]

    for line in open(0, "rb", BUFFER, closefd=False):  # noqa: SIM115 - standard input
        signal.alarm(SECONDS)  # ends this process, whatever it is doing
        reply = json.dumps(answer(len(line) + ADDED, **json.loads(line))).encode()
        signal.alarm(0)
        sys.stdout.buffer.write(reply + b"\n")
        sys.stdout.buffer.flush()


def _refuse(message: str) -> NoReturn:
    from jinja2 import TemplateRuntimeError

    msg = f"it refuses one user turn: {message}"
    raise TemplateRuntimeError(msg)


def _tojson(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:300] if str(error) else type(error).__name__


if __name__ == "__main__":
    _serve()
