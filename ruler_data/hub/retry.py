"""The Hub's client: time limits, retries, and what its errors mean.

A temporary error (no answer, half an answer, a status such as 503) is tried again, with growing
pauses or as the server's `Retry-After` says. A final one becomes one line that says what to do.
"""

import json
import logging
import os
import re
import socket
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from functools import cache
from threading import Event, Thread
from traceback import walk_tb
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential,
)

from ruler_data.errors import RulerError
from ruler_data.files import TEMPORARY, offline
from ruler_data.names import quote
from ruler_data.terminal import warn
from ruler_data.version import __version__

if TYPE_CHECKING:
    import httpx2
    from huggingface_hub import HfApi

#: Seconds that the environment may set: without a byte, after which a request is given up; of all
#: pauses of one step; of its first pause, which doubles each time.
LIMITS = {"RULER_HUB_TIMEOUT": 60.0, "RULER_HUB_PATIENCE": 300.0, "RULER_HUB_PAUSE": 1.0}
#: Seconds of the longest pause.
LONGEST = 30.0
#: Attempts of one step; the pauses between them add up to a minute and a half.
ATTEMPTS = 8
#: Seconds in which a connection has to be made.
CONNECT = 4.0

#: What a status means, where the server's own message does not say it better.
MEANINGS = {
    401: "the Hub does not accept the token; log in again with `hf auth login`, or set HF_TOKEN",
    402: "the account's storage or plan does not allow it",
    403: "the token may not do this; use one with write access to the repo",
    404: "the Hub does not have it, or the token may not see it",
    409: "it exists already",
    412: "another commit to the repo is in progress; run it again",
    413: "it is more than the Hub accepts in one request; publish fewer lengths at a time",
    429: "the Hub limits the number of requests; wait and run it again",
    507: "the account's storage is full",
}

#: `Retry-After` holds whole seconds (RFC 9110, section 10.2.3); some servers send fractions.
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)
#: How the library for large files (Xet) reports a status: only in the message.
_STATUS_IN_MESSAGE = re.compile(r"HTTP status \w+ error \((\d{3})\b")

#: Packages whose errors are about a request: they share no base class.
_CLIENTS = ("huggingface_hub", "httpx2", "hf_xet")
#: What the client raises when an answer is not what it expects (e.g. HTML with status 200), or when
#: another thread has closed the connection that it uses.
_GARBLED = (json.JSONDecodeError, UnicodeDecodeError, LookupError, TypeError, AttributeError,
            RuntimeError)  # fmt: skip
#: Set once this process has had a connection.
_connected = Event()

T = TypeVar("T")


class HubDown(RulerError):
    """The Hub cannot be reached or does not work; only what is in the cache is available."""


@cache
def client() -> "HfApi":
    """Return the client; its address is HF_ENDPOINT, its token HF_TOKEN or the saved one.

    The library's HTTP client has no time limit, so this sets one for the whole process.
    """
    import httpx2
    from huggingface_hub import HfApi, set_client_factory
    from huggingface_hub.utils._http import default_client_factory

    def factory() -> "httpx2.Client":
        made = default_client_factory()
        timeout = _seconds("RULER_HUB_TIMEOUT")
        made.timeout = httpx2.Timeout(timeout, connect=min(CONNECT, timeout))
        hooks = made.event_hooks
        made.event_hooks = {**hooks, "response": [*hooks["response"], refuse_long_pauses]}
        return made

    set_client_factory(factory)
    if not os.environ.get("HF_DEBUG"):
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    return HfApi(library_name="ruler-data", library_version=__version__)


def token() -> str | None:
    """Return the token that is sent with requests, or None."""
    from huggingface_hub import get_token

    return get_token()


def with_retries(doing: str, work: Callable[[], T], also: Collection[int] = ()) -> T:
    """Return what a step on the Hub returns; try it again after temporary errors.

    Args:
        doing: the step, for messages, e.g. `org/ruler: commit`.
        work: the step; doing it twice must have the same effect as doing it once.
        also: statuses that are temporary in this step, besides `TEMPORARY`.

    Raises:
        RulerError: the Hub refuses, or the step still fails when attempts or patience run out.
    """

    def announce(state: RetryCallState) -> None:
        code = status(_error(state))
        what = f"the Hub answered {code}" if code else "no answer from the Hub"
        warn(f"{doing}: {what}; trying again in {state.upcoming_sleep:.0f} s")

    check_network(doing)
    enough = stop_after_attempt(ATTEMPTS)
    retrying = Retrying(
        retry=retry_if_exception(lambda error: is_temporary(error, also)),
        wait=_pause,
        stop=lambda state: (
            enough(state) or state.idle_for + _pause(state) > _seconds("RULER_HUB_PATIENCE")
        ),
        before_sleep=announce,
        reraise=True,
    )
    try:
        return retrying(work)
    except RulerError:
        raise
    except Exception as error:
        raise explain(error, doing) from error


def check_network(doing: str) -> None:
    """Find out within ten seconds that there is no network, before the first request of a process.

    The client's own retries would take half a minute for each file.

    Raises:
        HubDown: no connection can be made, by this process so far.
    """
    if not offline() and not is_reachable():
        raise HubDown(doing, UNREACHABLE)


#: What to do where there is no network.
UNREACHABLE = (
    "the Hub cannot be reached; to read without network, give a local folder, or HF_HOME with a "
    "cache that holds it; HF_ENDPOINT names a mirror; else run the same command again later"
)


def is_reachable() -> bool:
    """Whether the Hub accepts connections; behind a proxy, and after a success, this is assumed."""
    from huggingface_hub.constants import ENDPOINT

    url = urlsplit(ENDPOINT)
    host, port = url.hostname or "", url.port or {"http": 80}.get(url.scheme, 443)
    if {url.scheme, "all"} & getproxies().keys() and not proxy_bypass(host):
        return True

    def connect() -> None:
        with suppress(OSError):
            socket.create_connection((host, port), timeout=CONNECT).close()
            _connected.set()

    for pause in (0, 1):
        if not _connected.wait(pause):
            # In a thread, because a host has many addresses, and no limit holds for their look-up.
            thread = Thread(target=connect, daemon=True)
            thread.start()
            thread.join(CONNECT)  # not as long if it is refused at once
    return _connected.is_set()


def _pause(state: RetryCallState) -> float:
    """Return the seconds before the next attempt."""
    response = getattr(root(_error(state)), "response", None)
    requested = retry_after(response.headers) if response is not None else None
    growing = wait_exponential(_seconds("RULER_HUB_PAUSE"), LONGEST)
    return growing(state) if requested is None else requested


def _error(state: RetryCallState) -> BaseException:
    error = state.outcome.exception() if state.outcome else None
    assert error is not None
    return error


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a response asks to wait, or None if it does not ask.

    >>> retry_after({"Retry-After": "120"})
    120.0
    >>> retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"})  # in the past
    0.0
    >>> retry_after({"ratelimit": '"api";r=0;t=55'})
    55.0
    """
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    if after := lower.get("retry-after", ""):
        if _SECONDS.fullmatch(after):
            return float(after)
        with suppress(ValueError, OverflowError):
            return max(parsedate_to_datetime(after).timestamp() - time.time(), 0.0)
        return None
    limits = lower.get("ratelimit", "").split(";")
    fields = dict(part.strip().partition("=")[::2] for part in limits)
    reset = fields.get("t", "")
    return float(reset) if fields.get("r") == "0" and reset.isdecimal() else None


def _seconds(variable: str) -> float:
    """Return one of the `LIMITS`; a value in the environment that is wrong is ignored."""
    with suppress(ValueError):
        return max(float(os.environ.get(variable) or LIMITS[variable]), 0.001)
    return LIMITS[variable]


def refuse_long_pauses(response: "httpx2.Response") -> None:
    """Refuse a response that asks for a longer pause than the patience allows.

    The client library has retries of its own, which wait for as long as the server asks.

    Raises:
        RulerError: the response asks for too long a pause.
    """
    pause, code = retry_after(response.headers), response.status_code
    patience = _seconds("RULER_HUB_PATIENCE")
    if code >= 400 and pause is not None and pause > patience:
        asked = f"the Hub asks for a pause of {pause:.0f} s ({code}), and RULER_HUB_PATIENCE is"
        msg = f"{asked} {patience:.0f} s; run the same command again then"
        raise RulerError(msg)


def root(error: BaseException) -> BaseException:
    """Return the error in a chain of causes that says what the Hub or the network did."""
    from httpx2 import HTTPError
    from huggingface_hub.errors import OfflineModeIsEnabled

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, (HTTPError, OfflineModeIsEnabled, RulerError)):
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


def is_temporary(error: BaseException, also: Collection[int] = ()) -> bool:
    """Whether another attempt may succeed: no response, half a response, or such a status."""
    from httpx2 import HTTPError
    from huggingface_hub.errors import OfflineModeIsEnabled

    cause = root(error)
    if isinstance(cause, (RulerError, OfflineModeIsEnabled)):
        return False
    if (code := status(error)) is not None:
        return code in TEMPORARY or code in also
    if isinstance(cause, _GARBLED) and _is_of_client(error):
        return True
    incomplete = type(cause) is OSError and cause.errno is None  # fewer bytes than announced
    return incomplete or isinstance(cause, (HTTPError, ConnectionError, TimeoutError))


def _is_of_client(error: BaseException) -> bool:
    """Whether the client raised an error."""
    frames = (frame for frame, _ in walk_tb(error.__traceback__))
    return any(f.f_globals.get("__name__", "").partition(".")[0] in _CLIENTS for f in frames)


def explain(error: Exception, doing: str) -> RulerError:
    """Return an error as one line: what was tried, what the Hub said, what to do.

    An error that does not come from the Hub, its client or the network is a bug, and is raised.
    """
    from httpx2 import HTTPError
    from huggingface_hub.errors import LocalTokenNotFoundError, OfflineModeIsEnabled

    cause, code, is_of_client = root(error), status(error), _is_of_client(error)
    if isinstance(cause, RulerError):
        return cause
    if isinstance(cause, OfflineModeIsEnabled):
        return RulerError(doing, "downloads are off (HF_HUB_OFFLINE is set)")
    if isinstance(cause, LocalTokenNotFoundError):
        return RulerError(doing, "no token; log in with `hf auth login`, or set HF_TOKEN")
    if code is not None:
        is_down = code >= 500 and code in TEMPORARY
        return (HubDown if is_down else RulerError)(doing, _meaning(code, cause))
    if isinstance(cause, UnicodeEncodeError) and is_of_client:
        what = "the token holds a character that is not ASCII; set HF_TOKEN again"
        return RulerError(doing, what)
    if isinstance(cause, OSError) and cause.errno and not is_temporary(cause):  # of this machine
        return RulerError(doing, cause.filename or "disk", cause.strerror)
    reason = one_line(str(cause)) or type(cause).__name__
    if isinstance(cause, (HTTPError, OSError)) or (
        isinstance(cause, RuntimeError) and is_of_client
    ):
        what = f"the Hub cannot be reached ({reason}); run the same command again to resume"
        return HubDown(doing, what)
    if isinstance(cause, _GARBLED) and is_of_client:
        what = f"the Hub's answer is not one of its API ({type(cause).__name__}: {reason}); "
        remedy = "run the same command again later; behind a proxy, check HF_ENDPOINT"
        return HubDown(doing, what + remedy)
    if isinstance(cause, ValueError) and is_of_client:  # what it refuses has no type
        reason = one_line(str(cause).split(": `", 1)[-1])
        return RulerError(doing, f"the Hub refuses the files: {reason}")
    raise error


def _meaning(code: int, cause: BaseException) -> str:
    """Return what a status means, with the server's own message if there is one."""
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    down = "the Hub does not work at the moment; run the same command again later to resume"
    meaning = MEANINGS.get(code, down if code >= 500 else "the Hub refuses it")
    if isinstance(cause, GatedRepoError):
        meaning = "it is gated: accept its terms on the Hub and log in with a token"
    elif isinstance(cause, RepositoryNotFoundError):
        meaning = MEANINGS[404]
    message = one_line(str(getattr(cause, "server_message", None) or ""))
    return f"{meaning} ({code}{': ' + message if message else ''})"


def one_line(text: str) -> str:
    """Return a server's message as one line of bounded length, without any token."""
    if secret := token():
        text = text.replace(secret, "***")
    text = re.sub(r"hf_[A-Za-z0-9]{8,}", "***", text)
    return quote(re.sub(r"\s+", " ", text).strip(), 200).strip("'\"")
