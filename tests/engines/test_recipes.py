"""The recipes of docs/recipes: other people's inference code, run on real models.

RULER_RECIPES names a folder with kvpress, the transformers that it needs, and xllamacpp, made by
`make engines`; RULER_GGUF a GGUF file of SmolLM2-135M-Instruct, which one test needs.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from tests.builds import until
from tests.commands import Done, spawn, succeeded
from tests.conftest import ROOT, Cli
from tests.engines.conftest import Answers, answers, assert_same

FOLDER = os.environ.get("RULER_RECIPES", "")
RECIPES = ROOT / "docs" / "recipes"
GGUF = os.environ.get("RULER_GGUF", "")
pytestmark = pytest.mark.skipif(not FOLDER, reason="RULER_RECIPES names no folder")


def env() -> dict[str, str]:
    before = os.environ.get("PYTHONPATH", "")
    return {"PYTHONPATH": f"{FOLDER}:{RECIPES}:{ROOT}:{ROOT}/eval:{ROOT}/builders:{before}"}


def press(frozen: Path, model: Path, out: Path, ratio: float) -> Done:
    asked = ("--option", "function=kvpress_generate:generate", "--option", f"model={model}")
    return spawn(
        "ruler-eval", "run", "--data", frozen, "--model", model, "--engine", "python", *asked,
        "--option", "press=SnapKVPress", "--option", f"ratio={ratio}", "--out", out, env=env(),
        timeout=400,
    )  # fmt: skip


def test_a_press_of_kvpress_that_removes_nothing_says_the_same_and_half_of_the_cache_does_not(
    frozen: Path, model: Path, reference: Answers, tmp_path: Path
) -> None:
    succeeded(press(frozen, model, tmp_path / "all", 0.0))
    assert_same(answers(tmp_path / "all"), reference)
    succeeded(press(frozen, model, tmp_path / "half", 0.5))
    half = answers(tmp_path / "half")
    assert half.keys() == reference.keys()
    assert sum(half[key]["text"] != reference[key]["text"] for key in half) > len(half) / 2


@pytest.mark.skipif(not GGUF, reason="RULER_GGUF names no GGUF file")
def test_llama_cpp_reads_every_prompt_as_it_was_sent(cli: Cli, tmp_path: Path) -> None:
    code = (
        "import sys; from transformers import AutoTokenizer as T; "
        "T.from_pretrained(sys.argv[1], gguf_file=sys.argv[2]).save_pretrained(sys.argv[3])"
    )
    gguf, tokenizer = Path(GGUF), tmp_path / "tokenizer"
    read: list[str | Path] = [sys.executable, "-c", code, gguf.parent, gguf.name, tokenizer]
    subprocess.run(read, check=True, timeout=300)
    data = tmp_path / "data"
    succeeded(
        cli(
            "build", "--tokenizer", tokenizer, "--sources-kind", "sample", "--tasks",
            "niah_single_1,vt", "--lengths", 1024, "--rows", 2, "--out", data,
        )
    )  # fmt: skip
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, RECIPES / "llama_cpp_server.py", gguf, str(port)],
        env={**os.environ, **env()}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}/v1"
    try:
        until(lambda: server.poll() is not None or _listens(url))
        told = ("--data", data, "--model", "smollm2", "--tokenizer", tokenizer, "--base-url", url)
        one = ("--option", "concurrency=1")
        doctor = spawn("ruler-eval", "doctor", *told, *one, timeout=400)
        done = spawn("ruler-eval", "run", *told, *one, "--out", tmp_path / "run", timeout=400)
    finally:
        server.terminate()
        server.wait(60)
    succeeded(done)
    assert "were rendered here" in doctor.stdout, doctor.stderr
    found = answers(tmp_path / "run")
    assert len(found) == 4 and all(answer["prompt_tokens"] for answer in found.values())


def _listens(url: str) -> bool:
    try:
        return requests.get(f"{url}/models", timeout=2).ok
    except requests.RequestException:
        return False
