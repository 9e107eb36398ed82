"""What a model is sent: golden prompts of each protocol in the manner of each kind of model."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from ruler_data import Row, UsageError
from ruler_data.tokenizers import PromptTokenizer
from ruler_data.tokenizers.registry import load_folder, load_tokenizer
from ruler_eval.running.prompts import PROTOCOLS, PromptFormat
from tests.running import tiny

Load = Callable[[str], PromptTokenizer]

ROW = Row(
    index=0, task="niah_single_1", context="Memorize: the number for fox is: 12.\n",
    question="What is the number for fox?", answer_prefix=" The number for fox is",
    outputs=("12",), max_new_tokens=128, length=0, evidence=(),
)  # fmt: skip
ASKED = "Memorize: the number for fox is: 12.\nWhat is the number for fox?"
PREFIX = " The number for fox is"

L3, END = "<|begin_of_text|>", "<|eot_id|>"
L3_USER, L3_MODEL = (
    f"<|start_header_id|>{role}<|end_header_id|>\n\n" for role in ("user", "assistant")
)
QWEN = (
    "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant."
    "<|im_end|>\n<|im_start|>user\n"
)
IM, IM_MODEL = "<|im_end|>\n", "<|im_start|>assistant\n"
GOLDEN = {
    ("llama3", "completion"): f"{L3}{L3_USER}{ASKED}{END}{L3_MODEL}{PREFIX}",
    ("llama3", "base"): f"{L3}{ASKED}{PREFIX}",
    ("llama3", "chat"): f"{L3}{L3_USER}{ASKED}{END}{L3_MODEL}",
    ("llama3", "thinking"): f"{L3}{L3_USER}{ASKED}{END}{L3_MODEL}",
    ("qwen2.5", "completion"): f"{QWEN}{ASKED}{IM}{IM_MODEL}{PREFIX}",
    ("qwen2.5", "base"): f"{ASKED}{PREFIX}",
    ("qwen2.5", "chat"): f"{QWEN}{ASKED}{IM}{IM_MODEL}",
    ("QWEN3", "completion"): f"<|im_start|>user\n{ASKED}{IM}{IM_MODEL}{PREFIX}",
    ("QWEN3", "chat"): f"<|im_start|>user\n{ASKED}{IM}{IM_MODEL}<think>\n\n</think>\n\n",
    ("QWEN3", "thinking"): f"<|im_start|>user\n{ASKED}{IM}{IM_MODEL}",
    ("MISTRAL", "completion"): f"<s>[INST] {ASKED} [/INST]{PREFIX}",
    ("MISTRAL", "base"): f"<s>{ASKED}{PREFIX}",
    ("GEMMA", "completion"): (
        f"<s><start_of_turn>user\n{ASKED}<end_of_turn>\n<start_of_turn>model\n{PREFIX}"
    ),
    ("GEMMA", "chat"): f"<s><start_of_turn>user\n{ASKED}<end_of_turn>\n<start_of_turn>model\n",
    ("mistral", "completion"): f"<s>[INST]{ASKED}[/INST]{PREFIX}",
    ("mistral", "base"): f"<s>{ASKED}{PREFIX}",
}


@pytest.fixture(scope="module")
def tokenizer_of(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Load:
    """Return a tokenizer by the name that the table has for it."""

    @cache
    def load(name: str) -> PromptTokenizer:
        if name in ("llama3", "qwen2.5"):
            shared: Path = request.getfixturevalue("shared")
            return load_folder(shared / "tokenizers" / name, name)
        if name == "mistral":
            return load_tokenizer(name)
        folder = tmp_path_factory.mktemp("tokenizers") / name
        bos = name != "QWEN3"
        template: str = getattr(tiny, name)
        made = tiny.make_tokenizer(folder, template, bos="<s>" if bos else None, adds_bos=bos)
        return load_folder(made, name)

    return load


@pytest.mark.parametrize(
    ("model", "protocol"),
    [
        pytest.param(*known, marks=[pytest.mark.slow] if known[0] == "qwen2.5" else [])
        for known in GOLDEN
    ],
)
def test_ids_are_the_golden_prompt(tokenizer_of: Load, model: str, protocol: str) -> None:
    tokenizer = tokenizer_of(model)
    ids = PromptFormat(PROTOCOLS[protocol], 0).ids(tokenizer, ROW)
    golden = GOLDEN[model, protocol]
    shown = tokenizer.decode(ids)
    assert shown == golden
    has_bos = model not in ("qwen2.5", "QWEN3")
    bos = [place for place, token in enumerate(ids) if token == tokenizer.bos_id]
    assert bos == ([0] if has_bos else [])


@pytest.mark.parametrize("model", ["llama3", "QWEN3", "GEMMA", "mistral"])
def test_completion_sends_what_the_builder_counted(tokenizer_of: Load, model: str) -> None:
    tokenizer = tokenizer_of(model)
    counted = tokenizer.count_prompt(ROW.context + ROW.question, ROW.answer_prefix)
    assert len(PromptFormat(PROTOCOLS["completion"], 0).ids(tokenizer, ROW)) == counted


@pytest.mark.parametrize("protocol", ["base", "completion"])
def test_a_bos_that_only_the_template_writes_opens_a_plain_prompt_too(
    tmp_path: Path, protocol: str
) -> None:
    made = tiny.make_tokenizer(tmp_path / "gemma", tiny.GEMMA, adds_bos=False)
    tokenizer = load_folder(made, "gemma")
    ids = PromptFormat(PROTOCOLS[protocol], 0).ids(tokenizer, ROW).tolist()
    assert [place for place, token in enumerate(ids) if token == tokenizer.bos_id] == [0]


@pytest.mark.parametrize("protocol", ["chat", "thinking"])
def test_a_model_without_a_template_cannot_chat(tmp_path: Path, protocol: str) -> None:
    tokenizer = load_folder(tiny.make_tokenizer(tmp_path / "plain", None), "plain")
    with pytest.raises(UsageError, match="has no chat template"):
        PromptFormat(PROTOCOLS[protocol], 0).refuse(tokenizer)
