"""Ways in which the small Hub of the tests fails; each is given a request and what serves it."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.hub_http import Handler, Serve

Act = Callable[[Handler, Serve], None]


def answers(status: int, headers: dict[str, str] | None = None, said: str = "trouble") -> Act:
    """Answer with a status instead of serving."""
    return lambda handler, _: handler.reply(status, {"error": said}, headers)


def says(status: int, body: bytes) -> Act:
    """Answer with something that is not of the Hub's API."""
    return lambda handler, _: handler.reply(status, body, {"Content-Type": "text/html"})


def resets(handler: Handler, _: Serve) -> None:
    """End the connection before anything is read."""
    handler.reset()


def resets_midway(handler: Handler, _: Serve) -> None:
    """Read half of what is sent, then end the connection."""
    handler.rfile.read(int(handler.headers.get("Content-Length") or 0) // 2)
    handler.reset()


def hangs(seconds: float) -> Act:
    """Say nothing for a while, then end the connection."""

    def act(handler: Handler, _: Serve) -> None:
        time.sleep(seconds)
        handler.reset()

    return act


def loses_the_answer(handler: Handler, serve: Serve) -> None:
    """Do what is asked, then end the connection without a word."""
    handler.quiet = True
    serve()
    handler.reset()


def first(happens: Callable[[], object]) -> Act:
    """Let something else happen just before the request is served."""

    def act(_: Handler, serve: Serve) -> None:
        happens()
        serve()

    return act


def flips_a_bit(handler: Handler, serve: Serve) -> None:
    """Serve a file with one bit changed."""
    reply = handler.reply

    def damaged(
        status: int, body: object, headers: dict[str, str] | None = None, code: str | None = None
    ) -> None:
        assert isinstance(body, bytes)
        middle = len(body) // 2
        reply(status, body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :], headers, code)

    handler.reply = damaged  # type: ignore[method-assign]
    try:
        serve()
    finally:
        del handler.reply


def kills(pid: Callable[[], int], *, served: bool) -> Act:
    """Kill the client at a request, after it was served or before; it hears no answer."""

    def act(handler: Handler, serve: Serve) -> None:
        handler.quiet = True
        if served:
            serve()
        kill(pid)
        handler.reset()

    return act


def _has_ended(number: int) -> bool:
    """Whether a process is gone, or waits for its parent to ask how it ended."""
    with suppress(OSError):
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    return True


def kill(pid: Callable[[], int]) -> None:
    """Kill a client, whose test may learn its number only after the client's first requests.

    Where a first process waits for the one that works, that is killed when the first has ended.
    """
    for _ in range(1000):
        with suppress(ProcessLookupError, IndexError):
            number = pid()
            os.kill(number, signal.SIGKILL)
            while not _has_ended(number):
                time.sleep(0.001)
            return
        time.sleep(0.01)
