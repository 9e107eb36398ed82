"""A build spread over workers."""

import multiprocessing
import time
from pathlib import Path

import pytest

from tests.builds import Asked
from tests.conftest import Cli


@pytest.fixture(scope="module")
def small(tiny: Path) -> Asked:
    """A build of eight configs."""
    tasks = ("--tasks", "vt,fwe,niah_single_2,qa_2", "--lengths", "1280,2048", "--rows", 3)
    return ("build", *tasks, "--sources-kind", "sample", "--tokenizer", tiny)


@pytest.mark.slow
def test_workers_end_and_other_processes_go_on(small: Asked, cli: Cli, tmp_path: Path) -> None:
    other = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,))
    other.start()
    before = set(multiprocessing.active_children())
    done = cli(*small, "--tasks", "vt,fwe", "--workers", 2, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert set(multiprocessing.active_children()) == before
    other.kill()
    other.join()
