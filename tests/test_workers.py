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
