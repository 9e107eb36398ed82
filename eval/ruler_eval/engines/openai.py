"""Any OpenAI-compatible server: completions by token ids, or chat where it takes nothing else.

Servers refuse, stall and come back. A request is tried again with growing pauses, or those that
the server asks for; a row that still fails when the patience is used up is unscored. When one row
after the other fails the run ends, and what was not asked stays to be asked.

What a completions or chat server replies, read with suspicion.
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
from ruler_eval.engines.interface import GREEDY, EngineConfig, Request, published, take
from ruler_eval.engines.server import Failed, Server
from ruler_eval.schema import Prediction

Api = Literal["completions", "text", "chat"]


def read_answer(ask: Request, reply: Mapping[str, Any], api: Api, seconds: float) -> Prediction:
    """Return the answer that a reply holds.

    Raises:
        Failed: it holds none, or the server read another prompt than was sent.
    """
    try:
        choice = reply["choices"][0]
        text = choice["message"]["content"] if api == "chat" else choice["text"]
        if api == "chat" and (thought := _thought(choice["message"])):
            text = f"<think>{thought}</think>{text or ''}"
        usage = reply.get("usage") or {}
        details = usage.get("prompt_tokens_details") or {}
        counts = (
            usage.get("completion_tokens"), usage.get("prompt_tokens"),
            details.get("cached_tokens"),
        )  # fmt: skip
        finish = choice.get("finish_reason")
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        msg = f"the server's reply holds no answer ({type(error).__name__}: {error})"
        raise Failed(msg) from error
    if not isinstance(text, str | None):
        msg = f"the server's answer is {type(text).__name__}, not text"
        raise Failed(msg)
    said, sent, cached = (count if isinstance(count, int) else None for count in counts)
    if api == "completions" and sent not in (None, len(ask.ids)):  # a BOS of its own, or a cut
        msg = f"the server read {sent} prompt tokens, {len(ask.ids)} were sent"
        raise Failed(msg)
    # Null content is silence.
    return ask.answered(text or "", finish and str(finish), said, seconds, sent, cached)


def _thought(message: Mapping[str, Any]) -> str | None:
    """Return the reasoning that servers with a reasoning parser take out of the text."""
    said = message.get("reasoning") or message.get("reasoning_content")
    return said if isinstance(said, str) else None


@dataclass(frozen=True)
class OpenAiOptions:
    """What the engine can be told.

    Attributes:
        api: `completions` sends token ids, which vLLM, SGLang, TensorRT-LLM and llama.cpp take;
            `text` sends the prompt as text to a completions server that takes no ids (protocol
            base only, since servers put a BOS before text themselves); `chat` sends the turn to a
            server that renders it itself.
        concurrency: requests at once.
        patience: seconds after which a row that fails is not tried again.
        timeout: seconds that one request may take in all.
        body: more fields of each request; a field of null is left out.
    """

    api: Api = "completions"
    concurrency: int = 16
    patience: float = 300.0
    timeout: float = 1800.0
    body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OpenAiEngine:
    """Threads that ask a server."""

    setup: EngineConfig
    options: OpenAiOptions
    server: Server
    window: int | None

    @property
    def renders(self) -> bool:
        """Whether the server puts the template round the turn."""
        return self.options.api == "chat"

    @property
    def info(self) -> dict[str, Any]:
        """The interface and the options; what runs behind a server it does not say."""
        return {"api": self.options.api, "body": published(self.options.body)}

    @property
    def sampling(self) -> dict[str, Any]:
        """Greedy decoding, as far as the server does as it is asked."""
        asked = {**GREEDY, **self.options.body}
        return {name: value for name, value in asked.items() if value is not None}

    def answer(self, asks: Iterator[Request | None]) -> Iterator[Prediction]:
        """Yield an answer for each row, as they come.

        Raises:
            RulerError: row after row fails.
        """
        todo: Queue[Request] = Queue()
        done: Queue[Prediction] = Queue()
        over = Event()
        for _ in range(self.options.concurrency):
            Thread(target=self._work, args=(todo, done, over), daemon=True).start()
        waiting = failures = 0
        try:
            for ask in chain(filter(None, asks), repeat(None)):
                if ask is not None:
                    todo.put(ask)
                    waiting += 1
                elif not waiting:
                    return
                full = ask is None or waiting == self.options.concurrency
                for answer in _ready(done, wait=full):
                    waiting -= 1
                    failures = 0 if answer.error is None else failures + 1
                    yield answer
                    if failures == 2 * self.options.concurrency:
                        msg = (
                            f"{self.server.name}: {failures} rows failed, one after the other: "
                            f"{answer.error}; run the same command again to go on"
                        )
                        raise RulerError(msg)
        finally:
            over.set()

    def _work(self, todo: "Queue[Request]", done: "Queue[Prediction]", over: Event) -> None:
        while not over.is_set():
            try:
                ask = todo.get(timeout=0.2)
            except Empty:
                continue
            done.put(self._one(ask, over))

    def _one(self, ask: Request, over: Event) -> Prediction:
        try:
            begun = time.monotonic()
            path, body = self._request(ask)
            reply = self.server.post(path, body, over)
            return read_answer(ask, reply, self.options.api, time.monotonic() - begun)
        except Failed as error:
            return ask.unscored(str(error))
        except Exception as error:  # a row must come back, whatever the server sends
            return ask.unscored(f"{type(error).__name__}: {str(error)[:200]}")

    def _request(self, ask: Request) -> tuple[str, dict[str, Any]]:
        """Return the path and the body of a row's request."""
        setup = self.setup
        body = {"model": setup.model.source, "max_tokens": ask.max_tokens, **GREEDY}
        content, prefix = setup.asking.parts(ask.row)
        if self.options.api == "chat":
            path = "chat/completions"
            body["messages"] = [{"role": "user", "content": content}]
        else:
            path = "completions"
            body["prompt"] = ask.ids if self.options.api == "completions" else content + prefix
        body |= self.options.body
        return path, {name: value for name, value in body.items() if value is not None}


def _ready(done: "Queue[Prediction]", *, wait: bool) -> Iterator[Prediction]:
    """Yield the answers that are there, waiting for the first of them if asked to."""
    try:
        yield done.get(block=wait)
        while True:
            yield done.get_nowait()
    except Empty:
        return


def prepare(setup: EngineConfig) -> OpenAiEngine:
    """Return the engine; the server is asked how long a prompt it takes.

    Raises:
        UsageError: no address is given, or the protocol cannot be had over the interface.
        RulerError: the server does not answer.
    """
    options = take("openai", OpenAiOptions, setup.options)
    protocol = setup.asking.protocol
    if setup.base_url is None:
        msg = "--engine openai needs --base-url, e.g. http://127.0.0.1:8000/v1"
        raise UsageError(msg)
    wrong = {
        "chat": protocol.name not in ("chat", "thinking") and "chat or thinking",
        "text": protocol.name != "base" and "base",
        "completions": False,
    }[options.api]
    if wrong:
        msg = (
            f"--option api={options.api} cannot send protocol {protocol.name}; use --protocol "
            f"{wrong}, or a server that takes token ids (api=completions)"
        )
        raise UsageError(msg)
    key = os.environ.get("OPENAI_API_KEY")
    server = Server(setup.base_url, key, options.patience, options.timeout)
    return OpenAiEngine(setup, options, server, server.window(setup.model.source))
