"""Pinned downloads from a host that fails: temporary errors are tried again, others are not."""

import gc
import hashlib
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ruler_data import RulerError, network
from ruler_data.network import ATTEMPTS, Unreachable, download
from tests.serving import serving

DATA = b"a text of a source"
SHA256 = hashlib.sha256(DATA).hexdigest()


@contextmanager
def host(*statuses: int) -> Iterator[tuple[str, list[str]]]:
    """Serve the data, after these statuses; yield its address and the requests so far."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status = (*statuses, 200)[min(len(requests), len(statuses))]
            requests.append(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(DATA)))
            self.end_headers()
            self.wfile.write(DATA)

        def log_message(self, *_: object) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}/text.txt", requests


@pytest.fixture(autouse=True)
def online(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("RULER_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
    yield
    with warnings.catch_warnings():  # pooch does not close the connection after an error
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def test_a_temporary_error_is_tried_again_and_the_file_kept(tmp_path: Path) -> None:
    with host(503, 429) as (url, requests):
        for _ in range(2):
            assert download(url, SHA256, tmp_path).read_bytes() == DATA
    assert len(requests) == 3


@pytest.mark.parametrize(
    ("statuses", "sha256", "said", "requests"),
    [
        ([503] * 9, SHA256, "cannot be downloaded", ATTEMPTS),
        ([404], SHA256, "HTTPError", 1),
        ([], "0" * 64, f"refused: sha256 expected {'0' * 64}, found {SHA256}", 1),
    ],
)
def test_a_host_that_stays_down_is_tried_again_and_a_missing_or_other_file_is_not(
    statuses: list[int], sha256: str, said: str, requests: int, tmp_path: Path
) -> None:
    with host(*statuses) as (url, seen), pytest.raises(RulerError, match=said) as error:
        download(url, sha256, tmp_path)
    assert isinstance(error.value, Unreachable) == bool(statuses)
    assert len(seen) == requests and not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "size", ["Content-Length: 99999", "Transfer-Encoding: chunked", "not: told"]
)
def test_a_host_that_drips_is_left_in_one_line(
    size: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "TIMEOUT", 0.5)
    is_left = threading.Event()

    class Drip(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.wfile.write(f"HTTP/1.1 200 OK\r\n{size}\r\n\r\n".encode())
            while not is_left.wait(0.05):
                self.wfile.write(b"1\r\na\r\n" if "chunked" in size else b"a")

    with (
        serving(ThreadingHTTPServer(("127.0.0.1", 0), Drip), is_left.set) as server,
        pytest.raises(Unreachable, match=r"cannot be downloaded \(TimeoutError\)$"),
    ):
        download(f"http://127.0.0.1:{server.server_port}/text.txt", SHA256, tmp_path)


def test_without_network_nothing_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: dict[str, float] = {}
    here = threading.current_thread().name  # a thread that an earlier test began may sleep, too
    monkeypatch.setattr(
        "tenacity.nap.time.sleep",
        lambda pause: pauses.update({threading.current_thread().name: pause}),
    )
    monkeypatch.setattr(network, "TIMEOUT", 1)
    with pytest.raises(Unreachable, match="ConnectionError"):
        download("http://127.0.0.1:9/text.txt", SHA256, tmp_path)
    assert here not in pauses
