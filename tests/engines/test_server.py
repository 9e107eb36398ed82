"""vLLM's own OpenAI-compatible server, asked over the wire."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ruler_data import Row
from tests.builds import members, until
from tests.commands import succeeded
from tests.engines.conftest import (
    FLOAT,
    HANG,
    Answers,
    Order,
    answers,
    assert_same,
    free_port,
    listens,
    start,
)
from tests.running.processes import refusal


@pytest.fixture(scope="module")
def server(model: Path) -> Iterator[str]:
    """Return the address of a server that holds the model."""
    port = free_port()
    process = start(
        "vllm.entrypoints.openai.api_server", "--model", model, "--served-model-name", "tiny",
        "--host", "127.0.0.1", "--port", port, "--dtype", "float32", "--enforce-eager",
        "--gpu-memory-utilization", "0.1", "--max-model-len", "1024", "--block-size", "32",
        "--enable-prompt-tokens-details",
        env={"VLLM_ENABLE_V1_MULTIPROCESSING": "1"},
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}/v1"
    try:
        until(lambda: listens(url) or process.poll() is not None, seconds=HANG)
        assert process.poll() is None, process.communicate()[1][-2000:]
        yield url
    finally:
        _end(process.pid)


def _end(group: int) -> None:
    """End a server with its engine's process, gently at first."""
    for number, seconds in ((signal.SIGTERM, 30), (signal.SIGKILL, 30)):
        with suppress(ProcessLookupError):
            os.killpg(group, number)
        deadline = time.monotonic() + seconds
        while members(group) and time.monotonic() < deadline:
            time.sleep(0.1)


def served(url: str, model: Path) -> tuple[object, ...]:
    return ("--base-url", url, "--model", "tiny", "--tokenizer", model)


def test_vllms_own_server_says_the_same_to_the_same_ids(
    order: Order, model: Path, server: str, reference: Answers, tmp_path: Path
) -> None:
    succeeded(order("openai", tmp_path / "run", *served(server, model)))
    found = answers(tmp_path / "run")
    assert_same(found, reference)
    assert max(int(str(answer["cached_tokens"] or 0)) for answer in found.values()) >= 32


def test_the_servers_own_template_reads_as_many_tokens_as_ours(
    order: Order, model: Path, server: str, rows: dict[tuple[str, int], Row], tmp_path: Path
) -> None:
    chat = ("--protocol", "chat", "--option", "api=chat", "--rows", 2)
    succeeded(order("openai", tmp_path / "server", *served(server, model), *chat))
    ours = ("--protocol", "chat", "--rows", 2)
    succeeded(order("transformers", tmp_path / "ours", *FLOAT, *ours))
    assert_same(answers(tmp_path / "server"), answers(tmp_path / "ours"))


def test_the_servers_window_is_asked_for(order: Order, model: Path, server: str) -> None:
    done = order("openai", "unused", *served(server, model), "--extra-tokens", 600)
    assert "the model's window is 1024" in refusal(done)
