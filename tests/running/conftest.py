"""A tiny model and rows frozen in its tokenizer, shared by all tests of runs."""

import json
from pathlib import Path

import pytest

from ruler_data.names import config_file
from ruler_data.parquet import read_rows
from ruler_data.tokenizers import PromptTokenizer
from ruler_data.tokenizers.registry import load_folder
from tests.commands import succeeded
from tests.conftest import Cli, made_once, of_all_workers
from tests.running.server import Say


@pytest.fixture(scope="session")
def frozen(tmp_path_factory: pytest.TempPathFactory, cli: Cli, tiny: Path) -> Path:
    """20 rows of vt and of fwe at 2,048 tokens of the tiny tokenizer; not to be changed."""
    command = (
        "build", "--tokenizer", tiny, "--sources-kind", "sample", "--tasks", "vt,fwe", "--lengths",
        2048, "--rows", 20, "--counter", "tokenizers",
    )  # fmt: skip
    return made_once(
        of_all_workers(tmp_path_factory) / "frozen",
        lambda out: succeeded(cli(*command, "--out", out)),
    )


@pytest.fixture(scope="session")
def tokenizer(tiny: Path) -> PromptTokenizer:
    return load_folder(tiny, "tiny")


@pytest.fixture(scope="session")
def golden(frozen: Path, tokenizer: PromptTokenizer) -> Say:
    """Say the golden answer of the row whose very ids, or very turn, were sent."""
    known = {}
    for row in read_rows(frozen / config_file("vt_2048")):
        turn = row.context + row.question
        known[json.dumps(tokenizer.prompt_ids(turn, row.answer_prefix))] = row.outputs
        known[turn] = row.outputs
    return lambda body: ", ".join(
        known[
            json.dumps(body["prompt"]) if "prompt" in body else str(body["messages"][0]["content"])
        ]
    )
