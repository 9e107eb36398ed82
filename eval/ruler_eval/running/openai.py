"""Any OpenAI-compatible server: completions by token ids, or text or chat for servers without.

A row is answered only if the server read the prompt that was rendered here (`usage.prompt_tokens`).
Where the server renders the prompt itself (`api=chat`), its template gets the protocol's variables,
and one short prompt checks that it uses them. A row that still fails when the patience is used up
is unanswered. The first rows go alone, so that a fault costs one long prompt, not sixteen. When one
row after the other fails the run ends, and the next run sends the rest.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from queue import Queue
from threading import Event, Thread
from time import monotonic
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import PositiveInt

from ruler_data.errors import RulerError, UsageError
from ruler_data.names import quote
from ruler_data.row import Row
from ruler_data.terminal import warn
from ruler_data.tokenizers import PromptTokenizer
from ruler_eval.running.answers import Answer
from ruler_eval.running.config import EvalConfig
from ruler_eval.running.dialect import (
    LIMITS,
    OF_SERVER,
    STREAM,
    Dialect,
    named,
    negotiate,
    read_reply,
)
from ruler_eval.running.engine import Engine, Request, read_options
from ruler_eval.running.models import Model
from ruler_eval.running.transport import RequestError, Transport


class Api(NamedTuple):
    """One way to send a prompt."""

    path: str
    protocols: tuple[str, ...]  # servers put a BOS before text, and render chat themselves
    probe: int  # tokens of the short answer that shows which fields a server refuses
    slack: int = 0  # tokens by which a prompt that the server renders may differ, at least


#: Where a model may think before it answers, the short answer has room for that.
APIS = {
    "completions": Api("completions", ("completion", "base", "chat", "thinking"), 16),
    "text": Api("completions", ("base",), 16, slack=2),
    "chat": Api("chat/completions", ("chat", "thinking"), 1024, slack=64),
}
#: Seconds that a server may take to be there when a run starts.
START = 5.0
#: Rows that may fail, one after the other, while none is answered.
FIRST = 3
#: Marks the end of the requests.
_END = object()


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
    stream: bool = False  # for proxies that close a connection on which nothing comes
    max_completion_tokens: bool = False  # send the limit under this name, not as `max_tokens`
    reasoning_effort: str | None = None  # of a thinking model, e.g. `low`
    headers: Mapping[str, str] = field(default_factory=dict)  # `$NAME` is of the environment
    body: Mapping[str, Any] = field(default_factory=dict)  # more fields; null leaves one out


def prepare(
    config: EvalConfig, model: Model, tokenizer: PromptTokenizer | None, _longest: int
) -> Engine:
    """Return the engine; it requests the model's window from the server."""
    assert tokenizer is not None
    options = read_options("openai", OpenAiOptions, config.settings)
    protocols = APIS[options.api].protocols
    if config.protocol not in protocols:
        option, use = f"--option api={options.api}", " or ".join(protocols)
        raise UsageError(option, f"cannot send protocol {config.protocol}; use --protocol {use}")
    name = _public_address(config.base_url)
    key = os.environ.get("OPENAI_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    headers |= {header: os.path.expandvars(value) for header, value in options.headers.items()}
    transport = Transport(config.base_url or "", headers, options.timeout, options.concurrency)
    card = _card(transport, name, model.source, min(START, options.patience))
    client = Client(config, model.source, tokenizer, options, transport, name)
    window = card.get("max_model_len")
    window = window if isinstance(window, int) else None
    return client.engine(client.first_dialect(str(card.get("owned_by"))), window)


def _public_address(url: str | None) -> str:
    """Return an address without what may be secret."""
    if not url:
        msg = "--base-url is missing: the address of the server, e.g. http://127.0.0.1:8000/v1"
        raise UsageError(msg)
    parts = urlsplit(url)
    name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        host = url.rpartition("@")[2]
        address = f"http://{host}" + "/v1" * ("/" not in host)
        near = f"; did you mean {address}?" if "://" not in host else ""
        reason = f"not an address, e.g. http://127.0.0.1:8000/v1{near}"
        raise UsageError(f"--base-url {quote(host)}", reason)
    return name


def _card(transport: Transport, server: str, model: str, patience: float) -> Mapping[str, Any]:
    """Return what the server says of the model; {} if it does not know it."""
    try:
        reply = transport.request("GET", "models", patience=patience, limit=patience)
    except RequestError as error:
        if error.status is None:
            raise RulerError(server, f"{error}; start the server, or correct it") from error
        return {}
    data = reply.get("data")
    cards = (card for card in (data if isinstance(data, list) else ()) if isinstance(card, dict))
    return next((card for card in cards if card.get("id") == model), {})


@dataclass(frozen=True)
class Client:
    """Sends requests, each in a thread."""

    config: EvalConfig
    model: str
    tokenizer: PromptTokenizer
    options: OpenAiOptions
    transport: Transport
    name: str  # of the server

    @property
    def api(self) -> Api:
        """How prompts are sent."""
        return APIS[self.options.api]

    @property
    def given(self) -> set[str]:
        """Fields that the user asked for, which are never left out."""
        effort = {"reasoning_effort"} if self.options.reasoning_effort else set()
        sampled = {"temperature"} if self.config.temperature else set()
        top_p = set() if self.config.top_p is None else {"top_p"}
        return {*self.options.body, *effort, *sampled, *top_p}

    def first_dialect(self, owner: str) -> Dialect:
        """Return all fields that a server could take; `owner` is that of its model."""
        fields: dict[str, Any] = {**OF_SERVER.get(owner, {}), **self.config.sampling}
        fields["skip_special_tokens"] = False  # some models mark reasoning by special tokens
        fields["reasoning_effort"] = self.options.reasoning_effort
        if self.options.api == "chat":
            fields["chat_template_kwargs"] = dict(self.config.prompts.protocol.variables or {})
        fields |= (STREAM if self.options.stream else {}) | dict(self.options.body)
        limit = "max_completion_tokens" if self.options.max_completion_tokens else "max_tokens"
        return Dialect(_without_null(fields), limit)

    def engine(
        self, dialect: Dialect, window: int | None, more: Mapping[str, Any] | None = None
    ) -> Engine:
        """Return the engine that speaks a dialect; `more` is what else a run records."""
        info = {"api": self.options.api, "body": self.options.body, **(more or {})}
        info |= {"limit": dialect.limit} if dialect.limit != "max_tokens" else {}
        info |= {"refused": sorted(dialect.refused)} if dialect.refused else {}
        sampling = {name: value for name, value in dialect.fields.items() if name not in STREAM}
        return Engine(
            partial(self.generate, dialect),
            info,
            sampling,
            window,
            renders_prompts=self.options.api == "chat",
            open=partial(self.open, dialect, window),
        )

    def open(self, dialect: Dialect, window: int | None) -> Engine:
        """Send a short prompt: what the server refuses is left out, what it ignores recorded.

        Raises:
            RulerError: there is no reply within the patience, or the server refuses any request or
                is busy.
        """
        question = "Reply with the word OK." if self.options.api == "chat" else "Once upon a time"
        row = Row(0, "", "", question, "", ("",), self.api.probe, 0, ())
        request = Request("", row, self.config.prompts.ids(self.tokenizer, row), self.api.probe)
        names = (*dialect.fields, *LIMITS, "stream")

        def probe(dialect: Dialect) -> Mapping[str, Any] | RequestError:
            body = self.body(dialect, request)
            try:
                return self.transport.request(
                    "POST", self.api.path, body, patience=self.options.patience,
                    limit=self.options.patience, refuses=lambda error: bool(named(error, names)),
                )  # fmt: skip
            except RequestError as error:
                is_refusal = error.status is not None and not error.is_final
                if is_refusal and (named(error, names) or error.is_spent):
                    return error
                raise

        try:
            dialect, reply = negotiate(probe, dialect, self.given, self.name)
        except RequestError as error:
            raise RulerError(self.name, self._advice(error, len(request.ids))) from error
        return self.engine(dialect, window, self._ignored(dialect, reply, row, len(request.ids)))

    def _advice(self, error: RequestError, tokens: int) -> str:
        """Return why a server took no request, and what to do."""
        if error.status is None:
            remedy = "start it again, or wait longer (--option patience)"
            return f"{error}, to a prompt of {tokens} tokens; {remedy}"
        if self.options.api == "completions" and error.status in (400, 404, 405, 422):
            return f"{error}; if it takes no token ids, --option api=chat or api=text"
        if error.status == 401:
            names = re.findall(r"\$\{?(\w+)", " ".join(self.options.headers.values()))
            return f"{error}; set {' or '.join(names) or 'OPENAI_API_KEY'} to a key of the server"
        return str(error)

    def _ignored(
        self, dialect: Dialect, reply: Mapping[str, Any], row: Row, tokens: int
    ) -> dict[str, Any]:
        """Return whether the server's template ignored the protocol's variables."""
        variables = self.config.prompts.protocol.variables or {}
        if "chat_template_kwargs" not in dialect.fields:
            return {}
        contrary = {name: not value for name, value in variables.items()}
        unset = len(self.tokenizer.prompt_ids(row.question, "", contrary))
        usage = reply.get("usage")
        if unset == tokens or not isinstance(usage, dict) or usage.get("prompt_tokens") != unset:
            return {}
        values = ", ".join(f"{name}={value}" for name, value in variables.items())
        warn(f"{self.name}: ignores chat_template_kwargs ({values}); its template decides")
        return {"ignored": "chat_template_kwargs"}

    def generate(self, dialect: Dialect, requests: Iterator[Request | None]) -> Iterator[Answer]:
        """Yield the answer to each row, as they arrive.

        Raises:
            RulerError: one row after the other failed, or no request will succeed.
        """
        answers: Queue[tuple[Answer, bool]] = Queue()
        stop, waiting, failures, most, more = Event(), 0, 0, 1, True
        models = list[str]()
        try:
            while more or waiting:
                request = next(requests, _END) if more and waiting < most else None
                more = more and request is not _END
                if isinstance(request, Request):
                    arguments = dialect, request, answers, stop
                    Thread(target=self._request_row, args=arguments, daemon=True).start()
                    waiting += 1
                    if waiting < most and answers.empty():
                        continue
                if not waiting:
                    continue
                answer, is_final = answers.get()
                waiting -= 1
                failures = 0 if answer.error is None else failures + 1
                most = self.options.concurrency if answer.error is None else most
                if answer.model not in (None, *models):
                    models.append(str(answer.model))
                    self._tell_other(models)
                yield answer
                limit = FIRST if most < self.options.concurrency else 2 * most
                if failures == limit or is_final:
                    reason = f"{failures} rows failed, one after the other: {answer.error}"
                    raise RulerError(self.name, f"{reason}; run the same command again")
        finally:
            stop.set()

    def _tell_other(self, models: list[str]) -> None:
        """Say once that another model answers now, and what can be done."""
        if len(models) == 2:
            remedy = "stop, and name one version with --model (an alias moves to newer ones)"
            warn(
                f"{self.name}: answers came from {quote(models[0])}, and now from "
                f"{quote(models[1])}: a run is of one model, all others' rows are unanswered; "
                f"{remedy}"
            )

    def _request_row(
        self,
        dialect: Dialect,
        request: Request,
        answers: "Queue[tuple[Answer, bool]]",
        stop: Event,
    ) -> None:
        start = monotonic()
        try:
            reply = self.transport.request(
                "POST", self.api.path, self.body(dialect, request), stop=stop,
                patience=self.options.patience, tokens=len(request.ids),
            )  # fmt: skip
            record = read_reply(reply, is_chat=self.options.api == "chat")
            answers.put((self._answer(request, record, monotonic() - start), False))
        except Exception as error:  # every row needs a prediction, whatever the server sends
            if isinstance(error, RequestError) and error.is_spent:
                spent: dict[str, Any] = {"prompt_tokens": None, "counted": "nobody"}
                spent |= {"reasoning_tokens": request.max_tokens, "text": "", "finish": "length"}
                answers.put((self._answer(request, spent, monotonic() - start), False))
                return
            is_final = isinstance(error, RequestError) and error.is_final
            answers.put((request.failed(str(error)[:1000]), is_final))

    def body(self, dialect: Dialect, request: Request) -> dict[str, Any]:
        """Return a request as the server gets it."""
        body: dict[str, Any] = {"model": self.model, dialect.limit: request.max_tokens}
        if "seed" in dialect.fields:
            body["seed"] = request.seed
        content, prefix = self.config.prompts.parts(request.row)
        if self.options.api == "chat":
            body["messages"] = [{"role": "user", "content": content}]
        else:
            body["prompt"] = content + prefix if self.options.api == "text" else request.ids
        return _without_null({**dialect.fields, **body, **self.options.body})

    def _answer(self, request: Request, record: Mapping[str, Any], seconds: float) -> Answer:
        share = int(self.options.tolerance * len(request.ids))
        slack = max(self.api.slack, share) if self.api.slack else 0
        details = dict(record)
        text, finish = details.pop("text"), details.pop("finish")
        tokens = details.pop("answer_tokens", None)
        return request.answered(text, finish, tokens, seconds, slack=slack, **details)


def _without_null(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
