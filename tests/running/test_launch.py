"""Several processes on one machine: each with GPUs of its own, none left behind, each resumable."""

import os
import re
import signal
from pathlib import Path

import pytest

from tests.builds import members, until
from tests.commands import finish, succeeded
from tests.running import processes
from tests.running.processes import all_keys, evaluate, keys, refusal, started, whole_lines

pytestmark = pytest.mark.slow


def order(data: Path, out: Path, *more: object) -> tuple[object, ...]:
    return processes.order(data, out, "--data-parallel", 2, *more)


def test_a_shard_is_split_among_the_groups(frozen: Path, tmp_path: Path) -> None:
    for shard in ("0/2", "1/2"):
        succeeded(evaluate(*order(frozen, tmp_path, "--shard", shard)))
    assert keys(tmp_path) == all_keys(frozen)
    assert len(list(tmp_path.glob("answers-?-of-4.*.jsonl"))) == 4


def test_a_killed_process_is_resumed(frozen: Path, tmp_path: Path) -> None:
    slow = order(frozen, tmp_path, "--option", "seconds=0.2")
    with started(*slow) as process:
        until(lambda: len(list(tmp_path.glob("answers-*"))) == 2, process)
        until(lambda: whole_lines(tmp_path) >= 6, process)
        victim = next(pid for pid, line in members(process.pid).items() if "--shard 1/2" in line)
        os.kill(victim, signal.SIGKILL)
        done = finish(process)
    assert done.returncode == 1
    assert "1 of 2 shards failed: shard 1/2: ended with -9" in done.stderr
    assert next(tmp_path.glob("answers-0-of-2.*")).read_bytes().count(b"\n") == 20
    done = succeeded(evaluate(*slow))
    assert keys(tmp_path) == all_keys(frozen)
    assert "40 of 40 rows answered" in done.stdout


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)]
)
def test_no_process_outlives_the_one_that_started_it(
    frozen: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with started(*order(frozen, tmp_path, "--option", "seconds=0.2")) as process:
        until(lambda: whole_lines(tmp_path) >= 2, process)
        process.send_signal(number)
        assert finish(process).returncode == code
        until(lambda: not members(process.pid))
    ends = {path.read_bytes()[-2:] for path in tmp_path.glob("answers-*")}
    assert ends <= {b"", b"}\n"}  # the slower of the two may not have begun


def test_the_reason_of_a_shard_is_told(frozen: Path, tmp_path: Path) -> None:
    message = refusal(evaluate(*order(frozen, tmp_path, "--option", "fail=3")), 1)
    # Row 3 of both configs; whether one shard has both hangs on how long the rows are.
    assert re.search("shards failed: shard .*: [12] rows could not be answered", message)


def test_fewer_gpus_than_asked_for_are_refused(frozen: Path, tmp_path: Path) -> None:
    done = evaluate(*order(frozen, tmp_path), env={"CUDA_VISIBLE_DEVICES": "3"})
    assert "needs 2, CUDA_VISIBLE_DEVICES names 1" in refusal(done)
