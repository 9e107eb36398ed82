"""Steps on the Hub: retries, time limits, and what errors mean.

A request that is safe to send twice is sent again by `ruler_data.hub.client`. A step, e.g. a
commit, is tried again here: it first looks at the Hub, so that nothing is done twice. Both have one
limit, the time without progress (RULER_HUB_PATIENCE).
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
from importlib.util import find_spec
from traceback import walk_tb
from typing import TYPE_CHECKING, Literal, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from ruler_data.errors import RulerError
from ruler_data.files import TEMPORARY
from ruler_data.names import quote
from ruler_data.terminal import warn
from ruler_data.version import __version__

if TYPE_CHECKING:
    from huggingface_hub import HfApi

#: Seconds that the environment may set: without a byte, after which a request is given up; without
#: progress, after which a step is given up; of the first pause, which doubles each time.
LIMITS = {"RULER_HUB_TIMEOUT": 60.0, "RULER_HUB_PATIENCE": 300.0, "RULER_HUB_PAUSE": 1.0}
#: Attempts, seconds of the longest pause, and those in which to connect.
ATTEMPTS, LONGEST, CONNECT = 8, 30.0, 4.0
UNREACHABLE = (
    "the Hub cannot be reached; to read without network, give a local folder, or HF_HOME with a "
    "cache that holds it; HF_ENDPOINT names a mirror; else run the same command again later"
)


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
#: Packages whose errors are about a request; they share no base class.
_CLIENTS = ("huggingface_hub", "httpx2", "hf_xet")

T = TypeVar("T")


class HubDown(RulerError):
    """The Hub cannot be reached or does not work; only what is in the cache is available."""


class GaveUp(RulerError):
    """A request was sent as often as patience allows, or there is no network."""


def seconds(variable: str) -> float:
    """Return one of the `LIMITS`; a value in the environment that is wrong is ignored."""
    with suppress(ValueError):
        return max(float(os.environ.get(variable) or LIMITS[variable]), 0.001)
    return LIMITS[variable]


class Patience:
    """Says how long to wait before the next attempt of a request or a step, and when to give up."""

    #: When the last bytes of a file moved, in either direction.
    moved = 0.0

    def __init__(self) -> None:
        self._begun, self._attempts = time.monotonic(), 0

    def pause(self, wanted: float | None = None) -> float | None:
        """Return the seconds to wait, as the server wants or growing; None to give up."""
        self._attempts += 1
        growing = min(seconds("RULER_HUB_PAUSE") * 2 ** (self._attempts - 1), LONGEST)
        pause = growing if wanted is None else wanted
        idle = time.monotonic() - max(self._begun, Patience.moved)
        over = idle + pause > seconds("RULER_HUB_PATIENCE")
        return None if over or self._attempts >= ATTEMPTS else pause


@cache
def client() -> "HfApi":
    """Return the client of the Hub, with the time limits that the libraries lack.

    Xet's are in the environment. It sends a request up to five times before it gives up, and a read
    limit includes the time in which a block of 64 MB is sent.
    """
    limits = {
        "CONNECT_TIMEOUT": f"{CONNECT:.0f}s",
        "READ_TIMEOUT": f"{seconds('RULER_HUB_PATIENCE') * 1000 / 5:.0f}ms",
        "RETRY_MAX_ATTEMPTS": "1",
        "MAX_XORB_GRANT_ATTEMPTS": "1",
    }
    for name, value in limits.items():
        os.environ.setdefault(f"HF_XET_CLIENT_{name}", value)
    from huggingface_hub import HfApi, set_client_factory

    from ruler_data.hub.client import patient_client

    set_client_factory(patient_client)
    if not os.environ.get("HF_DEBUG"):
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
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
    from httpx2 import HTTPError
    from huggingface_hub import constants
    from huggingface_hub.utils._headers import build_hf_headers
    from huggingface_hub.utils._http import get_session

    client()
    if constants.HF_HUB_DISABLE_XET or find_spec("hf_xet") is None:
        return
    address = f"{constants.ENDPOINT}/api/{kind}s/{repo}/xet-{right}-token/main"
    # The step itself will say what is wrong with the Hub.
    with suppress(HTTPError, RulerError, ValueError, AttributeError):
        given = get_session().get(address, headers=build_hf_headers())
        host = given.headers.get(constants.HUGGINGFACE_HEADER_X_XET_ENDPOINT, "")
        host = host or given.json().get("casUrl", "")
        if host.startswith("http") and not _answers(host):
            _go_without_xet(doing, urlsplit(host).netloc)


def _answers(address: str) -> bool:
    """Whether a host sends any response at all within the time limits."""
    from httpx2 import TransportError, head

    from ruler_data.hub.client import time_limits

    try:
        head(address, timeout=time_limits())
    except TransportError:
        return False
    return True


def _go_without_xet(doing: str, host: str) -> None:
    from huggingface_hub import constants

    if not constants.HF_HUB_DISABLE_XET:  # else another thread has said so
        constants.HF_HUB_DISABLE_XET = True  # the library looks there, not at the variable
        what = f"{host}, which stores large files (Xet), did not answer"
        warn(f"{doing}: {what}; trying once without it, as with HF_HUB_DISABLE_XET=1")


def is_reachable() -> bool:
    """Whether the Hub accepts connections, found out in seconds; behind a proxy it is assumed."""
    from huggingface_hub.constants import ENDPOINT

    url = urlsplit(ENDPOINT)
    host, port = url.hostname or "", url.port or {"http": 80}.get(url.scheme, 443)
    if {url.scheme, "all"} & getproxies().keys() and not proxy_bypass(host):
        return True
    with suppress(OSError):
        socket.create_connection((host, port), timeout=CONNECT).close()
        return True
    return False


def token() -> str | None:
    """Return the token that is sent with requests; None without one that can be read."""
    from huggingface_hub import get_token

    with suppress(OSError):
        return get_token()
    return None


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
        except RulerError:
            raise
        except Exception as error:
            _wait(error, doing, also, patience)


def _wait(error: Exception, doing: str, also: Collection[int], patience: Patience) -> None:
    """Wait after an error until the next attempt.

    Raises:
        RulerError: there is none.
    """
    if host := _silent_xet_host(error):  # no attempt from here on uses Xet, so this ends
        _go_without_xet(doing, host)
        return
    response = getattr(root(error), "response", None)
    wanted = retry_after(response.headers) if response is not None else None
    pause = patience.pause(wanted) if is_temporary(error, also) else None
    if pause is None:
        raise explain(error, doing) from error
    code = status(error)
    what = f"the Hub answered {code}" if code else "no answer from the Hub"
    warn(f"{doing}: {what}; trying again in {pause:.0f} s")
    time.sleep(pause)


def _silent_xet_host(error: Exception) -> str:
    """Return the host that Xet had no answer from; empty for other errors."""
    match = _NO_ANSWER.search(str(root(error)))
    return urlsplit(match[1]).netloc if match else ""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a response asks to wait, or None if it does not ask.

    >>> retry_after({"Retry-After": "120"}), retry_after({"ratelimit": '"api";r=0;t=55'})
    (120.0, 55.0)
    >>> retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"})  # in the past
    0.0
    """
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    after = lower.get("retry-after", "")
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", after, re.ASCII):
        return float(after)
    with suppress(ValueError, OverflowError):
        return max(parsedate_to_datetime(after).timestamp() - time.time(), 0.0)
    used_up = re.search(r";\s*r=0;\s*t=([0-9]{1,9})", lower.get("ratelimit", ""))
    return float(used_up[1]) if used_up else None


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
    broken = isinstance(cause, (HTTPError, ConnectionError, TimeoutError))
    return incomplete or broken or (_is_garbled(cause) and _is_of_client(error))


def _is_garbled(cause: BaseException) -> bool:
    """Whether an answer is not what the client expects (e.g. HTML with status 200).

    A RuntimeError is raised where another thread has closed the connection in use.
    """
    kinds = (json.JSONDecodeError, UnicodeDecodeError, LookupError, TypeError, AttributeError)
    return isinstance(cause, (*kinds, RuntimeError))


def _is_of_client(error: BaseException) -> bool:
    """Whether the client of the Hub raised an error, and not our own code."""
    frames = (frame for frame, _ in walk_tb(error.__traceback__))
    return any(f.f_globals.get("__name__", "").partition(".")[0] in _CLIENTS for f in frames)


def explain(error: Exception, doing: str) -> RulerError:
    """Return an error as one line: what was tried, what the Hub said, what to do.

    An error that comes neither from the Hub, its client nor the system is a bug, and is raised.
    """
    from huggingface_hub.errors import GatedRepoError, LocalTokenNotFoundError, OfflineModeIsEnabled

    cause, code = root(error), status(error)
    message = one_line(str(getattr(cause, "server_message", None) or ""))
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
    if code is not None:
        meaning = MEANINGS.get(code, down if code >= 500 else "the Hub refuses it")
        kind = HubDown if code >= 500 and code in TEMPORARY else RulerError
        return kind(doing, f"{meaning} ({code}{': ' + message if message else ''})")
    if is_temporary(error):
        what = f"the Hub cannot be reached or does not work ({reason})"
        return HubDown(doing, f"{what}; run the same command again to resume")
    if isinstance(cause, OSError):  # of this machine
        return RulerError(doing, cause.filename or "disk", cause.strerror or reason)
    if not isinstance(cause, ValueError) or not _is_of_client(error):
        raise error
    if isinstance(cause, UnicodeEncodeError):
        return RulerError(
            doing, "the token holds a character that is not ASCII; set HF_TOKEN again"
        )
    return RulerError(doing, f"the Hub refuses the files: {reason.split(': `', 1)[-1]}")


def one_line(text: str) -> str:
    """Return a server's message as one line of bounded length, without any token."""
    if secret := token():
        text = text.replace(secret, "***")
    text = re.sub(r"hf_[A-Za-z0-9]{8,}", "***", text)
    return quote(re.sub(r"\s+", " ", text).strip(), 200).strip("'\"")
