"""A small completions server that answers as it is told: right, wrong, late or not at all.

It finds the golden answer by the row's question, so an answer that went to another row shows.
"""

import json
import threading
import time
from collections.abc import Callable
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


def well(_number: int, _body: Body) -> "Answer":
    """Let a request be answered."""
    return Answer()


class FakeServer:
    """Answers `/v1/completions` and `/v1/chat/completions` on a free port."""

    def __init__(self, say: Say, fault: Fault = well, port: int = 0) -> None:
        """Answer with `say(body)`, but for what `fault(number, body)` does instead."""
        self.say, self.fault = say, fault
        self.seen: list[Body] = []
        self.headers: list[dict[str, str]] = []
        self.connections = 0
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
        """Stop answering; the port is free again."""
        self._http.shutdown()
        self._http.server_close()

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

        def setup(self) -> None:
            super().setup()
            with server.lock:
                server.connections += 1

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            self._send(200, {}, json.dumps({"data": [{"id": "m", "max_model_len": 4096}]}).encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with server.lock:
                server.seen.append(body)
                server.headers.append(dict(self.headers.items()))
                number = len(server.seen)
            reply = server.fault(number, body)
            if isinstance(reply, Answer):
                reply = 200, {}, json.dumps(_reply(server.say(body), body)).encode()
            if reply is not None:
                self._send(*reply)
            else:
                self.close_connection = True

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


def _reply(text: str, body: Body) -> Body:
    chat = "messages" in body
    choice: Body = {"index": 0, "finish_reason": "stop"}
    choice |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
    usage = {"completion_tokens": 3, "prompt_tokens": 9 if chat else len(body["prompt"])}
    return {"choices": [choice], "usage": usage}


def hang(seconds: float) -> Reply:
    """Say nothing for a while, then nothing at all."""
    time.sleep(seconds)
    return None
