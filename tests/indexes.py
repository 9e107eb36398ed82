"""Package indexes on loopback, sound ones and bad ones, with a wheel, and a proxy before them."""

import hashlib
import io
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer

import pytest

from ruler_data.packages import Wheel
from tests.serving import serving

#: A host that nothing but the proxy knows.
FAR = "index.invalid"
LOGIN = b"<html><body><form action='/login'>Sign in</form></body></html>"
#: Variables that decide where pip looks and whom it trusts.
DECIDING = (
    "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY",
    "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy", "NO_PROXY", "no_proxy",
    "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", "RULER_OFFLINE",
    "HF_HUB_OFFLINE", "XDG_CONFIG_HOME",
)  # fmt: skip


def make_wheel(package: str, version: str, members: Mapping[str, bytes]) -> bytes:
    """Return a wheel with these files, none of them compressed."""
    name = package.replace("-", "_")
    info = f"{name}-{version}.dist-info"
    meta = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\nRequires-Dist: nothing\n"
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for path, body in members.items():
            archive.writestr(path, body)
        archive.writestr(f"{info}/METADATA", meta)
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return data.getvalue()


class Index:
    """Indexes at one host: `/good/simple`, and bad ones named by what is wrong with them."""

    def __init__(self, package: str, version: str, members: Mapping[str, bytes]) -> None:
        self.data = make_wheel(package, version, members)
        sha256 = hashlib.sha256(self.data).hexdigest()
        self.wheel = Wheel(package, version, sha256, len(self.data))
        self.file = f"{package.replace('-', '_')}-{version}-py3-none-any.whl"
        self.port = 0
        self.scheme = "http"
        #: Paths that were asked for, and the last header with user and password.
        self.seen: list[str] = []
        self.authorization: str | None = None

    def url(self, kind: str = "good", user: str = "", host: str = "127.0.0.1") -> str:
        """Return the address of an index."""
        return f"{self.scheme}://{user}{host}:{self.port}/{kind}/simple"

    def body(self, kind: str) -> bytes:
        """Return what an index of this kind gives for the wheel."""
        altered = bytearray(self.data)
        altered[100] ^= 1
        return {
            "login-file": LOGIN,
            "altered": bytes(altered),
            "long": self.data + bytes(2 * len(self.data)),
        }.get(kind, self.data)


def _handler(index: Index) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            index.seen.append(self.path)
            index.authorization = self.headers["Authorization"] or index.authorization
            _, kind, *_ = self.path.split("/")
            with suppress(OSError):  # whoever asked has gone
                if not self.path.endswith(".whl"):
                    self.page(kind)
                elif self.headers["Range"] and kind == "good":
                    self.rest(int(self.headers["Range"].removeprefix("bytes=").removesuffix("-")))
                else:
                    self.file(kind)

        def page(self, kind: str) -> None:
            """Send the page of the project in chunks, of which the first has no link."""
            link = f"<!DOCTYPE html><a href='/{kind}/files/{index.file}'>{index.file}</a>".encode()
            text = LOGIN if kind == "login" else link
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for piece in (text[:20], text[20:50], text[50:], b""):
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                self.wfile.flush()
                time.sleep(0.02)

        def file(self, kind: str) -> None:
            """Send the wheel, or what this index has in its place."""
            body = index.body(kind)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if kind == "short":
                self.close_connection = True
                body = body[: len(body) // 2]
            self.wfile.write(body)

        def rest(self, start: int) -> None:
            """Send the wheel from a byte on."""
            self.send_response(206)
            self.send_header("Content-Length", str(len(index.data) - start))
            self.end_headers()
            self.wfile.write(index.data[start:])

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler


@contextmanager
def running(index: Index, certificate: Path | None = None) -> Iterator[Index]:
    """Serve the indexes while the block lasts; with a certificate, by TLS."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(index))
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign] # a client that trusts us not
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
        index.scheme = "https"
    with serving(server):
        index.port = server.server_port
        yield index


def make_authority(folder: Path) -> Path:
    """Return a certificate that only this folder knows, for loopback and the far host."""
    if not shutil.which("openssl"):
        pytest.skip("no openssl makes certificates here")
    folder.mkdir(parents=True, exist_ok=True)
    certificate = folder / "authority.pem"
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
            "-nodes", "-days", "2", "-subj", "/CN=An authority for tests",
            "-addext", f"subjectAltName=IP:127.0.0.1,DNS:{FAR}",
            "-addext", "keyUsage=critical,digitalSignature,keyCertSign",
            "-keyout", certificate.with_suffix(".key"), "-out", certificate,
        ],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate


@contextmanager
def proxy() -> Iterator[tuple[str, list[str]]]:
    """Run a proxy that leads to loopback, whatever host is named; yield its address and lines."""
    lines: list[str] = []

    class Tunnel(StreamRequestHandler):
        def handle(self) -> None:
            line = self.rfile.readline().decode()
            lines.append(line)
            while self.rfile.readline().strip():
                pass
            port = int(line.split()[1].rpartition(":")[2])
            with socket.create_connection(("127.0.0.1", port)) as far:
                self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=_copy, args=(far, self.connection), daemon=True)
                back.start()
                _copy(self.connection, far)
                back.join()

    server = ThreadingTCPServer(("127.0.0.1", 0), Tunnel)
    server.daemon_threads = True
    with serving(server):
        yield f"http://127.0.0.1:{server.server_address[1]}", lines


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(1 << 16):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def forget_settings(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Let nothing of this machine decide where packages come from: a fresh home, and no index."""
    home.mkdir(parents=True, exist_ok=True)
    for name in list(os.environ):
        if name.startswith("PIP_") or name in DECIDING:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(home / "none"))
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)  # this machine may have an /etc/pip.conf
    monkeypatch.setattr("ruler_data.packages.PYPI", "http://127.0.0.1:9/simple")
