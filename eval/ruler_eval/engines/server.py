"""A server that may refuse, stall, talk nonsense or be away for a while."""

import json
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from threading import Event
from typing import Any
from urllib.parse import urlsplit

import requests

from ruler_data.errors import UsageError
from ruler_data.hub.retry import retry_after
from ruler_data.names import quote

#: Answers of a server after which another try may do.
PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
#: Seconds of the first pause, which doubles with each try, and of the longest.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
#: Seconds to wait for a connection, and bytes of a reply beyond which it is none.
CONNECT, LARGEST = 10.0, 64 * 2**20


class Failed(Exception):
    """A request that cannot be answered; the message says why, without address or token."""


class _Passing(Failed):
    """Another try may do."""

    def __init__(self, reason: str, pause: float | None = None) -> None:
        super().__init__(reason)
        self.pause = pause


@dataclass(frozen=True)
class Server:
    """A server's address and how patiently it is asked.

    Attributes:
        url: up to and with `/v1`.
        key: that requests carry, or None; printed nowhere.
        patience: seconds after which a request that fails is not tried again.
        timeout: seconds that one try may take in all.
    """

    url: str
    key: str | None
    patience: float
    timeout: float

    def __post_init__(self) -> None:
        """Refuse what is no address.

        Raises:
            UsageError: it is none.
        """
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            msg = f"--base-url {quote(self.name)}: not an address, e.g. http://127.0.0.1:8000/v1"
            raise UsageError(msg)

    @property
    def name(self) -> str:
        """The address without user, password or query."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")

    def window(self, model: str) -> int | None:
        """Return the tokens that the server says the model takes; None where it does not say."""
        try:
            listed = self._send("GET", "models", None, CONNECT).get("data")
            found = [one for one in listed or () if one.get("id") == model]
            length = found[0].get("max_model_len") if found else None
        except (Failed, AttributeError, TypeError):
            return None  # not every server lists its models; whether it answers, rows will show
        return length if isinstance(length, int) else None

    def post(self, path: str, body: Mapping[str, Any], over: Event) -> Mapping[str, Any]:
        """Return the reply to a request, trying again while that may help.

        Args:
            path: below the address.
            body: of the request.
            over: set when nobody waits for the reply any more.

        Raises:
            Failed: the request is refused, or the patience is used up.
        """
        begun = time.monotonic()
        for number in count():
            try:
                return self._send("POST", path, body, self.timeout)
            except _Passing as error:
                pause = min(FIRST_PAUSE * 2**number, LONGEST_PAUSE) * _jitter(begun, number)
                pause = pause if error.pause is None else error.pause
                spent = time.monotonic() - begun
                if spent + pause > self.patience or over.is_set():
                    msg = f"{error} (tried {number + 1} times in {spent:.0f} s)"
                    raise Failed(msg) from error
                over.wait(pause)
        raise AssertionError

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None, timeout: float
    ) -> Mapping[str, Any]:
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        deadline = time.monotonic() + timeout
        try:
            with requests.request(
                method, f"{self.url.rstrip('/')}/{path}", json=body, headers=headers, stream=True,
                timeout=(CONNECT, timeout), allow_redirects=False,
            ) as reply:  # fmt: skip
                data = _read(reply, deadline)
        except requests.RequestException as error:
            msg = f"the server does not answer ({type(error).__name__})"
            raise _Passing(msg) from error
        if reply.status_code != 200:
            msg = f"status {reply.status_code}: {_said(data)}"
            raise (
                _Passing(msg, retry_after(reply.headers))
                if reply.status_code in PASSING
                else Failed(msg)
            )
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            msg = f"the reply is no JSON: {_said(data)}"
            raise _Passing(msg) from error
        if not isinstance(found, dict):
            msg = f"the reply is {type(found).__name__}, not an object"
            raise _Passing(msg)
        return found


def _jitter(begun: float, number: int) -> float:
    """Return a factor from 0.5 to 1, so that requests that failed together do not return so."""
    return random.Random(f"{begun} {number}").uniform(0.5, 1.0)


def _read(reply: requests.Response, deadline: float) -> bytes:
    """Return a reply's bytes, in bounded time and memory."""
    data = bytearray()
    for chunk in reply.iter_content(65_536):
        data += chunk
        if time.monotonic() > deadline:
            msg = "the reply took too long"
            raise _Passing(msg)
        if len(data) > LARGEST:
            msg = f"the reply is over {LARGEST:,} bytes"
            raise Failed(msg)
    return bytes(data)


def _said(data: bytes) -> str:
    """Return the beginning of what a server said, on one line."""
    text = " ".join(data[:400].decode("utf-8", "replace").split())
    return quote(text, 120)
