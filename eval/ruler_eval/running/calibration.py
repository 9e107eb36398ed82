"""What a server does, seen in a few short requests before it gets a row.

1. *Fields.* The first request has all of them; each refusal names one, which is left out.
2. *Offset.* Where the server renders prompts, two of them show by how many tokens its template
   differs from what was rendered here; a row that differs from that was not read whole.
3. *Sampling.* A text that repeats itself is continued with the server's defaults, with neutral
   values and with a deliberate penalty. The three answers show whether the server has a penalty of
   its own, and whether neutral values switch it off.
4. *Window.* As the server states it, else in its refusal of an answer that is too long.

What could not be seen is *not tested*, and said. All of it stands in the run, as it was seen.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ruler_data.errors import RulerError
from ruler_data.names import quote
from ruler_data.terminal import warn
from ruler_eval.running.config import NEUTRAL
from ruler_eval.running.replies import NoAnswer, read_reply
from ruler_eval.running.transport import RequestError

#: The names of the limit on an answer's tokens: the usual one, and that of newer APIs.
LIMIT = "max_tokens"
NEW_LIMIT = "max_completion_tokens"
#: What asks for a stream whose last event has the usage.
STREAM = {"stream": True, "stream_options": {"include_usage": True}}
#: Neutral sampling by the names of vLLM and of all others; whoever does not know one ignores it, or
#: refuses it, and it is left out.
SAMPLING: Mapping[str, Any] = {
    **NEUTRAL,
    "repeat_penalty": 1.0,
    "rep_pen": 1.0,
    "no_repeat_ngram_size": 0,
    "dry_multiplier": 0.0,
    "xtc_probability": 0.0,
    "typical_p": 1.0,
    "mirostat": 0,
}
#: Another value of `top_k` that means the same, where -1 is refused.
SECOND_TOP_K = 0
#: A deliberate penalty, by all its names.
PENALTY: Mapping[str, Any] = {
    "repetition_penalty": 2.0,
    "repeat_penalty": 2.0,
    "rep_pen": 2.0,
    "presence_penalty": 2.0,
    "frequency_penalty": 2.0,
}
#: Sampling that stays while the server's own values are looked at: a greedy answer can be repeated.
KEPT = {"temperature", "min_tokens"}

#: Prompts whose tokens are counted: the second has digits, capitals, accents and other scripts, so
#: that two tokenizers hardly agree on it.
PLAIN = "Reply with the word OK."
MIXED = (
    "Parcel 17 of 4096 weighs 48.25 kg; its code is QZKRA-90417, its key 7f3b2c9e-51d8. "
    "Déjà vu at the naïve café, 東京, Здравствуй. VAR PLMEW = VAR QZKRA; 1830264, 9921307, "
    "unquenchable-hummingbird. Reply with the word OK."
)
#: A prompt that every model repeats unless a penalty keeps it from that.
REPEATED = "Copy this line word for word:\n" + " ".join(["yes"] * 30)
_REPEATS = re.compile(r"(\S{1,8}\s*)\1{5}")
#: Tokens of an answer that says OK.
SHORT = 16
#: Tokens of an answer that repeats.
COPY = 24
#: Tokens by which the counts of one tokenizer may differ, where texts meet.
SEAM = 2
#: Statuses of a server that is busy, whatever its words name.
BUSY = (408, 425, 429, 502, 503, 504, 529)
#: Tokens of an answer that no window holds.
TOO_LONG = 100_000_000
#: Where a server states its window, and how a refusal does.
WINDOWS = (
    "max_model_len",
    "context_length",
    "context_window",
    "max_context_length",
    "loaded_context_length",
)
_WINDOW = re.compile(r"(?:context|window|n_ctx|max_model_len)[^0-9]{0,60}?([0-9]{3,9})\b", re.I)


@dataclass(frozen=True)
class Dialect:
    """What each request has besides its model and its prompt."""

    fields: Mapping[str, Any]
    limit: str = LIMIT
    refused: tuple[str, ...] = ()

    def with_field(self, name: str, value: Any) -> "Dialect":  # noqa: ANN401 - any JSON value
        """Return it with another value of a field."""
        refused = tuple(field for field in self.refused if field != name)
        return replace(self, fields={**self.fields, name: value}, refused=refused)

    def without(self, names: Collection[str]) -> "Dialect":
        """Return it without some fields."""
        fields = {name: value for name, value in self.fields.items() if name not in names}
        return replace(self, fields=fields)


#: Sends a short text with these fields, for an answer of so many tokens; returns the reply.
Send = Callable[[Dialect, str, int], Mapping[str, Any]]


@dataclass
class Calibration:
    """Sees what a server does; each method is one of the things that are seen."""

    server: str  # its name, for messages
    send: Send
    chosen: Collection[str]  # fields of the user, which are never left out
    is_chat: bool
    #: Tokens of a prompt as it is rendered here, and those of its text alone.
    count: Callable[[str], tuple[int, int]]
    renders: bool  # whether the server renders prompts, so that its template may differ
    first: Mapping[str, Any] = field(default_factory=dict)  # the reply to `PLAIN`

    def fields(self, dialect: Dialect, tokens: int) -> Dialect:
        """Return what the server takes; `tokens` are those of its first answer.

        Raises:
            RequestError: the server refuses something else, or names one field again and again.
        """
        doubtful = dict[str, Any]()
        words = dict[str, str]()
        while error := self._refusal(dialect, tokens):
            names = named(error, dialect)
            respelled = self._respelled(dialect, names, error)
            if respelled is None:
                name = self._optional(dialect, names)
                if name is None or name in STREAM:
                    raise error
                words[name] = error.message
                if len(names) > 1:  # it may name fields that it does not refuse
                    doubtful[name] = dialect.fields[name]
                respelled = dialect.without([name])
                respelled = replace(respelled, refused=(*dialect.refused, name))
            dialect = respelled
        for name, value in doubtful.items():
            fuller = dialect.with_field(name, value)
            if self._refusal(fuller, tokens) is None:
                dialect = fuller
                del words[name]
        self._tell_refused(words)
        return dialect

    def _optional(self, dialect: Dialect, names: Collection[str]) -> str | None:
        """Return the first of the named fields that may be left out."""
        for name in names:
            if name in dialect.fields and name not in self.chosen:
                return name
        return None

    def _respelled(self, dialect: Dialect, names: list[str], error: RequestError) -> Dialect | None:
        """Return the same fields as a refusal wants them; None where they are so already."""
        if names[:1] in ([LIMIT], [NEW_LIMIT]) and dialect.limit == LIMIT:
            warn(f"{self.server}: takes {NEW_LIMIT} as the limit ({quote(error.message, 120)})")
            return replace(dialect, limit=NEW_LIMIT)
        if "stream" in names and "stream" not in dialect.fields:
            return replace(dialect, fields={**dialect.fields, **STREAM})
        name = self._optional(dialect, names)
        if name == "top_k" and dialect.fields[name] != SECOND_TOP_K:
            return dialect.with_field(name, SECOND_TOP_K)
        return None

    def _refusal(self, dialect: Dialect, tokens: int) -> RequestError | None:
        """Send the first prompt; return why it was refused, None if it was answered."""
        try:
            self.first = self.send(dialect, PLAIN, tokens)
        except RequestError as error:
            if error.is_spent:  # it took the request, and thought until its tokens ran out
                self.first = {}
                return None
            if error.status is None or error.quota or error.status in (401, 402):
                raise
            return error
        return None

    def _tell_refused(self, words: Mapping[str, str]) -> None:
        if words:
            verb = "they are" if len(words) > 1 else "it is"
            reason = quote(" ".join(next(iter(words.values())).split()), 80)
            warn(f"{self.server}: refuses {', '.join(words)}; {verb} left out ({reason})")

    def offset(self, dialect: Dialect) -> tuple[int | None, str]:
        """Return how many tokens more than rendered here the server reads, or why not tested.

        Raises:
            RulerError: the server does not read a short text whole.
        """
        replies = {PLAIN: self.first}
        if self.renders:
            try:
                replies[MIXED] = self.send(dialect, MIXED, SHORT)
            except RequestError as error:
                return None, f"not tested: {error}"
        offsets = []
        for text, reply in replies.items():
            read = _object(reply.get("usage")).get("prompt_tokens")
            if type(read) is not int:
                return None, "not tested: the server does not count the tokens of prompts"
            rendered, least = self.count(text)
            offsets.append(read - rendered)
        if abs(offsets[0] - offsets[-1]) > SEAM:
            seen = f"{offsets[0]:+} and {offsets[-1]:+} tokens"
            return None, (
                f"not tested: the server's counts of two prompts differ from those here by {seen}"
                ", so it has another tokenizer, or cuts prompts"
            )
        whole = rendered + offsets[-1]
        if whole < least - SEAM:
            problem = f"it read {whole} tokens of a text of {least}"
            raise RulerError(self.server, f"{problem}: it cuts prompts")
        return offsets[-1], ""

    def sampling(self, dialect: Dialect) -> str:
        """Return what the answers show of the server's own sampling."""
        penalty = {name: value for name, value in PENALTY.items() if name in dialect.fields}
        if not penalty:
            return "not tested: the server takes no field for a penalty"
        if "temperature" not in dialect.fields:
            return "not tested: the server takes no temperature"
        neutral = dialect.with_field("temperature", 0.0).without(["seed"])
        default = neutral.without(set(SAMPLING) - KEPT - set(self.chosen))
        penalized = replace(neutral, fields={**neutral.fields, **penalty})
        try:
            text, neutral_text, penalized_text, again = (
                self._copy(fields) for fields in (default, neutral, penalized, default)
            )
        except (RequestError, NoAnswer) as error:
            return f"not tested: {error}"
        if not _REPEATS.search(neutral_text):
            return "not tested: the model does not repeat a text that repeats itself"
        if penalized_text == neutral_text:
            return "not tested: a deliberate penalty changes no answer"
        if text != again:
            return "not tested: one request has two answers"
        if text == neutral_text:
            return "no penalty of the server's own was seen"
        return "a penalty of the server's own was seen; neutral values switch it off"

    def _copy(self, dialect: Dialect) -> str:
        """Return what the model writes after the text that repeats itself."""
        record = read_reply(self.send(dialect, REPEATED, COPY), is_chat=self.is_chat)
        return (record["reasoning"] or "") + (record["text"] or "")

    def window(self, dialect: Dialect) -> int | None:
        """Return the window that a server names when it refuses an answer that is too long."""
        # A server that refuses nothing ends its answer at once.
        endless = dialect.with_field("stop", [" ", "\n", ".", ","])
        try:
            self.send(endless, PLAIN, TOO_LONG)
        except RequestError as error:
            window = _WINDOW.search(error.message)
            if window and int(window[1]) < TOO_LONG:
                return int(window[1])
        return None


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def named(error: RequestError, dialect: Dialect) -> list[str]:
    """Return the fields that a refusal names, the likeliest first; a temperature goes last.

    >>> dialect = Dialect({"temperature": 0.0, "top_p": 1.0})
    >>> named(RequestError("", message="top_p and temperature: use one"), dialect)
    ['top_p', 'temperature']
    """
    if error.status in BUSY:
        return []
    fields = {*dialect.fields, LIMIT, NEW_LIMIT, "stream"}
    if error.field in fields:
        return [str(error.field)]
    places = dict[str, int]()
    for name in fields:
        match = re.search(rf"(?<![A-Za-z_]){name}(?![A-Za-z_])", error.message)
        if match:
            places[name] = match.start()
    return sorted(places, key=lambda name: (name == "temperature", places[name]))


def stated_window(card: Mapping[str, Any]) -> int | None:
    """Return the window that a server states of its model.

    >>> stated_window({"id": "m", "meta": {"n_ctx": 4096, "n_ctx_train": 8192}})
    4096
    """
    values = [card.get(name) for name in WINDOWS]
    for value in (*values, _object(card.get("meta")).get("n_ctx")):
        if type(value) is int and value > 0:
            return value
    return None
