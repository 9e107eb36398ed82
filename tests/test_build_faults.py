"""A build that is killed, stopped or disturbed: nothing torn, nothing lost, the same bytes."""

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.builds import (
    FIRST,
    Asked,
    assert_nothing_torn,
    assert_same,
    members,
    run,
    snapshot,
    started,
    until,
    workers_of,
)
from tests.commands import Process, finish, kill_group, one_line, spawn, succeeded

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def undisturbed(
    asked: Asked, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, bytes], float]:
    """Every file of an undisturbed build, and the seconds that it took."""
    folder = tmp_path_factory.mktemp("undisturbed") / "out"
    start = time.monotonic()
    succeeded(spawn("ruler-data", "build", *asked, "--out", folder))
    return snapshot(folder), time.monotonic() - start


@pytest.fixture
def expected(undisturbed: tuple[dict[str, bytes], float]) -> dict[str, bytes]:
    return undisturbed[0]


def kill_parent(process: Process) -> None:
    """Kill the builder only; its workers must notice."""
    process.kill()


def assert_all_gone(*groups: int) -> None:
    """Wait until no process of these groups is left; one that stays is a failure."""
    until(lambda: not any(members(group) for group in groups))


@pytest.mark.parametrize(
    ("workers", "kill"),
    [(1, kill_group), (2, kill_group), (2, kill_parent)],
    ids=["alone", "with its worker", "without its worker"],
)
def test_a_build_killed_at_random_moments_goes_on_to_the_same_bytes(
    asked: Asked,
    tmp_path: Path,
    undisturbed: tuple[dict[str, bytes], float],
    workers: int,
    kill: Callable[[Process], None],
) -> None:
    expected, seconds = undisturbed
    order = (*asked, "--out", tmp_path / "out", "--workers", workers)
    rng = random.Random(f"{workers} {kill.__name__}")
    with ExitStack() as orphans:
        groups = []
        for _ in range(2):
            process = orphans.enter_context(started(*order))
            groups.append(process.pid)
            time.sleep(rng.uniform(0.3, 1.0) * seconds * workers)
            kill(process)
            process.wait()
            assert_nothing_torn(tmp_path / "out", expected)
        succeeded(run(*order))
        assert_all_gone(*groups)
    assert_same(tmp_path / "out", expected)


@pytest.mark.parametrize(
    ("workers", "moment"),
    [
        (1, f"{FIRST}/*"), (1, "README.md"), (1, "manifest.json"), (2, "*/test-*.parquet"),
    ],
)  # fmt: skip
def test_a_build_killed_when_a_file_appears_goes_on_to_the_same_bytes(
    asked: Asked, tmp_path: Path, expected: dict[str, bytes], workers: int, moment: str
) -> None:
    out = tmp_path / "out"
    order = (*asked, "--out", out, "--workers", workers)
    with started(*order) as process:
        until(lambda: any(out.glob(moment)), process)
        kill_group(process)
    assert any(out.glob(moment))
    assert_nothing_torn(out, expected)
    succeeded(run(*order))
    assert_same(out, expected)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"]
)
def test_a_stopped_build_says_so_leaves_no_process_and_goes_on(
    asked: Asked, tmp_path: Path, expected: dict[str, bytes], number: int, code: int, workers: int
) -> None:
    out = tmp_path / "out"
    order = (*asked, "--out", out, "--workers", workers)
    with started(*order) as process:
        until(lambda: any(out.glob(f"{FIRST}/*")), process)
        # A terminal sends Ctrl-C to all; a cluster sends SIGTERM to the builder.
        (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
        line = one_line(finish(process), code)
        assert_all_gone(process.pid)
    assert "run the same command again" in line
    assert not (out / "manifest.json").exists()
    assert_nothing_torn(out, expected)
    succeeded(run(*order))
    assert_same(out, expected)


def test_a_killed_worker_is_told(asked: Asked, tmp_path: Path, expected: dict[str, bytes]) -> None:
    out = tmp_path / "out"
    order = (*asked, "--out", out, "--workers", 2)
    with started(*order) as process:
        until(lambda: any(out.glob(f"{FIRST}/*")), process)
        os.kill(workers_of(process)[0], signal.SIGKILL)
        line = one_line(finish(process), code=1)
        assert_all_gone(process.pid)
    assert "worker process died" in line
    assert_nothing_torn(out, expected)
    succeeded(run(*order))
    assert_same(out, expected)
