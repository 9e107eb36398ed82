"""Any OpenAI-compatible server: completions by token ids, or text or chat for servers without.

A row is answered only if the server read the prompt that was rendered here (`usage.prompt_tokens`).
A row that still fails when the patience is used up is unscored. When one row after the other fails
the run ends, and the remaining rows are left for the next run.

The model must be the same all along. What `/models` lists of it is part of the run's identity. A
few short prompts are asked greedily at the start, after each outage, at the end and when the run
resumes. Other texts prove another model. The same texts do not prove the same one: a model that was
trained or quantized a little differently may begin them alike.
"""

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain, repeat
from queue import Empty, Queue
from threading import Event, Thread
from typing import Any, Literal, NamedTuple

from pydantic import PositiveInt

from ruler_data.errors import RulerError, UsageError
from ruler_data.names import quote
from ruler_data.row import Row
from ruler_data.terminal import warn
from ruler_data.tokenizers import PromptTokenizer
from ruler_eval.engines.interface import (
    Engine,
    ModelChanged,
    Request,
    published_options,
    read_options,
)
from ruler_eval.engines.server import RequestError, Server
from ruler_eval.eval_config import EvalConfig
from ruler_eval.models import Model
from ruler_eval.schema import Prediction


class Api(NamedTuple):
    """One way to send a prompt."""

    path: str
    protocols: tuple[str, ...]  # servers put a BOS before text, and render chat themselves
    #: Tokens by which the server's count of a prompt may differ where the server renders it: at
    #: least so many, or the share `tolerance` of it. Templates may add a date, text one BOS.
    slack: int = 0


APIS = {
    "completions": Api("completions", ("completion", "base", "chat", "thinking")),
    "text": Api("completions", ("base",), slack=2),
    "chat": Api("chat/completions", ("chat", "thinking"), slack=64),
}
#: Fields that servers may refuse; they are then left out.
OPTIONAL = ("min_tokens", "seed")
#: Statuses after which no request will succeed: no key, not allowed, no such model.
REFUSED = (401, 403, 404)
#: Short prompts whose greedy continuations differ from model to model, the tokens asked for, the
#: characters that must agree, the prompts that may differ all the same (a server computes rows in
#: batches, and its last bits vary with them), and the seconds to try.
PROBES = (
    "Write a sentence about a city that you like.",
    "My favourite word in this language is",
    "Once upon a time, in a village by the sea,",
    "Name three things that are found in a kitchen.",
)
PROBE_TOKENS, PROBE_CHARACTERS, PROBE_SLACK, PROBE_SECONDS = 16, 12, 1, 5.0
#: The name, beside those of the prompts, of what a reply says of the server's software.
SOFTWARE = "system_fingerprint"


@dataclass(frozen=True)
class OpenAiOptions:
    """Options of the engine."""

    #: `completions` sends token ids, which vLLM, SGLang, TensorRT-LLM and llama.cpp accept; `text`
    #: sends the prompt as text to a completions server that accepts no ids; `chat` sends the user's
    #: turn to a server that applies the template itself.
    api: Literal["completions", "text", "chat"] = "completions"
    concurrency: PositiveInt = 16  # requests at once
    patience: float = 300.0  # seconds after which a failing row is not tried again
    timeout: float = 1800.0  # seconds that one request may take in all
    tolerance: float = 0.02  # see `Api.slack`
    max_completion_tokens: bool = False  # send the limit under this name, not as `max_tokens`
    reasoning_effort: str | None = None  # of a thinking model, e.g. `low`
    body: Mapping[str, Any] = field(default_factory=dict)  # more fields; null leaves one out


def prepare(
    config: EvalConfig, model: Model, tokenizer: PromptTokenizer | None, _longest: int
) -> Engine:
    """Return the engine; the server is asked what it lists of the model."""
    assert tokenizer is not None
    options = read_options("openai", OpenAiOptions, config.engine_options)
    if config.base_url is None:
        msg = "--engine openai needs --base-url, e.g. http://127.0.0.1:8000/v1"
        raise UsageError(msg)
    protocols = APIS[options.api].protocols
    if config.protocol not in protocols:
        msg = (
            f"--option api={options.api} cannot send protocol {config.protocol}; use --protocol "
            f"{' or '.join(protocols)}, or a server that accepts token ids (api=completions)"
        )
        raise UsageError(msg)
    key = os.environ.get("OPENAI_API_KEY")
    server = Server(config.base_url, key, options.patience, options.timeout, options.concurrency)
    client = Client(config, model.source, tokenizer, options, server)
    window = client.facts.get("max_model_len")
    renamed = {"limit": "max_completion_tokens"} if options.max_completion_tokens else {}
    body = published_options(options.body)
    return Engine(
        client.generate,
        info={"api": options.api, "body": body, **renamed, "server": client.facts},
        sampling=client.fields,
        window=window if isinstance(window, int) else None,
        renders_prompts=options.api == "chat",
        open=client.open,
        start={"probe": client.probe},
        differences=lambda start: _contradictions({}, {}, start.get("probe", {}), client.probe),
    )


@dataclass
class Client:
    """Sends requests, each in a thread, and checks that the server's model stays the same."""

    config: EvalConfig
    model: str
    tokenizer: PromptTokenizer
    options: OpenAiOptions
    server: Server

    def __post_init__(self) -> None:
        self.facts = self.server.facts(self.model) or {}
        effort = {"reasoning_effort": self.options.reasoning_effort}
        #: Of each request, besides its model, prompt and limit.
        self.fields = _without_null({**self.config.sampling, **effort, **self.options.body})
        self.probe = dict[str, str]()  # the answers to the short prompts at the start
        self._checked = 0  # outages of the server at the last check
        self._suspect = False  # whether an answer may be of another model since then
        self._tell = cache(warn)  # of anything once

    def open(self) -> None:
        """Ask the short prompts twice; keep those whose answers agree."""
        first, again = self._ask_probes(), self._ask_probes()
        stable = {name: text for name, text in first.items() if text and again.get(name) == text}
        if sum(name in PROBES for name in stable) > PROBE_SLACK:
            self.probe.update(stable)
        else:
            self._tell(
                f"{self.server.name}: no stable answers to short prompts, so another model under "
                "the same name is found only if /models lists it differently"
            )
        self._checked = self.server.outages

    def generate(self, requests: Iterator[Request | None]) -> Iterator[Prediction]:
        """Yield a prediction for each row, as they arrive.

        Raises:
            ModelChanged: the server holds another model than at the start.
            RulerError: one row after the other failed.
        """
        done: Queue[Prediction] = Queue()
        stop, concurrency = Event(), self.options.concurrency
        waiting = failures = doubtful = 0
        try:
            for request in chain(filter(None, requests), repeat(None)):
                if request is not None:
                    Thread(target=self._ask, args=(request, done, stop), daemon=True).start()
                    waiting += 1
                elif not waiting:
                    break
                for prediction in _ready(done, wait=request is None or waiting == concurrency):
                    waiting -= 1
                    failures = 0 if prediction.error is None else failures + 1
                    doubtful += 1
                    gone = self.server.outages != self._checked
                    over = failures == 2 * concurrency
                    due = self._suspect or (gone and (over or not failures))
                    # Another server may have answered some before a request found the first gone.
                    early = min(doubtful - 1, concurrency)
                    # Before a run ends for failures, its server had its time to come back.
                    if due and self._is_same(early, PROBE_SECONDS if over else None):
                        doubtful = 1
                    yield prediction
                    if over:
                        reason = f"{failures} rows failed, one after the other: {prediction.error}"
                        remedy = "run the same command again to resume"
                        raise RulerError(self.server.name, f"{reason}; {remedy}")
            self._is_same(doubtful)
        finally:
            stop.set()

    def _ask(self, request: Request, done: "Queue[Prediction]", stop: Event) -> None:
        try:
            started, outages = time.monotonic(), self.server.outages
            reply = self.server.post(APIS[self.options.api].path, self._body(request), stop)
            seconds = time.monotonic() - started
            known = self.probe.get(SOFTWARE)
            other = known is not None and _software(reply) not in (None, known)
            if other or self.server.outages != outages:
                self._suspect = True
            prediction = self._read_reply(request, reply, seconds)
        except RequestError as error:
            prediction = request.unscored(str(error))
        except Exception as error:  # every row needs a prediction, whatever the server sends
            prediction = request.unscored(f"{type(error).__name__}: {str(error)[:200]}")
        done.put(prediction)

    def _body(self, request: Request) -> dict[str, Any]:
        """Return the body of the HTTP request for a row."""
        limit = "max_completion_tokens" if self.options.max_completion_tokens else "max_tokens"
        body: dict[str, Any] = {"model": self.model, limit: request.max_tokens}
        if "seed" in self.fields:
            body["seed"] = request.seed
        content, prefix = self.config.prompts.parts(request.row)
        if self.options.api == "chat":
            body["messages"] = [{"role": "user", "content": content}]
        else:
            ids = self.options.api == "completions"
            body["prompt"] = request.ids if ids else content + prefix
        return _without_null({**self.fields, **body, **self.options.body})

    def _read_reply(self, request: Request, reply: Mapping[str, Any], seconds: float) -> Prediction:
        text, reasoning, finish = _choice(reply, self.options.api)
        names = ("prompt_tokens", "completion_tokens", "prompt_tokens_details.cached_tokens")
        read, generated, cached = (_count(reply, f"usage.{name}") for name in names)
        if reasoning:
            text = f"<think>{reasoning}</think>{text}"
        if read is None:
            self._tell(
                f"{self.server.name}: does not report how many tokens of a prompt it read, so "
                "whether it cuts prompts is not known"
            )
        else:
            self._compare(read, len(request.ids))
        answer = request.answered(text, finish, generated, seconds, cached)
        return replace(answer, prompt_tokens=read)

    def _compare(self, read: int, rendered: int) -> None:
        """Check that the server read the prompt that was rendered here."""
        least = APIS[self.options.api].slack
        slack = max(least, int(self.options.tolerance * rendered)) if least else 0
        if abs(read - rendered) <= slack:
            return
        where = f"rendered here (it may differ by {slack})" if slack else "sent"
        cause = (
            "it cuts prompts at its context window; raise it (vLLM: --max-model-len, llama.cpp: "
            "--ctx-size, SGLang: --context-length, Ollama: OLLAMA_CONTEXT_LENGTH or num_ctx in the "
            "Modelfile)"
            if read < rendered
            else "it adds tokens of its own, e.g. a second BOS or a system prompt"
        )
        if slack:
            cause += (
                "; or it has another tokenizer: give that one with --tokenizer, or allow the "
                "difference, e.g. --option tolerance=0.2"
            )
        reason = f"the server read {read} prompt tokens, {rendered} were {where}: {cause}"
        raise RequestError(reason)

    def _ask_probes(self) -> dict[str, str]:
        """Return the greedy answers to the short prompts, and the server's fingerprint.

        Fields that the server refuses are left out from now on. Nothing, if a prompt fails.
        """
        found: dict[str, str] = {}
        for prompt in PROBES:
            row = Row(0, "", "", prompt, "", ("",), PROBE_TOKENS, 0, ())
            ids = self.config.prompts.ids(self.tokenizer, row)
            body = self._body(Request("", row, ids, PROBE_TOKENS))
            body |= {"temperature": 0.0} if "temperature" in self.fields else {}
            try:
                reply = self.server.post(APIS[self.options.api].path, body, Event(), PROBE_SECONDS)
                text, reasoning, _ = _choice(reply, self.options.api)
            except RequestError as error:
                if error.status in REFUSED:
                    raise RulerError(self.server.name, error) from error
                refused = [name for name in OPTIONAL if name in self.fields and name in error.reply]
                if error.status not in (400, 422) or not refused:
                    return {}
                for name in refused:
                    del self.fields[name]
                    self._tell(f"{self.server.name}: refuses {name}; it is left out")
                return self._ask_probes()
            found[prompt] = reasoning + text
            if software := _software(reply):
                found[SOFTWARE] = software
        return found

    def _is_same(self, doubtful: int, patience: float | None = None) -> bool:
        """Whether the server still holds the same model; False if it does not say.

        A server that is gone is waited for, `patience` seconds or as long as for a row.

        Raises:
            ModelChanged: it holds another one; the last `doubtful` answers may be of that one.
        """
        self._checked, self._suspect = self.server.outages, False
        try:
            facts, probe = self.server.facts(self.model, patience), self._ask_probes()
        except RulerError as error:  # the rows are answered all the same
            self._tell(f"whether the model is still the same is not known: {error}")
            return False
        unknown = bool(self.probe) and not probe
        if unknown:
            self._tell(f"{self.server.name}: the short prompts could not be asked again")
        facts = self.facts if facts is None else facts
        if found := _contradictions(self.facts, facts, self.probe, probe):
            msg = (
                f"{self.server.name}: holds another model than at the start: "
                f"{'; '.join(found[:3])}; serve the first model again, or start another run"
            )
            raise ModelChanged(msg, doubtful)
        return not unknown


def _contradictions(
    known: Mapping[str, Any],
    facts: Mapping[str, Any],
    before: Mapping[str, str],
    probe: Mapping[str, str],
) -> list[str]:
    """Return what two looks at a server, its facts and answers, contradict each other in."""
    pairs = [(n, known.get(n), facts.get(n)) for n in sorted(known.keys() | facts.keys())]
    both = before.keys() & probe.keys()
    if SOFTWARE in both:
        pairs.append((SOFTWARE, before[SOFTWARE], probe[SOFTWARE]))
    other = [
        (f"the answer to {quote(prompt)}", before[prompt], probe[prompt])
        for prompt in PROBES
        if prompt in both and before[prompt][:PROBE_CHARACTERS] != probe[prompt][:PROBE_CHARACTERS]
    ]
    pairs += other if len(other) > PROBE_SLACK else []
    return [
        f"{name} was {quote(str(was))} and is {quote(str(now))}"
        for name, was, now in pairs
        if was != now
    ]


def _software(reply: Mapping[str, Any]) -> str | None:
    """Return what a reply says of the server's software.

    vLLM 0.32 appends the number of copies and a hash over options, also those of scheduling.

    >>> _software({"system_fingerprint": "vllm-0.32.0-tp2-dp4-5764c805"})
    'vllm-0.32.0-tp2'
    """
    text = str(reply.get(SOFTWARE) or "")
    return re.sub(r"^(vllm-.*?)(-dp\d+)?(-ep)?-(?:[0-9a-f]{8}|nohash)$", r"\1", text) or None


def _ready(done: "Queue[Prediction]", *, wait: bool) -> Iterator[Prediction]:
    """Yield the predictions that have arrived, so that none waits for its line in the journal.

    The first is waited for if asked to.
    """
    with suppress(Empty):
        yield done.get(block=wait)
        while True:
            yield done.get_nowait()


def _without_null(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _count(reply: object, names: str) -> int | None:
    """Return the number under nested names; None if there is none."""
    for name in names.split("."):
        reply = reply.get(name) if isinstance(reply, dict) else None
    return reply if isinstance(reply, int) else None


def _choice(reply: Mapping[str, Any], api: str) -> tuple[str, str, str | None]:
    """Return the text of a reply, its reasoning and its finish reason."""
    try:
        choice = reply["choices"][0]
        message = choice["message"] if api == "chat" else choice
        text = message["content" if api == "chat" else "text"]
        called = next((name for name in ("tool_calls", "function_call") if message.get(name)), "")
        # Servers with a reasoning parser remove the reasoning from the text.
        reasoning = message.get("reasoning") or message.get("reasoning_content")
        finish = choice.get("finish_reason")
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        reason = f"the server's reply holds no answer ({type(error).__name__}: {error})"
        raise RequestError(reason) from error
    if called or not isinstance(text, str | None):
        reason = f"the reply has {called}: the model called a tool, and did not answer"
        wrong = f"the server's answer is {type(text).__name__}, not text"
        raise RequestError(reason if called else wrong)
    reasoning = reasoning if isinstance(reasoning, str) and api == "chat" else ""
    # Null content is an empty answer.
    return text or "", reasoning, finish if isinstance(finish, str) else None
