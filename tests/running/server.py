"""A small completions server that answers as it is told: right, wrong, late or not at all.

It finds the golden answer by the row's question, so an answer that went to another row shows. The
short prompt, by which the engine finds out what a server takes, it keeps apart.
"""

import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Body = dict[str, Any]
Say = Callable[[Body], str]
#: What a fault does with a request: the status, headers and bytes to send, or None to drop it.
Reply = tuple[int, dict[str, str], bytes] | None


class Answer:
    """The answer as it should be."""


#: What happens to the n-th request.
Fault = Callable[[int, Body], Reply | Answer]


#: Tokens, or characters, under which a prompt is a probe.
SHORT = 600
#: Fields by which a request asks for a penalty, and their neutral values.
PENALTIES = {
    "repeat_penalty": 1.0, "repetition_penalty": 1.0, "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}  # fmt: skip


def copies(body: Body, **own: float) -> str:
    """Return what a model says that repeats what it is told, unless a penalty keeps it from that.

    `own` are the server's own values.
    """
    values = {**PENALTIES, **own, **body}
    penalized = any(values[name] > neutral for name, neutral in PENALTIES.items())
    return "yes no maybe perhaps" if penalized else "yes " * 20


def well(_number: int, _body: Body) -> "Answer":
    """Let a request be answered."""
    return Answer()


class FakeServer:
    """Answers `/v1/completions` and `/v1/chat/completions` on a free port."""

    def __init__(self, say: Say, fault: Fault = well, port: int = 0) -> None:
        """Answer with `say(body)`, but for what `fault(number, body)` does instead."""
        self.say, self.fault = say, fault
        self.card: Body = {"id": "m", "max_model_len": 4096}  # that `/models` lists
        self.listed: object = None  # by `/models` instead of that
        self.names: Callable[[Body], Body] = lambda body: {"model": body["model"]}  # of each reply
        self.message: Body = {}  # more fields of each answer
        self.reads: Callable[[Body], int | None] = lambda body: len(body.get("prompt", ""))
        self.refuses: set[str] = set()  # fields
        #: What it says of a request that it does not take; None if it takes it.
        self.rule: Callable[[Body], Reply] = lambda body: None
        self.denies = False
        self.is_busy: Callable[[Body], bool] = lambda body: False  # for a probe
        self.probed: Callable[[Body], str] = copies  # what it says to a probe
        self.probes: list[Body] = []
        self.seen: list[Body] = []
        self.answered = 0  # of those seen
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []  # of all requests, with their query
        self.connections: list[socket.socket] = []
        self.lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._http.daemon_threads = True
        self.port = self._http.server_address[1]
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}/v1"

    def close(self) -> None:
        """Stop answering, also over connections that are open; the port is free again."""
        self._http.shutdown()
        self._http.server_close()
        for connection in self.connections:
            with suppress(OSError):  # it has ended
                connection.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _handler(server: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # connections stay open between requests
        disable_nagle_algorithm = True  # else a body waits 40 ms for word of its head

        def setup(self) -> None:
            super().setup()
            with server.lock:
                server.connections.append(self.connection)

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            server.paths.append(self.path)
            card = {**server.card, "created": time.time_ns()}  # as vLLM's changes with each call
            listed = [card] if server.listed is None else server.listed
            self._send(200, {}, json.dumps({"data": listed}).encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.paths.append(self.path)
            if server.denies:
                return self._send(401, {}, b"no such key")
            if refused := server.refuses & body.keys():
                reason = f"Unrecognized request argument supplied: {min(refused)} of {[*body]}"
                return self._send(400, {}, json.dumps({"error": {"message": reason}}).encode())
            if (rule := server.rule(body)) is not None:
                return self._send(*rule)
            if len(body["prompt"] if "prompt" in body else body["messages"][0]["content"]) < SHORT:
                if server.is_busy(body):
                    return self._send(503, {}, b"busy")
                with server.lock:
                    server.probes.append(body)
                text = server.probed(body)
                return self._send(200, {}, json.dumps(_reply(text, body, server)).encode())
            with server.lock:
                server.seen.append(body)
                server.headers.append(dict(self.headers.items()))
                number = len(server.seen)
            reply = server.fault(number, body)
            if isinstance(reply, Answer):
                reply = 200, {}, json.dumps(_reply(server.say(body), body, server)).encode()
            if reply is None:
                self.close_connection = True
                return None
            self._send(*reply)
            with server.lock:
                server.answered += 1
            return None

        def _send(self, status: int, headers: dict[str, str], data: bytes) -> None:
            try:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except OSError:  # whoever asked has gone
                pass

    return Handler


def _reply(text: str, body: Body, server: FakeServer) -> Body:
    chat = "messages" in body
    choice: Body = {"index": 0, "finish_reason": "stop"}
    output = {"role": "assistant", "content": text} if chat else {"text": text}
    output |= server.message
    choice["finish_reason"] = output.pop("finish_reason", "stop")
    choice |= {"message": output} if chat else output
    usage = {"completion_tokens": 3, "prompt_tokens": server.reads(body)}
    return {"choices": [choice], "usage": usage, **server.names(body)}


def hang(seconds: float) -> Reply:
    """Say nothing for a while, then nothing at all."""
    time.sleep(seconds)
    return None
