"""Jobs on worker processes: a killed worker ends the build, a killed build ends its workers."""

import multiprocessing
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import TypeVar

from ruler_data import memory
from ruler_data.errors import RulerError
from ruler_data.terminal import block_sigint_in_children, raise_if_interrupted, warn

J = TypeVar("J")
R = TypeVar("R")

#: Called with a config's name and the rows that were finished since the last call.
Progress = Callable[[str, int], None]

#: Seconds between two looks at whether the build was interrupted.
LOOK_EVERY = 0.1


def silent(*_: object) -> None:
    """Show neither progress nor warnings."""


#: Tokens of rows that are worth a process of their own: it loads tokenizer and sources anew.
TOKENS_PER_PROCESS = 1 << 24


def processes(workers: int, tokens: int, longest: int) -> int:
    """Return the number of processes that build rows.

    They share the memory that this process may use, so they are fewer where it is little.

    Args:
        workers: as the user says; 0: as many as cores and the work are worth.
        tokens: of all rows.
        longest: tokens of the longest row.

    >>> processes(2, tokens=1, longest=4096), processes(0, tokens=1, longest=4096)
    (2, 1)
    """
    count = workers or max(1, min(os.cpu_count() or 1, tokens // TOKENS_PER_PROCESS))
    most = memory.most_workers(longest)
    if most is None or count <= most:
        return count
    if workers:
        warn(f"--workers {workers}: {most} are used, {memory.shared(longest)}")
    return most


def run_jobs(
    work: Callable[[J, Progress], R],
    jobs: Sequence[J],
    workers: int,
    progress: Progress,
    in_process: Callable[[J, Progress], R] | None = None,
) -> Iterator[R]:
    """Yield the results of the jobs as they end, run in this process or on several workers.

    Args:
        work: does a job in another process; it, jobs and results must pickle.
        jobs: the longest first, so that no long job runs alone at the end.
        workers: number of processes; with 1, or one job, this process does the work.
        progress: called by each job here, and for a job of a worker once it is done.
        in_process: does a job in this process; by default what `work` does.

    Raises:
        RulerError: a worker died, e.g. for lack of memory; or what a job raised.
    """
    count = min(workers, len(jobs))
    if count > 1:
        yield from _run_on_workers(work, jobs, count, progress)
        return
    for job in jobs:
        yield (in_process or work)(job, progress)


def _run_on_workers(
    work: Callable[[J, Progress], R], jobs: Sequence[J], count: int, progress: Progress
) -> Iterator[R]:
    """Yield the results of jobs on so many workers as they end; see `run_jobs`."""
    children_before = {child.pid for child in multiprocessing.active_children()}
    context = multiprocessing.get_context("spawn")
    share = memory.limit()
    if share is not None:
        share //= count
    pool = ProcessPoolExecutor(count, context, initializer=_enter, initargs=(share,))
    children = list[BaseProcess]()
    try:
        with block_sigint_in_children():
            pending = {pool.submit(_run_in_worker, work, job) for job in jobs}
        children = multiprocessing.active_children()
        while pending:
            done, pending = wait(pending, LOOK_EVERY, return_when=FIRST_COMPLETED)
            raise_if_interrupted()
            for future in done:
                result, rows_by_config = future.result()
                for name, rows in rows_by_config.items():
                    progress(name, rows)
                yield result
    except BrokenProcessPool as error:
        raise RulerError(
            "a worker process died, possibly out of memory; use fewer --workers; finished configs "
            "are kept: run the same command again to resume"
        ) from error
    finally:
        for child in children or multiprocessing.active_children():
            if child.pid not in children_before:
                child.terminate()
        pool.shutdown(wait=True, cancel_futures=True)


def _enter(share: int | None) -> None:
    """Prepare a worker: the parent handles Ctrl-C, and the worker ends when the parent does.

    `share` is how many bytes of memory it may use, None for any number.
    """
    if share is not None:
        memory.limit_to(share)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End at once if the parent is killed: nobody waits for this work."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    sys.stderr.close()
    os._exit(1)


def _run_in_worker(work: Callable[[J, Progress], R], job: J) -> tuple[R, Counter[str]]:
    """Do a job in a worker; return its result and the rows of each config that it reported."""
    rows_by_config = Counter[str]()

    def count(name: str, rows: int) -> None:
        rows_by_config[name] += rows

    try:
        return work(job, count), rows_by_config
    except BaseException as error:  # what a library raises may not pickle
        reason = memory.failure(error)
        if not reason:
            raise
        raise RulerError(f"a worker {reason}") from None
