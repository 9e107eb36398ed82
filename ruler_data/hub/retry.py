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
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from tenacity import RetryCallState, Retrying, retry_if_exception, wait_exponential

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
#: Attempts of one step, seconds of the longest pause, and those in which to connect.
ATTEMPTS, LONGEST, CONNECT = 8, 30.0, 4.0
#: What to do about a status, where the server's own message does not say it.
MEANINGS = {
    401: "the Hub does not accept the token; log in again with `hf auth login`, or set HF_TOKEN",
    403: "the token may not do this; use one with write access to the repo",
    404: "the Hub does not have it, or the token may not see it",
    412: "another commit to the repo is in progress; run it again",
    429: "the Hub limits the number of requests; wait and run it again",
}
UNREACHABLE = (
    "the Hub cannot be reached; to read without network, give a local folder, or HF_HOME with a "
    "cache that holds it; HF_ENDPOINT names a mirror; else run the same command again later"
)
#: How the library for large files (Xet) reports a status: only in the message.
_STATUS_IN_MESSAGE = re.compile(r"HTTP status \w+ error \((\d{3})\b")
#: What the client raises when an answer is not what it expects (e.g. HTML with status 200).
_GARBLED = (json.JSONDecodeError, UnicodeDecodeError, LookupError, TypeError, AttributeError)

T = TypeVar("T")


class HubDown(RulerError):
    """The Hub cannot be reached or does not work; only what is in the cache is available."""


def _seconds(variable: str) -> float:
    """Return one of the `LIMITS`; a value in the environment that is wrong is ignored."""
    with suppress(ValueError):
        return max(float(os.environ.get(variable) or LIMITS[variable]), 0.001)
    return LIMITS[variable]


@cache
def client() -> "HfApi":
    """Return the client, with a time limit, which the library's HTTP client lacks."""
    import httpx2
    from huggingface_hub import HfApi, set_client_factory
    from huggingface_hub.utils._http import default_client_factory

    def factory() -> "httpx2.Client":
        made, timeout = default_client_factory(), _seconds("RULER_HUB_TIMEOUT")
        made.timeout = httpx2.Timeout(timeout, connect=min(CONNECT, timeout))
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

    def pause(state: RetryCallState) -> float:
        response = getattr(root(_error(state)), "response", None)
        asked = retry_after(response.headers) if response is not None else None
        growing = wait_exponential(_seconds("RULER_HUB_PAUSE"), LONGEST)
        return growing(state) if asked is None else asked

    def announce(state: RetryCallState) -> None:
        code = status(_error(state))
        what = f"the Hub answered {code}" if code else "no answer from the Hub"
        warn(f"{doing}: {what}; trying again in {state.upcoming_sleep:.0f} s")

    def enough(state: RetryCallState) -> bool:
        spent = state.idle_for + pause(state)
        return state.attempt_number >= ATTEMPTS or spent > _seconds("RULER_HUB_PATIENCE")

    check_network(doing)
    temporary = retry_if_exception(lambda error: is_temporary(error, also))
    retrying = Retrying(
        retry=temporary, wait=pause, stop=enough, before_sleep=announce, reraise=True
    )
    try:
        return retrying(work)
    except RulerError:
        raise
    except Exception as error:
        raise explain(error, doing) from error


def _error(state: RetryCallState) -> BaseException:
    error = state.outcome.exception() if state.outcome else None
    assert error is not None
    return error


def check_network(doing: str) -> None:
    """Find out in seconds that there is no network; the client's own retries take much longer.

    Raises:
        HubDown: no connection can be made, by this process so far.
    """
    if not offline() and not is_reachable():
        raise HubDown(doing, UNREACHABLE)


def is_reachable() -> bool:
    """Whether the Hub accepts connections; behind a proxy, and after a success, this is assumed."""
    from huggingface_hub.constants import ENDPOINT

    url = urlsplit(ENDPOINT)
    host, port = url.hostname or "", url.port or {"http": 80}.get(url.scheme, 443)
    if {url.scheme, "all"} & getproxies().keys() and not proxy_bypass(host):
        return True
    return _connects(host, port)


_reached: set[tuple[str, int]] = set()


def _connects(host: str, port: int) -> bool:
    if (host, port) not in _reached:
        with suppress(OSError):
            socket.create_connection((host, port), timeout=CONNECT).close()
            _reached.add((host, port))
    return (host, port) in _reached


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a response asks to wait, or None if it does not ask.

    >>> retry_after({"Retry-After": "120"})
    120.0
    >>> retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"})  # in the past
    0.0
    """
    after = {name.lower(): value.strip() for name, value in headers.items()}.get("retry-after", "")
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", after, re.ASCII):
        return float(after)
    with suppress(ValueError, OverflowError):
        return max(parsedate_to_datetime(after).timestamp() - time.time(), 0.0)
    return None


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
    incomplete = type(cause) is OSError and cause.errno is None  # fewer bytes than announced
    return incomplete or isinstance(cause, (HTTPError, ConnectionError, TimeoutError, *_GARBLED))


def explain(error: Exception, doing: str) -> RulerError:
    """Return an error as one line: what was tried, what the Hub said, what to do."""
    from huggingface_hub.errors import GatedRepoError, LocalTokenNotFoundError

    cause, code = root(error), status(error)
    said = one_line(str(getattr(cause, "server_message", None) or ""))
    if isinstance(cause, RulerError):
        return cause
    if isinstance(cause, LocalTokenNotFoundError):
        return RulerError(doing, MEANINGS[401])
    if isinstance(cause, GatedRepoError):
        return RulerError(doing, f"it is gated: accept its terms on the Hub and log in ({code})")
    if code is not None:
        down = "the Hub does not work at the moment; run the same command again later to resume"
        meaning = MEANINGS.get(code, down if code >= 500 else "the Hub refuses it")
        kind = HubDown if code >= 500 and code in TEMPORARY else RulerError
        return kind(doing, f"{meaning} ({code}{': ' + said if said else ''})")
    if isinstance(cause, OSError) and cause.errno and not is_temporary(cause):  # of this machine
        return RulerError(doing, cause.filename or "disk", cause.strerror)
    reason = one_line(str(cause)) or type(cause).__name__
    if is_temporary(cause):
        what = f"the Hub cannot be reached ({reason}); run the same command again to resume"
        return HubDown(doing, what)
    return RulerError(doing, f"{type(cause).__name__}: {reason}")


def one_line(text: str) -> str:
    """Return a server's message as one line of bounded length, without any token."""
    if secret := token():
        text = text.replace(secret, "***")
    text = re.sub(r"hf_[A-Za-z0-9]{8,}", "***", text)
    return quote(re.sub(r"\s+", " ", text).strip(), 200).strip("'\"")
