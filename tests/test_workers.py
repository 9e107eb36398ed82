"""Jobs on several processes, the one that hands them out among them."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ruler_builders.pipeline.pool import Progress, run_jobs
from ruler_data.errors import RulerError
from tests.builds import until, workers_of
from tests.commands import kill_group


def who(_job: int, _progress: Progress) -> int:
    time.sleep(0.2)
    return os.getpid()


def fail(job: int, _progress: Progress) -> int:
    msg = f"job {job} cannot be done"
    raise RulerError(msg)


def many(job: int, progress: Progress) -> int:
    for _ in range(5000):
        progress(f"config {job}", 1)
    return job


def nothing(_name: str, _rows: int) -> None:
    """Tell nobody."""


@pytest.mark.parametrize("size", [2, 3])
def test_as_many_jobs_as_processes_are_one_for_each(size: int) -> None:
    found = list(run_jobs(who, range(size), size, nothing))
    assert len(set(found)) == size and os.getpid() in found


def test_every_job_is_done_once_whoever_does_it() -> None:
    ours: list[int] = []

    def here(job: int, _progress: Progress) -> int:
        ours.append(job)
        return -1

    found = list(run_jobs(who, range(9), 2, nothing, here=here))
    assert len(found) == 9 and found.count(-1) == len(ours) == len(set(ours)) > 0


@pytest.mark.parametrize("workers", [1, 2])
def test_every_row_is_told_of_though_not_each_by_itself(workers: int) -> None:
    told: list[tuple[str, int]] = []
    list(run_jobs(many, range(4), workers, lambda name, rows: told.append((name, rows))))
    for job in range(4):
        assert sum(rows for name, rows in told if name == f"config {job}") == 5000
    assert len(told) < 1000


def test_a_job_that_fails_elsewhere_ends_our_own_at_its_next_report() -> None:
    rows = 0

    def ours(_job: int, progress: Progress) -> int:
        nonlocal rows
        while rows < 600:
            time.sleep(0.1)
            rows += 1
            progress("config", 1)
        return 0

    with pytest.raises(RulerError, match="job 0 cannot be done"):
        list(run_jobs(fail, range(2), 2, nothing, here=ours))
    assert rows < 600


#: A process whose workers have done their jobs and wait for more, while its own takes long.
WAITING = """
import pathlib, time
from ruler_builders.pipeline.pool import run_jobs

begun = pathlib.Path(__file__).with_name("begun")

def quick(job, progress):
    while not begun.exists():
        time.sleep(0.02)

def slow(job, progress):
    begun.touch()
    print("at work", flush=True)
    time.sleep(600)

if __name__ == "__main__":
    list(run_jobs(quick, range(6), 6, print, here=slow))
"""


@pytest.mark.slow
def test_workers_that_wait_for_work_end_with_a_killed_parent(tmp_path: Path) -> None:
    script = tmp_path / "waiting.py"
    script.write_text(WAITING, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        until(lambda: len(workers_of(process)) == 5, process)
        assert process.stdout and process.stdout.readline() == "at work\n"
        time.sleep(1)  # they have begun to watch
        process.kill()
        process.wait()
        until(lambda: not workers_of(process))
    finally:
        kill_group(process)
        process.communicate()
