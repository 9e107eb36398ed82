"""Kill what a test run leaves behind, however it ends: interrupted, killed, or a worker of xdist.

Each pytest process puts a value of its own into the environment, which every process that its tests
start inherits. A watcher in a session of its own holds the end of a pipe that closes when pytest
ends, and then kills the processes that have the value. It needs Linux's /proc; elsewhere it finds
nothing.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

#: The variable; runs within runs are separated by colons, so that each finds those within it.
NAME = "RULER_TEST_RUN"
#: Seconds that processes have to end by themselves when pytest ends, and then to die.
GRACE, PATIENCE = 0.5, 20


#: Kept, so that their pipes close when this process ends and not before.
_watchers: list["subprocess.Popen[bytes]"] = []


def watch() -> str:
    """Start a watcher of this process; return the value to put into the environment."""
    mark = f"{os.environ.get(NAME, '')}:{uuid4().hex}"
    command = [sys.executable, "-I", "-S", __file__, mark]
    _watchers.append(subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True))
    return mark


def marked(mark: str) -> list[int]:
    """Return the processes, other than this one, that have a value in their environment."""
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            if mark.encode() in (entry / "environ").read_bytes():
                pids.append(int(entry.name))
    return [pid for pid in pids if pid != os.getpid()]


def main(mark: str) -> None:
    """Wait for the end of pytest, then kill what it left."""
    sys.stdin.buffer.read()
    time.sleep(GRACE)
    deadline = time.monotonic() + PATIENCE
    while (pids := marked(mark)) and time.monotonic() < deadline:
        for pid in pids:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


if __name__ == "__main__":
    main(sys.argv[1])
