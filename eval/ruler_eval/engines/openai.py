"""Any OpenAI-compatible server: completions by token ids, or text or chat for servers without.

Failed requests are retried with growing pauses, or those that the server asks for. A row that still
fails when the patience is used up is unscored. When one row after the other fails the run ends, and
the remaining rows are left for the next run.
"""

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, repeat
from queue import Empty, Queue
from threading import Event, Thread
from typing import Any, Literal

from ruler_data.errors import RulerError, UsageError
from ruler_data.tokenizers import PromptTokenizer
from ruler_eval.engines.interface import GREEDY, Engine, Request, published_options, read_options
from ruler_eval.engines.server import RequestError, Server
from ruler_eval.eval_config import EvalConfig
from ruler_eval.models import Model
from ruler_eval.prompts import PromptFormat
from ruler_eval.schema import Prediction

Api = Literal["completions", "text", "chat"]
#: The protocols of each interface: servers put a BOS before text, and render chat themselves.
PROTOCOLS: dict[Api, tuple[str, ...]] = {
    "completions": ("completion", "base", "chat", "thinking"),
    "text": ("base",),
    "chat": ("chat", "thinking"),
}


@dataclass(frozen=True)
class OpenAiOptions:
    """Options of the engine.

    Attributes:
        api: `completions` sends token ids, which vLLM, SGLang, TensorRT-LLM and llama.cpp accept;
            `text` sends the prompt as text to a completions server that accepts no ids; `chat`
            sends the user's turn to a server that applies the template itself.
        concurrency: requests at once.
        patience: seconds after which a failing row is not tried again.
        timeout: seconds that one request may take in all.
        body: more fields of each request; a field of null is left out.
    """

    api: Api = "completions"
    concurrency: int = 16
    patience: float = 300.0
    timeout: float = 1800.0
    body: Mapping[str, Any] = field(default_factory=dict)


def prepare(
    config: EvalConfig, model: Model, _tokenizer: PromptTokenizer | None, _longest: int
) -> Engine:
    """Return the engine; the server is asked for the model's window.

    Raises:
        UsageError: no address is given, or the interface cannot send the protocol.
    """
    options = read_options("openai", OpenAiOptions, config.engine_options)
    if config.base_url is None:
        msg = "--engine openai needs --base-url, e.g. http://127.0.0.1:8000/v1"
        raise UsageError(msg)
    protocols = PROTOCOLS[options.api]
    if config.protocol not in protocols:
        msg = (
            f"--option api={options.api} cannot send protocol {config.protocol}; use --protocol "
            f"{' or '.join(protocols)}, or a server that accepts token ids (api=completions)"
        )
        raise UsageError(msg)
    key = os.environ.get("OPENAI_API_KEY")
    server = Server(config.base_url, key, options.patience, options.timeout, options.concurrency)
    client = Client(config.prompts, model.source, options, server)
    sampling = {**GREEDY, **options.body}  # as far as the server complies
    return Engine(
        client.generate,
        info={"api": options.api, "body": published_options(options.body)},
        sampling={name: value for name, value in sampling.items() if value is not None},
        window=server.window(model.source),
        renders_prompts=options.api == "chat",
    )


@dataclass(frozen=True)
class Client:
    """Threads that send requests to a server.

    Attributes:
        prompts: how rows are formatted.
        model: the server's name for it.
        options: of the engine.
        server: to ask.
    """

    prompts: PromptFormat
    model: str
    options: OpenAiOptions
    server: Server

    def generate(self, requests: Iterator[Request | None]) -> Iterator[Prediction]:
        """Yield a prediction for each row, as they arrive.

        Raises:
            RulerError: row after row fails.
        """
        todo: Queue[Request] = Queue()
        done: Queue[Prediction] = Queue()
        stop = Event()
        for _ in range(self.options.concurrency):
            Thread(target=self._work, args=(todo, done, stop), daemon=True).start()
        waiting = failures = 0
        try:
            for request in chain(filter(None, requests), repeat(None)):
                if request is not None:
                    todo.put(request)
                    waiting += 1
                elif not waiting:
                    return
                full = request is None or waiting == self.options.concurrency
                for prediction in _ready(done, wait=full):
                    waiting -= 1
                    failures = 0 if prediction.error is None else failures + 1
                    yield prediction
                    if failures == 2 * self.options.concurrency:
                        msg = (
                            f"{self.server.name}: {failures} rows failed, one after the other: "
                            f"{prediction.error}; run the same command again to resume"
                        )
                        raise RulerError(msg)
        finally:
            stop.set()

    def _work(self, todo: "Queue[Request]", done: "Queue[Prediction]", stop: Event) -> None:
        while not stop.is_set():
            try:
                request = todo.get(timeout=0.2)
            except Empty:
                continue
            done.put(self._predict(request, stop))

    def _predict(self, request: Request, stop: Event) -> Prediction:
        try:
            started = time.monotonic()
            reply = self.server.post(*self._message(request), stop)
            return read_reply(request, reply, self.options.api, time.monotonic() - started)
        except RequestError as error:
            return request.unscored(str(error))
        except Exception as error:  # every row needs a prediction, whatever the server sends
            return request.unscored(f"{type(error).__name__}: {str(error)[:200]}")

    def _message(self, request: Request) -> tuple[str, dict[str, Any]]:
        """Return the path and the body of the HTTP request for a row."""
        body = {"model": self.model, "max_tokens": request.max_tokens, **GREEDY}
        content, prefix = self.prompts.parts(request.row)
        path = "completions"
        if self.options.api == "chat":
            path = "chat/completions"
            body["messages"] = [{"role": "user", "content": content}]
        else:
            body["prompt"] = request.ids if self.options.api == "completions" else content + prefix
        body |= self.options.body
        return path, {name: value for name, value in body.items() if value is not None}


def _ready(done: "Queue[Prediction]", *, wait: bool) -> Iterator[Prediction]:
    """Yield the predictions that have arrived, waiting for the first if asked to."""
    try:
        yield done.get(block=wait)
        while True:
            yield done.get_nowait()
    except Empty:
        return


def read_reply(request: Request, reply: Mapping[str, Any], api: Api, seconds: float) -> Prediction:
    """Return the prediction that a reply holds.

    Raises:
        RequestError: it holds none, or the server read another prompt than was sent.
    """
    try:
        choice = reply["choices"][0]
        text = choice["message"]["content"] if api == "chat" else choice["text"]
        if api == "chat" and (reasoning := _reasoning(choice["message"])):
            text = f"<think>{reasoning}</think>{text or ''}"
        usage = reply.get("usage") or {}
        details = usage.get("prompt_tokens_details") or {}
        counts = [usage.get("completion_tokens"), usage.get("prompt_tokens")]
        counts.append(details.get("cached_tokens"))
        finish = choice.get("finish_reason")
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        msg = f"the server's reply holds no answer ({type(error).__name__}: {error})"
        raise RequestError(msg) from error
    if not isinstance(text, str | None):
        msg = f"the server's answer is {type(text).__name__}, not text"
        raise RequestError(msg)
    generated, sent, cached = (count if isinstance(count, int) else None for count in counts)
    if api == "completions" and sent not in (None, len(request.ids)):  # a second BOS, or cut
        msg = f"the server read {sent} prompt tokens, {len(request.ids)} were sent"
        raise RequestError(msg)
    # Null content is an empty answer.
    return request.answered(text or "", finish and str(finish), generated, seconds, sent, cached)


def _reasoning(message: Mapping[str, Any]) -> str | None:
    """Return the reasoning that servers with a reasoning parser remove from the text."""
    text = message.get("reasoning") or message.get("reasoning_content")
    return text if isinstance(text, str) else None
