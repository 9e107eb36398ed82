"""What vLLM is given, seen by a stand-in with the three methods of it that the engine calls."""

import sys
from collections.abc import Iterator
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import cast
from unittest.mock import ANY

import numpy as np
import pytest

from ruler_data.row import Row
from ruler_eval.running import vllm
from ruler_eval.running.answers import Answer
from ruler_eval.running.config import EvalConfig
from ruler_eval.running.engine import Request, Setup
from ruler_eval.running.models import Model

ROWS = 700


class FakeLLM:
    """Answers one row a step, and counts those that it holds."""

    peak = 0

    def __init__(self, **_: object) -> None:
        core = SimpleNamespace(shutdown=self.shutdown)
        self.llm_engine = SimpleNamespace(step=self.step, engine_core=core)
        self.held, self.numbers = list[str](), count()

    def shutdown(self) -> None:
        """End without a fault."""

    def enqueue(self, *_: object, **__: object) -> list[str]:
        self.held.append(f"{next(self.numbers)}-random")
        return self.held[-1:]

    def step(self) -> Iterator[SimpleNamespace]:
        FakeLLM.peak = max(FakeLLM.peak, len(self.held))
        generated = SimpleNamespace(text="x", finish_reason="stop", token_ids=[1])
        name, self.held = self.held[0].partition("-")[0], self.held[1:]
        yield SimpleNamespace(
            finished=True, request_id=name, outputs=[generated], num_cached_tokens=0
        )


def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let vLLM be installed, and take any argument."""
    known = SimpleNamespace(EngineArgs=SimpleNamespace(__dataclass_fields__=ANY))
    monkeypatch.setitem(sys.modules, "vllm.engine.arg_utils", known)
    monkeypatch.setattr(vllm, "installed_versions", lambda *_: {"vllm": "0.33.0"})
    monkeypatch.setattr(vllm, "check_options", lambda *_: None)


def found(monkeypatch: pytest.MonkeyPatch, option: int | None = None) -> list[Answer]:
    """Return what the engine makes of 700 rows."""
    fake = SimpleNamespace(LLM=FakeLLM, SamplingParams=dict)
    monkeypatch.setitem(sys.modules, "vllm", fake)
    device = SimpleNamespace(current_platform=SimpleNamespace(get_device_name=lambda: "H9"))
    monkeypatch.setitem(sys.modules, "vllm.platforms", device)
    ids = np.array([1], dtype=np.uint32)
    requests = (Request("c", Row(n, "", "", "", "", ("",), 1, 0, ()), ids, 1) for n in range(ROWS))
    return list(vllm._generate({"max_num_seqs": option}, EvalConfig("x"), requests))


@pytest.mark.parametrize(
    ("config", "options", "expected"),
    [
        ({"model_type": "llama"}, {}, True),
        ({"linear_num_key_heads": 16}, {}, False),
        ({"linear_num_key_heads": 16}, {"enable_prefix_caching": True}, True),
    ],
)
def test_a_model_that_keeps_a_state_has_no_prefix_cache_unless_the_user_says_so(
    config: dict[str, object],
    options: dict[str, object],
    expected: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed(monkeypatch)
    model = Model("m", "m", config=config)
    setup = Setup(EvalConfig("m", engine="vllm", options=options), model, None, 4096)
    assert vllm.prepare(setup).info["enable_prefix_caching"] is expected


@pytest.mark.parametrize(("window", "expected"), [(None, 4096), (8192, 4096), (2048, 2048)])
def test_memory_is_taken_for_the_longest_row_at_most(
    window: int | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch)
    setup = Setup(EvalConfig("m", engine="vllm"), Model("m", "m", limit=window), None, 4096)
    arguments, _ = cast("partial[object]", vllm.prepare(setup).generate).args
    assert arguments["max_model_len"] == expected


def test_the_commit_of_the_model_that_a_run_records_is_the_one_that_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed(monkeypatch)
    model = Model("org/m", "org/m", hub_revision="c" * 40)
    setup = Setup(EvalConfig("org/m", engine="vllm"), model, None, 4096)
    arguments, _ = cast("partial[object]", vllm.prepare(setup).generate).args
    assert (arguments["model"], arguments["revision"]) == ("org/m", model.revision)


@pytest.mark.parametrize(("option", "held"), [(None, 128), (64, 128), (300, 300)])
def test_rows_at_once_are_as_many_as_max_num_seqs_asks_for(
    monkeypatch: pytest.MonkeyPatch, option: int | None, held: int
) -> None:
    FakeLLM.peak = 0
    assert len(found(monkeypatch, option)) == ROWS and FakeLLM.peak == held


def test_a_worker_that_is_gone_before_it_is_ended_costs_no_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def shutdown(_: object) -> None:
        msg = "process no longer exists (pid=7)"
        raise LookupError(msg)

    monkeypatch.setattr(FakeLLM, "shutdown", shutdown)
    assert len(found(monkeypatch)) == ROWS
    assert "vLLM did not end in order (LookupError: process no longer" in capsys.readouterr().err
