"""Requests to a model server that may refuse, stall, send garbage or be down for a while."""

import json
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import Event
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import httpx2
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    sleep_using_event,
    stop_before_delay,
    wait_random_exponential,
)

from ruler_data.errors import RulerError, UsageError
from ruler_data.hub.retry import retry_after
from ruler_data.names import quote
from ruler_eval.engines.interface import published_options

#: HTTP statuses after which a retry may succeed.
TEMPORARY = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
#: Pauses between two tries, in seconds: they grow to a minute, with jitter, so that requests that
#: failed together are not sent again together.
PAUSES = wait_random_exponential(multiplier=0.5, max=60.0, min=0.25)
#: Seconds to wait for a connection, and the most bytes of a reply.
CONNECT, LARGEST = 10.0, 64 * 2**20
#: Seconds to try for a list of models from a server that answers, but with errors; and that a short
#: prompt may take, which some servers load the model for.
LISTING, LOADING = 3.0, 300.0
#: What an entry of `/models` says of the model itself. Not `created`: vLLM, SGLang and llama.cpp
#: give the time of the request, and Ollama the time of the file. `meta` is llama.cpp's (number of
#: parameters, size, vocabulary).
FACTS = ("id", "root", "parent", "max_model_len", "meta")


@dataclass(eq=False)
class RequestError(Exception):
    """A request that failed."""

    reason: str  # without address or key
    status: int | None = None  # of the reply; None if there was none
    reply: str = ""  # its beginning
    temporary: bool = False  # whether a retry may succeed
    pause: float | None = None  # seconds until the next try, if the server names them
    unreachable: bool = False  # whether not even a connection could be made

    def __str__(self) -> str:
        return self.reason


class Server:
    """An OpenAI-compatible server; one pool of connections serves all threads.

    Attributes:
        name: the address without user, password or query, for messages.
        outages: number of requests so far that got no answer, because the server was gone.
    """

    def __init__(
        self, url: str, key: str | None, patience: float, timeout: float, connections: int
    ) -> None:
        """Describe a server; nothing is sent. `patience` and `timeout` are in seconds."""
        parts = urlsplit(url)
        self.name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            option = f"--base-url {quote(self.name)}"
            raise UsageError(option, "not an address, e.g. http://127.0.0.1:8000/v1")
        self.outages = 0
        self._url, self._patience, self._timeout = url.rstrip("/"), patience, timeout
        limits = httpx2.Limits(max_connections=connections, max_keepalive_connections=connections)
        headers = {"Authorization": f"Bearer {key}"} if key else None
        self._client = httpx2.Client(headers=headers, limits=limits)
        weakref.finalize(self, self._client.close)

    def facts(self, model: str, patience: float | None = None) -> dict[str, Any] | None:
        """Return what the server lists of a model; None if it fails to list anything.

        A server that is not up is waited for, `patience` seconds or as long as for a row.
        """
        absent = self._patience if patience is None else min(patience, self._patience)
        try:
            models = self._request("GET", "models", None, CONNECT, LISTING, absent)
            entry = next(entry for entry in models.get("data") or () if entry.get("id") == model)
        except RequestError as error:
            if error.unreachable:
                remedy = "start the server, or correct --base-url"
                raise RulerError(self.name, f"{error}; {remedy}") from error
            return None if error.status in TEMPORARY else {}  # not every server lists its models
        except (AttributeError, TypeError, StopIteration):
            return {}
        return published_options({n: entry[n] for n in FACTS if entry.get(n) is not None})

    def post(
        self, path: str, body: Mapping[str, Any], stop: Event, patience: float | None = None
    ) -> Mapping[str, Any]:
        """Return the reply to a request, with retries until `stop` is set.

        With a `patience` of its own, in seconds, it is a short prompt.
        """
        timeout = self._timeout if patience is None else min(self._timeout, LOADING)
        seconds = self._patience if patience is None else patience
        return self._request("POST", path, body, timeout, seconds, seconds, stop)

    def _request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        timeout: float,
        patience: float,
        absent: float,
        stop: Event | None = None,
    ) -> Mapping[str, Any]:
        """Return the reply; `absent` is the patience with a server that is not up yet."""
        stop = stop or Event()

        def enough(state: RetryCallState) -> bool:
            error = _error(state)
            gone = error.unreachable or error.status == 503  # llama.cpp's while it loads a model
            return stop.is_set() or stop_before_delay(absent if gone else patience)(state)

        def pause(state: RetryCallState) -> float:
            asked = _error(state).pause
            return PAUSES(state) if asked is None else asked

        def give_up(state: RetryCallState) -> None:
            error, seconds = _error(state), state.seconds_since_start or 0.0
            error.reason += f" (tried {state.attempt_number} times in {seconds:.0f} s)"
            raise error

        reply: Mapping[str, Any] = Retrying(
            retry=retry_if_exception(lambda error: getattr(error, "temporary", False)),
            wait=pause,
            stop=enough,
            sleep=sleep_using_event(stop),
            retry_error_callback=give_up,
        )(self._send, method, path, body, timeout)
        return reply

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None, timeout: float
    ) -> Mapping[str, Any]:
        """Return the reply to one try, in bounded time and memory."""
        deadline, data, url = monotonic() + timeout, bytearray(), f"{self._url}/{path}"
        limits = httpx2.Timeout(timeout, connect=CONNECT, pool=None)
        try:
            with self._client.stream(method, url, json=body, timeout=limits) as reply:
                for chunk in reply.iter_bytes():
                    data += chunk
                    late = monotonic() > deadline
                    if late or len(data) > LARGEST:
                        reason = "took too long" if late else f"is over {LARGEST:,} bytes"
                        reason = f"the reply {reason}"
                        raise RequestError(reason, temporary=late)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            self.outages += 1
            reason = f"the server does not answer ({type(error).__name__})"
            unreachable = isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout))
            raise RequestError(reason, temporary=True, unreachable=unreachable) from error
        status, text = reply.status_code, data[:4000].decode("utf-8", "replace")
        beginning = quote(" ".join(text[:400].split()), 120)
        if status != 200:
            reason, again = f"status {status}: {beginning}", status in TEMPORARY
            pause = retry_after(reply.headers)
            raise RequestError(reason, status, text, temporary=again, pause=pause)
        reason = f"the reply is not JSON: {beginning}"
        with suppress(ValueError, RecursionError):
            found = json.loads(data)
            if isinstance(found, dict):
                return found
            reason = f"the reply is {type(found).__name__}, not an object"
        raise RequestError(reason, status, temporary=True)


def _error(state: RetryCallState) -> RequestError:
    """Return why a try failed."""
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, RequestError)
    return error
