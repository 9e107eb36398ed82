"""What a server takes, and how its replies are read.

Servers that speak one protocol differ in their fields. A first request has the real ones; each
refusal names one in the server's words, which is then left out, and a request without it follows.
What was left out stands in the run. Fields that the user gave are never left out.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ruler_data.names import quote
from ruler_data.terminal import warn
from ruler_eval.running.transport import RequestError

#: The two names of the limit on an answer's tokens.
LIMITS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
#: What asks for a stream whose last chunk has the usage.
STREAM = {"stream": True, "stream_options": {"include_usage": True}}
#: Neutral sampling by names that only one server has, by the owner that it gives its models.
OF_SERVER: Mapping[str, Mapping[str, Any]] = {
    "llamacpp": {
        "repeat_penalty": 1.0, "typical_p": 1.0, "xtc_probability": 0.0, "dry_multiplier": 0.0,
        "mirostat": 0,
    },
}  # fmt: skip


@dataclass(frozen=True)
class Dialect:
    """What each request has besides its model and its prompt."""

    fields: Mapping[str, Any]
    limit: str = "max_tokens"
    refused: tuple[str, ...] = ()

    def without(self, name: str) -> "Dialect":
        """Return it without a field, which the server refuses."""
        fields = {
            field_name: value for field_name, value in self.fields.items() if field_name != name
        }
        return replace(self, fields=fields, refused=(*self.refused, name))


#: Sends a short request; returns the reply, or why it was refused.
Probe = Callable[[Dialect], Mapping[str, Any] | RequestError]


def negotiate(
    probe: Probe, dialect: Dialect, chosen: Collection[str], server: str
) -> tuple[Dialect, Mapping[str, Any]]:
    """Return what the server takes, and its reply to that.

    Args:
        probe: sends a request.
        dialect: to begin with.
        chosen: fields of the user, which are never left out.
        server: its name, for warnings.

    Raises:
        RequestError: the server refuses something else.
    """
    doubtful, told, is_renamed = dict[str, Any](), dict[str, str](), False
    while isinstance(reply := probe(dialect), RequestError):
        if reply.is_spent:  # it took the request, and thought until its tokens ran out
            reply = {}
            break
        names = named(reply, (*dialect.fields, *LIMITS, "stream"))
        optional = [name for name in names if name in dialect.fields and name not in chosen]
        if names[:1] in ([name] for name in LIMITS) and not is_renamed:
            dialect, is_renamed = replace(dialect, limit=LIMITS[dialect.limit]), True
            warn(f"{server}: takes {dialect.limit} as the limit ({quote(reply.message, 120)})")
        elif "stream" in names and "stream" not in dialect.fields:
            dialect = replace(dialect, fields={**dialect.fields, **STREAM})
        elif optional:
            if len(names) > 1:  # it may name fields that it does not refuse
                doubtful[optional[0]] = dialect.fields[optional[0]], reply.message
            else:
                told[optional[0]] = reply.message
            dialect = dialect.without(optional[0])
        else:
            raise reply
    for name, (value, message) in doubtful.items():
        refused = tuple(word for word in dialect.refused if word != name)
        fuller = replace(dialect, fields={**dialect.fields, name: value}, refused=refused)
        if isinstance(again := probe(fuller), RequestError) and not again.is_spent:
            told[name] = message
        else:
            dialect, reply = fuller, {} if isinstance(again, RequestError) else again
    if told:
        which, words = "they are" if len(told) > 1 else "it is", next(iter(told.values())).split()
        reason = quote(" ".join(words), 80)
        warn(f"{server}: refuses {', '.join(told)}; {which} left out ({reason})")
    return dialect, reply


def named(error: RequestError, fields: Collection[str]) -> list[str]:
    """Return the fields that a refusal names, the likeliest first; a temperature goes last.

    >>> named(RequestError("", message="top_p and temperature: use one"), ["temperature", "top_p"])
    ['top_p', 'temperature']
    """
    if error.field in fields:
        return [str(error.field)]
    places = {
        name: match.start()
        for name in fields
        if (match := re.search(rf"(?<![A-Za-z_]){name}(?![A-Za-z_])", error.message))
    }
    return sorted(places, key=lambda name: (name == "temperature", places[name]))


def read_reply(reply: Mapping[str, Any], *, is_chat: bool) -> dict[str, Any]:
    """Return the fields of an `Answer` that a reply holds.

    A budget that was spent before there was any text is one event, however it is spelled: an empty
    text, null, or no text at all, and the finish reason `length`.
    """
    choices = reply.get("choices")
    choice = _object(choices[0] if isinstance(choices, list) and choices else None)
    message = _object(choice.get("message")) if is_chat else choice
    if not message or choice.get("error"):
        reason = f"the server's reply holds no answer: {quote(str(choice or reply), 200)}"
        raise RequestError(reason)
    text, finish = message.get("content" if is_chat else "text"), choice.get("finish_reason")
    if not isinstance(text, str | None):
        reason = f"the answer is {type(text).__name__}, not text"
        raise RequestError(reason)
    usage = _object(reply.get("usage"))
    read, written, total = (
        usage.get(f"{name}_tokens") for name in ("prompt", "completion", "total")
    )
    thought = _object(usage.get("completion_tokens_details")).get("reasoning_tokens")
    thought = thought if type(thought) is int else None
    if type(read) is type(written) is type(total) is int and total > read + written:
        thought = max(thought or 0, total - read - written)  # Gemini counts thoughts in no other
        written = total - read
    if finish == "length" and not (text or "").strip():
        text = text or ""
        if is_chat and not thought and written:
            thought = written
    cached = _object(usage.get("prompt_tokens_details")).get("cached_tokens")
    is_cached = type(cached) is type(read) is int and 0 <= cached <= read
    cost = usage.get("cost")
    names = ("reasoning", "reasoning_content")
    return {
        "text": text,
        "finish": finish if finish != "unknown" else None,
        "prompt_tokens": read,
        "answer_tokens": written,
        "reasoning": next(filter(None, (_text(message.get(name)) for name in names)), None),
        "reasoning_tokens": thought,
        "cached_tokens": cached if is_cached else None,
        "counted": "nobody" if read is None else "server",
        "cost": float(cost) if isinstance(cost, int | float) and 0 <= cost < 1e9 else None,
        "provider": _text(reply.get("provider")),
        "model": _text(reply.get("model")),
        "system_fingerprint": _text(reply.get("system_fingerprint")),
    }


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
