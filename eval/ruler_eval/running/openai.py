"""Any OpenAI-compatible server: completions by token ids, or text or chat for servers without.

A row is answered only if the server read the prompt that was rendered here
(`usage.prompt_tokens`). What the server does with prompts and sampling is seen first
(`running.calibration`). A row that still fails when the patience is used up is unanswered. The
first rows go alone, so that a fault costs one long prompt, not sixteen. When one row after the
other fails the run ends, and the next run sends the rest.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from queue import Queue
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import PositiveInt

from ruler_data.errors import RulerError, UsageError
from ruler_data.names import counted, quote
from ruler_data.row import Row
from ruler_data.terminal import warn
from ruler_data.tokenizers import PromptTokenizer
from ruler_eval.running.answers import CUT_ROWS, Answer, cuts
from ruler_eval.running.calibration import (
    LIMIT,
    SAMPLING,
    SEAM,
    STREAM,
    Calibration,
    Dialect,
    named,
    stated_window,
)
from ruler_eval.running.config import EvalConfig
from ruler_eval.running.engine import Engine, Request, Setup, read_options
from ruler_eval.running.replies import NoAnswer, read_reply, usage_of
from ruler_eval.running.spending import PROOF, UNCOUNTED, Ledger
from ruler_eval.running.transport import Call, Reply, RequestError, Transport, public_address


class Api(NamedTuple):
    """One way to send a prompt."""

    path: str
    protocols: tuple[str, ...]  # servers put a BOS before text, and render chat themselves
    probe: int  # tokens of the first short answer, with room for a model that thinks before it
    renders: bool  # whether the server makes the token ids, so that their number may differ


APIS = {
    "completions": Api("completions", ("completion", "base", "chat", "thinking"), 16, False),
    "text": Api("completions", ("base",), 16, True),
    "chat": Api("chat/completions", ("chat", "thinking"), 1024, True),
}
#: Seconds that a server may take to be there when a run starts.
START = 5.0
#: Rows that may fail, one after the other, while none is answered.
FIRST = 3
#: Models of a server that are named where it has not the wanted one.
NEAREST = 3
#: Marks the end of the requests.
_END = object()


@dataclass(frozen=True)
class OpenAiOptions:
    """Options of the engine."""

    #: `completions` sends token ids, which vLLM, SGLang, TensorRT-LLM and llama.cpp accept; `text`
    #: sends the prompt as text; `chat` the user's turn, to a server that applies the template.
    api: Literal["completions", "text", "chat"] = "completions"
    concurrency: PositiveInt = 16  # requests at once, fewer while the server limits the rate
    patience: float = 300.0  # seconds that a row is tried for, and that a first prompt may take
    timeout: float = 1800.0  # seconds that one try may take
    #: Share of a prompt by which a server's count may differ, where it has another tokenizer.
    tolerance: float = 0.0
    stream: bool = False  # for proxies that close a connection on which nothing comes
    headers: Mapping[str, str] = field(default_factory=dict)  # `$NAME` is of the environment
    body: Mapping[str, Any] = field(default_factory=dict)  # more fields; null leaves one out


def prepare(setup: Setup) -> Engine:
    """Return the engine; it requests the model's window from the server."""
    config = setup.config
    tokenizer = setup.tokenizer
    assert tokenizer is not None
    options = read_options("openai", OpenAiOptions, config.settings)
    protocols = APIS[options.api].protocols
    if config.protocol not in protocols:
        raise UsageError(
            f"--option api={options.api}",
            f"cannot send protocol {config.protocol}; use --protocol {' or '.join(protocols)}",
        )
    url = _checked_address(config.base_url)
    name = public_address(url)
    headers = dict[str, str]()
    if key := os.environ.get("OPENAI_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    for header, value in options.headers.items():
        headers[header] = os.path.expandvars(value)
    transport = Transport(url, headers, options.timeout, options.concurrency, name)
    cards = _cards(transport, name, min(START, options.patience))
    served = tuple(card["id"] for card in cards if isinstance(card.get("id"), str))
    model = setup.model.source
    window = stated_window(_card_of(model, cards))
    client = Client(config, model, tokenizer, options, transport, name, served, window)
    return replace(client, dialect=client.all_fields()).engine


def _checked_address(url: str | None) -> str:
    if not url:
        raise UsageError(
            "--base-url is missing: the address of the server, e.g. http://127.0.0.1:8000/v1"
        )
    parts = urlsplit(url)
    if parts.scheme in ("http", "https") and parts.hostname:
        return url
    place = quote(url.rpartition("@")[2])
    raise UsageError(f"--base-url {place}", "not an address, e.g. http://127.0.0.1:8000/v1")


def _cards(transport: Transport, server: str, patience: float) -> list[Mapping[str, Any]]:
    """Return what the server says of each of its models; [] if it says nothing."""
    try:
        reply = transport.send(Call("GET", "models", patience, limit=patience))
    except RequestError as error:
        if error.status is None:
            raise RulerError(server, f"{error}; start the server, or correct --base-url") from error
        return []
    data = reply.content.get("data")
    if not isinstance(data, list):
        return []
    return [card for card in data if isinstance(card, dict)]


def _card_of(model: str, cards: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return what the server says of the model, or of its only one; {} if it says nothing."""
    for card in cards:
        if card.get("id") == model:
            return card
    return cards[0] if len(cards) == 1 else {}


@dataclass(frozen=True)
class Client:
    """Sends requests, each in a thread."""

    config: EvalConfig
    model: str
    tokenizer: PromptTokenizer
    options: OpenAiOptions
    transport: Transport
    name: str  # of the server
    served: tuple[str, ...]  # the models that the server names
    window: int | None
    dialect: Dialect = field(default_factory=lambda: Dialect({}))
    ledger: Ledger = field(default_factory=Ledger)
    seen: Mapping[str, Any] = field(default_factory=dict)  # of the server; {} before it is asked

    @property
    def api(self) -> Api:
        """How prompts are sent."""
        return APIS[self.options.api]

    @property
    def is_chat(self) -> bool:
        """Whether the server gets turns of a chat."""
        return self.options.api == "chat"

    @property
    def chosen(self) -> set[str]:
        """Fields that the user asked for, which are never left out."""
        names = set(self.options.body)
        if self.config.temperature:
            names.add("temperature")
        if self.config.top_p is not None:
            names.add("top_p")
        return names

    def all_fields(self) -> Dialect:
        """Return all fields that a server could take."""
        fields: dict[str, Any] = {**SAMPLING, **self.config.sampling}
        fields["skip_special_tokens"] = False  # some models mark reasoning by special tokens
        if self.is_chat:
            fields["chat_template_kwargs"] = dict(self.config.prompts.protocol.variables or {})
        if self.options.stream:
            fields |= STREAM
        return Dialect(_without_null({**fields, **self.options.body}))

    @property
    def engine(self) -> Engine:
        """The engine that sends what this client does."""
        info: dict[str, Any] = {"api": self.options.api, "body": self.options.body}
        if self.dialect.limit != LIMIT:
            info["limit"] = self.dialect.limit
        if self.dialect.refused:
            info["refused"] = sorted(self.dialect.refused)
        return Engine(
            self.generate,
            info,
            dict(self.dialect.without(STREAM).fields),
            self.window,
            renders_prompts=self.is_chat,
            open=self.open,
            seen=dict(self.seen),
        )

    def open(self, ledger: Ledger) -> Engine:
        """See what the server does, and return the engine that takes account of it.

        Raises:
            RulerError: there is no reply within the patience, the server refuses any request or is
                busy, or it does not read a short text whole.
        """
        client = replace(self, ledger=ledger)
        calibration = Calibration(
            self.name, client._send_short, self.chosen, self.is_chat, self._count, self.api.renders
        )
        try:
            dialect = calibration.fields(self.dialect, self.api.probe)
        except RequestError as error:
            raise RulerError(self.name, self._advice(error)) from error
        offset, why = calibration.offset(dialect)
        sampling = calibration.sampling(dialect)
        window = self.window
        if window is None and ledger.has_no_limit:
            window = calibration.window(dialect)
        seen = {"offset": offset, "sampling": sampling, "window": window}
        self._tell(offset, why, sampling)
        return replace(client, dialect=dialect, window=window, seen=seen).engine

    def _short(self, text: str, tokens: int) -> Request:
        """Return a short text as a request for so many tokens."""
        row = Row(0, "", "", text, "", ("",), tokens, 0, ())
        return Request("", row, self.config.prompts.ids(self.tokenizer, row), tokens)

    def _count(self, text: str) -> tuple[int, int]:
        """Return the tokens of a text as a prompt, and those of it alone."""
        return len(self._short(text, 1).ids), self.tokenizer.count([text])[0]

    def _send_short(self, dialect: Dialect, text: str, tokens: int) -> Mapping[str, Any]:
        """Return the reply to a short text; it is counted like that to a row."""
        request = replace(self._short(text, tokens), config=PROOF[0])
        self.ledger.send(PROOF, len(request.ids), tokens)
        call = replace(
            self._call(dialect, request),
            limit=self.options.patience,
            refuses=lambda error: bool(named(error, dialect)),
        )
        try:
            reply = self.transport.send(call)
        except RequestError as error:
            self.ledger.fail(PROOF, error.cost)
            raise
        usage = usage_of(reply.content) or UNCOUNTED
        self.ledger.settle(PROOF, usage, is_answered=True)
        return reply.content

    def _send_again(self, request: Request, error: RequestError) -> None:
        """Count a failed try, and the next one."""
        self.ledger.fail(request.key, error.cost)
        self.ledger.send(request.key, len(request.ids), request.max_tokens)

    def _advice(self, error: RequestError) -> str:
        """Return why a server took no request, and what to do."""
        if error.status is None:
            remedy = "start it again, or wait longer (--option patience)"
            return f"{error}, to a short prompt; {remedy}"
        if error.status == 404 and self.served and self.model not in self.served:
            nearest = get_close_matches(self.model, self.served, NEAREST, cutoff=0)
            return f"{error}; it serves {', '.join(map(quote, nearest))}: correct --model"
        if self.options.api == "completions" and error.status in (400, 404, 405, 422):
            return f"{error}; if it takes no token ids, --option api=chat or api=text"
        if error.status == 401:
            return f"{error}; set OPENAI_API_KEY to a key of the server, or name it in a header"
        return str(error)

    def _tell(self, offset: int | None, why: str, sampling: str) -> None:
        """Say what a reader of the scores must know."""
        if why:
            warn(f"{self.name}: whether it reads prompts whole is {why}")
        elif offset:
            warn(
                f"{self.name}: its template differs from the one here by {offset:+} tokens; such a "
                "run is compared only with its like"
            )
        if not sampling.startswith("no "):
            warn(f"{self.name}: sampling: {sampling}")

    def generate(self, requests: Iterator[Request | None]) -> Iterator[Answer]:
        """Yield the answer to each row, as they arrive.

        Raises:
            RulerError: one row after the other failed, or no request will succeed.
        """
        pending: Queue[Request | None] = Queue()
        answers: Queue[tuple[Answer, bool]] = Queue()
        stop = Event()
        # All at once: where replies have taken the memory, a thread may not start any more.
        for _ in range(self.options.concurrency):
            Thread(target=self._work, args=(pending, answers, stop), daemon=True).start()
        watch = Watch(self.name, self.options.concurrency)
        waiting = 0
        more = True
        try:
            while more or waiting:
                if more and waiting < watch.most:
                    request = next(requests, _END)
                    more = request is not _END
                    if isinstance(request, Request):
                        pending.put(request)
                        waiting += 1
                        if waiting < watch.most and answers.empty():
                            continue
                if waiting:
                    answer, is_final = answers.get()
                    waiting -= 1
                    watch.see(answer)
                    yield answer
                    watch.stop_if_hopeless(answer, is_final)
        finally:
            stop.set()
            for _ in range(self.options.concurrency):
                pending.put(None)

    def _work(
        self,
        pending: "Queue[Request | None]",
        answers: "Queue[tuple[Answer, bool]]",
        stop: Event,
    ) -> None:
        """Put the record of each row, and whether no other will be answered; end at None."""
        while True:
            request = pending.get()
            if request is None:
                return
            reason = "the reply takes more memory than this process may use"
            try:
                answers.put(self._record(request, stop))
                continue
            except MemoryError:  # the reply is freed once this block is left
                pass
            except Exception as error:  # every row needs a record, whatever the server sends
                reason = str(error)[:1000]
            _put_failure(answers, request, reason)

    def _record(self, request: Request, stop: Event) -> tuple[Answer, bool]:
        start = monotonic()
        reply = Reply({}, None)
        try:
            reply = self.transport.send(replace(self._call(self.dialect, request), stop=stop))
            record = read_reply(reply.content, is_chat=self.is_chat)
            record["first_seconds"] = reply.first_seconds
        except RequestError as error:
            if not error.is_spent:
                self.ledger.fail(request.key, error.cost)
                return request.failed(str(error)[:1000]), error.is_final
            record = {"text": "", "finish": "length", "answer_tokens": None, "prompt_tokens": None}
            record |= {"counted": "nobody", "reasoning_tokens": request.max_tokens}
        except NoAnswer as error:
            failed = request.failed(str(error)[:1000])
            read, written = usage_of(reply.content) or (None, None)
            return replace(failed, prompt_tokens=read, answer_tokens=written), False
        rendered, slack = self._expected(request)
        _add_cached(record, rendered, slack)
        if self.api.renders:
            record["rendered_tokens"] = len(request.ids)
        seconds = monotonic() - start
        return request.answered(seconds=seconds, rendered=rendered, slack=slack, **record), False

    def _expected(self, request: Request) -> tuple[int, int]:
        """Return the tokens that the server should read, and by how many that may be wrong."""
        rendered = len(request.ids)
        if not self.api.renders:
            return rendered, 0
        offset = self.seen.get("offset")
        if offset is None:
            return rendered, max(SEAM, int(self.options.tolerance * rendered))
        return rendered + offset, SEAM

    def _call(self, dialect: Dialect, request: Request) -> Call:
        """Return a request as it is sent, and tried again."""
        return Call(
            "POST",
            self.api.path,
            self.options.patience,
            self.body(dialect, request),
            tokens=len(request.ids),
            again=partial(self._send_again, request),
        )

    def body(self, dialect: Dialect, request: Request) -> dict[str, Any]:
        """Return a request as the server gets it."""
        body: dict[str, Any] = {"model": self.model, dialect.limit: request.max_tokens}
        if "seed" in dialect.fields:
            body["seed"] = request.seed
        content, prefix = self.config.prompts.parts(request.row)
        if self.is_chat:
            body["messages"] = [{"role": "user", "content": content}]
        elif self.options.api == "text":
            body["prompt"] = content + prefix
        else:
            body["prompt"] = request.ids.tolist()
        return _without_null({**dialect.fields, **body, **self.options.body})


class Watch:
    """Looks at answers as they come: rows that fail, other models, and prompts that are cut."""

    def __init__(self, server: str, concurrency: int) -> None:
        """Let one row go at first, and `concurrency` at once when it is answered."""
        self.most = 1  # rows at once
        self._server = server
        self._concurrency = concurrency
        self._failures = 0  # one after the other
        self._models = list[str]()
        self._uncounted = False
        self._read: list[Answer] = []  # without their texts
        self._next_look = CUT_ROWS  # rows at which they are looked at together

    def see(self, answer: Answer) -> None:
        """Take note of an answer; say what is new in it."""
        if answer.error is not None:
            self._failures += 1
            return
        self._failures = 0
        self.most = self._concurrency
        if answer.prompt_tokens is not None:
            self._read.append(replace(answer, text=None, reasoning=None))
        elif not self._uncounted:
            self._uncounted = True
            warn(f"{self._server}: counts no prompt tokens; nobody knows whether it reads them all")
        if answer.model not in (None, *self._models):
            self._models.append(str(answer.model))
            if len(self._models) == 2:
                self._tell_models()

    def _tell_models(self) -> None:
        first, second = map(quote, self._models)
        remedy = "stop, and name one version with --model (an alias moves to newer ones)"
        warn(
            f"{self._server}: answers came from {first}, and now from {second}: a run is of one "
            f"model, all others' rows are unanswered; {remedy}"
        )

    def stop_if_hopeless(self, answer: Answer, is_final: bool) -> None:
        """End the run where no other row will be answered.

        Raises:
            RulerError: with the reason.
        """
        if len(self._read) >= self._next_look:
            self._next_look *= 2
            for reason in cuts(self._read).values():
                raise RulerError(self._server, f"{reason}; raise that, then run it again")
        limit = FIRST if self.most < self._concurrency else 2 * self.most
        if self._failures >= limit or is_final:
            reason = f"{counted(self._failures, 'row')} failed, one after the other: {answer.error}"
            raise RulerError(self._server, f"{reason}; run the same command again")


def _add_cached(record: dict[str, Any], rendered: int, slack: int) -> None:
    """Add the cached tokens to the prompt's, where the server counts them apart."""
    read = record["prompt_tokens"]
    cached = record.get("cached_tokens")
    if cached is None or type(read) is not int:
        return
    if abs(read - rendered) > slack and abs(read + cached - rendered) <= slack:
        record["prompt_tokens"] = read + cached
    elif cached > read:  # that is no cache
        record["cached_tokens"] = None


def _without_null(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _put_failure(answers: "Queue[tuple[Answer, bool]]", request: Request, reason: str) -> None:
    """Put the record of a row that failed, as soon as there is memory for it."""
    while True:
        try:
            answers.put((request.failed(reason), False))
            return
        except MemoryError:  # other replies will be freed
            sleep(0.1)
