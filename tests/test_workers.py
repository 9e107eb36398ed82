"""Jobs on several processes, the one that hands them out among them."""

import os
import time

import pytest

from ruler_builders.parallel import Progress, run_jobs
from ruler_data.errors import RulerError


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


def test_a_job_that_fails_elsewhere_ends_our_own_at_its_next_row() -> None:
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
