"""Files: atomic writes, hashes, and the user's cache."""

import errno
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import platformdirs

from ruler_data.errors import RulerError


def cached_bytes(path: Path, make: Callable[[], bytes]) -> bytes:
    """Return the bytes of a file in the user's cache; if missing or damaged, `make` returns them.

    A cache that cannot be written costs time and nothing else.
    """
    with suppress(OSError):
        digest, _, data = path.read_bytes().partition(b"\n")
        if digest == hashlib.sha256(data).hexdigest().encode():
            return data
    data = make()
    with suppress(RulerError):
        write_bytes(path, hashlib.sha256(data).hexdigest().encode() + b"\n" + data)
    return data


def sha256_file(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_file(path: Path, text: str) -> None:
    """Write a text file atomically; see `write_bytes`."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically: after a crash it is the old one or the new one, never half.

    Raises:
        RulerError: it cannot be written.
    """
    with replacing(path, lambda: f"it needs {len(data):,} bytes; ") as file:
        file.write(data)


@contextmanager
def replacing(path: Path, need: Callable[[], str]) -> Iterator[BinaryIO]:
    """Yield a file that takes the place of `path` once it is written and on the disk.

    Raises:
        RulerError: it cannot be written; `need` says how much space it needs, for a full disk.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise unwritable(path, error, need()) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def unwritable(path: Path, error: OSError, need: str = "") -> RulerError:
    """Return the error for a failed write; only a full disk or quota asks for space.

    Args:
        path: the file.
        error: of the system.
        need: how much space the file needs, for a full disk.
    """
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    remedy = f"{need}free space" if full else "make it writable, or choose another place"
    problem = f"{error.strerror or error}; {remedy}, and run the same command again to resume"
    return RulerError(str(path), "cannot be written", problem)


def try_writing(folder: Path) -> None:
    """Raise OSError if a folder, which need not exist, cannot take files; leave no trace."""
    while not folder.exists():
        folder = folder.parent
    with tempfile.NamedTemporaryFile(dir=folder):
        pass


def sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def cache_dir(*names: str) -> Path:
    """Return a folder in the user's cache (RULER_CACHE); losing it costs time and nothing else."""
    folder = os.environ.get("RULER_CACHE")
    return (Path(folder) if folder else _default_cache()).joinpath(*names)


def _default_cache() -> Path:
    with suppress(RuntimeError, KeyError):
        root = platformdirs.user_cache_path("ruler-data")
        if root.is_absolute():
            return root
    # Without a home folder, platformdirs raises, or in older releases returns a path with `~`.
    return Path(tempfile.gettempdir()) / f"ruler-data-{os.getuid()}"


def hash_files(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """Return the sha256 of those of the named files that exist."""
    return {name: sha256_file(folder / name) for name in names if (folder / name).is_file()}
