"""A build that is killed, stopped or disturbed: nothing torn, nothing lost, the same bytes."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builds import (
    FIRST,
    Asked,
    assert_nothing_torn,
    assert_same,
    members,
    run,
    started,
    until,
    workers_of,
)
from tests.commands import Process, finish, kill_group, one_line, succeeded

pytestmark = pytest.mark.slow


def kill_parent(process: Process) -> None:
    """Kill the builder only; its workers must notice."""
    process.kill()


@pytest.mark.parametrize(
    ("workers", "kill", "moment"),
    [
        (1, kill_group, f"{FIRST}/*"), (1, kill_group, "README.md"),
        (1, kill_group, "manifest.json"), (2, kill_group, "*/test-*.parquet"),
        (1, kill_parent, f"{FIRST}/*"), (2, kill_parent, f"{FIRST}/*"),
    ],
)  # fmt: skip
def test_a_build_killed_when_a_file_appears_goes_on_to_the_same_bytes(
    asked: Asked,
    tmp_path: Path,
    expected: dict[str, bytes],
    workers: int,
    kill: Callable[[Process], None],
    moment: str,
) -> None:
    out = tmp_path / "out"
    order = (*asked, "--out", out, "--workers", workers)
    with started(*order) as process:
        until(lambda: any(out.glob(moment)), process)
        kill(process)
        assert any(out.glob(moment))
        assert_nothing_torn(out, expected)
        until(lambda: not members(process.pid))
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
        until(lambda: not members(process.pid))
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
        until(lambda: not members(process.pid))
    assert "worker process died" in line
    assert_nothing_torn(out, expected)
    succeeded(run(*order))
    assert_same(out, expected)
