"""Ctrl-C at a terminal, which every process of the command gets, those of vLLM's too."""

import os
import signal
from pathlib import Path

import pytest

from tests.builds import until
from tests.commands import finish, started
from tests.conftest import Cli
from tests.engines.conftest import CPU, ENV
from tests.running.processes import whole_lines

#: The engine holds 256 at once, and they end together: the signal comes while many others wait.
ROWS = 700


@pytest.fixture
def many(tmp_path: Path, cli: Cli, model: Path) -> Path:
    """More rows than are answered before a signal arrives."""
    done = cli(
        "build", "--tokenizer", model, "--sources", "sample", "--tasks", "fwe", "--lengths",
        "512", "--rows", ROWS, "--out", tmp_path / "data",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return tmp_path / "data"


def test_ctrl_c_ends_vllm_and_its_processes(model: Path, many: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = ("run", "--data", many, "--model", model, "--engine", "vllm", "--out", out, *CPU)
    env = {**ENV, "VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    with started("ruler-eval", *command, env=env) as process:
        until(lambda: whole_lines(out), process)
        os.killpg(process.pid, signal.SIGINT)
        done = finish(process)
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    assert "ruler-eval: stopped; run the same command again to resume" in done.stderr.splitlines()
    assert 0 < whole_lines(out) < ROWS
