"""Ctrl-C is for us alone: a terminal sends it to every process that we have begun, too."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from threading import Event, Thread


@contextmanager
def unheard_by_children() -> Iterator[None]:
    """Keep Ctrl-C from the processes begun meanwhile; they end in order when their parent does.

    A process inherits which signals the thread that began it does not take. While this one takes
    none, another hears in its place, and this one obeys as soon as it is back in Python: a call
    that waits is not cut short.
    """
    resource_tracker.ensure_running()  # as it begins, it would have this thread take them again
    over = Event()
    Thread(target=over.wait, daemon=True, name="interrupts").start()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        over.set()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
