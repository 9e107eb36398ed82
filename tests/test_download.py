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

from ruler_data import RulerError, files
from ruler_data.files import ATTEMPTS, Unreachable, download

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

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/text.txt", requests
        server.shutdown()


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


def test_a_host_that_stays_down_is_unreachable(tmp_path: Path) -> None:
    with host(*[503] * 9) as (url, requests), pytest.raises(Unreachable, match="cannot be down"):
        download(url, SHA256, tmp_path)
    assert len(requests) == ATTEMPTS and not any(tmp_path.iterdir())


def test_a_file_that_is_not_there_is_asked_for_once(tmp_path: Path) -> None:
    with host(404) as (url, requests), pytest.raises(Unreachable, match="HTTPError"):
        download(url, SHA256, tmp_path)
    assert len(requests) == 1


def test_another_file_is_refused_and_asked_for_once(tmp_path: Path) -> None:
    expected = "0" * 64
    with (
        host() as (url, requests),
        pytest.raises(RulerError, match=f"sha256 expected {expected}, found {SHA256}"),
    ):
        download(url, expected, tmp_path)
    assert len(requests) == 1 and not any(tmp_path.iterdir())


def test_a_machine_without_network_does_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("tenacity.nap.time.sleep", pauses.append)
    monkeypatch.setattr(files, "TIMEOUT", 1)
    with pytest.raises(Unreachable, match="ConnectionError"):
        download("http://127.0.0.1:9/text.txt", SHA256, tmp_path)
    assert pauses == []
