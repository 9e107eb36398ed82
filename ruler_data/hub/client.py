"""The client of the Hub: time limits, one patience, and requests that are sent again.

huggingface_hub retries some requests, waits for as long as a server wants, and has no time limit.
Here a request that only reads, or that the Hub refused to process (429), is sent again for as long
as patience lasts. What would be done twice if it were sent twice (a commit, a tag) is left to
`ruler_data.hub.retry`, which looks at the Hub first. An upload is sent again by the library itself.
"""

import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from math import ceil
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2
from huggingface_hub import HfApi, constants, get_token, set_client_factory
from huggingface_hub.errors import OIDCError
from huggingface_hub.utils._headers import build_hf_headers
from huggingface_hub.utils._http import get_session, hf_request_event_hook

from ruler_data.errors import RulerError
from ruler_data.files import TEMPORARY, retry_after
from ruler_data.terminal import connections, raise_if_interrupted, warn
from ruler_data.version import __version__

#: Seconds that the environment may set: without a byte, after which a request is given up; without
#: progress, after which a step is given up; of the first pause, which doubles each time.
LIMITS = {"RULER_HUB_TIMEOUT": 60.0, "RULER_HUB_PATIENCE": 300.0, "RULER_HUB_PAUSE": 1.0}
#: Attempts, seconds of the longest pause, and those in which to connect.
ATTEMPTS, LONGEST, CONNECT = 8, 30.0, 4.0
#: Seconds in which a host of Xet has to answer a first, small request.
PROBE = 10.0
UNREACHABLE = (
    "the Hub cannot be reached; to read without network, give a local folder, or HF_HOME with a "
    "cache that holds it; HF_ENDPOINT names a mirror; else run the same command again later"
)


class GaveUp(RulerError):
    """A request was sent as often as patience allows, or there is no network."""


def seconds(variable: str) -> float:
    """Return one of the `LIMITS`; an invalid value in the environment is ignored."""
    with suppress(ValueError):
        return max(float(os.environ.get(variable) or LIMITS[variable]), 0.001)
    return LIMITS[variable]


def time_limits() -> httpx2.Timeout:
    """Return the seconds in which to connect, and without a byte, that a request may take."""
    limit = min(seconds("RULER_HUB_TIMEOUT"), seconds("RULER_HUB_PATIENCE") / 2)
    return httpx2.Timeout(limit, connect=min(CONNECT, limit))


class Patience:
    """Waits before the next attempt of a request or a step, and says when to give up."""

    #: When bytes of a file moved, in either direction, that had not moved before.
    moved = 0.0

    def __init__(self) -> None:
        self._begun, self._attempts = time.monotonic(), 0

    def wait(self, where: str, what: str, retry_seconds: float | None = None) -> bool:
        """Wait as long as the server asks, else a growing pause; return False to give up.

        Args:
            where: the host or the step, for the warning.
            what: what happened, for the warning.
            retry_seconds: that the server asks for; None if it does not.
        """
        self._attempts += 1
        growing = min(seconds("RULER_HUB_PAUSE") * 2 ** (self._attempts - 1), LONGEST)
        pause = growing if retry_seconds is None else retry_seconds
        idle = time.monotonic() - max(self._begun, Patience.moved)
        if self._attempts >= ATTEMPTS or idle + pause > seconds("RULER_HUB_PATIENCE"):
            return False
        warn(f"{where}: {what}; trying again in {pause:.0f} s")
        parts = ceil(pause)
        for _ in range(parts):  # a thread does not see a signal while it sleeps
            raise_if_interrupted()
            time.sleep(pause / parts)
        return True


class ProgressStream(httpx2.SyncByteStream):
    """A stream of a file's bytes that records progress; the same bytes again are none."""

    #: Number of bytes that moved in the best attempt, by file and part of it.
    _furthest: ClassVar[dict[object, int]] = {}

    def __init__(self, stream: Any, request: httpx2.Request) -> None:  # noqa: ANN401 - sync or async
        self._stream, url = stream, request.url
        self._file = url.path, url.params.get("partNumber"), request.headers.get("Range")

    def __iter__(self) -> Iterator[bytes]:
        done = 0
        for part in self._stream:
            yield part
            done += len(part)
            if done > self._furthest.get(self._file, 0):
                self._furthest[self._file], Patience.moved = done, time.monotonic()

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()


class PatientClient(httpx2.Client):
    """Sends a request again after a temporary error, if that is safe."""

    #: Whether this process has had an answer; if not, a failed connection means no network.
    has_connected = False

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:  # noqa: ANN401
        """Return the response.

        Raises:
            GaveUp: there is no network, or patience ran out.
            httpx2.TransportError: no answer to a request that may have been processed. After a time
                limit it is of this class itself, which the library does not retry: it would wait
                six times as long, without looking at patience.
        """
        reads, host, patience = request.method in ("GET", "HEAD"), request.url.host, Patience()
        is_file = not isinstance(request.stream, httpx2.ByteStream)
        # The library asks for no time limit in many of its calls.
        timeout = request.extensions.get("timeout", {})
        limits = {name: value for name, value in timeout.items() if value is not None}
        request.extensions["timeout"] = {**self.timeout.as_dict(), **limits}
        request.extensions["trace"] = _note_connection
        if is_file:
            request.stream = ProgressStream(request.stream, request)
        while True:
            raise_if_interrupted()
            try:
                response = super().send(request, **options)
            except httpx2.TransportError as error:
                raise_if_interrupted()
                is_unconnected = isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout))
                if is_unconnected and not self.has_connected:
                    raise GaveUp(UNREACHABLE) from error
                what, pause = f"no answer ({type(error).__name__})", None
                if not reads and isinstance(error, httpx2.TimeoutException):
                    msg = f"{host}: {what}"
                    raise httpx2.TransportError(msg, request=request) from error
                if not reads:
                    raise
            else:
                PatientClient.has_connected = True
                code, pause = response.status_code, _retry_seconds(response)
                what, is_refused = f"status {code}", code == 429 and not is_file
                if not is_refused and not (reads and code in TEMPORARY):
                    if reads and options.get("stream"):
                        response.stream = ProgressStream(response.stream, request)
                    return response
                response.close()
            if not patience.wait(host, what, pause):
                msg = f"the Hub cannot be reached or does not work ({host}: {what}); run the same "
                raise GaveUp(msg + "command again later to resume")


def _note_connection(event: str, info: dict[str, Any]) -> None:
    if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
        connections.append(info["return_value"].get_extra_info("socket"))


def _retry_seconds(response: httpx2.Response) -> float | None:
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
    hooks = {"request": [hf_request_event_hook]}
    return PatientClient(event_hooks=hooks, follow_redirects=True, timeout=time_limits())


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
    set_client_factory(patient_client)
    if not os.environ.get("HF_DEBUG"):
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    token()
    return HfApi(library_name="ruler-data", library_version=__version__)


@cache
def use_xet_if_reachable(repo: str, kind: str, doing: str, right: Literal["read", "write"]) -> None:
    """Go without Xet in this process if its host does not answer a first, small request.

    The limits of Xet's own client hold for each of its requests; a host behind a firewall would
    take as many of them as a transfer has, one after the other.

    Args:
        repo: id of the repo that files are sent to or taken from.
        kind: of the repo, `dataset` or `model`.
        doing: the step, for the warning.
        right: of the token, whose response names the host.
    """
    client()
    if constants.HF_HUB_DISABLE_XET or find_spec("hf_xet") is None:
        return
    address = f"{constants.ENDPOINT}/api/{kind}s/{repo}/xet-{right}-token/main"
    host = ""
    # The step itself reports what is wrong with the Hub.
    with suppress(httpx2.HTTPError, RulerError, ValueError, AttributeError):
        response = get_session().get(address, headers=build_hf_headers())
        header = response.headers.get(constants.HUGGINGFACE_HEADER_X_XET_ENDPOINT, "")
        host = header or response.json().get("casUrl", "")
    try:
        if host.startswith("http"):
            httpx2.head(host, timeout=httpx2.Timeout(PROBE, connect=CONNECT))
    except httpx2.TransportError:
        go_without_xet(doing, host)


def go_without_xet(doing: str, host: str) -> None:
    """Send and fetch files through the Hub itself from here on, and say so once."""
    if not constants.HF_HUB_DISABLE_XET:  # else another thread has warned already
        constants.HF_HUB_DISABLE_XET = True  # the library looks there, not at the variable
        what = f"{urlsplit(host).netloc}, which stores large files (Xet), did not answer"
        warn(f"{doing}: {what}; trying once without it, as with HF_HUB_DISABLE_XET=1")


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
    except (OIDCError, httpx2.HTTPError) as error:
        where, why = "the token of HF_OIDC_RESOURCE", " ".join(str(error).split())
        raise RulerError(where, why) from error
    except OSError:
        return None
