"""Requests to a server: bounded tries, the pauses that it asks for, and streams read to their end.

What a server says of an error is repeated in its own words, whatever form they come in. A pause is
for all requests, so that sixteen threads do not each learn of one limit.
"""

import json
import re
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from random import uniform
from threading import Event, Thread
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from pydantic_core import to_json

from ruler_data.files import parse_json
from ruler_data.hub.library import http
from ruler_data.names import quote
from ruler_data.network import check_environment, retry_after

#: HTTP statuses after which a retry may succeed (520 to 530: of Cloudflare and of Anthropic), and
#: those after which no request will.
TEMPORARY = frozenset({408, 409, 425, 429, 500, 502, 503, 504, *range(520, 531)})
REFUSED = frozenset({401, 402, 403, 404})
#: Seconds of the longest pause before another try that no server asks for.
PAUSE = 60.0
#: Bytes of the longest reply.
MOST = 64 * 2**20
#: How servers say that no credit is left, that the answer's tokens ran out before its text, and
#: how long to wait.
_QUOTA = re.compile(r"insufficient_quota|exceeded your current quota|credit balance|billing", re.I)
_SPENT = re.compile(r"could not finish the message|output limit (was|is|has been) reached", re.I)
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


class Transport:
    """Sends requests to one server."""

    def __init__(self, url: str, headers: Mapping[str, str], timeout: float, most: int) -> None:
        """Keep up to `most` connections open; one try takes at most `timeout` seconds."""
        address = urlsplit(url)
        path, query = address.path.rstrip("/"), f"?{address.query}" * bool(address.query)
        self._base, self._query = f"{address.scheme}://{address.netloc}{path}", query
        self._timeout, self._open_at = timeout, 0.0
        check_environment()
        self._http = http.Client(
            headers={"Content-Type": "application/json", **headers},
            timeout=http.Timeout(timeout, connect=10.0, pool=None),
            # An abandoned one is not closed at once, and must not keep others waiting.
            limits=http.Limits(max_keepalive_connections=most),
        )
        weakref.finalize(self, self._http.close)

    def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        patience: float,
        limit: float | None = None,
        tokens: int = 0,
        stop: Event | None = None,
        refuses: Callable[[RequestError], bool] = lambda error: False,
    ) -> Mapping[str, Any]:
        """Return the reply to a request of so many tokens.

        Tries again until `stop` is set or the patience is used up; what the server asks all
        requests to wait does not count. An error that `refuses` finds to be a refusal is final.
        """
        stop, end = stop or Event(), monotonic() + patience
        for tries in count():
            if (wait := self._open_at - monotonic()) > 0:
                end += wait
                stop.wait(wait)
            try:
                return self._send(method, path, body, limit or self._timeout, tokens)
            except RequestError as error:
                if error.temporary and error.pause >= patience:
                    waits = f"it asks to wait {error.pause:.0f} s, the patience is {patience:.0f} s"
                    error.reason += f"; {waits} (--option patience)"
                    raise
                if error.pause:
                    self._open_at = max(self._open_at, monotonic() + error.pause)
                pause = max(error.pause, uniform(0.25, min(PAUSE, 0.5 * 2 ** min(tries, 10))))
                is_over = not error.temporary or refuses(error) or monotonic() + pause > end
                if is_over or stop.wait(pause):
                    raise
        raise AssertionError

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None, limit: float, tokens: int
    ) -> Mapping[str, Any]:
        """Return the reply of one try, which takes at most `limit` seconds.

        The client's own limits are from one byte to the next.
        """
        trial: Future[tuple[http.Response, bytes]] = Future()
        url = f"{self._base}/{path}{self._query}"
        content = None if body is None else to_json(body)

        def send() -> None:
            try:
                with self._http.stream(method, url, content=content) as reply:
                    data = bytearray()
                    for chunk in reply.iter_bytes():
                        data += chunk
                        if len(data) > MOST:
                            break
                    trial.set_result((reply, bytes(data)))
            except Exception as error:  # raised again by the thread that waits
                trial.set_exception(error)

        Thread(target=send, daemon=True).start()
        try:
            reply, data = trial.result(limit)
        except (http.HTTPError, TimeoutError) as error:
            is_late = isinstance(error, TimeoutError | http.ReadTimeout)
            cause = f"within {limit:g} s" if is_late else f"({type(error).__name__})"
            reason = f"the server does not answer {cause}"
            raise RequestError(reason, temporary=True) from error
        text = data.decode("utf-8", "replace")
        if len(data) > MOST:
            raise RequestError(f"the reply is over {MOST // 2**20} MB", 200)
        pause = wait_of(reply.headers, tokens)
        if reply.status_code != 200:
            raise _failed(reply.status_code, text, pause)
        if pause:
            self._open_at = max(self._open_at, monotonic() + pause)
        return _content(text)


def _content(text: str) -> Mapping[str, Any]:
    """Return the object of a reply with status 200, or raise the error that is inside."""
    content = None
    with suppress(ValueError, TypeError, AttributeError):  # not JSON, or other things in it
        content = merged(text) if text.startswith(("data:", "event:", ":")) else parse_json(text)
    has_answer = isinstance(content, dict) and ("choices" in content or "data" in content)
    if isinstance(content, dict) and has_answer and not content.get("error"):
        return content
    if message := message_of(content):
        error = _failed(200, text, 0.0)
        error.reason = f"the server reports an error: {quote(message, 300)}"
        error.temporary = not error.quota
        raise error
    reason = f"the reply is not an object of JSON: {_beginning(text)}"
    if isinstance(content, dict):
        reason = f"the server's reply holds no answer: {_beginning(text)}"
    raise RequestError(reason, 200, temporary=True)


def _failed(status: int, text: str, pause: float) -> RequestError:
    content = None
    with suppress(ValueError):
        content = parse_json(text)
    message = message_of(content) or text
    pause = pause or (seconds_of(wait[1]) if (wait := _WAIT.search(text)) else 0.0)
    quota = "insufficient_quota" in text or (not pause and bool(_QUOTA.search(message)))
    quota = quota and status in (200, 400, 429)
    reason = f"status {status}: {_beginning(message)}"
    temporary = status in TEMPORARY and not quota
    return RequestError(reason, status, message, _field_of(content), temporary, pause, quota)


def _beginning(text: str) -> str:
    return quote(" ".join(text[:800].split()), 240)


def message_of(content: object) -> str | None:
    """Return what an error says, in whichever form a server gives it.

    >>> message_of([{"error": {"message": "no such model"}}]), message_of({"detail": "no"})
    ('no such model', 'no')
    """
    if isinstance(content, list):
        return message_of(content[0]) if content else None
    if not isinstance(content, dict):
        return None
    error = content.get("error") or content
    if not isinstance(error, dict):
        return str(error)
    words = error.get("message") or error.get("detail") or (error if "error" in content else None)
    raw = error.get("metadata", {}).get("raw") if isinstance(error.get("metadata"), dict) else None
    text = words if isinstance(words, str) or words is None else json.dumps(words)
    return f"{text}: {raw}" if text and raw else text


def _field_of(content: object) -> str | None:
    """Return the field that an error names apart from its message."""
    content = content[0] if isinstance(content, list) and content else content
    if not isinstance(content, dict):
        return None
    error, detail = content.get("error"), content.get("detail")
    if isinstance(detail, list) and detail and isinstance(detail[0], dict):
        place = detail[0].get("loc")
        return str(place[-1]) if isinstance(place, list) and place else None
    param = error.get("param") if isinstance(error, dict) else content.get("param")
    return param if isinstance(param, str) and param else None


def merged(text: str) -> dict[str, Any]:
    """Return the chunks of a stream as one reply; usage is that of the last chunk.

    Raises:
        RequestError: it ends before its answer does.
    """
    reply: dict[str, Any] = {}
    words: dict[str, list[str]] = {}
    finish = None
    for line in text.split("\n"):
        data = line.removeprefix("data:").strip() if line.startswith("data:") else ""
        chunk = parse_json(data) if data.startswith("{") else {}
        if chunk.get("error"):
            return dict(chunk)
        reply |= {name: value for name, value in chunk.items() if value is not None}
        for choice in (chunk.get("choices") or ())[:1]:
            finish = choice.get("finish_reason") or finish
            for name, piece in (choice.get("delta") or choice).items():
                if isinstance(piece, str):
                    words.setdefault(name, []).append(piece)
    if finish is None:
        reason = "the stream ended before its answer did"
        raise RequestError(reason, 200, temporary=True)
    message = {name: "".join(pieces) for name, pieces in words.items()}
    choice = {"finish_reason": finish, "message": message, "text": message.get("text")}
    return {**reply, "choices": [choice]}


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
    if (after_seconds := retry_after(headers)) is not None:
        return after_seconds
    waits = [0.0]
    for kind, need in (("requests", 1), ("tokens", tokens), ("input-tokens", tokens)):
        for left, reset in (
            (f"x-ratelimit-remaining-{kind}", f"x-ratelimit-reset-{kind}"),
            (f"anthropic-ratelimit-{kind}-remaining", f"anthropic-ratelimit-{kind}-reset"),
        ):
            if lower.get(left, "").isdecimal() and int(lower[left]) < need:
                waits.append(seconds_of(lower.get(reset, "")))
    return max(waits)


def seconds_of(text: str) -> float:
    """Return a time to wait: a duration, a number of seconds, or a moment; 0 for anything else.

    >>> seconds_of("6m0s"), seconds_of("20ms"), seconds_of("7.5"), seconds_of("soon")
    (360.0, 0.02, 7.5, 0.0)
    """
    if amounts := _DURATION.findall(text):
        with suppress(ValueError):
            return sum(float(number) * _SECONDS[unit] for number, unit in amounts)
    with suppress(ValueError, OverflowError):
        number = float(text)
        return number if 0 <= number < 10**6 else 0.0
    with suppress(ValueError):
        moment = datetime.fromisoformat(text)
        return max(0.0, (moment - datetime.now(UTC)).total_seconds()) if moment.tzinfo else 0.0
    return 0.0
