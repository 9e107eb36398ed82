"""Jobs on worker processes: no hang when one is killed, none left behind when we are."""

import fcntl
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from typing import Any, NoReturn, TypeVar

from ruler_data.errors import RulerError
from ruler_data.terminal import block_sigint_in_children

J = TypeVar("J")
R = TypeVar("R")

#: Called with a job's name and the rows that were finished since the last call.
Progress = Callable[[str, int], None]

#: Seconds between two reports of progress: to tell of a short row takes as long as to make it.
PACE = 0.1

#: What a worker is told when it begins: where to tell of rows, and whose it is.
_to_parent: "Connection[Any, Any] | None" = None
_parent = 0


def run_jobs(
    work: Callable[[J, Progress], R],
    jobs: Sequence[J],
    workers: int,
    progress: Progress,
    held: Path | None = None,
    here: Callable[[J, Progress], R] | None = None,
) -> Iterator[R]:
    """Yield the results of the jobs, run on `workers` processes, ours among them.

    Ours has at hand what the others open first, and would only take up memory otherwise.

    Args:
        work: does a job in another process; it, jobs and results must pickle.
        jobs: what to do, the longest first, so that no process is left with one at the end.
        workers: processes.
        progress: told of rows now and then while they are finished.
        held: a file that the others have a shared lock on for as long as they live, so that
            whoever follows us, if we are killed, can wait for the last of them.
        here: does a job in this process; by default what `work` does.

    Raises:
        RulerError: a worker died, e.g. for want of memory; or what a job raised.
    """
    here = here or work
    if workers <= 1 or len(jobs) <= 1:
        for job in jobs:
            yield _paced(here, job, progress)
        return
    others = {child.pid for child in multiprocessing.active_children()}
    context = multiprocessing.get_context("spawn")
    # Messages are so short that the kernel writes each at once, so workers share it unlocked; and
    # what was told is in it before the result of the job is.
    told, tell = context.Pipe(duplex=False)
    children = min(workers, len(jobs)) - 1
    pool = ProcessPoolExecutor(
        children, context, initializer=_enter, initargs=(tell, os.getpid(), held)
    )
    todo, pending = deque(jobs), set[Future[R]]()

    def hand_out() -> None:
        """Give each other process a job, and one ahead, but leave us the last."""
        while todo and sum(not future.done() for future in pending) < children + (len(todo) > 1):
            with block_sigint_in_children():
                pending.add(pool.submit(_run, work, todo.popleft()))

    def advance(name: str, rows: int) -> None:
        """See to the others meanwhile: none waits or has failed until our own job is done."""
        for future in pending:
            if future.done():
                future.result()  # raises what the job raised
        hand_out()
        _drain(told, progress)
        progress(name, rows)

    try:
        while todo or pending:
            hand_out()
            if todo:
                yield _paced(here, todo.popleft(), advance)
            done, _ = wait(pending, 0 if todo else 0.1, return_when=FIRST_COMPLETED)
            _drain(told, progress)
            for future in done:
                pending.remove(future)
                yield future.result()
    except BrokenProcessPool as error:
        msg = (
            "a worker process died; was it out of memory? use fewer --workers; what is finished "
            "is kept, run it again to go on"
        )
        raise RulerError(msg) from error
    finally:
        for child in multiprocessing.active_children():
            if child.pid not in others:
                child.terminate()
        pool.shutdown(wait=True, cancel_futures=True)
        told.close()
        tell.close()


def _enter(tell: "Connection[Any, Any]", parent: int, held: Path | None) -> None:
    """Prepare a worker: Ctrl-C is the parent's to handle, and the parent's end is ours."""
    global _to_parent, _parent
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _to_parent, _parent = tell, parent
    if held is not None:
        fcntl.flock(os.open(held, os.O_RDWR | os.O_CREAT), fcntl.LOCK_SH)  # until we end
    _end_with_parent()  # only now: whoever finds the parent dead also finds our lock
    Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    _end()  # without asking: for a moment yet the number of our parent is the old one


def _end_with_parent() -> None:
    """End at once if the parent was killed: nobody waits for this work."""
    if os.getppid() != _parent:
        _end()


def _end() -> NoReturn:
    sys.stderr.close()
    os._exit(1)


def _run(work: Callable[[J, Progress], R], job: J) -> R:
    return _paced(work, job, _report)


def _paced(work: Callable[[J, Progress], R], job: J, tell: Progress) -> R:
    """Do a job and tell of its rows now and then, and of the rest once it is done."""
    untold: Counter[str] = Counter()
    due = 0.0

    def told(name: str, rows: int) -> None:
        nonlocal due
        untold[name] += rows
        if time.monotonic() >= due:
            tell_all()
            due = time.monotonic() + PACE

    def tell_all() -> None:
        while untold:
            tell(*untold.popitem())

    result = work(job, told)
    tell_all()
    return result


def _report(name: str, rows: int) -> None:
    _end_with_parent()
    if _to_parent is not None:
        _to_parent.send((name, rows))


def _drain(told: "Connection[Any, Any]", progress: Progress) -> None:
    while told.poll():
        progress(*told.recv())
