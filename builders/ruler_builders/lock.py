"""Who may work in a folder: one build of the whole, or shares of a build side by side.

Locks are files in `.build/` that the kernel lets go of when their holder dies.
"""

import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from ruler_builders.folder import Folder
from ruler_data.errors import RulerError
from ruler_data.files import write_file
from ruler_data.names import quote

#: Name of the lock on everything; shares of a build have names of their own.
WHOLE = "whole"
#: Seconds in which workers whose build was killed notice it, with much to spare.
ORPHANS_END = 60


@contextmanager
def locked(folder: Folder, share: str = WHOLE) -> Iterator[None]:
    """Hold a folder, or one share of a build in it.

    Shares of one build work side by side; the whole folder is held alone.

    Raises:
        UsageError: the folder cannot be written, is a file, or holds other things.
        RulerError: another build holds it.
    """
    folder.prepare()
    lock = _acquire(folder, _lock_path(folder, share))
    owner = folder.state / f"{share}.owner"
    try:
        _meet_nobody(folder, share)
        write_file(owner, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
        if share == WHOLE:  # so what is half written was left by the dead
            for left in (*folder.path.glob("*.partial"), *folder.path.glob("*/*.partial")):
                left.unlink()
        yield
    finally:
        owner.unlink(missing_ok=True)
        if folder.manifest_path.exists():
            shutil.rmtree(folder.state, ignore_errors=True)
        lock.release()


def workers_lock(folder: Folder, share: str) -> Path:
    """Return the file that each worker of a share holds while it lives."""
    return folder.state / f"{share}.workers"


def _lock_path(folder: Folder, share: str) -> Path:
    return folder.state / f"{share}.lock"


def _meet_nobody(folder: Folder, share: str) -> None:
    """See that nobody holds what this share must have alone; wait for workers of the dead.

    Raises:
        RulerError: somebody does.
    """
    others = folder.state.glob("*.lock") if share == WHOLE else [_lock_path(folder, WHOLE)]
    for other in others:
        if other.stem != share and other.exists():
            _acquire(folder, other).release()
    pattern = "*.workers" if share == WHOLE else workers_lock(folder, share).name
    for left in folder.state.glob(pattern):  # a killed build's, about to notice
        _acquire(folder, left, timeout=ORPHANS_END).release()


def _acquire(folder: Folder, path: Path, timeout: float = 0) -> FileLock:
    lock = FileLock(path)
    try:
        lock.acquire(timeout=timeout)
    except Timeout as error:
        owner = _owner(path.with_suffix(".owner"))
        where = quote(str(folder.path), 200)
        msg = f"{where}: another build is at work here ({owner}); wait for it"
        raise RulerError(msg) from error
    return lock


def _owner(path: Path) -> str:
    try:
        who = json.loads(path.read_text(encoding="utf-8"))
        return f"process {who['pid']} on {who['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "an unknown process"
