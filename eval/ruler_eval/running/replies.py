"""What a server's reply says, read strictly: what is not understood is no answer, and is named.

Servers that speak one protocol spell one event in several ways; each is one field of an `Answer`
here. A stream is merged into the reply that it stands for.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import httpx2

from ruler_data.files import parse_json
from ruler_data.names import quote

#: Other names of the finish reasons `stop` and `length`.
FINISHES = {
    **dict.fromkeys(("eos", "eos_token", "end_turn", "stop_sequence", "complete"), "stop"),
    **dict.fromkeys(("max_tokens", "max_output_tokens", "model_length"), "length"),
}
#: Where a message holds what the model thought, apart from its text.
REASONING = ("reasoning", "reasoning_content", "thinking", "thinking_blocks")
#: Types of its pieces that are thoughts.
THOUGHTS = ("thinking", "reasoning")
#: What a message or its choice may hold instead of a text.
NO_TEXT = {
    "refusal": "the model refuses",
    "tool_calls": "the model calls a tool",
    "function_call": "the model calls a function",
}
#: Fields of an answer that a reply has by the same name.
ORIGIN = ("provider", "model", "system_fingerprint")
#: Events of a stream that say nothing.
IDLE = ("ping", "keepalive", "heartbeat")


class NoAnswer(Exception):
    """A reply that holds no answer; it is not worth another try."""


def read_reply(reply: Mapping[str, Any], *, is_chat: bool) -> dict[str, Any]:
    """Return the fields of an `Answer` that a reply holds.

    A budget that was spent before there was any text is one event, however it is spelled: an empty
    text, null, or no text at all, and the finish reason `length`.

    Raises:
        NoAnswer: the reply holds no answer, or something that is not understood.
    """
    choice = _only_choice(reply)
    message = _object(choice.get("message")) if is_chat else choice
    if not message or choice.get("error"):
        raise NoAnswer(f"the server's reply holds no answer: {quote(str(choice or reply), 200)}")
    text, thoughts = _read_content(message.get("content" if is_chat else "text"))
    _refuse_other_content(text, choice, message)
    usage = _object(reply.get("usage"))
    record = {"text": text, "finish": _finish_of(choice.get("finish_reason")), **_counts(usage)}
    if record["finish"] == "length" and not text:
        record["text"] = ""
        if is_chat:
            _count_as_thoughts(record)
    record["reasoning"] = _apart(message) or thoughts or None
    record["cached_tokens"] = _cached_of(usage)
    record["cost"] = _cost_of(usage)
    for name in ORIGIN:
        record[name] = _nonempty(reply.get(name))
    return record


def _count_as_thoughts(record: dict[str, Any]) -> None:
    """Count the tokens of an answer without text as those of its thoughts."""
    written = record["answer_tokens"]
    if not record["reasoning_tokens"] and isinstance(written, int):
        record["reasoning_tokens"] = written or None


def _apart(message: Mapping[str, Any]) -> str:
    """Return what a message holds of the model's thoughts apart from its text."""
    for name in REASONING:
        if text := "".join(_texts(message.get(name))):
            return text
    return ""


def _only_choice(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the choice of a reply; one was asked for."""
    choices = reply.get("choices")
    if not isinstance(choices, list) or not choices:
        return {}
    if len(choices) > 1:
        raise NoAnswer(f"the server's reply has {len(choices)} choices, one was asked for")
    choice = _object(choices[0])
    if choice.get("index", 0) != 0:
        raise NoAnswer(f"the server's reply is choice {quote(str(choice['index']))}, not the first")
    return choice


def _read_content(content: object) -> tuple[str | None, str]:
    """Return the text of a message, and what the model thought; both may be in one list.

    >>> _read_content([{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "QZKRA"}])
    ('QZKRA', 'Hm.')
    """
    if content is None or isinstance(content, str):
        return content, ""
    if not isinstance(content, list):
        raise NoAnswer(f"the answer is {type(content).__name__}, not text")
    texts = []
    thoughts = ""
    for item in content:
        if isinstance(item, str):
            texts.append(item)
            continue
        kind = _object(item).get("type")
        text = _object(item).get("text")
        if kind in THOUGHTS:
            thoughts += "".join(_texts([item]))
        elif kind in ("text", "output_text") and isinstance(text, str):
            texts.append(text)
        else:
            raise NoAnswer(f"the answer holds {quote(str(kind))}, not text alone")
    return "".join(texts), thoughts


def _texts(value: object) -> Iterator[str]:
    """Yield the texts of a value: a text, or a list of texts or of objects that hold them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, dict):
                yield from _texts(item.get("thinking") or item.get("text"))
            elif isinstance(item, str):
                yield item


def _refuse_other_content(
    text: str | None, choice: Mapping[str, Any], message: Mapping[str, Any]
) -> None:
    """Refuse an empty text beside which stands why it is empty."""
    if text and text.strip():
        return
    for name, event in NO_TEXT.items():
        if value := message.get(name):
            raise NoAnswer(f"{event}: {quote(json.dumps(value), 200)}")
    for holder in (choice, message):
        results = _object(holder.get("content_filter_results"))
        filtered = [name for name, result in results.items() if _object(result).get("filtered")]
        if filtered:
            raise NoAnswer(f"a filter took the text: {', '.join(map(quote, filtered))}")


def _finish_of(reason: object) -> str | None:
    """Return a finish reason by its usual name.

    >>> _finish_of("STOP"), _finish_of("MAX_TOKENS"), _finish_of("content_filter")
    ('stop', 'length', 'content_filter')
    """
    if not isinstance(reason, str) or reason == "unknown":  # which is for functions
        return None
    name = reason.lower()
    name = FINISHES.get(name, name)
    return name if name in ("stop", "length") else reason


def _counts(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tokens that were read, written, and of these thought, as the server counts."""
    read = usage.get("prompt_tokens")
    written = usage.get("completion_tokens")
    total = usage.get("total_tokens")
    thought = _object(usage.get("completion_tokens_details")).get("reasoning_tokens")
    if type(thought) is not int:
        thought = None
    # Gemini counts thoughts in the total alone.
    if type(read) is type(written) is type(total) is int and total > read + written:
        thought = max(thought or 0, total - read - written)
        written = total - read
    counts = {"prompt_tokens": read, "answer_tokens": written, "reasoning_tokens": thought}
    return {**counts, "counted": "nobody" if read is None else "server"}


def _cached_of(usage: Mapping[str, Any]) -> int | None:
    """Return the prompt tokens that a cache held, by OpenAI's name or by Anthropic's."""
    cached = _object(usage.get("prompt_tokens_details")).get("cached_tokens")
    if cached is None:
        cached = usage.get("cache_read_input_tokens")
    return cached if type(cached) is int and cached >= 0 else None


def _cost_of(usage: Mapping[str, Any]) -> float | None:
    cost = usage.get("cost")
    if isinstance(cost, int | float) and 0 <= cost < 1e9:
        return float(cost)
    return None


def usage_of(content: object) -> tuple[int, int] | None:
    """Return the tokens that a reply says were read and written; None where it counts nothing."""
    counts = _counts(_object(_object(content).get("usage")))
    read = counts["prompt_tokens"]
    written = counts["answer_tokens"]
    if type(read) is int and type(written) is int and read >= 0 and written >= 0:
        return read, written
    return None


def merged(data: bytes) -> tuple[dict[str, Any], str]:
    """Return the events of a stream as one reply, and why it is no whole answer.

    Its usage is that of the last event that has one.
    """
    stream = httpx2.Response(
        200,
        headers={"content-type": "text/event-stream"},
        content=data,
        request=httpx2.Request("POST", "http://stream"),
    )
    answer = _Stream()
    for event in httpx2.EventSource(stream, None):
        if event.data.strip() == "[DONE]":
            break
        if event.data:  # else it has a number alone, or a time to come back
            answer.add(event)
        if answer.reply.get("error"):
            return answer.reply, ""
    if answer.finish is None:
        answer.blame("the stream ended before its answer did")
    message = {name: _joined(pieces) for name, pieces in answer.pieces.items()}
    choice = {**message, "finish_reason": answer.finish, "message": message}
    return {**answer.reply, "choices": [choice]}, answer.fault


class _Stream:
    """The events of a stream so far."""

    def __init__(self) -> None:
        self.reply: dict[str, Any] = {}
        self.pieces: dict[str, list[Any]] = {}  # of each field of the message
        self.finish: Any = None
        self.fault = ""  # the first

    def blame(self, fault: str) -> None:
        """Take note of why this is no whole answer."""
        self.fault = self.fault or fault

    def add(self, event: httpx2.ServerSentEvent) -> None:
        """Add what an event says."""
        chunk = _event(event.data)
        if event.event == "error" and not chunk.get("error"):
            chunk["error"] = event.data
        is_idle = event.event in IDLE or chunk.get("type") in IDLE
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            choices = []
            if not is_idle and "usage" not in chunk and "error" not in chunk:
                self.blame(
                    f"the stream has an event that is not understood: {quote(event.data, 120)}"
                )
        self.reply |= {name: value for name, value in chunk.items() if value is not None}
        for choice in choices:
            self._add_choice(_object(choice))

    def _add_choice(self, choice: Mapping[str, Any]) -> None:
        if choice.get("index", 0) != 0:
            self.blame("the stream has another choice than the first")
            return
        self.finish = choice.get("finish_reason") or self.finish
        for name, piece in _object(choice.get("delta", choice)).items():
            if piece is not None and name not in ("index", "finish_reason", "role"):
                self.pieces.setdefault(name, []).append(piece)
        results = choice.get("content_filter_results")
        if results:
            self.pieces["content_filter_results"] = [results]


def _event(data: str) -> dict[str, Any]:
    """Return the object of an event; {} if it is none."""
    try:
        content = parse_json(data)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _joined(pieces: list[Any]) -> Any:  # noqa: ANN401 - a text, a list, or any other value
    """Return the value of a field, which came in pieces."""
    if all(isinstance(piece, str) for piece in pieces):
        return "".join(pieces)
    if all(isinstance(piece, list) for piece in pieces):
        return [item for piece in pieces for item in piece]
    return pieces[-1]


def error_of(content: object) -> tuple[str | None, str | None]:
    """Return what an error says, in whichever form a server gives it, and the field that it names.

    >>> error_of([{"error": {"message": "no such model"}}]), error_of({"detail": "no"})
    (('no such model', None), ('no', None))
    """
    if isinstance(content, list) and content:
        content = content[0]
    body = _object(content)
    error = body.get("error") or body
    if not isinstance(error, dict):
        return str(error), None
    words = error.get("message") or error.get("detail")
    if words is None and "error" in body:
        words = error
    if not isinstance(words, str | None):
        words = json.dumps(words)
    router = _object(error.get("metadata")).get("raw")  # the words of whom it asked
    if words and router:
        words = f"{words}: {router}"
    return words, _field_of(error)


def _field_of(error: Mapping[str, Any]) -> str | None:
    """Return the field that an error names apart from its message."""
    field = error.get("param")
    detail = error.get("detail")  # of pydantic
    if isinstance(detail, list) and detail:
        place = _object(detail[0]).get("loc")
        if isinstance(place, list) and place:
            field = place[-1]
    return _nonempty(field)


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _nonempty(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
