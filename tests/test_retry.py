"""What a step on the Hub survives, and what it says where there is no network."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer

import pytest

from ruler_data.hub.client import Patience, with_retries
from ruler_data.hub.library import http
from tests.commands import spawn
from tests.hub import Hub
from tests.serving import serving
from tests.test_build_sources import no_network

__all__ = ["no_network"]


def test_a_closed_connection_is_opened_again(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in hub.env().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.endpoint)
    clients = [http.Client(), http.Client()]
    clients[1].close()

    def work() -> int:
        with clients.pop() as client:  # the closed one first
            return client.get(f"{hub.endpoint}/nothing").status_code

    assert with_retries("a request", work) == 404
    assert clients == []


def test_our_own_error_is_no_fault_of_the_hub(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.endpoint)

    def work() -> None:
        raise KeyError(0)

    with pytest.raises(KeyError, match="0"):
        with_retries("a request", work)


def test_bytes_that_move_start_patience_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    now, pauses = [1000.0], list[float]()
    monkeypatch.setattr("ruler_data.hub.client.time.monotonic", lambda: now[0])
    monkeypatch.setattr("ruler_data.hub.client.time.sleep", pauses.append)
    monkeypatch.setattr(Patience, "moved", 0.0)
    patience = Patience()
    now[0] += 290
    assert patience.wait("host", "no answer")
    assert not patience.wait("host", "no answer", 11.0)
    now[0] += 3600  # of a slow upload
    monkeypatch.setattr(Patience, "moved", now[0] - 1)
    assert patience.wait("host", "no answer", 11.0)
    assert sum(pauses) == 12.0


COMMANDS = [
    ("show", "org/ruler", "--revision", "v1.0.0"),
    ("find", "--model", "org/x", "--in", "org/r"),
]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n"
#: What a host sends at once, what it sends again and again, and what is said of it.
HOSTS = {
    "is silent": (b"", b"", "no answer"),
    "drips its head": (b"HTTP/1.1 200 OK\r\nX-Long: ", b"x", "no answer"),
    "drips its body": (HEAD, b" ", "no answer|the Hub: Response from"),
    "serves a large index": (
        HEAD.replace(b"9000", b"600000000\r\nETag: x\r\nX-Repo-Commit: " + b"0" * 40), b"",
        "holds 600,000,000 bytes|no answer",
    ),
    "redirects in a circle": (
        b"HTTP/1.1 307 X\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n", b"", "in a circle",
    ),
}  # fmt: skip


@contextmanager
def host(first: bytes, drip: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """Serve this to every request; yield the port, and the requests so far."""
    requests: list[bytes] = []

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                while line := self.rfile.readline():
                    requests.append(line)
                    while self.rfile.readline().strip():
                        pass
                    self.wfile.write(first)
                    while (drip or not first) and not over.wait(0.05):
                        self.wfile.write(drip)

    over = threading.Event()
    with serving(ThreadingTCPServer(("127.0.0.1", 0), Handler), over.set) as server:
        server.daemon_threads = True
        yield server.server_address[1], requests


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", HOSTS)
def test_a_hub_without_end_is_given_up(name: str, command: tuple[str, ...], tmp_path: Path) -> None:
    first, drip, said = HOSTS[name]
    with host(first, drip) as (port, requests):
        env = {
            "HF_ENDPOINT": f"http://127.0.0.1:{port}", "HF_HOME": str(tmp_path),
            "HF_HUB_OFFLINE": "", "RULER_OFFLINE": "", "RULER_HUB_PATIENCE": "2",
            "RULER_HUB_TIMEOUT": "0.5",
        }  # fmt: skip
        done = spawn("ruler-data", *command, env=env)
    told = [one for one in done.stderr.splitlines() if one.startswith("ruler-data: ")]
    assert done.returncode == 1 and len(told) == 1 and re.search(said, told[0]), done.stderr
    assert len(requests) < 60, "retries are nested"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ALL_PROXY", "socks5://user:secret@127.0.0.1:9"),
        ("HTTP_PROXY", "::::"),
        ("https_proxy", "http://"),
        ("SSL_CERT_FILE", "/no/such/file.pem"),
    ],
)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_variable_with_which_no_client_can_be_made_is_named(
    variable: str, value: str, command: tuple[str, ...], tmp_path: Path
) -> None:
    env = {"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "", "RULER_OFFLINE": "", variable: value}
    done = spawn("ruler-data", *command, env=env)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done.stderr
    assert f"{variable}={value.rpartition('@')[2]}: " in done.stderr and "secret" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ("verify", "org/ruler", "--revision", "v1.0.0"),
        ("find", "--model", "org/model", "--in", "org/ruler"),
    ],
)
def test_no_network_is_said_with_what_helps(
    command: tuple[str, ...], no_network: tuple[str, ...], tmp_path: Path
) -> None:
    env = {"HF_HOME": str(tmp_path), "HF_TOKEN": "hf_x", "HF_HUB_OFFLINE": "", "RULER_OFFLINE": ""}
    done = spawn("ruler-data", *command, env=env, cwd=tmp_path, wrapper=no_network)
    assert done.returncode == (2 if "verify" in command else 1)  # of verify, 1 is a finding
    assert len(done.stderr.splitlines()) == 1, "nothing was tried again"
    assert "give a local folder" in done.stderr and "HF_ENDPOINT" in done.stderr
