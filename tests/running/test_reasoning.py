"""Reasoning models: what they think is kept apart, never scored, and told where it does not belong.

The server answers as vLLM does, with and without a reasoning parser.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

import ruler_eval
from ruler_data import UsageError, reasoning
from ruler_data.index import Index, Sibling
from ruler_data.names import config_file
from ruler_data.parquet import read_rows
from ruler_data.tokenizers import PromptTokenizer
from ruler_data.tokenizers.registry import load_folder
from ruler_eval.running.config import EvalConfig
from ruler_eval.running.inputs import release_for
from ruler_eval.running.models import Model
from ruler_eval.running.prompts import PROTOCOLS, PromptFormat, ProtocolName
from ruler_eval.scoring.loading import scores_of
from tests.commands import succeeded
from tests.running import tiny
from tests.running.conftest import asked_of
from tests.running.processes import evaluate, lines
from tests.running.server import Body, FakeServer, Say

HARMONY = "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>{}"


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ("<think>3? no</think>4", "3? no", "4"),
        ("<think></think>\n\n4", "", "4"),
        *((f"{start}3?{end}4", "3?", "4") for start, end in reasoning.BLOCKS),
        *((f"{start}3?", "3?", "") for start, _end in reasoning.BLOCKS),
        (HARMONY.format("3?", 4), "3?<|end|><|start|>assistant", "4"),
        ("<|START_THINKING|>3?<|END_THINKING|><|START_RESPONSE|>4", "3?", "<|START_RESPONSE|>4"),
        ("<think>a</think>b<think>c</think>4", "a</think>b<think>c", "4"),
        ("<think>a</think>b<think>c", "a</think>b<think>c", ""),
        *(
            (f"{before}{start}4", f"{before}{start}4", "")
            for before in ("Okay.\n", "\u200b", "<|im_start|>assistant\n", "<|start|>assistant")
            for start, _end in reasoning.BLOCKS
        ),
        ("<think>a [THINK]b[/THINK] 4", "a [THINK]b[/THINK] 4", ""),
        ("<think>a</think>[THINK]b[/THINK]4", "a</think>[THINK]b", "4"),
        ("analysisLet me see: 3?", "Let me see: 3?", ""),  # gpt-oss without special tokens
        ("4", None, "4"),
        ("", None, ""),
    ],
)
def test_the_answer_follows_the_reasoning(text: str, thought: str | None, answer: str) -> None:
    assert reasoning.split(text) == (thought, answer)
    assert reasoning.is_in(text) == (thought is not None)


@pytest.mark.parametrize("protocol", ["completion", "chat"])
@pytest.mark.parametrize("more", ["", "Let me think. "])
def test_a_template_that_opens_a_block_is_refused_by_any_protocol_but_thinking(
    frozen: Path, tmp_path: Path, protocol: ProtocolName, more: str
) -> None:
    model = tiny.make_model(tmp_path / "r1")
    template = tiny.REASONER.replace("enable_thinking", "unused")
    template = template.replace("<think>\n", f"<think>\n{more}")
    assert more in template
    tiny.make_tokenizer(model, template, bos=None)
    with pytest.raises(UsageError, match=f"--protocol {protocol}: .* opens a block of reasoning"):
        ruler_eval.run(frozen, model=model, engine="oracle", protocol=protocol, out=tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_template_that_opens_a_block_is_taken_by_protocol_thinking(tmp_path: Path) -> None:
    model = tiny.make_tokenizer(tmp_path / "r1", tiny.REASONER, bos=None)
    tokenizer = load_folder(model, "r1")
    thinking = PromptFormat(PROTOCOLS["thinking"], 8192)
    assert reasoning.opens(thinking.frame(tokenizer))
    thinking.refuse(tokenizer)


THOUGHT = "Could it be ABCDE?"


@pytest.fixture(scope="module")
def gold(frozen: Path, tokenizer: PromptTokenizer) -> Say:
    """Answer any prompt of a row, as ids or as a user's turn, with its gold answer."""
    rows = list(read_rows(frozen / config_file("vt_2048")))

    def say(body: Body) -> str:
        text = tokenizer.decode(body["prompt"]) if "prompt" in body else str(body["messages"])
        return ", ".join(next(row.outputs for row in rows if row.question in text))

    return say


def tagged(gold: Say, body: Body) -> str:
    return f"<think>{THOUGHT}</think>\n\n{gold(body)}"


def harmony(gold: Say, body: Body) -> str:
    return HARMONY.format(THOUGHT, gold(body))


def dropped(gold: Say, body: Body) -> str:
    return f"analysis{THOUGHT}assistantfinal{gold(body)}"


@pytest.mark.parametrize("api", ["completions", "chat"])
@pytest.mark.parametrize("say", [tagged, harmony, dropped])
def test_a_thinking_run_records_reasoning_apart_and_scores_the_answer(
    frozen: Path, tmp_path: Path, gold: Say, api: str, say: Callable[[Say, Body], str]
) -> None:
    with FakeServer(lambda body: say(gold, body)) as server:
        server.card["max_model_len"] = 40_000
        if api == "chat":
            server.reads = lambda _body: None
        thinking = ("--protocol", "thinking", "--option", f"api={api}")
        succeeded(evaluate(*asked_of(frozen, server.url, tmp_path, *thinking)))
    for line in lines(tmp_path):
        assert THOUGHT in str(line["reasoning"]) and THOUGHT not in str(line["text"])
    scores = scores_of(tmp_path, frozen)
    assert scores.table["official"].to_pylist() == [1.0] * 12
    assert (scores.validity.reasoning, scores.validity.errors) == (0, [])


def test_rows_without_room_for_reasoning_are_refused(frozen: Path, tmp_path: Path) -> None:
    model = tiny.make_model(tmp_path / "small", window=4096)
    with pytest.raises(UsageError, match=r"named …-r16k, or `ruler-data build --reserve 8192`"):
        ruler_eval.run(
            frozen, model=model, engine="oracle", protocol="thinking", out=tmp_path / "x"
        )


def sibling(repo: str, reserve: int) -> Sibling:
    return Sibling(repo, "v1.0.0", "0" * 40, "t", "1" * 64, ("org/m",), reserve=reserve)


@pytest.mark.parametrize(
    ("protocol", "reserves", "repo"),
    [
        ("thinking", (0, 16384, 32768), "org/r16384"),
        ("thinking", (0, 4096), "org/r0"),
        ("completion", (0, 16384), "org/r0"),
    ],
)
def test_thinking_takes_rows_with_room(
    protocol: ProtocolName, reserves: tuple[int, ...], repo: str
) -> None:
    index = Index(tuple(sibling(f"org/r{reserve}", reserve) for reserve in reserves))
    config = EvalConfig("org/ruler", protocol=protocol)
    assert release_for(index, config, Model("m", "org/m"), None).repo == repo
