"""What a step on the Hub survives, and what it says where there is no network."""

import socket
from pathlib import Path

import httpx2
import pytest

from ruler_data.hub.client import Patience
from ruler_data.hub.retry import with_retries
from tests.commands import spawn
from tests.hub import Hub
from tests.test_build_sources import no_network

__all__ = ["no_network"]


def test_a_connection_that_another_thread_closed_is_opened_again(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in hub.env().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.endpoint)
    clients = [httpx2.Client(), httpx2.Client()]
    clients[1].close()

    def work() -> int:
        with clients.pop() as client:  # the closed one first
            return client.get(f"{hub.endpoint}/nothing").status_code

    assert with_retries("a request", work) == 404
    assert clients == []


def test_an_error_of_our_own_is_no_fault_of_the_hub(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [("show", "org/ruler", "--revision", "v1.0.0"), ("find", "--model", "org/x", "--in", "org/r")],
)
def test_a_hub_that_never_answers_is_given_up_when_patience_runs_out(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as hole:
        env = {
            "HF_ENDPOINT": f"http://127.0.0.1:{hole.getsockname()[1]}", "HF_HOME": str(tmp_path),
            "HF_HUB_OFFLINE": "", "RULER_OFFLINE": "", "RULER_HUB_PATIENCE": "2",
        }  # fmt: skip
        done = spawn("ruler-data", *command, env=env)
    told = [one for one in done.stderr.splitlines() if one.startswith("ruler-data: ")]
    assert done.returncode == 1 and len(told) == 1 and "no answer" in told[0], done.stderr


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
