"""A build spread over workers or a Ray cluster: the same bytes again."""

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.builds import Asked, snapshot
from tests.conftest import Cli

pytest.importorskip("ray", reason="the extra `ray` is not installed")


@pytest.fixture(scope="module")
def small(tiny: Path) -> Asked:
    """A build of eight configs."""
    tasks = ("--tasks", "vt,fwe,niah_single_2,qa_2", "--lengths", "1280,2048", "--rows", 3)
    return ("build", *tasks, "--sources-kind", "sample", "--tokenizer", tiny)


@pytest.fixture(scope="module")
def alone(small: Asked, tmp_path_factory: pytest.TempPathFactory, cli: Cli) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("alone") / "out"
    done = cli(*small, "--out", folder)
    assert done.returncode == 0, done.stderr
    return snapshot(folder)


@pytest.mark.slow
def test_workers_end_and_other_processes_of_the_caller_go_on(
    small: Asked, cli: Cli, tmp_path: Path
) -> None:
    other = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,))
    other.start()
    before = set(multiprocessing.active_children())
    done = cli(*small, "--tasks", "vt,fwe", "--workers", 2, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert set(multiprocessing.active_children()) == before
    other.kill()
    other.join()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment that leads to a Ray cluster, which runs apart from the build."""
    pytest.importorskip("ray", reason="Ray is not installed")
    ray = [sys.executable, "-m", "ray.scripts.scripts"]
    place = tmp_path_factory.mktemp("r")
    start = ["start", "--head", "--num-cpus=2", "--port=0", "--include-dashboard=false"]
    secret = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4}
    quiet = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
        "text": True,
        "env": {**os.environ, **secret},
    }
    said = subprocess.run([*ray, *start, f"--temp-dir={place}"], check=False, **quiet)  # type: ignore[call-overload]
    assert said.returncode == 0, said.stdout
    # Clusters of other tests are named above it.
    address = re.search(r"ray start --address='([^']+)'", said.stdout)
    assert address, said.stdout
    yield {**secret, "RAY_ADDRESS": address[1]}
    end_all(str(place))


def end_all(place: str) -> None:
    """End a cluster by the folder that its processes name; `ray stop` would end every cluster."""
    for entry in Path("/proc").iterdir():
        with suppress(OSError):  # no process, or it has just ended
            if entry.name.isdigit() and place.encode() in (entry / "cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)


@pytest.mark.slow
def test_a_ray_cluster_without_our_files_gives_the_same_folder(
    small: Asked, alone: dict[str, bytes], cluster: dict[str, str], tmp_path: Path, cli: Cli
) -> None:
    done = cli(*small, "--out", tmp_path, "--engine", "ray", env=cluster)
    assert done.returncode == 0, done.stderr
    assert snapshot(tmp_path) == alone


@pytest.mark.slow
def test_ray_carries_real_sources_and_tokenizers_along(
    cluster: dict[str, str], shared: Path, tmp_path: Path, cli: Cli
) -> None:
    command = (
        "build", "--tokenizer", shared / "tokenizers" / "llama3", "--sources", shared / "sources",
        "--tasks", "niah_single_2,qa_1", "--rows", 2,
    )  # fmt: skip
    local = cli(*command, "--out", tmp_path / "local")
    spread = cli(*command, "--out", tmp_path / "ray", "--engine", "ray", env=cluster)
    assert local.returncode == spread.returncode == 0, spread.stderr
    assert snapshot(tmp_path / "local") == snapshot(tmp_path / "ray")
