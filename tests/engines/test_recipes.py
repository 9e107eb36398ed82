"""The recipes of docs/recipes: other people's inference code, run on real models.

RULER_RECIPES names a folder with kvpress and the transformers that it needs, made by `make
test-engines`.
"""

import os
from pathlib import Path

import pytest

from tests.commands import Done, spawn, succeeded
from tests.conftest import ROOT
from tests.engines.conftest import Answers, answers, assert_same

FOLDER = os.environ.get("RULER_RECIPES", "")
RECIPES = ROOT / "docs" / "recipes"
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
