"""The client of the Hub: time limits, and one patience.

huggingface_hub retries some requests, waits for as long as a server wants, and has no time limit.
Here a request is sent once, in bounded time. Whether it is sent again is decided by `with_retries`,
in steps that look at the Hub first; the library itself sends only a part of an upload again.
"""

import json
import logging
import os
import re
import socket
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import cache, partial
from math import ceil
from traceback import walk_tb
from typing import Any, ClassVar, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from huggingface_hub import HfApi, constants, get_session, get_token, set_client_factory
from huggingface_hub.errors import (
    GatedRepoError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
    OIDCError,
)

from ruler_data.errors import RulerError, UsageError
from ruler_data.hub.library import http
from ruler_data.names import quote
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
from ruler_data.untrusted.text import DOWNLOADED, JSON_BYTES, too_large
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


class GaveUp(RulerError):
    """A request is not sent again: there is no network, or it would fail again."""


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


#: What to do about a status, where the server's own message does not say it.
MEANINGS = {
    401: "the Hub does not accept the token; log in again with `hf auth login`, or set HF_TOKEN",
    403: "the token may not do this; use one with write access to the repo",
    404: "the Hub does not have it, or the token may not see it",
    412: "another commit to the repo is in progress; run it again",
    413: "it is more than the Hub accepts in one request; publish fewer lengths at a time",
    429: "the Hub limits the number of requests; wait and run it again",
    507: "the account's storage is full",
}
#: How the library for large files (Xet) reports a status, and a host that does not answer: only in
#: the message.
_STATUS_IN_MESSAGE = re.compile(r"HTTP status \w+ error \((\d{3})\b")
_NO_ANSWER = re.compile(r"error sending request for url \((\S+?)\)")
_WITHOUT_XET = "HF_HUB_DISABLE_XET=1 goes without it"
#: Packages whose errors are about a request; they share no base class.
_CLIENTS = ("huggingface_hub", http.__name__, "hf_xet")
#: What they raise if an answer is not what they expect (e.g. HTML with status 200), or if another
#: thread has closed the connection in use (RuntimeError).
_GARBLED = (
    *(json.JSONDecodeError, UnicodeDecodeError, LookupError),
    *(TypeError, AttributeError, RuntimeError),
)

T = TypeVar("T")


#: What helps while the Hub is down.
LATER = "run the same command again later to resume"


class HubDown(RulerError):
    """The Hub cannot be reached or does not work; only what is in the cache is available."""


def with_retries(doing: str, work: Callable[[], T], also: Collection[int] = ()) -> T:
    """Return what a step on the Hub returns; try it again after temporary errors.

    Args:
        doing: the step, for messages, e.g. `org/ruler: commit`.
        work: the step; doing it twice must have the same effect as doing it once.
        also: statuses that are temporary in this step, besides `TEMPORARY`.

    Raises:
        RulerError: the Hub refuses, or patience ran out.
    """
    client()  # for the limits of steps that use the library's functions
    patience = Patience()
    while True:
        try:
            return work()
        except GaveUp as error:
            raise HubDown(doing, *error.args) from error
        except NoAnswer as error:
            if not patience.wait(doing, str(error), error.pause):
                problem = f"the Hub cannot be reached or does not work ({error})"
                raise HubDown(doing, f"{problem}; {LATER}") from error
        except RulerError:
            raise
        except Exception as error:
            cause, code = root(error), status(error)
            if silent := _NO_ANSWER.search(str(cause)):
                host = urlsplit(silent[1]).netloc
                problem = f"{host}, which stores large files (Xet), did not answer"
                raise HubDown(doing, f"{problem}; {_WITHOUT_XET}, or {LATER}") from error
            response = getattr(cause, "response", None)
            pause = retry_after(response.headers) if response is not None else None
            problem = f"the Hub answered {code}" if code else "no answer from the Hub"
            if not is_temporary(error, also) or not patience.wait(doing, problem, pause):
                raise explain(error, doing) from error


def root(error: BaseException) -> BaseException:
    """Return the error in a chain of causes that says what the Hub or the network did."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, (http.HTTPError, OfflineModeIsEnabled, RulerError)):
            return cause
        cause = cause.__cause__ or cause.__context__
    return error


def status(error: BaseException) -> int | None:
    """Return the status of the Hub's response, or None if there was no response."""
    cause = root(error)
    code = getattr(getattr(cause, "response", None), "status_code", None)
    if isinstance(code, int):
        return code
    match = _STATUS_IN_MESSAGE.search(str(cause)) if isinstance(cause, OSError) else None
    return int(match[1]) if match else None


def answer(error: BaseException) -> str:
    """Return the Hub's response as its status and its own message."""
    message = one_line(str(getattr(root(error), "server_message", None) or ""))
    return f"{status(error)}{': ' + message if message else ''}"


def refuses(error: BaseException, path: str) -> bool:
    """Whether the Hub refuses a commit (with any status 4xx) because of a file, which it names."""
    is_named = path in str(getattr(root(error), "server_message", None))
    return is_named and 400 <= (status(error) or 0) < 500


def is_temporary(error: BaseException, also: Collection[int] = ()) -> bool:
    """Whether another attempt may succeed: no response, half a response, or such a status."""
    cause = root(error)
    if isinstance(cause, (RulerError, OfflineModeIsEnabled, http.TooManyRedirects)):
        return False
    if (code := status(error)) is not None:
        return code in TEMPORARY or code in also
    incomplete = type(cause) is OSError and cause.errno is None  # fewer bytes than announced
    broken = isinstance(cause, (http.HTTPError, ConnectionError, TimeoutError))
    return incomplete or broken or (isinstance(cause, _GARBLED) and _is_of_client(error))


def _is_of_client(error: BaseException) -> bool:
    """Whether the client of the Hub raised an error, and not this project's code."""
    frames = (frame for frame, _ in walk_tb(error.__traceback__))
    return any(f.f_globals.get("__name__", "").partition(".")[0] in _CLIENTS for f in frames)


def explain(error: Exception, doing: str) -> RulerError:
    """Return an error as one line: what was tried, what the Hub answered, what to do.

    An error that comes neither from the Hub, its client nor the system is a bug, and is raised.
    """
    cause, code = root(error), status(error)
    reason = one_line(str(cause)) or type(cause).__name__
    down = "the Hub does not work at the moment; run the same command again later to resume"
    if isinstance(cause, RulerError):
        return cause
    if isinstance(cause, OfflineModeIsEnabled):
        return RulerError(doing, "downloads are off (HF_HUB_OFFLINE is set)")
    if isinstance(cause, LocalTokenNotFoundError):
        return RulerError(doing, MEANINGS[401])
    if isinstance(cause, GatedRepoError):
        return RulerError(doing, f"it is gated: accept its terms on the Hub and log in ({code})")
    if isinstance(cause, http.TooManyRedirects):
        return RulerError(doing, "the Hub's redirects lead in a circle")
    if code is not None:
        meaning = MEANINGS.get(code, down if code >= 500 else "the Hub refuses it")
        kind = HubDown if code >= 500 and code in TEMPORARY else RulerError
        return kind(doing, f"{meaning} ({answer(error)})")
    if is_temporary(error):
        problem = f"the Hub cannot be reached or does not work ({reason})"
        return HubDown(doing, f"{problem}; run the same command again to resume")
    if isinstance(cause, OSError):  # of this machine
        where = cause.filename or ("disk" if cause.errno else "the Hub")
        return RulerError(doing, where, cause.strerror or reason)
    if not isinstance(cause, ValueError) or not _is_of_client(error):
        raise error
    if isinstance(cause, UnicodeEncodeError):
        problem = "the token holds a character that is not ASCII; set HF_TOKEN again"
        return RulerError(doing, problem)
    return RulerError(doing, f"the Hub refuses the files: {reason.split(': `', 1)[-1]}")


def one_line(text: str) -> str:
    """Return a server's message as one line of bounded length, without any token."""
    if secret := token():
        text = text.replace(secret, "***")
    text = re.sub(r"hf_[A-Za-z0-9]{8,}", "***", text)
    return quote(re.sub(r"\s+", " ", text).strip(), 200).strip("'\"")
