"""Requests to a server: bounded tries, the pauses that it asks for, and its errors in its words.

Each try has an end, and each wait a deadline that is told. A rate limit holds all requests: fewer
are under way while it lasts, and the patience of a row does not run meanwhile.
"""

import re
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from random import uniform
from threading import Condition, Event
from time import monotonic
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

import httpx2
from pydantic_core import to_json

from ruler_data.files import parse_json
from ruler_data.names import quote
from ruler_data.network import check_environment, retry_after, within
from ruler_data.terminal import warn
from ruler_eval.running.replies import error_of, merged, usage_of

#: HTTP statuses after which another try may succeed (520 to 530: of Cloudflare and of Anthropic).
TEMPORARY = frozenset({408, 409, 425, 429, 500, 502, 503, 504, *range(520, 531)})
#: Statuses that proxies also give for a moment, and the tries after which they are believed.
DOUBTFUL = frozenset({403, 404, 424})
DOUBTFUL_TRIES = 3
#: Statuses after which no other request will succeed.
REFUSED = frozenset({401, 402, 403, 404})
#: Statuses with which a server refuses before it generates; tries that end so cost nothing.
FREE = frozenset({503, 529, *range(300, 500)}) - {408, 409, 499}
#: Seconds of the longest pause before another try that no server asks for.
PAUSE = 60.0
#: Waits of the length of the patience that a server may ask for before it answers anybody.
WAITS = 10
#: Seconds of a wait that is told.
TOLD = 2.0
#: Seconds between two lines about waits that are no longer.
QUIET = 60.0
#: Bytes of the longest reply.
MOST = 64 * 2**20
#: Characters of a bad reply that are searched for what it says.
SAID = 1 << 16
#: How servers say that no credit is left, that the answer's tokens ran out before its text, that
#: the model is not there yet, and how long to wait.
_QUOTA = re.compile(r"insufficient_quota|exceeded your current quota|credit balance|billing", re.I)
_SPENT = re.compile(r"could not finish the message|output limit (was|is|has been) reached", re.I)
_LOADING = re.compile(r"model is (still |currently )?(being )?load|loading (the )?model", re.I)
_WAIT = re.compile(r'(?:retryDelay"?: *"|(?:try again|retry) in )([0-9.]+ *(?:ms|[smh])[0-9.ms]*)')
_DURATION = re.compile(r"([0-9.]+) *(ms|[smh])")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(eq=False)
class RequestError(Exception):
    """A request that failed; the reason holds neither address nor key."""

    reason: str
    status: int | None = None  # None where no reply came
    message: str = ""  # the server's own words
    field: str | None = None  # that the server refuses, where it says so apart
    temporary: bool = False
    pause: float = 0.0  # seconds that the server asks to wait
    quota: bool = False  # whether no credit is left
    #: Tokens read and written, as the bad reply counts them; None where it counts nothing.
    usage: tuple[int, int] | None = None
    sent: bool = True  # whether the server got the request

    def __str__(self) -> str:
        return self.reason

    @property
    def is_final(self) -> bool:
        """Whether no other request will succeed."""
        return self.quota or self.status in REFUSED

    @property
    def is_spent(self) -> bool:
        """Whether the answer's tokens ran out before there was any text."""
        return self.status == 400 and bool(_SPENT.search(self.message))

    @property
    def is_limit(self) -> bool:
        """Whether the server takes no more requests for now."""
        return self.temporary and (self.status == 429 or self.pause > 0)

    @property
    def cost(self) -> tuple[int, int] | None:
        """Tokens read and written for it; None where nobody knows, so that it cost the most."""
        if self.usage is not None:
            return self.usage
        if not self.sent or (self.status in FREE and not self.is_spent):
            return 0, 0
        return None


@dataclass(frozen=True)
class Call:
    """A request, and how it is tried."""

    method: str
    path: str
    patience: float  # seconds that it is tried for; what a rate limit takes does not count
    body: Mapping[str, Any] | None = None
    limit: float | None = None  # seconds of one try; None for the transport's own
    tokens: int = 0  # of the prompt, which a rate limit may count
    stop: Event = field(default_factory=Event)  # ends it
    #: Whether a failure is a refusal, after which it is not sent again.
    refuses: Callable[[RequestError], bool] = lambda error: False
    #: Gets the failure of a try before the next one is sent; it may raise.
    again: Callable[[RequestError], None] = lambda error: None


class Reply(NamedTuple):
    """A reply with status 200."""

    content: Mapping[str, Any]
    first_seconds: float | None  # from the request to the first event; None if not streamed


class _Received(NamedTuple):
    """What came back."""

    head: httpx2.Response
    data: bytes
    first_seconds: float | None


class Pace:
    """How many requests are under way, and when the next may go."""

    def __init__(self, server: str, most: int) -> None:
        """Start with up to `most` requests at once to a server of this name."""
        self._server = server
        self._most = most
        self._room = float(most)  # requests at once now
        self._under_way = 0
        self._open_at = 0.0
        self._limited_since: float | None = None  # None once a request is answered
        self._limited_at = 0.0  # when requests were last refused together
        self._stated = 0.0  # seconds that the server asked to wait since
        self._backoff = 0.0  # seconds of the next wait for which it states no time
        self._told = (0.0, 0.0)  # when a wait was told, and its seconds
        self._changed = Condition()

    @contextmanager
    def place(self, stop: Event) -> Iterator[None]:
        """Wait for a place, and give it back at the end; `stop` ends the wait."""
        with self._changed:
            while not stop.is_set():
                wait = self._open_at - monotonic()
                if wait <= 0 and self._under_way < int(self._room):
                    break
                self._changed.wait(min(max(wait, 0.02), 0.5))
            self._under_way += 1
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify()

    def answered(self) -> None:
        """Allow more at once: a whole request more for as many answers as are under way."""
        with self._changed:
            self._limited_since = None
            self._stated = 0.0
            self._backoff /= 2
            self._room = min(self._most, self._room + 1 / self._room)

    def limited(self, sent_at: float, pause: float, patience: float) -> bool:
        """Allow half as many at once; return whether to give up, since nobody gets an answer.

        Of several that were refused together, the first alone counts. The waits that a server
        states do not count, up to `WAITS` times the patience.
        """
        now = monotonic()
        with self._changed:
            if self._limited_since is None:
                self._limited_since = now
            if sent_at > self._limited_at:
                self._limited_at = now
                self._room = max(1.0, self._room / 2)
                self._backoff = min(PAUSE, max(0.5, 2 * self._backoff))
            stated = min(self._stated, WAITS * patience)
            is_over = now - self._limited_since - stated > patience
            wait = pause or uniform(0.5, 1.0) * self._backoff
        self.hold(wait, is_stated=pause > 0)
        return is_over

    def hold(self, seconds: float, *, is_stated: bool = True) -> None:
        """Let no request go for so long, and say so."""
        now = monotonic()
        with self._changed:
            if now + seconds <= self._open_at:
                return
            if is_stated:
                self._stated += now + seconds - max(now, self._open_at)
            self._open_at = now + seconds
            told_at, told_seconds = self._told
            is_news = now > told_at + QUIET or seconds > 2 * told_seconds
            if seconds < TOLD or not is_news:
                return
            self._told = (now, seconds)
            room = int(self._room)
        until = datetime.now() + timedelta(seconds=seconds)
        warn(
            f"{self._server}: limits the rate: the next request goes in {seconds:.0f} s, at "
            f"{until:%H:%M:%S}, {room} at once"
        )


class Transport:
    """Sends requests to one server."""

    def __init__(
        self, url: str, headers: Mapping[str, str], timeout: float, most: int, name: str
    ) -> None:
        """Keep up to `most` connections open; one try takes at most `timeout` seconds."""
        address = urlsplit(url)
        self._base = f"{address.scheme}://{address.netloc}{address.path.rstrip('/')}"
        self._query = f"?{address.query}" if address.query else ""
        self._timeout = timeout
        self.pace = Pace(name, most)
        check_environment()
        self._http = httpx2.Client(
            headers={"Content-Type": "application/json", **headers},
            timeout=httpx2.Timeout(timeout, connect=10.0, pool=None),
            # An abandoned one is not closed at once, and must not keep others waiting.
            limits=httpx2.Limits(max_keepalive_connections=most),
        )
        weakref.finalize(self, self._http.close)

    def send(self, call: Call) -> Reply:
        """Return the reply to a request, which is tried until its patience is used up."""
        used = 0.0
        for tries in count(1):
            with self.pace.place(call.stop):
                began = monotonic()
                try:
                    return self._try(call)
                except RequestError as error:
                    failure = error
            _believe(failure, tries, call.patience)
            if not failure.temporary or call.refuses(failure) or call.stop.is_set():
                raise failure
            if failure.is_limit:
                is_over = self.pace.limited(began, failure.pause, call.patience)
                pause = 0.0  # the pace holds all
            else:
                pause = uniform(0.25, min(PAUSE, 0.5 * 2 ** min(tries, 10)))
                used += monotonic() - began + pause
                is_over = used > call.patience
            if is_over:
                raise failure
            call.again(failure)
            call.stop.wait(pause)
        raise AssertionError

    def _try(self, call: Call) -> Reply:
        """Return the reply of one try within its limit; a client's own are from byte to byte."""
        if call.stop.is_set():
            raise RequestError("the run was stopped", sent=False)
        content = None if call.body is None else to_json(call.body)
        limit = call.limit or self._timeout
        try:
            reply = within(limit, lambda: self._received(call, content))
        except (httpx2.HTTPError, TimeoutError) as error:
            cause = f"({type(error).__name__})"
            if isinstance(error, TimeoutError | httpx2.ReadTimeout):
                cause = f"within {limit:g} s"
            is_sent = not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
            raise RequestError(
                f"the server does not answer {cause}", temporary=True, sent=is_sent
            ) from error
        pause = wait_of(reply.head.headers, call.tokens)
        if reply.head.status_code != 200:
            text = reply.data.decode("utf-8", "replace")
            raise _failure(reply.head, _parsed(text), text, pause)
        content_of_reply = _content(reply.head, reply.data)
        # Another request would be refused before that; it is sent after the patience at the latest.
        self.pace.hold(min(pause, call.patience))
        self.pace.answered()
        return Reply(content_of_reply, reply.first_seconds)

    def _received(self, call: Call, content: bytes | None) -> _Received:
        """Send a request, and return what comes back, up to `MOST` bytes."""
        began = monotonic()
        first_seconds = None
        data = bytearray()
        url = f"{self._base}/{call.path}{self._query}"
        with self._http.stream(call.method, url, content=content) as head:
            for chunk in head.iter_bytes():
                if first_seconds is None and b"data:" in chunk:
                    first_seconds = round(monotonic() - began, 4)
                data += chunk
                if len(data) > MOST:
                    raise RequestError(f"the reply is over {MOST // 2**20} MB", 200)
        return _Received(head, bytes(data), first_seconds)


def _believe(failure: RequestError, tries: int, patience: float) -> None:
    """Settle whether another try may succeed: what proxies say for a moment, and long waits."""
    if failure.status in DOUBTFUL:
        failure.temporary = tries < DOUBTFUL_TRIES
    if failure.temporary and failure.pause >= patience:
        failure.temporary = False
        waits = f"it asks to wait {failure.pause:.0f} s, the patience is {patience:.0f} s"
        failure.reason += f"; {waits} (--option patience)"


def _content(reply: httpx2.Response, data: bytes) -> Mapping[str, Any]:
    """Return the object of a reply with status 200, or raise the error that is inside."""
    text = data.decode("utf-8", "replace")
    fault = ""
    content: object
    is_stream = "event-stream" in reply.headers.get("content-type", "")
    if is_stream or text.lstrip("\ufeff").startswith(("data:", "event:", ":")):
        content, fault = merged(data)
    else:
        content = _parsed(text)
    if fault:
        raise RequestError(fault, 200, temporary=True, usage=usage_of(content))
    has_answer = isinstance(content, dict) and ("choices" in content or "data" in content)
    if isinstance(content, dict) and has_answer and not content.get("error"):
        return content
    raise _failure(reply, content, text, 0.0)


def _parsed(text: str) -> object:
    """Return the value of JSON; None of anything else."""
    with suppress(ValueError):
        return parse_json(text)
    return None


def _failure(reply: httpx2.Response, content: object, text: str, pause: float) -> RequestError:
    """Return what a reply says that is an error."""
    text = text[:SAID]
    status = reply.status_code
    words, field = error_of(content)
    message = words[:SAID] if words else text
    if not pause and (wait := _WAIT.search(text)):
        pause = seconds_of(wait[1])
    quota = "insufficient_quota" in text or (not pause and bool(_QUOTA.search(message)))
    quota = quota and status in (200, 400, 429)
    temporary = status == 200 or status in TEMPORARY or bool(_LOADING.search(message))
    reason = f"status {status}: {_beginning(message)}"
    if status == 200:
        reason = _why_no_answer(content, words, text)
    elif reply.is_redirect:
        target = public_address(urljoin(str(reply.url), reply.headers["location"]))
        reason = f"status {status}: it redirects to {target}; give its address with --base-url"
    return RequestError(
        reason, status, message, field, temporary and not quota, pause, quota, usage_of(content)
    )


def _why_no_answer(content: object, words: str | None, text: str) -> str:
    """Return why a reply with status 200 holds no answer."""
    if words:
        return f"the server reports an error: {quote(words, 300)}"
    if isinstance(content, dict):
        return f"the server's reply holds no answer: {_beginning(text)}"
    return f"the reply is not an object of JSON: {_beginning(text)}"


def _beginning(text: str) -> str:
    return quote(" ".join(text[:800].split()), 240)


def public_address(url: str) -> str:
    """Return an address without what may be secret.

    >>> public_address("http://user:key@gpu7:8000/v1/?token=x")
    'http://gpu7:8000/v1'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")


def wait_of(headers: Mapping[str, str], tokens: int) -> float:
    """Return the seconds that a reply asks to wait before a request of so many tokens.

    >>> wait_of({"retry-after-ms": "1500"}, 0), wait_of({"x-ratelimit-remaining-requests": "0",
    ... "x-ratelimit-reset-requests": "1m2s"}, 0)
    (1.5, 62.0)
    """
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    with suppress(ValueError):
        if after := lower.get("retry-after-ms"):
            return max(0.0, float(after) / 1000)
    after_seconds = retry_after(headers)
    if after_seconds is not None:
        return after_seconds
    longest = 0.0
    for name, left in lower.items():
        if "ratelimit" not in name or "remaining" not in name or not left.isdecimal():
            continue
        need = tokens if "tokens" in name else 1
        if int(left) < need:
            reset = lower.get(name.replace("remaining", "reset"), "")
            longest = max(longest, seconds_of(reset))
    return longest


def seconds_of(text: str) -> float:
    """Return a time to wait: a duration, a number of seconds, or a moment; 0 for anything else.

    >>> seconds_of("6m0s"), seconds_of("20ms"), seconds_of("7.5"), seconds_of("soon")
    (360.0, 0.02, 7.5, 0.0)
    """
    with suppress(ValueError, OverflowError):
        if amounts := _DURATION.findall(text):
            return sum(float(number) * _SECONDS[unit] for number, unit in amounts)
        if text.replace(".", "", 1).isdecimal():
            return min(float(text), 1e6)
        moment = datetime.fromisoformat(text)
        if moment.tzinfo:
            return max(0.0, (moment - datetime.now(UTC)).total_seconds())
    return 0.0
