"""What a failed request means: another try, a wait, the end of a run, and what it cost.

Whole servers that fail are in `test_faulty_servers.py`; here stands each case alone.
"""

import json
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from threading import Event

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_eval.running import transport
from ruler_eval.running.transport import (
    Call,
    Pace,
    Reply,
    RequestError,
    Transport,
    seconds_of,
    wait_of,
)
from tests.running.server import FakeServer


@pytest.mark.parametrize("status", [None, 200, 400, 401, 402, 403, 404, 408, 413, 429, 499, 500,
                                    502, 503, 504, 521, 529])  # fmt: skip
def test_a_status_says_whether_others_will_succeed_and_what_the_try_cost(
    status: int | None,
) -> None:
    failure = RequestError("why", status, temporary=True)
    assert failure.is_final == (status in (401, 402, 403, 404))
    assert failure.is_limit == (status == 429)
    free = (400, 401, 402, 403, 404, 413, 429, 503, 529)  # refused before anything is generated
    assert failure.cost == ((0, 0) if status in free else None)


def test_what_a_reply_or_its_absence_says_goes_before_its_status() -> None:
    assert RequestError("why", 500, quota=True).is_final and str(RequestError("why")) == "why"
    assert RequestError("why", 503, temporary=True, pause=2.0).is_limit
    assert not RequestError("why", 429).is_limit  # another try is of no use
    assert RequestError("why", 400, usage=(5, 2)).cost == (5, 2)
    assert RequestError("why", sent=False).cost == (0, 0)
    spent = RequestError("why", 400, "Could not finish the message because max_tokens was reached")
    assert spent.is_spent and spent.cost is None
    assert not RequestError("why", 500, spent.message).is_spent


def failure(status: int, body: object, **headers: str) -> RequestError:
    """Return what is made of a reply that is an error."""
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    request = httpx2.Request("POST", "http://gpu7:8000/v1/completions?key=secret")
    reply = httpx2.Response(status, headers=headers, content=data, request=request)
    text = data.decode()
    return transport._failure(reply, transport._parsed(text), text, wait_of(reply.headers, 10))


QUOTA = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}


@pytest.mark.parametrize(
    ("status", "body", "temporary", "quota", "pause", "reason"),
    [
        (500, "a  plain\ntext", True, False, 0.0, "status 500: 'a plain text'"),
        (400, {"error": {"message": "no", "param": "top_k"}}, False, False, 0.0,
         "status 400: 'no'"),
        (429, QUOTA, False, True, 0.0, "status 429: 'You exceeded your current quota'"),
        (400, {"error": {"message": "Your credit balance is too low"}}, False, True, 0.0,
         "status 400: 'Your credit balance is too low'"),
        (500, {"error": {"message": "the billing service is down"}}, True, False, 0.0,
         "status 500: 'the billing service is down'"),
        (429, {"error": {"message": "Exceeded your current quota; try again in 1m2.5s"}}, True,
         False, 62.5, "status 429: 'Exceeded your current quota; try again in 1m2.5s'"),
        (429, '{"error": {"message": "slow"}, "retryDelay": "7s"}', True, False, 7.0,
         "status 429: 'slow'"),
        (400, {"error": {"message": "model is still loading"}}, True, False, 0.0,
         "status 400: 'model is still loading'"),
        (418, {"detail": "no"}, False, False, 0.0, "status 418: 'no'"),
        (524, {}, True, False, 0.0, "status 524: '{}'"),
    ],
)  # fmt: skip
def test_an_error_is_read_for_its_reason_its_wait_and_whether_money_is_left(
    status: int, body: object, temporary: bool, quota: bool, pause: float, reason: str
) -> None:
    found = failure(status, body)
    assert (found.status, found.temporary, found.quota, found.pause, found.reason) == (
        status, temporary, quota, pause, reason
    )  # fmt: skip
    assert found.field == ("top_k" if "top_k" in str(body) else None)
    assert found.usage is None and found.sent


def test_of_a_long_reply_the_beginning_alone_is_searched() -> None:
    asked = "try again in 7s"
    assert failure(429, asked + " " * transport.SAID).pause == 7
    assert failure(429, " " * transport.SAID + asked).pause == 0


def test_the_errors_usage_is_kept_and_a_wait_of_the_headers_goes_first() -> None:
    body = {"error": {"message": "try again in 90 s"},
            "usage": {"prompt_tokens": 5, "completion_tokens": 2}}  # fmt: skip
    found = failure(503, body, **{"retry-after-ms": "1500"})
    assert (found.pause, found.usage, found.is_limit) == (1.5, (5, 2), True)


def test_a_redirection_names_the_address_without_its_secrets() -> None:
    found = failure(307, "", location="https://user:key@other/v1/x?key=secret")
    assert found.reason == (
        "status 307: it redirects to https://other/v1/x; give its address with --base-url"
    )


def test_a_proxys_refusal_is_believed_at_the_third_try_and_too_long_a_wait_at_once() -> None:
    for status in (403, 404, 424):
        answers = [RequestError("why", status) for _ in range(4)]
        for place, found in enumerate(answers):
            transport._believe(found, place + 1, 60.0)
        assert [found.temporary for found in answers] == [True, True, False, False]
    refused = RequestError("why", 401)
    transport._believe(refused, 1, 60.0)
    assert not refused.temporary
    for pause, is_tried_again in ((59.0, True), (60.0, False), (600.0, False)):
        found = RequestError("why", 429, temporary=True, pause=pause)
        transport._believe(found, 1, 60.0)
        assert found.temporary is is_tried_again
        said = f"why; it asks to wait {pause:.0f} s, the patience is 60 s (--option patience)"
        assert found.reason == ("why" if is_tried_again else said)


@pytest.mark.parametrize(
    ("content_type", "body", "reason", "temporary"),
    [
        ("application/json", "<html>", "the reply is not an object of JSON: '<html>'", True),
        ("application/json", "[1]", "the reply is not an object of JSON: '[1]'", True),
        ("application/json", '{"id": 1}', "the server's reply holds no answer: '{\"id\": 1}'",
         True),
        ("application/json", '{"error": {"message": "no"}, "choices": []}',
         "the server reports an error: 'no'", True),
        ("application/json", json.dumps(QUOTA),
         "the server reports an error: 'You exceeded your current quota'", False),
        ("text/event-stream", 'data: {"choices": [{"text": "x"}]}\n\n',
         "the stream ended before its answer did", True),
        ("text/plain", ": hello\n\n", "the stream ended before its answer did", True),
    ],
)  # fmt: skip
def test_a_reply_with_status_200_may_hold_no_answer(
    content_type: str, body: str, reason: str, temporary: bool
) -> None:
    request = httpx2.Request("POST", "http://gpu7/v1")
    reply = httpx2.Response(200, headers={"content-type": content_type}, request=request)
    with pytest.raises(RequestError) as error:
        transport._content(reply, body.encode())
    found = error.value
    assert (found.reason, found.status, found.temporary) == (reason, 200, temporary)


def test_a_models_list_and_an_answer_are_content() -> None:
    reply = httpx2.Response(200, request=httpx2.Request("GET", "http://gpu7/v1"))
    bodies: list[dict[str, object]] = [{"data": []}, {"choices": [1], "error": None}]
    for body in bodies:
        assert transport._content(reply, json.dumps(body).encode()) == body


@pytest.mark.parametrize(
    ("headers", "tokens", "seconds"),
    [
        ({}, 5, 0.0),
        ({"Retry-After-Ms": " 250 ", "retry-after": "9"}, 5, 0.25),
        ({"retry-after-ms": "-3"}, 5, 0.0),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 5, 9.0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "2m"}, 5, 120.0),
        ({"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": "2m"}, 5, 0.0),
        ({"x-ratelimit-remaining-tokens": "4", "x-ratelimit-reset-tokens": "1.5h"}, 5, 5400.0),
        ({"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "1.5h"}, 5, 0.0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "3s",
          "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "8s"}, 5, 8.0),
        ({"x-ratelimit-remaining-requests": "0"}, 5, 0.0),  # it does not say until when
        ({"x-ratelimit-limit-requests": "0", "x-ratelimit-reset-requests": "8s"}, 5, 0.0),
        ({"x-ratelimit-remaining-requests": "none", "x-ratelimit-reset-requests": "8s"}, 5, 0.0),
    ],
)  # fmt: skip
def test_a_reply_asks_to_wait_where_nothing_remains_for_the_next_request(
    headers: dict[str, str], tokens: int, seconds: float
) -> None:
    assert wait_of(headers, tokens) == seconds


@given(st.integers(0, 99), st.integers(0, 59), st.integers(0, 59), st.integers(1, 999))
def test_a_duration_is_read_in_its_units(hours: int, minutes: int, seconds: int, ms: int) -> None:
    total = 3600 * hours + 60 * minutes + seconds + ms / 1000
    assert seconds_of(f"{hours}h{minutes}m{seconds}s{ms}ms") == pytest.approx(total)
    assert seconds_of(f"{seconds}.5") == seconds + 0.5


def test_a_moment_is_a_wait_until_then_and_anything_else_none() -> None:
    later = datetime.now(UTC) + timedelta(seconds=100)
    assert 95 < seconds_of(later.isoformat()) <= 100
    assert seconds_of((later - timedelta(days=1)).isoformat()) == 0
    for text in ("soon", "", "-3", later.replace(tzinfo=None).isoformat()):
        assert seconds_of(text) == 0
    assert seconds_of("9" * 300) == 1e6


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        patch.setattr(transport, "monotonic", lambda: self.now)
        patch.setattr(transport, "uniform", lambda low, high: high)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_a_limit_halves_the_requests_at_once_and_answers_bring_them_back(clock: Clock) -> None:
    pace = Pace("server", 8)
    rooms = []
    for _ in range(4):
        clock.now += 1
        pace.limited(clock.now, 0.0, 100.0)
        pace.limited(clock.now - 1, 0.0, 100.0)  # sent before: refused together with the first
        rooms.append(pace._room)
    assert rooms == [4.0, 2.0, 1.0, 1.0]
    for _ in range(100):
        pace.answered()
    assert pace._room == 8
    pace = Pace("server", 8)
    pace.limited(clock.now, 0.0, 100.0)
    for _ in range(4):
        pace.answered()
    assert 4.9 < pace._room < 5.0  # about one more for as many answers as are under way


def test_waits_without_a_stated_time_double_up_to_a_minute(clock: Clock) -> None:
    pace = Pace("server", 8)
    waits = []
    for _ in range(9):
        clock.now = max(clock.now, pace._open_at) + 1
        pace.limited(clock.now, 0.0, 1e6)
        waits.append(pace._open_at - clock.now)
    assert waits == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]


def test_patience_ends_where_nobody_is_answered_and_stated_waits_do_not_count(
    clock: Clock,
) -> None:
    pace = Pace("server", 8)
    assert not pace.limited(clock.now, 0.0, 10.0)
    clock.now += 10
    assert not pace.limited(clock.now, 0.0, 10.0)
    clock.now += 1
    assert pace.limited(clock.now, 0.0, 10.0)
    pace.answered()
    assert not pace.limited(clock.now, 0.0, 10.0)  # it runs anew
    patient = Pace("server", 8)
    for tries in range(12):  # the server states nine seconds of each ten
        assert patient.limited(clock.now, 9.0, 10.0) is (tries > 10), tries
        clock.now += 10


def test_a_wait_of_seconds_is_told_once_a_minute_unless_it_is_much_longer(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    pace = Pace("the server", 8)
    told = []
    for seconds in (1.9, 3.0, 4.0, 9.0, 10.0):
        clock.now = max(clock.now, pace._open_at) + 1
        pace.hold(seconds)
        pace.hold(seconds - 1)  # it is already held for longer
        told.append(capsys.readouterr().err)
    assert [bool(text) for text in told] == [False, True, False, True, False]
    assert "the server: limits the rate: the next request goes in 3 s, at " in told[1]
    assert told[1].endswith(", 8 at once\n")
    clock.now += 61
    pace.hold(3.0)
    assert "goes in 3 s" in capsys.readouterr().err


class Pauses(Event):
    """What ends a request; its waits take the time of a clock."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waits.append(timeout)
        self.clock.now += timeout
        return self.is_set()


def failing(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, *failures: RequestError, seconds: float = 1.0
) -> Transport:
    """Return what sends to a server whose tries fail, one way after the other, then succeed."""
    left = list(failures)

    def send(*_: object) -> Reply:
        clock.now += seconds
        if left:
            raise left.pop(0)
        return Reply({"data": []}, None)

    sender = Transport("http://gpu7:1/v1/", {}, 5.0, 2, "gpu7")
    monkeypatch.setattr(sender, "_try", send)
    return sender


def test_tries_and_pauses_use_up_the_patience_of_a_request(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pauses double from a second to a minute; the clock is the oracle."""
    down = [RequestError("down", 500, temporary=True) for _ in range(50)]
    stop = Pauses(clock)
    sender = failing(clock, monkeypatch, *down)
    began = clock.now
    with pytest.raises(RequestError, match="down"):
        sender.send(Call("GET", "models", 200.0, stop=stop))
    assert stop.waits == [1, 2, 4, 8, 16, 32, 60, 60]
    assert 190 < clock.now - began <= 200  # the next pause would end after it


def test_each_failure_is_told_before_the_next_try_and_a_refusal_is_not_sent_again(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = RequestError("first", 500, temporary=True)
    limited = RequestError("limited", 429, temporary=True, pause=30.0)
    told: list[str] = []
    stop = Pauses(clock)
    sender = failing(clock, monkeypatch, first, limited, RequestError("bad", 400))
    monkeypatch.setattr(sender.pace, "place", lambda stop: nullcontext())
    with pytest.raises(RequestError, match="bad"):
        sender.send(
            Call("GET", "models", 60.0, stop=stop, again=lambda error: told.append(str(error)))
        )
    assert told == ["first", "limited"] and stop.waits == [1, 0]  # the pace holds all
    refused = failing(clock, monkeypatch, RequestError("no field", 500, temporary=True))
    with pytest.raises(RequestError, match="no field"):
        refused.send(Call("GET", "models", 60.0, stop=stop, refuses=lambda error: True))
    whole = failing(clock, monkeypatch, RequestError("one", 500, temporary=True))
    assert whole.send(Call("GET", "models", 60.0, stop=stop)).content == {"data": []}


def test_a_run_that_is_stopped_sends_nothing(clock: Clock) -> None:
    stop = Pauses(clock)
    stop.set()
    sender = Transport("http://gpu7:1/v1/", {}, 5.0, 2, "gpu7")
    with pytest.raises(RequestError, match="the run was stopped") as error:
        sender.send(Call("GET", "models", 60.0, stop=stop))
    assert error.value.cost == (0, 0) and clock.now == 1000.0


def test_the_query_of_an_address_goes_with_each_request() -> None:
    with FakeServer(lambda body: "x") as server:
        sender = Transport(f"{server.url}/?api-version=2&key=a", {}, 5.0, 2, "here")
        sender.send(Call("GET", "models", 5.0))
        sender.send(Call("POST", "completions", 5.0, body={"model": "m", "prompt": "a"}))
    assert server.paths == [
        "/v1/models?api-version=2&key=a",
        "/v1/completions?api-version=2&key=a",
    ]
