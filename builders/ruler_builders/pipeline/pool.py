"""Jobs on worker processes: a killed worker ends the build, a killed build ends its workers."""

import gc
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any, TypeVar

from ruler_data.errors import RulerError
from ruler_data.terminal import block_sigint_in_children

J = TypeVar("J")
R = TypeVar("R")

#: Called with a config's name and the rows that were finished since the last call.
Progress = Callable[[str, int], None]

#: Seconds between two reports of progress: reporting a short row takes as long as making it.
REPORT_EVERY = 0.1

#: In a worker: the pipe to report rows to.
_to_parent: "Connection[Any, Any] | None" = None


def silent(*_: object) -> None:
    """Show neither progress nor warnings."""


@contextmanager
def no_cycles() -> Iterator[None]:
    """Do not look for cycles of objects: rows hold none, and it takes a sixth of a build."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def run_jobs(
    work: Callable[[J, Progress], R],
    jobs: Sequence[J],
    workers: int,
    progress: Progress,
    here: Callable[[J, Progress], R] | None = None,
) -> Iterator[R]:
    """Yield the results of the jobs as they end, run in this process or on several workers.

    Args:
        work: does a job in another process; it, jobs and results must pickle.
        jobs: the longest first, so that no process has a long one left at the end.
        workers: number of processes; with 1, or one job, this process does the work.
        progress: called a few times a second.
        here: does a job in this process; by default what `work` does.

    Raises:
        RulerError: a worker died, e.g. for lack of memory; or what a job raised.
    """
    if workers <= 1 or len(jobs) <= 1:
        for job in jobs:
            yield _throttled(here or work, job, progress)
        return
    others = {child.pid for child in multiprocessing.active_children()}
    context = multiprocessing.get_context("spawn")
    # Messages are so short that the kernel writes each atomically, so workers share the pipe
    # without a lock; and a worker's reports are in it before the result of its job is.
    receiver, sender = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(
        min(workers, len(jobs)), context, initializer=_enter, initargs=(sender,)
    )
    try:
        with block_sigint_in_children():
            pending = {pool.submit(_throttled, work, job, _report) for job in jobs}
        while pending:
            done, pending = wait(pending, REPORT_EVERY, return_when=FIRST_COMPLETED)
            while receiver.poll():
                progress(*receiver.recv())
            for future in done:
                yield future.result()
    except BrokenProcessPool as error:
        msg = (
            "a worker process died, possibly out of memory; use fewer --workers; finished configs "
            "are kept: run the same command again to resume"
        )
        raise RulerError(msg) from error
    finally:
        for child in multiprocessing.active_children():
            if child.pid not in others:
                child.terminate()
        pool.shutdown(wait=True, cancel_futures=True)
        receiver.close()
        sender.close()


def _enter(sender: "Connection[Any, Any]") -> None:
    """Prepare a worker: the parent handles Ctrl-C, and the worker ends when the parent does."""
    global _to_parent
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _to_parent = sender
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End at once if the parent is killed: nobody waits for this work."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    sys.stderr.close()
    os._exit(1)


def _throttled(work: Callable[[J, Progress], R], job: J, report: Progress) -> R:
    """Do a job; report its rows every `REPORT_EVERY` seconds, and the rest once it is done."""
    unreported: Counter[str] = Counter()
    due = 0.0

    def count(name: str, rows: int) -> None:
        nonlocal due
        unreported[name] += rows
        if time.monotonic() >= due:
            report_all()
            due = time.monotonic() + REPORT_EVERY

    def report_all() -> None:
        while unreported:
            report(*unreported.popitem())

    result = work(job, count)
    report_all()
    return result


def _report(name: str, rows: int) -> None:
    assert _to_parent is not None  # `_enter` has set it
    _to_parent.send((name, rows))
