"""A server with a fault of its own: it passes requests on, and garbles some of the answers.

    python benchmarks/faulty_proxy.py http://127.0.0.1:8080 8081 --answers FILE \
        --residues 0-8/16 --hits

`ruler-eval check-engine --base-url http://127.0.0.1:8081/v1` must name what was planted. FILE
keeps what the server said to each prompt, first and again, so that faults can be planted in the
same answers one after the other, without asking for them anew; prompts of the check are always the
same.
"""

import argparse
import json
import re
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.request import Request, urlopen

Reply = dict[str, Any]


class Proxy(BaseHTTPRequestHandler):
    """Passes requests on to a server."""

    protocol_version = "HTTP/1.1"
    upstream, answers = "", Path()
    known: dict[str, Reply] = {}  # noqa: RUF012 - of the whole server
    asked, lock = Counter[str](), Lock()
    residues, modulus, hits = range(0), 1, False

    def do_GET(self) -> None:
        """Pass on what is asked about models."""
        self._say(self._known(self.path, None))

    def do_POST(self) -> None:
        """Pass on a prompt, and garble the answer where the fault is."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.lock:
            self.asked[body.decode()] += 1
            key = f"{self.asked[body.decode()]} {self.path} {body.decode()}"
        reply = self._known(key, body)
        usage, (choice, *_) = reply["usage"], reply["choices"]
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        is_hit = 2 * cached > usage["prompt_tokens"]
        if usage["prompt_tokens"] % self.modulus in self.residues and (is_hit or not self.hits):
            choice["text"] = re.sub(r"\d", "0", choice["text"])
        self._say(reply)

    def _known(self, key: str, body: bytes | None) -> Reply:
        if key not in self.known:
            address = f"{self.upstream}{self.path}"
            request = Request(address, body, {"Content-Type": "application/json"})
            with urlopen(request, timeout=600) as reply:
                self.known[key] = json.loads(reply.read())
            with self.lock, self.answers.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, self.known[key]]) + "\n")
        copy: Reply = json.loads(json.dumps(self.known[key]))
        return copy

    def _say(self, reply: Reply) -> None:
        data = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing of each request."""


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("upstream", help="address of the server, without /v1")
    parser.add_argument("port", type=int)
    parser.add_argument("--answers", type=Path, required=True)
    parser.add_argument("--residues", help="FIRST-LAST/MODULUS")
    parser.add_argument("--hits", action="store_true", help="only where a cache held the prompt")
    options = parser.parse_args()
    Proxy.upstream, Proxy.answers, Proxy.hits = options.upstream, options.answers, options.hits
    if options.residues:
        first, last, Proxy.modulus = map(int, re.findall(r"\d+", options.residues))
        Proxy.residues = range(first, last + 1)
    if options.answers.exists():
        lines = options.answers.read_text(encoding="utf-8").splitlines()
        Proxy.known |= dict(map(json.loads, lines))
    ThreadingHTTPServer(("127.0.0.1", options.port), Proxy).serve_forever()


if __name__ == "__main__":
    main()
