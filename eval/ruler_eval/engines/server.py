"""Requests to a model server that may refuse, stall, send garbage or be down for a while."""

import json
from collections.abc import Mapping
from functools import partial
from threading import Event
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    stop_before_delay,
    stop_when_event_set,
    wait_random_exponential,
)

from ruler_data.errors import UsageError
from ruler_data.hub.retry import retry_after
from ruler_data.names import quote

#: HTTP statuses after which a retry may succeed.
TEMPORARY = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
#: Seconds of the longest pause between two tries.
LONGEST_PAUSE = 60.0
#: Seconds to wait for a connection, and the most bytes of a reply.
CONNECT, LARGEST = 10.0, 64 * 2**20


class RequestError(Exception):
    """A request that failed for good; the message says why, without address or key."""


class _TemporaryError(RequestError):
    """A retry may succeed, after `pause` seconds if the server names them."""

    def __init__(self, reason: str, pause: float | None = None) -> None:
        super().__init__(reason)
        self.pause = pause


class Server:
    """An OpenAI-compatible server; one pool of connections serves all threads."""

    def __init__(
        self, url: str, key: str | None, patience: float, timeout: float, connections: int
    ) -> None:
        """Describe a server; nothing is sent.

        Args:
            url: address, up to and with `/v1`.
            key: sent with each request, or None; it is never printed.
            patience: seconds after which a failing request is not tried again.
            timeout: seconds that one try may take in all.
            connections: kept open for reuse.

        Raises:
            UsageError: the address is not one.
        """
        parts = urlsplit(url)
        #: The address without user, password or query, for messages.
        self.name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            msg = f"--base-url {quote(self.name)}: not an address, e.g. http://127.0.0.1:8000/v1"
            raise UsageError(msg)
        self._url, self._patience, self._timeout = url.rstrip("/"), patience, timeout
        self._session = requests.Session()
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(pool_maxsize=connections))
        if key:
            self._session.headers["Authorization"] = f"Bearer {key}"

    def window(self, model: str) -> int | None:
        """Return the tokens that the server says the model takes; None where it does not say."""
        try:
            models = self._send("GET", "models", None, CONNECT).get("data")
            entry = next(entry for entry in models or () if entry.get("id") == model)
            length = entry.get("max_model_len")
        except (RequestError, AttributeError, TypeError, StopIteration):
            return None  # not every server lists its models; whether it is up, rows will show
        return length if isinstance(length, int) else None

    def post(self, path: str, body: Mapping[str, Any], stop: Event) -> Mapping[str, Any]:
        """Return the reply to a request, with retries.

        Pauses grow to a minute, with jitter, so that requests that failed together are not sent
        again together; a `Retry-After` of the server takes precedence.

        Args:
            path: below the address.
            body: of the request.
            stop: set when the reply is not wanted any more.

        Raises:
            RequestError: the request is refused, or the patience is used up.
        """
        retrying = Retrying(
            retry=retry_if_exception_type(_TemporaryError),
            wait=_pause,
            stop=stop_before_delay(self._patience) | stop_when_event_set(stop),
            sleep=sleep_using_event(stop),
            retry_error_callback=_give_up,
        )
        reply: Mapping[str, Any] = retrying(partial(self._send, "POST", path, body, self._timeout))
        return reply

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None, timeout: float
    ) -> Mapping[str, Any]:
        """Return the reply to one try, in bounded time and memory."""
        deadline = monotonic() + timeout
        try:
            with self._session.request(
                method,
                f"{self._url}/{path}",
                json=body,
                stream=True,
                timeout=(CONNECT, timeout),
                allow_redirects=False,
            ) as reply:
                data = _read(reply, deadline)
        except requests.RequestException as error:
            msg = f"the server does not answer ({type(error).__name__})"
            raise _TemporaryError(msg) from error
        if reply.status_code != 200:
            msg = f"status {reply.status_code}: {_beginning(data)}"
            if reply.status_code in TEMPORARY:
                raise _TemporaryError(msg, retry_after(reply.headers))
            raise RequestError(msg)
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            msg = f"the reply is not JSON: {_beginning(data)}"
            raise _TemporaryError(msg) from error
        if not isinstance(found, dict):
            msg = f"the reply is {type(found).__name__}, not an object"
            raise _TemporaryError(msg)
        return found


_GROWING_PAUSE = wait_random_exponential(multiplier=0.5, max=LONGEST_PAUSE, min=0.25)


def _pause(state: RetryCallState) -> float:
    """Return the seconds before the next try."""
    error = state.outcome.exception() if state.outcome else None
    asked = error.pause if isinstance(error, _TemporaryError) else None
    return _GROWING_PAUSE(state) if asked is None else asked


def _give_up(state: RetryCallState) -> None:
    """Raise the last error, with the number of tries.

    Raises:
        RequestError: always.
    """
    error = state.outcome.exception() if state.outcome else None
    seconds = state.seconds_since_start or 0.0
    msg = f"{error} (tried {state.attempt_number} times in {seconds:.0f} s)"
    raise RequestError(msg) from error


def _read(reply: requests.Response, deadline: float) -> bytes:
    """Return the bytes of a reply.

    Raises:
        RequestError: it takes too long or is too large.
    """
    data = bytearray()
    for chunk in reply.iter_content(65_536):
        data += chunk
        if monotonic() > deadline:
            msg = "the reply took too long"
            raise _TemporaryError(msg)
        if len(data) > LARGEST:
            msg = f"the reply is over {LARGEST:,} bytes"
            raise RequestError(msg)
    return bytes(data)


def _beginning(data: bytes) -> str:
    """Return the beginning of a reply, on one line."""
    text = " ".join(data[:400].decode("utf-8", "replace").split())
    return quote(text, 120)
