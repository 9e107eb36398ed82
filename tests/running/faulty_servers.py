"""Servers that are at fault, each with what must be said and how many of two rows are answered.

A server sets itself up on the loopback server of `tests.running.server`; `count` gives the tokens
of a chat's turn, as its tokenizer renders it.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.running.server import SHORT, Answer, Body, FakeServer, Fault, Reply, copies, hang, well

Count = Callable[[Body], int]
CHAT = ("--protocol", "chat", "--option", "api=chat")
STREAM = ("--option", "stream=true")


@dataclass(frozen=True)
class Faulty:
    """A server at fault."""

    setup: Callable[[FakeServer, Count], None]
    said: str  # on standard error or output
    answered: int = 0  # of two rows
    more: tuple[object, ...] = ()  # options of the run
    patience: float = 1.0


def is_row(body: Body) -> bool:
    """Whether a request is a row, not a short text."""
    return len(body["prompt"] if "prompt" in body else body["messages"][0]["content"]) >= SHORT


def status(code: int, data: bytes = b"no", **headers: str) -> Reply:
    """Return a reply with a status; underscores in names of headers stand for hyphens."""
    return code, {name.replace("_", "-"): value for name, value in headers.items()}, data


def told(code: int, message: str, **more: object) -> Reply:
    """Return an error in the manner of OpenAI."""
    return status(code, json.dumps({"error": {"message": message, **more}}).encode())


def reading(change: Callable[[Body, int], int | None]) -> Callable[[FakeServer, Count], None]:
    """Return a server that reads other numbers of tokens of a chat's turns."""

    def setup(server: FakeServer, count: Count) -> None:
        server.reads = lambda body: change(body, count(body))

    return setup


def rows_only(more: int) -> Callable[[Body, int], int]:
    """Return a count that is wrong for rows alone."""
    return lambda body, tokens: tokens + more if is_row(body) else tokens


def sampling(say: Callable[[Body], str]) -> Callable[[FakeServer, Count], None]:
    """Return a server that answers the text which repeats itself in its own way."""

    def setup(server: FakeServer, _count: Count) -> None:
        server.probed = say

    return setup


def failing(fault: Fault) -> Callable[[FakeServer, Count], None]:
    """Return a server that fails with rows."""

    def setup(server: FakeServer, count: Count) -> None:
        server.fault = fault
        server.reads = lambda body: count(body) if "messages" in body else len(body["prompt"])

    return setup


def always(reply: Reply) -> Callable[[FakeServer, Count], None]:
    """Return a server that gives one reply to every row."""
    return failing(lambda _number, _body: reply)


def once(reply: Reply) -> Callable[[FakeServer, Count], None]:
    """Return a server that fails with the first row, once."""
    return failing(lambda number, body: reply if number == 1 else well(number, body))


def saying(
    choice: Body,
    usage: Body | None = None,
    **reply: Any,  # noqa: ANN401 - any JSON value
) -> Callable[[FakeServer, Count], None]:
    """Return a server that gives one choice as the answer to every row."""

    def setup(server: FakeServer, count: Count) -> None:
        def fault(_number: int, body: Body) -> Reply:
            read = count(body) if "messages" in body else len(body["prompt"])
            counts = {"prompt_tokens": read, "completion_tokens": 3, **(usage or {})}
            body = {"choices": [{"finish_reason": "stop", **choice}], "usage": counts, **reply}
            return status(200, json.dumps(body).encode())

        failing(fault)(server, count)

    return setup


def message(**fields: object) -> Callable[[FakeServer, Count], None]:
    """Return a server that gives one message as the answer to every row of a chat."""
    finish = fields.pop("finish_reason", "stop")
    return saying({"message": {"role": "assistant", **fields}, "finish_reason": finish})


def streaming(*events: str, ending: str = "\n\n") -> Callable[[FakeServer, Count], None]:
    """Return a server that streams these events as the answer to every row.

    `USAGE` stands for the last event, which has the counts.
    """

    def setup(server: FakeServer, _count: Count) -> None:
        def fault(_number: int, body: Body) -> Reply:
            usage = {"prompt_tokens": len(body["prompt"]), "completion_tokens": 2}
            last = json.dumps({"choices": [], "usage": usage})
            text = "".join(event.replace("USAGE", last) + ending for event in events)
            return status(200, text.encode(), Content_Type="text/event-stream")

        server.fault = fault

    return setup


def piece(text: str, finish: str | None = None, index: int = 0) -> str:
    """Return an event with a piece of an answer."""
    choice = {"index": index, "text": text, "finish_reason": finish}
    return "data: " + json.dumps({"choices": [choice]})


END = (piece("", "stop"), "data: USAGE", "data: [DONE]")


def listing(**card: object) -> Callable[[FakeServer, Count], None]:
    """Return a server that says so of its only model."""

    def setup(server: FakeServer, _count: Count) -> None:
        server.card = {"id": "another-name", **card}

    return setup


def refusing(rule: Callable[[Body], Reply]) -> Callable[[FakeServer, Count], None]:
    """Return a server that refuses requests by a rule."""

    def setup(server: FakeServer, count: Count) -> None:
        server.rule = rule
        server.reads = lambda body: count(body) if "messages" in body else len(body["prompt"])

    return setup


def refuses(*names: str) -> Callable[[Body], Reply]:
    """Return a rule that refuses fields, one after the other."""

    def rule(body: Body) -> Reply:
        found = [name for name in names if name in body]
        return told(400, f"unknown field: {found[0]}", param=found[0]) if found else None

    return rule


def named_window(body: Body) -> Reply:
    """Refuse what is over a window that no card names."""
    if body["max_tokens"] > 1500:
        return told(400, "This model's maximum context length is 1500 tokens.")
    return None


def alternating(server: FakeServer, _count: Count) -> None:
    """Answer one request in two ways."""
    server.probed = lambda body: copies(body) + str(len(server.probes))


def apart(server: FakeServer, count: Count) -> None:
    """Count cached tokens beside those of the prompt."""
    server.names = lambda body: {
        "model": "m",
        "usage": {
            "prompt_tokens": count(body) - 10,
            "completion_tokens": 3,
            "cache_read_input_tokens": 10,
        },
    }


def slow_pace(server: FakeServer, _count: Count) -> None:
    """Take one request in a fifth of a second."""
    last = [0.0]

    def fault(number: int, body: Body) -> Reply | Answer:
        with server.lock:
            if time.monotonic() - last[0] < 0.2:
                return status(429)
            last[0] = time.monotonic()
        return well(number, body)

    server.fault = fault


def limited_well(server: FakeServer, _count: Count) -> None:
    """State a wait of ten minutes on a good reply."""
    headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "10m"}

    def fault(_number: int, body: Body) -> Reply:
        usage = {"prompt_tokens": len(body["prompt"]), "completion_tokens": 1}
        reply = {"choices": [{"text": "x", "finish_reason": "stop"}], "usage": usage}
        return 200, headers, json.dumps(reply).encode()

    server.fault = fault


NO_FIELDS = ("repeat_penalty", "repetition_penalty", "rep_pen", "presence_penalty")
PENALIZED = "a penalty of the server's own was seen; neutral values switch it off"
SAMPLING = "sampling: not tested: "
READ = "the server read"
THOUGHT = ({"thinking": "QZKRA?"}, {"thinking_blocks": [{"type": "thinking", "thinking": "Hm"}]})

SERVERS: dict[str, Faulty] = {
    # Prompts.
    "cuts rows by 40 tokens": Faulty(reading(rows_only(-40)), READ, 0, CHAT),
    "cuts rows by 3 tokens": Faulty(reading(rows_only(-3)), READ, 0, CHAT),
    "adds 3 tokens to rows": Faulty(reading(rows_only(3)), READ, 0, CHAT),
    "cuts at 1,024 tokens": Faulty(reading(lambda b, n: min(n, 1024)), READ, 0, CHAT),
    "cuts short texts": Faulty(reading(lambda b, n: min(n, 20)), "cuts prompts", 0, CHAT),
    "adds 1 token": Faulty(reading(lambda b, n: n + 1), "by +1 tokens", 2, CHAT),
    "adds 40 tokens": Faulty(reading(lambda b, n: n + 40), "by +40 tokens", 2, CHAT),
    "adds 50 tokens": Faulty(reading(lambda b, n: n + 50), "by +50 tokens", 2, CHAT),
    "a shorter template": Faulty(reading(lambda b, n: n - 4), "by -4 tokens", 2, CHAT),
    "another tokenizer": Faulty(reading(lambda b, n: n * 11 // 10), "not tested", 0, CHAT),
    "another tokenizer, allowed": Faulty(
        reading(lambda b, n: n * 11 // 10), "not tested", 2, (*CHAT, "--option", "tolerance=0.2")
    ),
    "counts no prompt": Faulty(reading(lambda b, n: None), "counts no prompt tokens", 2, CHAT),
    "two counts for one template": Faulty(
        reading(lambda b, n: n + (7 if is_row(b) else 0)), "it adds tokens of its own", 0, CHAT
    ),
    "a second BOS before ids": Faulty(
        lambda server, _: setattr(server, "reads", lambda body: len(body["prompt"]) + 1),
        "a second BOS", 0,
    ),
    "counts cached tokens apart": Faulty(apart, "2 of 2 rows answered", 2, CHAT),
    # Sampling.
    "repeat_penalty 1.15": Faulty(sampling(lambda b: copies(b, repeat_penalty=1.15)), PENALIZED, 2),
    "repetition_penalty": Faulty(sampling(lambda b: copies(b, repetition_penalty=2)), PENALIZED, 2),
    "presence_penalty": Faulty(sampling(lambda b: copies(b, presence_penalty=0.5)), PENALIZED, 2),
    "frequency_penalty": Faulty(sampling(lambda b: copies(b, frequency_penalty=1)), PENALIZED, 2),
    "a penalty that nothing switches off": Faulty(
        sampling(lambda b: "yes no maybe"), f"{SAMPLING}the model does not repeat", 2
    ),
    "penalties that do nothing": Faulty(
        sampling(lambda b: "yes " * 20), f"{SAMPLING}a deliberate penalty changes no answer", 2
    ),
    "two answers to one request": Faulty(
        alternating, f"{SAMPLING}one request has two answers", 2
    ),
    "takes no penalty": Faulty(
        refusing(refuses(*NO_FIELDS, "frequency_penalty")),
        f"{SAMPLING}the server takes no field for a penalty", 2,
    ),
    "takes no temperature": Faulty(
        refusing(refuses("temperature")), f"{SAMPLING}the server takes no temperature", 2
    ),
    "takes top_k 0 alone": Faulty(
        refusing(lambda b: told(400, "top_k: >= 0") if b.get("top_k", 0) < 0 else None),
        "2 of 2 rows answered", 2,
    ),
    # Windows.
    "a window in max_model_len": Faulty(listing(max_model_len=1500), "the model's window is 1500"),
    "a window in meta.n_ctx": Faulty(listing(meta={"n_ctx": 1500}), "the model's window is 1500"),
    "a window in context_length": Faulty(
        listing(context_length=1500), "the model's window is 1500"
    ),
    "a window that a refusal names": Faulty(
        lambda server, count: (listing()(server, count), refusing(named_window)(server, count))[0],
        "the model's window is 1500",
    ),
    # Bounds.
    "names stream for ever": Faulty(
        refusing(lambda b: told(400, "set stream to true")), "status 400: 'set stream to true'"
    ),
    "names max_tokens for ever": Faulty(
        refusing(lambda b: told(400, "max_tokens: no")), "status 400: 'max_tokens: no'"
    ),
    "names a field that was not sent": Faulty(
        refusing(lambda b: told(400, "no", param="nonsense")), "status 400: 'no'"
    ),
    "429 for ever": Faulty(always(status(429)), "status 429"),
    "429 with a short wait for ever": Faulty(
        always(status(429, retry_after_ms="100")), "status 429", patience=0.2
    ),
    "429 with waits that take longer than the patience": Faulty(
        failing(lambda n, b: status(429, retry_after_ms="900") if n < 5 else well(n, b)),
        "2 of 2 rows answered", 2, patience=2,
    ),
    "429 with a long wait": Faulty(
        always(status(429, Retry_After="600")), "asks to wait 600 s, the patience is"
    ),
    "a wait on a good reply": Faulty(
        limited_well, "limits the rate: the next request goes in 3 s, at", 2, patience=3
    ),
    "one request in a fifth of a second": Faulty(
        slow_pace, "2 of 2 rows answered", 2, patience=2
    ),
    "500 for ever": Faulty(always(status(500, b"\x1b[31mboom")), r"status 500: '\x1b[31mboom'"),
    "hangs": Faulty(failing(lambda n, b: hang(30)), "does not answer within 2 s"),
    "redirects": Faulty(
        always(status(308, Location="https://u:key@new.example/v2/completions?key=1")),
        "it redirects to https://new.example/v2/completions;",
    ),
    "no such key": Faulty(always(status(401, b"no such key")), "status 401: 'no such key'"),
    "no credit": Faulty(
        always(told(429, "quota", type="insufficient_quota")), "status 429: 'quota'"
    ),
    "404 for ever": Faulty(always(status(404, b"no such model")), "status 404: 'no such model'"),
    "403 once": Faulty(once(status(403)), "2 of 2 rows answered", 2, patience=9),
    "404 once": Faulty(once(status(404)), "2 of 2 rows answered", 2, patience=9),
    "424 once": Faulty(once(status(424)), "2 of 2 rows answered", 2, patience=9),
    "loads its model": Faulty(
        once(told(400, "The model is loading, please wait.")), "2 of 2 rows answered", 2, patience=9
    ),
    # Replies.
    "HTML": Faulty(always(status(200, b"<html>sorry</html>")), "is not an object of JSON"),
    "null": Faulty(always(status(200, b"null")), "is not an object of JSON"),
    "an error with status 200": Faulty(
        always(told(200, "no GPU")), "the server reports an error: 'no GPU'"
    ),
    "dropped": Faulty(always(None), "does not answer (RemoteProtocolError)"),
    "no choices": Faulty(always(status(200, b'{"choices": []}')), "holds no answer"),
    "two choices": Faulty(
        saying({"text": "x"}, choices=[{"text": "x"}, {"text": "y"}]), "has 2 choices"
    ),
    "the second choice alone": Faulty(saying({"text": "x", "index": 1}), "is choice '1'"),
    "no text": Faulty(saying({"text": None}), "the text is null"),
    "a number as text": Faulty(saying({"text": 7}), "the answer is int, not text"),
    "an image": Faulty(message(content=[{"type": "image_url"}]), "holds 'image_url'", 0, CHAT),
    "texts in a list": Faulty(
        message(content=[{"type": "text", "text": "x"}]), "2 of 2 rows answered", 2, CHAT
    ),
    "a refusal": Faulty(message(content="", refusal="I cannot"), "the model refuses", 0, CHAT),
    "a tool": Faulty(message(content=None, tool_calls=[{"id": 1}]), "calls a tool", 0, CHAT),
    "a function": Faulty(
        message(content="", function_call={"name": "f"}), "calls a function", 0, CHAT
    ),
    "a filter beside empty text": Faulty(
        saying({
            "message": {"content": ""}, "content_filter_results": {"violence": {"filtered": True}},
        }), "a filter took the text: 'violence'", 0, CHAT,
    ),
    "a filter as the reason": Faulty(
        saying({"text": "x", "finish_reason": "content_filter"}), "finish reason 'content_filter'"
    ),
    "no reason": Faulty(saying({"text": "x", "finish_reason": None}), "finish reason 'None'"),
    "no token": Faulty(saying({"text": ""}, {"completion_tokens": 0}), "no token was generated"),
    "too many tokens": Faulty(saying({"text": "x"}, {"completion_tokens": 31}), "the budget is 30"),
    "a count as text": Faulty(saying({"text": "x"}, {"completion_tokens": "9"}), "'9' is reported"),
    **{
        f"finish reason {name}": Faulty(
            saying({"text": "x", "finish_reason": name}), "2 of 2 rows answered", 2
        )
        for name in ("eos", "eos_token", "STOP", "end_turn", "MAX_TOKENS")
    },
    # Streams.
    "an event that is not understood": Faulty(
        streaming(piece("x"), 'data: {"type": "surprise"}', piece("y"), *END),
        "an event that is not understood", 0, STREAM,
    ),
    "an event that is no JSON": Faulty(
        streaming(piece("x"), "data: {oops", *END), "an event that is not understood", 0, STREAM
    ),
    "another choice in a stream": Faulty(
        streaming(piece("x"), piece("y", index=1), *END), "another choice than the first", 0, STREAM
    ),
    "a stream that ends early": Faulty(
        streaming(piece("x")), "the stream ended before its answer did", 0, STREAM
    ),
    "an error in a stream": Faulty(
        streaming(piece("x"), 'data: {"error": {"message": "no GPU"}}'), "no GPU", 0, STREAM
    ),
    "pings, numbers and comments in a stream": Faulty(
        streaming(
            ": waiting", "id: 7", 'event: ping\ndata: {"type": "ping"}',
            'data: {"choices":\ndata: [{"text": "x", "finish_reason": null}]}', *END,
        ), "2 of 2 rows answered", 2, STREAM,
    ),
    "a stream with bare CR": Faulty(
        streaming(piece("x"), *END, ending="\r\r"), "2 of 2 rows answered", 2, STREAM
    ),
    "a stream with a BOM": Faulty(
        streaming("\ufeff" + piece("x"), *END), "2 of 2 rows answered", 2, STREAM
    ),
}  # fmt: skip
