"""Steps on the Hub: tried again after temporary errors, and what their errors mean in one line.

A step looks at the Hub first, so doing it twice has the effect of doing it once.
"""

import json
import re
from collections.abc import Callable, Collection
from traceback import walk_tb
from typing import TypeVar
from urllib.parse import urlsplit

from huggingface_hub.errors import (
    GatedRepoError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
)

from ruler_data.errors import RulerError
from ruler_data.hub.client import LATER, GaveUp, HubDown, NoAnswer, Patience, client, token
from ruler_data.hub.library import http
from ruler_data.names import quote
from ruler_data.network import TEMPORARY, retry_after

T = TypeVar("T")

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
_WITHOUT_XET = "HF_HUB_DISABLE_XET=1 goes without it"
#: Packages whose errors are about a request; they share no base class.
_CLIENTS = ("huggingface_hub", http.__name__, "hf_xet")
#: What they raise if an answer is not what they expect (e.g. HTML with status 200), or if another
#: thread has closed the connection in use (RuntimeError).
_GARBLED = (
    *(json.JSONDecodeError, UnicodeDecodeError, LookupError),
    *(TypeError, AttributeError, RuntimeError),
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
