"""The Hub: one client with limits of time and size, one patience, and its errors in one line.

huggingface_hub retries some requests, waits for as long as a server wants, and has no time limit.
Here a request is sent in bounded time and once, but for a 429, which was not processed. A step on
the Hub (`with_retries`) looks at the Hub first, so doing it twice has the effect of doing it once,
and every error that may pass is answered by doing it again.
"""

import json
import logging
import os
import re
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache, partial
from math import ceil
from traceback import walk_tb
from typing import Any, TypeVar
from urllib.parse import urlsplit

from huggingface_hub import HfApi, get_session, get_token, set_client_factory
from huggingface_hub.errors import (
    GatedRepoError,
    OfflineModeIsEnabled,
    OIDCError,
)

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import DOWNLOADED, JSON_BYTES, TEXT_BYTES, too_large
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
from ruler_data.terminal import at_stop, raise_if_interrupted, visible_line, warn
from ruler_data.version import __version__

T = TypeVar("T")

#: Seconds that the environment may set: without a byte, after which a request is given up; without
#: progress, after which a step is given up; of the first pause, which doubles each time.
LIMITS = {"RULER_HUB_TIMEOUT": 60.0, "RULER_HUB_PATIENCE": 300.0, "RULER_HUB_PAUSE": 1.0}
#: Attempts of a request or a step.
ATTEMPTS = 8
#: Seconds of the longest pause.
LONGEST = 30.0
#: Seconds in which to connect.
CONNECT = 4.0
UNREACHABLE = (
    "the Hub cannot be reached; give a local folder, or HF_HOME with a cache that holds it, or "
    "name a mirror in HF_ENDPOINT, or run the same command again later"
)
#: What helps while the Hub is down.
LATER = "run the same command again later to resume"
#: What to do about a status, where the server's own message does not say it.
MEANINGS = {
    401: "the Hub does not accept the token; log in again with `hf auth login`, or set HF_TOKEN",
    403: "the token may not do this; use one with write access to the repo",
    404: "the Hub does not have it, or the token may not see it",
    412: "another commit to the repo is in progress; run it again",
    413: "it is more than the Hub accepts in one request; publish fewer lengths at a time",
    429: "the Hub limits the number of requests; wait and run it again",
    501: "a mirror may not know Xet, the way of large files; set HF_HUB_DISABLE_XET=1",
    507: "the account's storage is full",
}
#: How the library for large files (Xet) reports a status, and a host that does not answer: only in
#: the message.
_STATUS_IN_MESSAGE = re.compile(r"HTTP status \w+ error \((\d{3})\b")
_NO_ANSWER = re.compile(r"error sending request for url \((\S+?)\)")
#: Packages whose errors are about a request; they share no base class.
_CLIENTS = ("huggingface_hub", http.__name__, "hf_xet")
#: What they raise if an answer is not what they expect (e.g. HTML with status 200), or if another
#: thread has closed the connection in use (RuntimeError).
_GARBLED = (
    *(json.JSONDecodeError, UnicodeDecodeError, LookupError),
    *(TypeError, AttributeError, RuntimeError),
)
#: Most characters of a server's message that are printed.
MESSAGE = 1000


class GaveUp(RulerError):
    """A request is not sent again: there is no network, or it would fail again."""


class HubDown(RulerError):
    """The Hub cannot be reached or does not work; only what is in the cache is available."""


class NoAnswer(RulerError):
    """A request had no answer, or a temporary error.

    The library does not know this class, and so does not send the request again by itself.

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


class Patience:
    """Waits before the next attempt of a request or a step, and says when to give up."""

    #: When bytes of a file moved last, in either direction.
    moved = 0.0

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._attempts = 0

    def wait(self, where: str, problem: str, retry_seconds: float | None = None) -> bool:
        """Wait as long as the server asks, else a growing pause; return False to give up.

        Args:
            where: the host or the step, for the warning.
            problem: what happened, for the warning.
            retry_seconds: that the server asks for; None if it does not.
        """
        self._attempts += 1
        pause = retry_seconds
        if pause is None:
            pause = min(seconds("RULER_HUB_PAUSE") * 2 ** (self._attempts - 1), LONGEST)
        idle = time.monotonic() - max(self._begun, Patience.moved)
        if self._attempts >= ATTEMPTS or idle + pause > seconds("RULER_HUB_PATIENCE"):
            return False
        warn(f"{where}: {problem}; trying again in {pause:.0f} s")
        naps = ceil(pause)
        for _ in range(naps):  # a thread does not see a signal while it sleeps
            raise_if_interrupted()
            time.sleep(pause / naps)
        return True


class BoundedStream(http.SyncByteStream):
    """The bytes of a request or a reply, neither dripping nor without end.

    Those of a file are progress, after which patience begins anew.
    """

    def __init__(
        self,
        stream: Any,  # noqa: ANN401 - sync or async
        path: str,
        *,
        limit: int | None = None,
        is_file: bool,
    ) -> None:
        self._stream = stream
        self._path = path
        self._limit = limit
        self._is_file = is_file

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for data in steady(self._stream, seconds("RULER_HUB_TIMEOUT")):
            yield data
            size += len(data)
            if self._is_file and size >= BYTES:
                Patience.moved = time.monotonic()
            if self._limit is not None and size > self._limit:
                raise RulerError(self._path, too_large(size, self._limit))

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()


class PatientClient(http.Client):
    """Sends a request in bounded time; one that had no answer is left to `with_retries`."""

    #: Whether this process has had an answer; if not, a failed connection means no network.
    has_connected = False

    def send(self, request: http.Request, **options: Any) -> http.Response:  # noqa: ANN401
        """Return the response.

        Raises:
            GaveUp: there is no network, or it would fail again.
            NoAnswer: no answer, or a temporary error.
            http.TransportError: of an upload, which the library sends again in parts.
        """
        # The library asks for no time limit in many of its calls.
        stated = request.extensions.get("timeout", {})
        limits = {name: value for name, value in stated.items() if value is not None}
        request.extensions["timeout"] = {**self.timeout.as_dict(), **limits}
        request.extensions["trace"] = _note_connection
        is_file = not isinstance(request.stream, http.ByteStream)
        if is_file:
            request.stream = BoundedStream(request.stream, request.url.path, is_file=True)
        patience = Patience()
        while True:
            raise_if_interrupted()
            response = self._attempt(request, options, is_file=is_file)
            code = response.status_code
            pause = _pause(response)
            is_safe = code == 429 or request.method in ("GET", "HEAD")
            if code not in TEMPORARY or not is_safe or is_file:
                return response
            response.close()
            # A 429 was not processed. A step of many requests would meet it in each attempt.
            host = request.url.host
            problem = f"status {code}"
            if code != 429:
                raise NoAnswer(host, problem, pause)
            if not patience.wait(host, problem, pause):
                raise GaveUp(f"the Hub limits the number of requests ({host}: status 429)")

    def _attempt(
        self, request: http.Request, options: dict[str, Any], *, is_file: bool
    ) -> http.Response:
        """Return the response to one request, whatever its status."""
        host = request.url.host
        try:
            if is_file:
                response = super().send(request, **options)
            else:
                response = self._answer(request, options)
        except http.TooManyRedirects as error:
            raise GaveUp(f"{host}: its redirects lead in a circle") from error
        except (http.TransportError, TimeoutError) as error:
            raise_if_interrupted()
            is_unconnected = isinstance(error, http.ConnectError | http.ConnectTimeout)
            if is_unconnected and not self.has_connected:
                raise GaveUp(UNREACHABLE) from error
            is_late = isinstance(error, http.TimeoutException | TimeoutError)
            if request.method not in ("GET", "HEAD") and not is_late:
                raise
            raise NoAnswer(host, f"no answer ({type(error).__name__})") from error
        PatientClient.has_connected = True
        return response

    def _answer(self, request: http.Request, options: dict[str, Any]) -> http.Response:
        """Return a response of bounded size; TimeoutError if its head or its bytes drip."""
        send = partial(super().send, request, **{**options, "stream": True})
        response = within(2 * seconds("RULER_HUB_TIMEOUT"), send)
        path = request.url.path
        is_file = bool(options.get("stream"))
        if is_file or request.method == "HEAD":
            limit = _limit(path)
        else:
            limit = JSON_BYTES
        size = response.headers.get("X-Linked-Size") or ""
        if response.is_success and not size:
            size = response.headers.get("Content-Length") or ""
        if size.isdecimal() and int(size) > limit:
            response.close()
            raise RulerError(path, too_large(int(size), limit))
        response.stream = BoundedStream(response.stream, path, limit=limit, is_file=is_file)
        if not is_file:
            response.read()
        return response


#: Most bytes of the file that is downloaded now, where the Hub or a manifest states its size.
_stated_size = ContextVar[int | None]("stated_size", default=None)


@contextmanager
def at_most(size: int | None) -> Iterator[None]:
    """Within the block a file of more bytes is not downloaded; None for the limit of its kind."""
    before = _stated_size.set(size)
    try:
        yield
    finally:
        _stated_size.reset(before)


def _limit(path: str) -> int:
    """Return the most bytes of a file that are downloaded."""
    limits = [limit for end, limit in DOWNLOADED.items() if path.endswith(end)]
    size = _stated_size.get()
    if size is not None:
        limits.append(size)
    return min(limits, default=TEXT_BYTES)


def _note_connection(event: str, info: dict[str, Any]) -> None:
    if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
        connections.append(info["return_value"].get_extra_info("socket"))


if close_connections not in at_stop:
    at_stop.append(close_connections)


def _pause(response: http.Response) -> float | None:
    """Return the pause in seconds that a refusal asks for, if any.

    Raises:
        GaveUp: it is longer than patience.
    """
    code = response.status_code
    if code < 400:
        return None
    patience = seconds("RULER_HUB_PATIENCE")
    pause = retry_after(response.headers)
    if pause is not None and pause > patience:
        raise GaveUp(
            f"the Hub asks for a pause of {pause:.0f} s ({code}), and RULER_HUB_PATIENCE is "
            f"{patience:.0f} s; run the same command again then"
        )
    return pause


def patient_client() -> PatientClient:
    """Return the client through which the library sends its requests."""
    check_environment()
    limit = min(seconds("RULER_HUB_TIMEOUT"), seconds("RULER_HUB_PATIENCE") / 2)
    timeout = http.Timeout(limit, connect=min(CONNECT, limit))
    return PatientClient(event_hooks=_hooks(), follow_redirects=True, timeout=timeout)


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


def token() -> str | None:
    """Return the token that is sent with requests; None if none can be read.

    Raises:
        RulerError: the token of a trusted publisher (`HF_OIDC_RESOURCE`) is not available.
    """
    try:
        return get_token()
    except (OIDCError, http.HTTPError) as error:
        why = " ".join(str(error).split())
        raise RulerError("the token of HF_OIDC_RESOURCE", why) from error
    except OSError:
        return None


#: What a dry run without a token does not check.
NO_TOKEN = "there is no token, so write access was not checked"


def check_access() -> None:
    """Refuse to begin where publishing cannot succeed.

    Raises:
        UsageError: downloads are off.
        RulerError: there is no token.
    """
    if offline():
        raise UsageError("publishing needs the Hub, and RULER_OFFLINE or HF_HUB_OFFLINE is set")
    if token() is None:
        raise RulerError(
            "no token: log in with `hf auth login`, or set HF_TOKEN to one with write access"
        )


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
            problem = "no answer from the Hub"
            if code := status(error):
                problem = f"the Hub answered {code}"
            response = getattr(root(error), "response", None)
            pause = None
            if response is not None:
                pause = retry_after(response.headers)
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
    if isinstance(cause, OSError) and (match := _STATUS_IN_MESSAGE.search(str(cause))):
        return int(match[1])
    return None


def is_temporary(error: BaseException, also: Collection[int] = ()) -> bool:
    """Whether another attempt may succeed: no response, half a response, or such a status."""
    cause = root(error)
    code = status(error)
    if isinstance(cause, RulerError | OfflineModeIsEnabled | http.TooManyRedirects):
        return False
    if code is not None:
        return code in TEMPORARY or code in also
    if _NO_ANSWER.search(str(cause)):  # of Xet, which has tried often enough
        return False
    if isinstance(cause, http.HTTPError | ConnectionError | TimeoutError):
        return True
    is_incomplete = type(cause) is OSError and cause.errno is None  # fewer bytes than announced
    return is_incomplete or (isinstance(cause, _GARBLED) and _is_of_client(error))


def _is_of_client(error: BaseException) -> bool:
    """Whether the client of the Hub raised an error, and not this project's code."""
    frames = (frame for frame, _ in walk_tb(error.__traceback__))
    return any(f.f_globals.get("__name__", "").partition(".")[0] in _CLIENTS for f in frames)


def explain(error: Exception, doing: str) -> RulerError:
    """Return an error as one line: what was tried, what the Hub answered, what to do.

    An error that comes neither from the Hub, its client nor the system is a bug, and is raised.
    """
    cause = root(error)
    code = status(error)
    if isinstance(cause, RulerError):
        return cause
    if isinstance(cause, GatedRepoError):
        return RulerError(doing, f"it is gated: accept its terms on the Hub and log in ({code})")
    if isinstance(cause, OfflineModeIsEnabled):
        return HubDown(doing, "downloads are off (HF_HUB_OFFLINE is set)")
    if isinstance(cause, http.TooManyRedirects):
        return RulerError(doing, "the Hub's redirects lead in a circle")
    if code is not None:
        return _refusal(error, code, doing)
    return _without_reply(error, cause, doing)


def _without_reply(error: Exception, cause: BaseException, doing: str) -> RulerError:
    """Return the error for a request that had no status, with its cause; see `explain`."""
    if silent := _NO_ANSWER.search(str(cause)):
        problem = f"{urlsplit(silent[1]).netloc}, which stores large files (Xet), did not answer"
        return HubDown(doing, f"{problem}; HF_HUB_DISABLE_XET=1 goes without it, or {LATER}")
    if isinstance(cause, UnicodeEncodeError):
        problem = "the token holds a character that is not ASCII; set HF_TOKEN again"
        return RulerError(doing, problem)
    reason = one_line(str(cause)) or type(cause).__name__
    if is_temporary(error):
        return HubDown(doing, f"the Hub cannot be reached or does not work ({reason}); {LATER}")
    if isinstance(cause, OSError):  # of this machine
        where = cause.filename or ("disk" if cause.errno else "the Hub")
        return RulerError(doing, where, cause.strerror or reason)
    if isinstance(cause, ValueError) and _is_of_client(error):
        return RulerError(doing, f"the Hub refuses the files: {reason.split(': `', 1)[-1]}")
    raise error


def _refusal(error: Exception, code: int, doing: str) -> RulerError:
    """Return the error for a status: what it means, and the Hub's own message."""
    said = one_line(str(getattr(root(error), "server_message", None) or ""))
    answer = str(code)
    if said:
        answer = f"{code}: {said}"
    meaning = "the Hub refuses it"
    if code >= 500:
        meaning = f"the Hub does not work at the moment; {LATER}"
    problem = f"{MEANINGS.get(code, meaning)} ({answer})"
    if code >= 500 and code in TEMPORARY:
        return HubDown(doing, problem)
    return RulerError(doing, problem)


def one_line(text: str) -> str:
    """Return a server's message as one line of bounded length, without any token."""
    if secret := token():
        text = text.replace(secret, "***")
    text = re.sub(r"hf_[A-Za-z0-9]{8,}", "***", text)
    line = visible_line(re.sub(r"\s+", " ", text).strip())
    if len(line) <= MESSAGE:
        return line
    return f"{line[:MESSAGE]}..."
