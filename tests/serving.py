"""Servers in tests: in a thread, and ended with the block, also when an assertion fails in it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socketserver import BaseServer
from threading import Thread
from typing import TypeVar

Server = TypeVar("Server", bound=BaseServer)


@contextmanager
def serving(server: Server, end: Callable[[], object] = lambda: None) -> Iterator[Server]:
    """Serve while the block lasts; `end` lets go of what its handlers wait for."""
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        end()
        server.shutdown()
        server.server_close()
        thread.join()
