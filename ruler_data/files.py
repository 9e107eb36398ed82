"""Files: bounded reads of regular files, atomic writes, hashes, and the user's cache.

Anybody may have written what is read, so a file is measured first, and only a regular one is read.
What is written follows no link.
"""

import errno
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import platformdirs

from ruler_data.errors import RulerError, UsageError
from ruler_data.names import quote

#: Most bytes of a file of JSON, of a line in a file of lines, and of other text.
JSON_BYTES = 1 << 26
LINE_BYTES = 1 << 26
TEXT_BYTES = 1 << 28
#: Most bytes of a file that is downloaded, by the end of its name; others have their own measure.
DOWNLOADED = {".json": JSON_BYTES, ".jinja": JSON_BYTES, ".md": JSON_BYTES, ".model": TEXT_BYTES}
#: Most values in one JSON text, of which each takes up to 300 bytes in memory.
VALUES = 4_000_000


def open_file(path: Path, limit: int | None = None, where: object = None) -> BinaryIO:
    """Open a regular file for reading; links are followed, since the Hub's cache is made of them.

    A pipe or a device may never end, so it is refused.

    Args:
        path: of the file.
        limit: most bytes; None if the caller reads a bounded number of bytes at a time.
        where: names the file in errors; None for its path.

    Raises:
        RulerError: it is something else, or larger.
        OSError: it cannot be opened.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(handle)
    fault = ""
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        fault = "is not a regular file"
    elif limit is not None and status.st_size > limit:
        fault = too_large(status.st_size, limit)
    if fault:
        os.close(handle)
        raise RulerError(where or quote(str(path), 200), fault)
    return os.fdopen(handle, "rb")  # IsADirectoryError for a folder


def read_bytes(path: Path, limit: int = TEXT_BYTES, where: object = None) -> bytes:
    """Return a file's bytes, if they are at most `limit`; see `open_file`."""
    with open_file(path, limit, where) as file:
        data = file.read(limit + 1)
    if len(data) > limit:  # it has grown
        raise RulerError(where or quote(str(path), 200), too_large(len(data), limit))
    return data


def too_large(size: int, limit: int) -> str:
    """Return what is wrong with a file or a line of more bytes than `limit`."""
    return f"holds {size:,} bytes, and at most {limit:,} are read"


def read_text(path: Path, limit: int = TEXT_BYTES, where: object = None) -> str:
    """Return a file's text, as `Path.read_text` does; see `read_bytes`."""
    text = read_bytes(path, limit, where).decode("utf-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_json(path: Path, limit: int = JSON_BYTES, where: object = None) -> Any:  # noqa: ANN401
    """Return what a file of JSON holds; see `read_bytes` and `parse_json`."""
    return parse_json(read_bytes(path, limit, where))


def parse_json(data: bytes | str) -> Any:  # noqa: ANN401 - any value
    """Return what a JSON text holds.

    Raises:
        ValueError: it is not JSON, or holds too many values or levels.
    """
    if isinstance(data, bytes):
        values = data.count(b",") + data.count(b":")
    else:
        values = data.count(",") + data.count(":")
    if values > VALUES:
        raise ValueError(f"it holds up to {values:,} values, and at most {VALUES:,} are read")
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def read_lines(path: Path, limit: int = LINE_BYTES) -> Iterator[bytes]:
    """Yield the lines of a file; see `open_file`.

    Raises:
        RulerError: a line is longer than `limit` bytes.
    """
    with open_file(path) as file:
        number = 1
        while line := file.readline(limit + 1):
            if len(line) > limit:
                where = f"{path.name} line {number}"
                raise RulerError(where, f"holds more than {limit:,} bytes")
            yield line
            number += 1


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
    """Return the sha256 of a regular file; see `open_file`."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


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
        with create_file(partial) as file:
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


def create_file(path: Path) -> BinaryIO:
    """Open a file for writing, emptied; a link is not followed (OSError)."""
    return _opened_to_write(path, os.O_TRUNC)


def append_file(path: Path) -> BinaryIO:
    """Open a file for appending; a link is not followed (OSError)."""
    return _opened_to_write(path, os.O_APPEND)


def _opened_to_write(path: Path, mode: int) -> BinaryIO:
    # A pipe without a reader is an error at once, and does not wait for one.
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    handle = os.open(path, flags | mode, 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    if mode == os.O_APPEND:
        return os.fdopen(handle, "ab")
    return os.fdopen(handle, "wb")


def unwritable(path: Path, error: OSError, need: str = "") -> RulerError:
    """Return the error for a failed write; only a full disk or quota asks for space.

    Args:
        path: the file.
        error: of the system.
        need: how much space the file needs, for a full disk.
    """
    remedy = "make it writable, or choose another place"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        remedy = f"{need}free space"
    problem = f"{error.strerror or error}; {remedy}, and run the same command again to resume"
    return RulerError(str(path), "cannot be written", problem)


def refuse_links(out: Path) -> None:
    """Raise UsageError if a folder in `out` is a link: what is written stays in `out`."""
    for path in sorted(out.glob("*")):
        if path.is_symlink() and path.is_dir():
            raise UsageError(
                f"--out {quote(str(out), 200)}: {quote(path.name)} in it is a link to another "
                "folder, and nothing is written through links; remove the link"
            )


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
    if folder := os.environ.get("RULER_CACHE"):
        return Path(folder, *names)
    return _default_cache().joinpath(*names)


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
