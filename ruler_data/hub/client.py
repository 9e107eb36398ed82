"""The client of the Hub: time limits, and one patience.

huggingface_hub retries some requests, waits for as long as a server wants, and has no time limit.
Here a request is sent once, in bounded time. Whether it is sent again is decided by
`ruler_data.hub.retry`; the library itself sends only a part of an upload again.
"""

import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from math import ceil
from typing import Any, ClassVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from huggingface_hub import HfApi, constants, get_session, get_token, set_client_factory
from huggingface_hub.errors import (
    OIDCError,
)

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import DOWNLOADED, JSON_BYTES, too_large
from ruler_data.hub.library import http
from ruler_data.network import (
    BYTES,
    TEMPORARY,
    check_environment,
    close_connections,
    connections,
    offline,
    retry_after,
    steady,
    within,
)
from ruler_data.terminal import at_stop, raise_if_interrupted, warn
from ruler_data.version import __version__

#: Seconds that the environment may set: without a byte, after which a request is given up; without
#: progress, after which a step is given up; of the first pause, which doubles each time.
LIMITS = {"RULER_HUB_TIMEOUT": 60.0, "RULER_HUB_PATIENCE": 300.0, "RULER_HUB_PAUSE": 1.0}
#: Attempts, seconds of the longest pause, and those in which to connect.
ATTEMPTS, LONGEST, CONNECT = 8, 30.0, 4.0
UNREACHABLE = (
    "the Hub cannot be reached; give a local folder, or HF_HOME with a cache that holds it, or "
    "name a mirror in HF_ENDPOINT, or run the same command again later"
)
#: What helps while the Hub is down.
LATER = "run the same command again later to resume"


class GaveUp(RulerError):
    """A request is not sent again: there is no network, or it would fail again."""


class HubDown(RulerError):
    """The Hub cannot be reached or does not work; only what is in the cache is available."""


class NoAnswer(RulerError):
    """A request that can be sent again had no answer, or a temporary error.

    Attributes:
        pause: seconds that the server asks to wait; None if it does not.
    """

    def __init__(self, host: str, problem: str, pause: float | None = None) -> None:
        super().__init__(host, problem)
        self.pause = pause


def seconds(variable: str) -> float:
    """Return one of the `LIMITS`; an invalid value in the environment is ignored."""
    with suppress(ValueError):
        return max(float(os.environ.get(variable) or LIMITS[variable]), 0.001)
    return LIMITS[variable]


def time_limits() -> http.Timeout:
    """Return the seconds in which to connect, and without a byte, that a request may take."""
    limit = min(seconds("RULER_HUB_TIMEOUT"), seconds("RULER_HUB_PATIENCE") / 2)
    return http.Timeout(limit, connect=min(CONNECT, limit))


class Patience:
    """Waits before the next attempt of a request or a step, and says when to give up."""

    #: When bytes of a file moved, in either direction, that had not moved before.
    moved = 0.0

    def __init__(self) -> None:
        self._begun, self._attempts = time.monotonic(), 0

    def wait(self, where: str, problem: str, retry_seconds: float | None = None) -> bool:
        """Wait as long as the server asks, else a growing pause; return False to give up.

        Args:
            where: the host or the step, for the warning.
            problem: what happened, for the warning.
            retry_seconds: that the server asks for; None if it does not.
        """
        self._attempts += 1
        growing = min(seconds("RULER_HUB_PAUSE") * 2 ** (self._attempts - 1), LONGEST)
        pause = growing if retry_seconds is None else retry_seconds
        idle = time.monotonic() - max(self._begun, Patience.moved)
        if self._attempts >= ATTEMPTS or idle + pause > seconds("RULER_HUB_PATIENCE"):
            return False
        warn(f"{where}: {problem}; trying again in {pause:.0f} s")
        naps = ceil(pause)
        for _ in range(naps):  # a thread does not see a signal while it sleeps
            raise_if_interrupted()
            time.sleep(pause / naps)
        return True


class ProgressStream(http.SyncByteStream):
    """A stream of a file's bytes that records progress; the same bytes again are none."""

    #: Number of bytes that moved in the best attempt, by file and part of it.
    _furthest: ClassVar[dict[object, int]] = {}

    def __init__(self, stream: Any, request: http.Request, limit: int | None = None) -> None:  # noqa: ANN401 - sync or async
        self._stream, self._limit, url = stream, limit, request.url
        self._file = url.path, url.params.get("partNumber"), request.headers.get("Range")

    def __iter__(self) -> Iterator[bytes]:
        done = 0
        for data in steady(self._stream, seconds("RULER_HUB_TIMEOUT")):
            yield data
            done += len(data)
            if self._limit is not None and done > self._limit:
                raise GaveUp(self._file[0], too_large(done, self._limit))
            if done >= self._furthest.get(self._file, 0) + BYTES:
                self._furthest[self._file], Patience.moved = done, time.monotonic()

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()


class PatientClient(http.Client):
    """Sends a request in bounded time; one that had no answer is left to `with_retries`."""

    #: Whether this process has had an answer; if not, a failed connection means no network.
    has_connected = False

    def send(
        self,
        request: http.Request,
        *,
        patience: Patience | None = None,
        **options: Any,  # noqa: ANN401 - of the library
    ) -> http.Response:
        """Return the response; `patience` is that of earlier attempts which the Hub refused.

        Raises:
            GaveUp: there is no network, or redirects lead in a circle.
            NoAnswer: no answer, or a temporary error, to a request that can be sent again. The
                library does not know this class, and so does not send it again by itself.
            http.TransportError: no answer to a request that may have been processed.
        """
        reads, host = request.method in ("GET", "HEAD"), request.url.host
        is_file = not isinstance(request.stream, http.ByteStream)
        # The library asks for no time limit in many of its calls.
        timeout = request.extensions.get("timeout", {})
        limits = {name: value for name, value in timeout.items() if value is not None}
        request.extensions["timeout"] = {**self.timeout.as_dict(), **limits}
        request.extensions["trace"] = _note_connection
        if is_file:
            request.stream = ProgressStream(request.stream, request)
        raise_if_interrupted()
        try:
            response = self._answer(request, is_file, options)
        except http.TooManyRedirects as error:
            msg = f"{host}: its redirects lead in a circle"
            raise GaveUp(msg) from error
        except (http.TransportError, TimeoutError) as error:
            raise_if_interrupted()
            is_unconnected = isinstance(error, (http.ConnectError, http.ConnectTimeout))
            if is_unconnected and not self.has_connected:
                raise GaveUp(UNREACHABLE) from error
            problem = f"no answer ({type(error).__name__})"
            if reads:
                raise NoAnswer(host, problem) from error
            if isinstance(error, http.TimeoutException | TimeoutError):
                # Of this class itself, which the library does not send again.
                msg = f"{host}: {problem}"
                raise http.TransportError(msg, request=request) from error
            raise
        PatientClient.has_connected = True
        code, pause = response.status_code, _retry_seconds(response)
        if code not in TEMPORARY or not (reads or code == 429) or is_file:
            return response
        response.close()
        if code != 429:
            raise NoAnswer(host, f"status {code}", pause)
        # Refused, so not processed. A step of many requests would meet the limit in each attempt.
        if not (patience := patience or Patience()).wait(host, f"status {code}", pause):
            msg = f"the Hub limits the number of requests ({host}: status 429)"
            raise GaveUp(msg)
        return self.send(request, patience=patience, **options)

    def _answer(
        self, request: http.Request, is_file: bool, options: dict[str, Any]
    ) -> http.Response:
        """Return the response to one request; TimeoutError if its head or its bytes drip."""
        if is_file:
            return super().send(request, **options)
        send = partial(super().send, request, **{**options, "stream": True})
        response = within(2 * seconds("RULER_HUB_TIMEOUT"), send)
        path = request.url.path
        limit = next((DOWNLOADED[end] for end in DOWNLOADED if path.endswith(end)), None)
        headers = response.headers
        size = headers.get("X-Linked-Size") or headers.get("Content-Length") or ""
        if limit is not None and size.isdecimal() and int(size) > limit:
            response.close()
            raise GaveUp(path, too_large(int(size), limit))
        if not options.get("stream"):
            limit = limit or JSON_BYTES
        response.stream = ProgressStream(response.stream, request, limit)
        if not options.get("stream"):
            response.read()
        return response


def _note_connection(event: str, info: dict[str, Any]) -> None:
    if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
        connections.append(info["return_value"].get_extra_info("socket"))


if close_connections not in at_stop:
    at_stop.append(close_connections)


def _retry_seconds(response: http.Response) -> float | None:
    """Return the pause in seconds that a refusal asks for, if any.

    Raises:
        GaveUp: it is longer than patience.
    """
    code, patience = response.status_code, seconds("RULER_HUB_PATIENCE")
    pause = retry_after(response.headers) if code >= 400 else None
    if pause is not None and pause > patience:
        asks = f"the Hub asks for a pause of {pause:.0f} s ({code}), and RULER_HUB_PATIENCE is"
        msg = f"{asks} {patience:.0f} s; run the same command again then"
        raise GaveUp(msg)
    return pause


def patient_client() -> PatientClient:
    """Return the client through which the library sends its requests."""
    check_environment()
    return PatientClient(event_hooks=_hooks(), follow_redirects=True, timeout=time_limits())


@cache
def _hooks() -> dict[str, list[Callable[..., Any]]]:
    """Return what the library's own client does with each request."""
    return get_session().event_hooks


@cache
def client() -> HfApi:
    """Return the client of the Hub, with the time limits that the libraries lack.

    Xet's are in the environment. It sends a request up to five times before it gives up, and a read
    limit includes the time in which a block of 64 MB is sent.

    Raises:
        RulerError: as `token`, which the library would ask for in each of its calls.
    """
    limits = {
        "CONNECT_TIMEOUT": f"{CONNECT:.0f}s",
        "READ_TIMEOUT": f"{seconds('RULER_HUB_PATIENCE') * 1000 / 5:.0f}ms",
        "RETRY_MAX_ATTEMPTS": "1",
        "MAX_XORB_GRANT_ATTEMPTS": "1",
    }
    for name, value in limits.items():
        os.environ.setdefault(f"HF_XET_CLIENT_{name}", value)
    check_environment()
    _hooks()  # before this client takes its place
    set_client_factory(patient_client)
    if not os.environ.get("HF_DEBUG"):
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    token()
    return HfApi(library_name="ruler-data", library_version=__version__)


def is_reachable() -> bool:
    """Whether the Hub accepts connections, found out in seconds; behind a proxy it is assumed."""
    url = urlsplit(constants.ENDPOINT)
    host, port = url.hostname or "", url.port or {"http": 80}.get(url.scheme, 443)
    if {url.scheme, "all"} & getproxies().keys() and not proxy_bypass(host):
        return True
    with suppress(OSError):
        socket.create_connection((host, port), timeout=CONNECT).close()
        return True
    return False


def token() -> str | None:
    """Return the token that is sent with requests; None if none can be read.

    Raises:
        RulerError: the token of a trusted publisher (`HF_OIDC_RESOURCE`) is not available.
    """
    try:
        return get_token()
    except (OIDCError, http.HTTPError) as error:
        where, why = "the token of HF_OIDC_RESOURCE", " ".join(str(error).split())
        raise RulerError(where, why) from error
    except OSError:
        return None


#: What a dry run without a token does not check.
NO_TOKEN = "there is no token, so write access was not checked"


def check_access() -> None:
    """Refuse to begin where publishing cannot succeed.

    Raises:
        UsageError: downloads are off.
        RulerError: there is no token, or no Hub.
    """
    if offline():
        msg = "publishing needs the Hub, and RULER_OFFLINE or HF_HUB_OFFLINE is set"
        raise UsageError(msg)
    if token() is None:
        msg = "no token: log in with `hf auth login`, or set HF_TOKEN to one with write access"
        raise RulerError(msg)
    if not is_reachable():
        step, problem = "publish", "the Hub cannot be reached; HF_ENDPOINT names a mirror"
        raise HubDown(step, f"{problem}; {LATER}")
