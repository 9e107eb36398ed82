"""The same model through five engines and four protocols: the same prompts, the same answers.

Whatever sampling, penalties and limits the model brings (`tests.engines.weights`).
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import requests

from ruler_data import Row
from ruler_data.tokenizers.registry import load_folder
from tests.builds import members, until
from tests.commands import succeeded
from tests.conftest import ROOT
from tests.engines.conftest import (
    FLOAT,
    HANG,
    ONE,
    Answers,
    Order,
    answers,
    assert_same,
    free_port,
    listens,
    start,
)
from tests.running.processes import refusal

PROTOCOLS = ("base", "completion", "chat", "thinking")
FEW = ("--tasks", "fwe", "--lengths", 512, "--rows", 3, "--extra-tokens", 20)
FOLDER = os.environ.get("RULER_RECIPES", "")

under_each = pytest.mark.parametrize("protocol", PROTOCOLS)
#: What transformers says, by protocol.
_reference: dict[str, Answers] = {}


@pytest.fixture
def reference(order: Order, tmp_path: Path, protocol: str) -> Answers:
    """What transformers says under a protocol, asked once."""
    if protocol not in _reference:
        out = tmp_path / "reference"
        succeeded(order("transformers", out, *FLOAT, *FEW, "--protocol", protocol))
        _reference[protocol] = answers(out)
    return _reference[protocol]


@pytest.mark.parametrize("protocol", ["chat"])  # the others: its server, and `test_scores`
def test_vllm(order: Order, reference: Answers, protocol: str, tmp_path: Path) -> None:
    succeeded(order("vllm", tmp_path / "run", *ONE, *FEW, "--protocol", protocol))
    assert_same(answers(tmp_path / "run"), reference)


@pytest.fixture(scope="module")
def vllm_server(model: Path) -> Iterator[str]:
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


@under_each
def test_vllms_own_server(
    order: Order, model: Path, vllm_server: str, reference: Answers, protocol: str, tmp_path: Path
) -> None:
    command = (*served(vllm_server, model), *FEW, "--protocol", protocol)
    succeeded(order("openai", tmp_path / "run", *command))
    assert_same(answers(tmp_path / "run"), reference)


@under_each
def test_a_python_function(
    order: Order, model: Path, reference: Answers, protocol: str, tmp_path: Path
) -> None:
    function = ("--option", "function=batched_generate:generate", "--option", f"model={model}")
    command = (*function, *FLOAT, "--option", "batch=3", *FEW, "--protocol", protocol)
    succeeded(order("python", tmp_path / "run", *command, cwd=ROOT / "docs" / "recipes"))
    assert_same(answers(tmp_path / "run"), reference)


@pytest.fixture(scope="module")
def llama_cpp(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a server of llama.cpp that holds the model."""
    if not FOLDER:
        pytest.skip("RULER_RECIPES names no folder")
    file, port = tmp_path_factory.mktemp("gguf") / "tiny.gguf", free_port()
    path = f"{FOLDER}:{ROOT}:{os.environ.get('PYTHONPATH', '')}"
    env = {**os.environ, "PYTHONPATH": path}
    python = [sys.executable, "-m"]
    subprocess.run([*python, "tests.engines.gguf_file", model, file], env=env, check=True)
    server = subprocess.Popen(
        [*python, "tests.engines.llama_cpp", file, str(port)],
        env=env, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}/v1"
    try:
        until(lambda: listens(url) or server.poll() is not None)
        assert server.poll() is None
        yield url
    finally:
        server.kill()
        server.wait()


@under_each
def test_llama_cpps_server(
    order: Order, model: Path, llama_cpp: str, reference: Answers, protocol: str, tmp_path: Path
) -> None:
    command = (*served(llama_cpp, model), *FEW, "--protocol", protocol)
    succeeded(order("openai", tmp_path / "run", *command))
    assert_same(answers(tmp_path / "run"), reference)


@pytest.mark.parametrize("protocol", ["base"])
@pytest.mark.parametrize("name", ["vllm_server", "llama_cpp"])
def test_a_server_applies_what_the_model_brings_unless_it_is_asked(
    request: pytest.FixtureRequest, reference: Answers, rows: dict[tuple[str, int], Row],
    model: Path, name: str, protocol: str,
) -> None:  # fmt: skip
    ((key, answer), *_), tokenizer = reference.items(), load_folder(model, "tiny")
    row = rows[str(key[0]), int(str(key[1]))]
    ids = tokenizer.prompt_ids(row.context + row.question, row.answer_prefix, None).tolist()
    body = {"model": "tiny", "prompt": ids, "max_tokens": 70, "temperature": 0}
    reply = requests.post(f"{request.getfixturevalue(name)}/completions", json=body, timeout=HANG)
    assert reply.json()["choices"][0]["text"] != answer["text"]


def test_the_servers_own_template_reads_as_many_tokens_as_ours(
    order: Order, model: Path, vllm_server: str, rows: dict[tuple[str, int], Row], tmp_path: Path
) -> None:
    chat = ("--protocol", "chat", "--option", "api=chat", "--rows", 2)
    succeeded(order("openai", tmp_path / "server", *served(vllm_server, model), *chat))
    ours = ("--protocol", "chat", "--rows", 2)
    succeeded(order("transformers", tmp_path / "ours", *FLOAT, *ours))
    assert_same(answers(tmp_path / "server"), answers(tmp_path / "ours"))


def test_the_servers_window_is_asked_for(order: Order, model: Path, vllm_server: str) -> None:
    done = order("openai", "unused", *served(vllm_server, model), "--extra-tokens", 600)
    assert "the model's window is 1024" in refusal(done)
