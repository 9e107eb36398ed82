"""Any OpenAI-compatible server: completions by token ids, or text or chat for servers without.

A row is answered only if the server read the prompt that was rendered here (`usage.prompt_tokens`).
Where the server renders the prompt itself (`api=chat`), its template gets the protocol's variables,
and one short prompt checks that it uses them. A row that still fails when the patience is used up
is unanswered. When one row after the other fails the run ends, and the next run sends the rest.
"""

import os
import weakref
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, count
from queue import Queue
from random import uniform
from threading import Event, Thread
from time import monotonic
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

import httpx2
from pydantic import PositiveInt

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import retry_after
from ruler_data.names import quote
from ruler_data.row import Row
from ruler_data.terminal import warn
from ruler_data.tokenizers import PromptTokenizer
from ruler_eval.answers import Answer
from ruler_eval.engines.interface import Engine, Request, read_options
from ruler_eval.eval_config import NEUTRAL, EvalConfig
from ruler_eval.models import Model


class Api(NamedTuple):
    """One way to send a prompt."""

    path: str
    protocols: tuple[str, ...]  # servers put a BOS before text, and render chat themselves
    slack: int = 0  # tokens by which a prompt that the server renders may differ, at least


APIS = {
    "completions": Api("completions", ("completion", "base", "chat", "thinking")),
    "text": Api("completions", ("base",), slack=2),
    "chat": Api("chat/completions", ("chat", "thinking"), slack=64),
}
#: Fields that servers may refuse; they are then left out. A temperature goes last.
OPTIONAL = ("seed", "skip_special_tokens", "chat_template_kwargs", *reversed(NEUTRAL))
#: Neutral sampling by names that only one server has, by the owner that it gives its models.
OF_SERVER: Mapping[str, Mapping[str, Any]] = {
    "llamacpp": {
        "repeat_penalty": 1.0, "typical_p": 1.0, "xtc_probability": 0.0, "dry_multiplier": 0.0,
        "mirostat": 0,
    },
}  # fmt: skip
#: Tokens of the short answer that shows which fields a server refuses.
PROBE_TOKENS = 16
#: HTTP statuses after which a retry may succeed, and those after which no request will.
TEMPORARY = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
REFUSED = (401, 403, 404)
#: Seconds that a server may take to be there when a run starts.
START = 5.0
#: Seconds of the longest pause before another try.
PAUSE = 60.0


@dataclass(frozen=True)
class OpenAiOptions:
    """Options of the engine."""

    #: `completions` sends token ids, which vLLM, SGLang, TensorRT-LLM and llama.cpp accept; `text`
    #: sends the prompt as text; `chat` the user's turn, to a server that applies the template.
    api: Literal["completions", "text", "chat"] = "completions"
    concurrency: PositiveInt = 16  # requests at once
    patience: float = 300.0  # seconds that a row is tried for, and that a first prompt may take
    timeout: float = 1800.0  # seconds that one try may take
    tolerance: float = 0.0  # share of a prompt by which counts may differ; see `Api.slack`
    max_completion_tokens: bool = False  # send the limit under this name, not as `max_tokens`
    reasoning_effort: str | None = None  # of a thinking model, e.g. `low`
    body: Mapping[str, Any] = field(default_factory=dict)  # more fields; null leaves one out


@dataclass(eq=False)
class RequestError(Exception):
    """A request that failed; the reason holds neither address nor key."""

    reason: str
    status: int | None = None
    reply: str = ""
    temporary: bool = False
    pause: float = 0.0  # seconds that the server asks to wait

    def __str__(self) -> str:
        return self.reason


def prepare(
    config: EvalConfig, model: Model, tokenizer: PromptTokenizer | None, _longest: int
) -> Engine:
    """Return the engine; it requests the model's window from the server."""
    assert tokenizer is not None
    options = read_options("openai", OpenAiOptions, config.options)
    protocols = APIS[options.api].protocols
    if config.protocol not in protocols:
        option, use = f"--option api={options.api}", " or ".join(protocols)
        raise UsageError(option, f"cannot send protocol {config.protocol}; use --protocol {use}")
    client = Client(config, model.source, tokenizer, options)
    window = client.card.get("max_model_len")
    window = window if isinstance(window, int) else None
    renders = options.api == "chat"
    return Engine(client.generate, client.info, client.fields, window, renders, client.open)


class Client:
    """Sends requests, each in a thread."""

    def __init__(
        self, config: EvalConfig, model: str, tokenizer: PromptTokenizer, options: OpenAiOptions
    ) -> None:
        if not config.base_url:
            msg = "--base-url is missing: the address of the server, e.g. http://127.0.0.1:8000/v1"
            raise UsageError(msg)
        parts = urlsplit(config.base_url)
        self.name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            option = f"--base-url {quote(self.name)}"
            raise UsageError(option, "not an address, e.g. http://127.0.0.1:8000/v1")
        self.config, self.model, self.options = config, model, options
        self.tokenizer, self.api = tokenizer, APIS[options.api]
        key = os.environ.get("OPENAI_API_KEY")
        self._http = httpx2.Client(
            base_url=f"{config.base_url.rstrip('/')}/",
            headers={"Authorization": f"Bearer {key}"} if key else None,
            timeout=httpx2.Timeout(options.timeout, connect=10.0, pool=None),
            # An abandoned one is not closed at once, and must not keep others waiting.
            limits=httpx2.Limits(max_keepalive_connections=options.concurrency),
        )
        weakref.finalize(self, self._http.close)
        more: dict[str, Any] = {"reasoning_effort": options.reasoning_effort}
        more["skip_special_tokens"] = False  # some models mark reasoning by special tokens
        if options.api == "chat":
            more["chat_template_kwargs"] = dict(config.prompts.protocol.variables or {})
        #: Of each request, besides its model, prompt and limit.
        self.fields = _without_null({**config.sampling, **more, **options.body})
        renamed = {"limit": "max_completion_tokens"} if options.max_completion_tokens else {}
        #: What a run records of the server and of its requests.
        self.info: dict[str, Any] = {"api": options.api, "body": options.body, **renamed}
        self._warn_once = cache(warn)  # of anything once
        self.card: Mapping[str, Any] = {}
        try:
            reply = self._request("GET", "models", patience=min(START, options.patience))
            data = reply.get("data")
            cards = map(_object, data if isinstance(data, list) else ())
            self.card = next((one for one in cards if one.get("id") == model), {})
        except RequestError as error:
            if error.status is None:
                raise RulerError(self.name, f"{error}; start the server, or correct it") from error
        own = OF_SERVER.get(str(self.card.get("owned_by")), {})
        self.fields = _without_null({**own, **self.fields, **options.body})

    def open(self) -> None:
        """Send one short prompt: what the server refuses is left out, what it ignores recorded."""
        row = Row(0, "", "", "Once upon a time", "", ("",), PROBE_TOKENS, 0, ())
        ids = self.config.prompts.ids(self.tokenizer, row)
        dropped: dict[str, Any] = {}
        while isinstance(reply := self._probe(row, ids), RequestError):
            names = [name for name in OPTIONAL if name in self.fields and name in reply.reply]
            dropped |= {name: self.fields.pop(name) for name in names}
            if not names:  # it refuses something else
                self.fields.update(dropped)
                return
        for name, value in dropped.items():  # a reply may name fields that it does not refuse
            self.fields[name] = value
            again = self._probe(row, ids)
            if isinstance(again, RequestError):
                del self.fields[name]
                self._warn_once(f"{self.name}: refuses {name}; it is left out")
            else:
                reply = again
        if refused := sorted(dropped.keys() - self.fields.keys()):
            self.info["refused"] = refused
        if "chat_template_kwargs" not in self.fields:
            return
        variables = self.config.prompts.protocol.variables or {}
        other = {name: not value for name, value in variables.items()}
        unset = len(self.tokenizer.prompt_ids(row.question, "", other))
        if unset != len(ids) and _object(reply.get("usage")).get("prompt_tokens") == unset:
            self.info["ignored"] = "chat_template_kwargs"
            values = ", ".join(f"{name}={value}" for name, value in variables.items())
            warning = f"ignores chat_template_kwargs ({values}); its template decides"
            self._warn_once(f"{self.name}: {warning}")

    def _probe(self, row: Row, ids: list[int]) -> Mapping[str, Any] | RequestError:
        """Return the reply to a short prompt, or why it was refused.

        Raises:
            RulerError: there is no reply within the patience, or the server refuses any request or
                is busy.
        """
        body = self._body(Request("", row, ids, PROBE_TOKENS))
        body |= {"temperature": 0.0} if "temperature" in self.fields else {}
        try:
            return self._request("POST", self.api.path, body, patience=self.options.patience)
        except RequestError as error:
            if error.status is None:
                reason = f"{error}, to a prompt of {len(ids)} tokens"
                remedy = "start it again, or wait longer (--option patience)"
                raise RulerError(self.name, f"{reason}; {remedy}") from error
            is_busy = error.temporary and not any(name in error.reply for name in OPTIONAL)
            if is_busy or error.status in REFUSED:
                raise RulerError(self.name, error) from error
            return error

    def generate(self, requests: Iterator[Request | None]) -> Iterator[Answer]:
        """Yield the answer to each row, as they arrive.

        Raises:
            RulerError: one row after the other failed.
        """
        answers: Queue[Answer] = Queue()
        stop, most, waiting, failures = Event(), self.options.concurrency, 0, 0
        try:
            for request in chain(filter(None, requests), [None]):
                if request is not None:
                    Thread(
                        target=self._request_row, args=(request, answers, stop), daemon=True
                    ).start()
                    waiting += 1
                while waiting and (request is None or waiting == most or not answers.empty()):
                    answer = answers.get()
                    waiting -= 1
                    failures = 0 if answer.error is None else failures + 1
                    yield answer
                    if failures == 2 * most:
                        reason = f"{failures} rows failed, one after the other: {answer.error}"
                        raise RulerError(self.name, f"{reason}; run the same command again")
        finally:
            stop.set()

    def _request_row(self, request: Request, answers: "Queue[Answer]", stop: Event) -> None:
        try:
            start = monotonic()
            reply = self._request("POST", self.api.path, self._body(request), stop)
            answers.put(self._read_reply(request, reply, monotonic() - start))
        except Exception as error:  # every row needs a prediction, whatever the server sends
            answers.put(request.failed(str(error)[:1000]))

    def _body(self, request: Request) -> dict[str, Any]:
        limit = "max_completion_tokens" if self.options.max_completion_tokens else "max_tokens"
        body: dict[str, Any] = {"model": self.model, limit: request.max_tokens}
        if "seed" in self.fields:
            body["seed"] = request.seed
        content, prefix = self.config.prompts.parts(request.row)
        if self.options.api == "chat":
            body["messages"] = [{"role": "user", "content": content}]
        else:
            body["prompt"] = content + prefix if self.options.api == "text" else request.ids
        return _without_null({**self.fields, **body, **self.options.body})

    def _read_reply(self, request: Request, reply: Mapping[str, Any], seconds: float) -> Answer:
        text, finish, reasoning = _choice(reply, self.options.api)
        usage = _object(reply.get("usage"))
        read = usage.get("prompt_tokens")
        if read is None:
            self._warn_once(f"{self.name}: does not report how many tokens of a prompt it read")
        cached = _object(usage.get("prompt_tokens_details")).get("cached_tokens")
        if not (type(cached) is type(read) is int and 0 <= cached <= read):
            cached = None
        share = int(self.options.tolerance * len(request.ids))
        return request.answered(
            text,
            finish,
            usage.get("completion_tokens"),
            seconds,
            slack=max(self.api.slack, share) if self.api.slack else 0,
            prompt_tokens=read,
            cached_tokens=cached,
            reasoning=reasoning,
            model=_text(reply.get("model")),
            system_fingerprint=_text(reply.get("system_fingerprint")),
        )

    def _request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        stop: Event | None = None,
        patience: float | None = None,
    ) -> Mapping[str, Any]:
        """Return the reply to a request, with retries until `stop` is set or patience runs out."""
        limit = self.options.timeout if patience is None else patience
        stop, patience = stop or Event(), patience or self.options.patience
        end = monotonic() + patience
        for tries in count():
            try:
                return self._send(method, path, body, limit)
            except RequestError as error:
                pause = max(error.pause, uniform(0.25, min(PAUSE, 0.5 * 2 ** min(tries, 10))))
                if error.temporary and error.pause >= patience:
                    waits = f"it asks to wait {error.pause:.0f} s, the patience is {patience:.0f} s"
                    error.reason += f"; {waits} (--option patience)"
                if not error.temporary or monotonic() + pause > end or stop.wait(pause):
                    raise
        raise AssertionError

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None, limit: float
    ) -> Mapping[str, Any]:
        """Return the reply of one try, which takes at most `limit` seconds.

        The client's own limits are from one byte to the next.
        """
        trial: Future[httpx2.Response] = Future()

        def send() -> None:
            try:
                trial.set_result(self._http.request(method, path, json=body))
            except Exception as error:  # raised again by the thread that waits
                trial.set_exception(error)

        Thread(target=send, daemon=True).start()
        try:
            reply = trial.result(limit)
        except (httpx2.HTTPError, TimeoutError) as error:
            is_late = isinstance(error, TimeoutError | httpx2.ReadTimeout)
            what = f"within {limit:g} s" if is_late else f"({type(error).__name__})"
            reason = f"the server does not answer {what}"
            raise RequestError(reason, temporary=True) from error
        beginning = quote(" ".join(reply.text[:400].split()), 120)
        if (status := reply.status_code) != 200:
            reason, pause = f"status {status}: {beginning}", retry_after(reply.headers) or 0.0
            raise RequestError(reason, status, reply.text, status in TEMPORARY, pause)
        content = None
        with suppress(ValueError, RecursionError):
            content = reply.json()
        if not isinstance(content, dict):
            reason = f"the reply is not an object of JSON: {beginning}"
            raise RequestError(reason, 200, temporary=True)
        if content.get("error"):
            inside = content["error"]
            message = inside.get("message", inside) if isinstance(inside, dict) else inside
            reason = f"the server reports an error: {quote(str(message), 300)}"
            raise RequestError(reason, 200, reply.text, temporary=True)
        return content


def _without_null(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _choice(reply: Mapping[str, Any], api: str) -> tuple[str | None, str | None, str | None]:
    """Return the text of a reply, its finish reason, and its reasoning if that came apart."""
    try:
        choice = reply["choices"][0]
        message = choice["message"] if api == "chat" else choice
        text = message["content" if api == "chat" else "text"]
        names = ("reasoning", "reasoning_content")
        reasoning = next(filter(None, (_text(message.get(name)) for name in names)), None)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        reason = f"the server's reply holds no answer ({type(error).__name__}: {error})"
        raise RequestError(reason) from error
    if not isinstance(text, str | None):
        reason = f"the answer is {type(text).__name__}, not text"
        raise RequestError(reason)
    # Cut off in its reasoning, a model gave an empty answer; without reasoning, null is no answer.
    return "" if text is None and reasoning else text, choice.get("finish_reason"), reasoning
