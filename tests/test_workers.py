"""Jobs on several processes."""

import os
import subprocess
import sys
import time
from collections import Counter
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
    for _ in range(50):
        progress(f"config {job}", 1)
    return job


def nothing(_name: str, _rows: int) -> None:
    """Tell nobody."""


def test_every_job_is_done_once_in_other_processes_or_with_one_worker_here() -> None:
    found = list(run_jobs(who, range(6), 2, nothing))
    assert len(found) == 6 and os.getpid() not in found
    assert list(run_jobs(who, range(2), 1, nothing)) == [os.getpid()] * 2


@pytest.mark.parametrize("workers", [1, 2])
def test_every_row_is_reported(workers: int) -> None:
    reported = Counter[str]()
    list(run_jobs(many, range(4), workers, lambda name, rows: reported.update({name: rows})))
    assert reported == {f"config {job}": 50 for job in range(4)}


def test_a_job_that_fails_ends_all() -> None:
    with pytest.raises(RulerError, match=r"job [01] cannot be done"):
        list(run_jobs(fail, range(2), 2, nothing))


#: A process whose workers take long.
WAITING = """
import time
from ruler_builders.pipeline.pool import run_jobs

def work(job, progress):
    progress("a config", 1)
    time.sleep(600 * job)

if __name__ == "__main__":
    list(run_jobs(work, range(4), 3, lambda *_: print("at work", flush=True)))
"""


@pytest.mark.slow
def test_workers_end_with_a_killed_parent(tmp_path: Path) -> None:
    script = tmp_path / "waiting.py"
    script.write_text(WAITING, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        until(lambda: len(workers_of(process)) == 3, process)
        assert process.stdout and process.stdout.readline() == "at work\n"
        time.sleep(1)  # they have begun to watch
        process.kill()
        process.wait()
        until(lambda: not workers_of(process))
    finally:
        kill_group(process)
        process.communicate()
