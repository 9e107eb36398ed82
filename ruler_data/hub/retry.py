"""How long a server asks to be left alone.

How long we wait for the Hub: for a byte, between attempts, and in all.

What an error of the Hub means: a fault that will pass, or one line that says what to do.

Trying again: with pauses, as long as the Hub asks for, and never for ever.
"""

import os
import re
import time
from collections.abc import Callable, Collection, Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt

from ruler_data.errors import RulerError
from ruler_data.names import quote
from ruler_data.terminal import warn

if TYPE_CHECKING:
    import httpx2

#: Whole seconds are the standard (RFC 9110, section 10.2.3); some servers send fractions.
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that an answer asks to wait, or None if it does not say.

    >>> asked_pause({"Retry-After": "120"})
    120.0
    >>> asked_pause({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"})  # is over
    0.0
    >>> asked_pause({"ratelimit": '"api";r=0;t=55'})
    55.0
    """
    said = {name.lower(): value.strip() for name, value in headers.items()}
    if after := said.get("retry-after", ""):
        return float(after) if _SECONDS.fullmatch(after) else _until(after)
    fields = dict(part.strip().partition("=")[::2] for part in said.get("ratelimit", "").split(";"))
    reset = fields.get("t", "")
    return float(reset) if fields.get("r") == "0" and reset.isdecimal() else None


def _until(date: str) -> float | None:
    """Return the seconds to a date of HTTP, none if it is over; None if it is no date."""
    try:
        return max(parsedate_to_datetime(date).timestamp() - time.time(), 0.0)
    except (ValueError, OverflowError):
        return None


#: Seconds without a byte after which a request counts as lost; RULER_HUB_TIMEOUT.
TIMEOUT = 60.0
#: Seconds of pauses that one step may take in all; RULER_HUB_PATIENCE.
PATIENCE = 300.0
#: Seconds of the first pause, each twice the one before, and of the longest; RULER_HUB_PAUSE.
PAUSE, LONGEST = 1.0, 30.0
#: Attempts of one step; the pauses between them make a minute and a half.
ATTEMPTS = 8


def timeout() -> float:
    """Return the seconds without a byte after which a request counts as lost."""
    return _seconds("RULER_HUB_TIMEOUT", TIMEOUT)


def patience() -> float:
    """Return the seconds that one step may pause in all."""
    return _seconds("RULER_HUB_PATIENCE", PATIENCE)


def pause(attempt: int) -> float:
    """Return the seconds to wait after an attempt, counted from 1, that says nothing about it."""
    return min(_seconds("RULER_HUB_PAUSE", PAUSE) * 2.0 ** (attempt - 1), LONGEST)


def refuse_long_pauses(response: "httpx2.Response") -> None:
    """Refuse an answer that asks for a longer pause than we have patience for.

    The library has pauses of its own, and obeys whatever number it is sent.

    Raises:
        RulerError: it does.
    """
    wait = retry_after(response.headers)
    if response.status_code >= 400 and wait is not None and wait > patience():
        msg = (
            f"the Hub asks for a pause of {wait:.0f} s ({response.status_code}), and "
            f"RULER_HUB_PATIENCE is {patience():.0f} s; run the same command again then"
        )
        raise RulerError(msg)


def _seconds(variable: str, default: float) -> float:
    """Return a number of seconds that the environment may set; what is no number does not."""
    try:
        return max(float(os.environ.get(variable) or default), 0.001)
    except ValueError:
        return default


#: Answers that another attempt may not get.
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})

#: What an answer means where the message of the server does not say it better.
MEANINGS = {
    401: "the Hub does not accept the token; log in again with `hf auth login`, or set HF_TOKEN",
    402: "the account's storage or plan does not allow it",
    403: "the token may not do this; use one with write access to the repo",
    404: "the Hub knows no such thing, or the token may not see it",
    409: "it exists already",
    412: "somebody else commits to the repo at the same time; run it again",
    413: "it is more than the Hub takes at once; publish fewer lengths at a time",
    429: "the Hub asks for fewer requests; wait and run it again",
    507: "the account's storage is full",
}


#: How the library for large files (Xet) tells of an answer; it has no other form.
_WORDED = re.compile(r"HTTP status \w+ error \((\d{3})\b")


class HubDown(RulerError):
    """The Hub cannot be reached, or is in trouble: what the cache holds is all there is."""


def root(error: BaseException) -> BaseException:
    """Return the error in a chain of causes that tells what the Hub or the network did."""
    from huggingface_hub.errors import OfflineModeIsEnabled

    one: BaseException | None = error
    while one is not None:
        if isinstance(one, (_http_error(), OfflineModeIsEnabled, RulerError)):
            return one
        one = one.__cause__ or one.__context__
    return error


def status(error: BaseException) -> int | None:
    """Return the status that the Hub answered with, or None if it did not answer."""
    cause = root(error)
    code = getattr(getattr(cause, "response", None), "status_code", None)
    if isinstance(code, int):
        return code
    worded = _WORDED.search(str(cause)) if isinstance(cause, OSError) else None
    return int(worded[1]) if worded else None


def is_passing(error: BaseException, also: Collection[int] = ()) -> bool:
    """Whether another attempt may do: no answer, a torn one, or a status that passes."""
    from huggingface_hub.errors import OfflineModeIsEnabled

    cause = root(error)
    if isinstance(cause, (RulerError, OfflineModeIsEnabled)):
        return False
    code = status(error)
    if code is not None:
        return code in PASSING or code in also
    torn = type(cause) is OSError and cause.errno is None  # fewer bytes than were announced
    return torn or isinstance(cause, (_http_error(), ConnectionError, TimeoutError))


def explain(error: Exception, doing: str) -> RulerError:
    """Return an error as one line: what was tried, what the Hub said, what to do.

    An error that is none of the Hub's, its client's or the network's is raised again: a bug.
    """
    from huggingface_hub.errors import LocalTokenNotFoundError, OfflineModeIsEnabled

    cause = root(error)
    if isinstance(cause, RulerError):
        return cause
    if isinstance(cause, OfflineModeIsEnabled):
        return RulerError(f"{doing}: downloads are off (HF_HUB_OFFLINE is set)")
    if isinstance(cause, LocalTokenNotFoundError):
        return RulerError(f"{doing}: no token; log in with `hf auth login`, or set HF_TOKEN")
    code = status(error)
    if code is not None:
        kind = HubDown if code >= 500 and code in PASSING else RulerError
        return kind(f"{doing}: {_meaning(code, cause)}")
    if isinstance(cause, ValueError) and "LFS batch API" in str(cause):  # its only name
        said = one_line(str(cause).split(": `", 1)[-1].splitlines()[0])
        return RulerError(f"{doing}: the Hub refuses the files: {said}")
    if isinstance(cause, OSError) and cause.errno and not is_passing(cause):  # of this machine
        return RulerError(f"{doing}: {cause.filename or 'disk'}: {cause.strerror}")
    if isinstance(cause, (_http_error(), OSError)):
        said = one_line(str(cause)) or type(cause).__name__
        return HubDown(
            f"{doing}: the Hub cannot be reached ({said}); run the same command again to go on"
        )
    raise error


def _http_error() -> type[Exception]:
    """Return what all errors of the HTTP library are, whichever the client is built on."""
    from huggingface_hub.errors import HfHubHTTPError

    return next(kind for kind in HfHubHTTPError.__mro__ if kind.__name__ == "HTTPError")


def _meaning(code: int, cause: BaseException) -> str:
    """Return what a status means; the server's own words follow, where it had any."""
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    if isinstance(cause, GatedRepoError):
        meaning = "it is gated: accept its terms on the Hub and log in with a token"
    elif isinstance(cause, RepositoryNotFoundError):
        meaning = MEANINGS[404]
    elif code >= 500 and code not in MEANINGS:
        meaning = "the Hub is in trouble; run the same command again later to go on"
    else:
        meaning = MEANINGS.get(code, "the Hub refuses it")
    said = one_line(str(getattr(cause, "server_message", None) or ""))
    return f"{meaning} ({code}{': ' + said if said else ''})"


def one_line(text: str) -> str:
    """Return what a server said on one line of bounded length, the token never in it."""
    from ruler_data.hub.client import token

    secret = token()
    if secret:
        text = text.replace(secret, "***")
    text = re.sub(r"hf_[A-Za-z0-9]{8,}", "***", text)
    return quote(re.sub(r"\s+", " ", text).strip(), 200).strip("'\"")


T = TypeVar("T")


def with_retries(doing: str, work: Callable[[], T], also: Collection[int] = ()) -> T:
    """Do something on the Hub, again and again while its faults look as if they will pass.

    Args:
        doing: what is tried, for the messages, e.g. `org/ruler: commit`.
        work: doing it twice must be as good as doing it once.
        also: statuses that pass here, beyond those that always may.

    Raises:
        RulerError: refused, or it still fails when attempts or patience end.
    """
    retrying = Retrying(
        retry=retry_if_exception(lambda error: is_passing(error, also)),
        wait=_pause,
        stop=lambda state: stop_after_attempt(ATTEMPTS)(state) or _is_out_of_patience(state),
        before_sleep=lambda state: _tell(doing, state),
        reraise=True,
    )
    try:
        return retrying(work)
    except RulerError:
        raise
    except Exception as error:
        raise explain(error, doing) from error


def _is_out_of_patience(state: RetryCallState) -> bool:
    return state.idle_for + _pause(state) > patience()


def _pause(state: RetryCallState) -> float:
    error = _error(state)
    response = getattr(root(error), "response", None) if error else None
    asked = retry_after(response.headers) if response is not None else None
    return pause(state.attempt_number) if asked is None else asked


def _tell(doing: str, state: RetryCallState) -> None:
    error = _error(state)
    code = status(error) if error else None
    said = f"the Hub answered {code}" if code else "no answer from the Hub"
    warn(f"{doing}: {said}; trying again in {state.upcoming_sleep:.0f} s")


def _error(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None
