"""vLLM's own OpenAI-compatible server, asked over the wire; test_conformance asks it for ids."""

from pathlib import Path

from ruler_data import Row
from tests.commands import succeeded
from tests.engines.conftest import FLOAT, Order, answers, assert_same, served
from tests.running.processes import refusal


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
