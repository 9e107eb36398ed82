"""A tiny model and rows frozen in its tokenizer, shared by all tests of runs."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ruler_data.names import config_file
from ruler_data.parquet import read_rows
from ruler_data.tokenizers import PromptTokenizer
from ruler_data.tokenizers.registry import load_folder
from ruler_eval.running import transport
from tests.commands import Done, succeeded
from tests.conftest import Cli, made_once, of_all_workers
from tests.running.processes import evaluate
from tests.running.server import FakeServer, Say

#: What the fixture `ask` gives.
Ask = Callable[..., Done]


@pytest.fixture(scope="session")
def frozen(tmp_path_factory: pytest.TempPathFactory, cli: Cli, tiny: Path) -> Path:
    """20 rows of vt and of fwe at 2,048 tokens of the tiny tokenizer; not to be changed."""
    command = (
        "build", "--tokenizer", tiny, "--sources", "sample", "--tasks", "vt,fwe", "--lengths",
        2048, "--rows", 20,
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
        known[json.dumps(tokenizer.prompt_ids(turn, row.answer_prefix).tolist())] = row.outputs
        known[turn] = row.outputs
    return lambda body: ", ".join(
        known[
            json.dumps(body["prompt"]) if "prompt" in body else str(body["messages"][0]["content"])
        ]
    )


@pytest.fixture
def server(golden: Say, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    """A server that gives the golden answers, and needs no long pauses between tries."""
    monkeypatch.setattr(transport, "PAUSE", 0.3)
    with FakeServer(golden) as server:
        yield server


def asked_of(
    data: Path, url: str, out: Path, *more: object, concurrency: int = 3, patience: float = 20
) -> tuple[object, ...]:
    """Return a run of 12 rows of a server, some at once."""
    return (
        "run", "--data", data, "--model", "m", "--engine", "openai", "--base-url", url, "--tasks",
        "vt", "--rows", 12, "--out", out, *more, "--option", f"concurrency={concurrency}",
        "--option", f"patience={patience}",
    )  # fmt: skip


@pytest.fixture
def ask(frozen: Path, server: FakeServer, tmp_path: Path) -> Ask:
    """Run 12 rows of that server, to its end."""

    def ask(*more: object, out: Path = tmp_path, **how: Any) -> Done:  # noqa: ANN401
        return evaluate(*asked_of(frozen, server.url, out, *more, **how))

    return ask
