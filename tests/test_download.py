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
def host(*statuses: int, data: bytes = DATA) -> Iterator[tuple[str, list[str]]]:
    """Serve data, after these statuses; yield its address and the requests so far."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status = (*statuses, 200)[min(len(requests), len(statuses))]
            requests.append(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

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


def test_a_host_is_asked_for_no_more_than_the_rest_and_sends_no_more_than_the_limit(
    tmp_path: Path,
) -> None:
    with host() as (url, requests):
        secret = url.replace("//", "//me:secret@")
        with pytest.raises(network.WrongContent) as long:
            download(secret, SHA256, tmp_path, largest=len(DATA) - 1)
        assert str(long.value) == f"{url}: refused: longer than {len(DATA) - 1} bytes"
        assert download(secret, SHA256, tmp_path, name="a", largest=len(DATA)).name == "a"
        assert len(requests) == 2
        (tmp_path / "b").write_bytes(b"another text")
        assert download(url, None, tmp_path, name="b").read_bytes() == b"another text"
        assert download(url, SHA256, tmp_path, name="b").read_bytes() == DATA
        (tmp_path / "file").touch()
        with pytest.raises(RulerError, match=r"file/text\.txt: cannot be written: "):
            download(url, SHA256, tmp_path / "file")


def test_what_an_earlier_attempt_received_counts_for_the_limit(tmp_path: Path) -> None:
    (tmp_path / "text.txt.part").write_bytes(DATA[:10])
    with host(206) as (url, _), pytest.raises(network.WrongContent, match="refused: longer than"):
        download(url, SHA256, tmp_path, largest=len(DATA) + 2)


def test_a_host_that_refuses_a_range_is_asked_for_all_of_it(tmp_path: Path) -> None:
    (tmp_path / "text.txt.part").write_bytes(b"much longer than the text of a source")
    with host(416) as (url, requests):
        assert download(url, SHA256, tmp_path).read_bytes() == DATA
    assert len(requests) == 2


@pytest.mark.parametrize("sha256", [SHA256, None], ids=["pinned", "not pinned"])
def test_a_host_that_sends_all_of_it_is_asked_once_and_replaces_what_was_received(
    sha256: str | None, tmp_path: Path
) -> None:
    (tmp_path / "text.txt.part").write_bytes(DATA[:10])
    with host() as (url, requests):
        assert download(url, sha256, tmp_path).read_bytes() == DATA
    assert len(requests) == 1


@pytest.mark.parametrize("switch", ["RULER_OFFLINE", "HF_HUB_OFFLINE"])
def test_where_downloads_are_off_only_what_is_there_is_taken(
    switch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value, is_off in (("", False), ("0", False), ("1", True), ("no", True)):
        monkeypatch.setenv(switch, value)
        assert network.offline() == is_off
    with pytest.raises(Unreachable) as off:
        download("http://me:secret@127.0.0.1:9/text.txt", SHA256, tmp_path)
    switches = "RULER_OFFLINE or HF_HUB_OFFLINE is set"
    assert str(off.value) == f"http://127.0.0.1:9/text.txt: downloads are off ({switches})"
    (tmp_path / "text.txt").write_bytes(DATA)
    assert download("http://127.0.0.1:9/text.txt", SHA256, tmp_path).read_bytes() == DATA


def test_a_setting_of_the_network_that_no_client_can_use_is_named(tmp_path: Path) -> None:
    bad = "is not the address of a proxy, e.g. http://proxy:3128"
    for name, value, said in (
        ("HTTP_PROXY", "http://", f"HTTP_PROXY=http://: {bad}"),
        ("https_proxy", "ftp://u:secret@p:1", f"https_proxy=p:1: {bad}"),
        ("ALL_PROXY", "http://proxy:0", f"ALL_PROXY=http://proxy:0: {bad}"),
        ("ALL_PROXY", "proxy:3128", ""), ("HTTPS_PROXY", "https://u:secret@proxy:3128", ""),
        ("SSL_CERT_FILE", str(tmp_path), ""), ("SSL_CERT_FILE", "", ""),
        ("SSL_CERT_FILE", "/no", "SSL_CERT_FILE=/no: no such file or folder; name the certificates "
         "of your network, or unset it"),
    ):  # fmt: skip
        if not said:
            network.check_environment({name: value})
            continue
        with pytest.raises(RulerError) as refused:
            network.check_environment({name: value})
        assert str(refused.value) == said


def test_a_reply_that_drips_is_left_and_one_that_flows_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr("ruler_data.network.time.monotonic", lambda: now[0])

    def chunks(*sizes: int) -> Iterator[bytes]:
        for size in sizes:
            now[0] += 4
            yield bytes(size)

    flowing = (2048, 2047, 1, 2048, 2047, 1)
    assert [len(chunk) for chunk in network.steady(chunks(*flowing), 10)] == [*flowing]
    with pytest.raises(TimeoutError, match=r"^fewer than 4,096 bytes in 10 s$"):
        [*network.steady(chunks(2048, 2047, 0), 10)]
    assert [*network.steady(chunks(0, 0), 8)] == [b"", b""]


def test_a_pause_that_a_host_asks_for_is_in_seconds_or_a_date() -> None:
    for headers, pause in (
        ({"RETRY-AFTER": " 1.5 "}, 1.5), ({"Retry-After": "-1"}, None), ({}, None),
        ({"ratelimit": '"api";r=1;t=55'}, None), ({"RateLimit": '"a"; r=0; t=7'}, 7.0),
        ({"retry-after": "soon", "ratelimit": ";r=0;t=3"}, 3.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ):  # fmt: skip
        assert network.retry_after(headers) == pause
    future = network.retry_after({"retry-after": "Fri, 31 Dec 2100 23:59:59 GMT"})
    assert future is not None and future > 1e9
