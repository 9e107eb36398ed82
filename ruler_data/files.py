"""Files: atomic writes, hashes, the user's cache, and downloads pinned by their hash."""

import errno
import fcntl
import hashlib
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from http import HTTPStatus
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
    what = f"{error.strerror or error}; {remedy}, and run the same command again to resume"
    return RulerError(str(path), "cannot be written", what)


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


def cache_dir(*parts: str) -> Path:
    """Return a folder in the user's cache (RULER_CACHE); losing it costs time and nothing else."""
    folder = os.environ.get("RULER_CACHE")
    return (Path(folder) if folder else _default_cache()).joinpath(*parts)


def _default_cache() -> Path:
    with suppress(RuntimeError, KeyError):
        root = platformdirs.user_cache_path("ruler-data")
        if root.is_absolute():
            return root
    # Without a home folder, platformdirs raises, or in older releases returns a path with `~`.
    return Path(tempfile.gettempdir()) / f"ruler-data-{os.getuid()}"


#: Seconds without a byte after which a host counts as unreachable.
TIMEOUT = 10
#: Attempts of a download that a host answers with a temporary error.
ATTEMPTS = 3
#: Statuses that another attempt may not get.
TEMPORARY = frozenset({408, 425, 429, 500, 502, 503, 504})


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a response asks to wait, or None if it does not ask.

    >>> retry_after({"Retry-After": "120"}), retry_after({"ratelimit": '"api";r=0;t=55'})
    (120.0, 55.0)
    >>> retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"})  # in the past
    0.0
    """
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    after = lower.get("retry-after", "")
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", after, re.ASCII):
        return float(after)
    with suppress(ValueError, OverflowError):
        return max(parsedate_to_datetime(after).timestamp() - time.time(), 0.0)
    used_up = re.search(r";\s*r=0;\s*t=([0-9]{1,9})", lower.get("ratelimit", ""))
    return float(used_up[1]) if used_up else None


class Unreachable(RulerError):
    """The address did not answer; a mirror may."""


def offline() -> bool:
    """Whether the user has turned downloads off (RULER_OFFLINE or HF_HUB_OFFLINE)."""
    switches = ("RULER_OFFLINE", "HF_HUB_OFFLINE")
    return any(os.environ.get(name, "0") not in ("", "0") for name in switches)


def download(url: str, sha256: str | None, folder: Path, *, name: str | None = None) -> Path:
    """Return a downloaded file; one in the folder with the right hash is not downloaded again.

    What was received before a break stays in a file `.part`: the next attempt, or the same command
    again, asks for the rest. A host that cannot be connected to is not tried again, so that a
    machine without network does not wait.

    Args:
        url: its address.
        sha256: its hash; None only if the caller checks what is in it.
        folder: to keep it in.
        name: of the file there; None for the last part of the address.

    Raises:
        Unreachable: no answer, or downloads are off.
        RulerError: the hash differs, or the file cannot be written.
    """
    import requests
    from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

    path = folder / (name or url.rsplit("/", 1)[-1])
    where = re.sub("//[^/@]*@", "//", url)  # without the password of a mirror
    if path.is_file() and sha256 in (None, sha256_file(path)):
        return path
    if offline():
        raise Unreachable(where, "downloads are off (RULER_OFFLINE or HF_HUB_OFFLINE is set)")
    partial = path.with_name(f"{path.name}.part")
    retrying = Retrying(
        retry=retry_if_exception(_is_temporary),
        wait=wait_exponential(),
        stop=stop_after_attempt(ATTEMPTS),
        reraise=True,
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with partial.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # of two downloads, the second finds the file
            if path.is_file() and sha256 in (None, sha256_file(path)):
                return path
            retrying(_receive, url, file)
            actual = sha256_file(partial)
            if sha256 not in (None, actual):
                file.truncate(0)
                what = f"refused: sha256 expected {sha256}, found {actual}"
                raise RulerError(where, what)
            partial.replace(path)
    except requests.RequestException as error:
        raise Unreachable(where, f"cannot be downloaded ({type(error).__name__})") from error
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        with suppress(OSError):
            if not partial.stat().st_size:
                partial.unlink()
    return path


def _receive(url: str, file: BinaryIO) -> None:
    """Append to a file what it lacks."""
    import requests

    from ruler_data.terminal import transfer

    done = file.seek(0, os.SEEK_END)
    headers = {"Range": f"bytes={done}-", "Accept-Encoding": "identity"} if done else {}
    with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as reply:
        if reply.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:  # of another file
            file.truncate(0)
            raise requests.exceptions.ChunkedEncodingError(url)
        reply.raise_for_status()
        if reply.status_code != HTTPStatus.PARTIAL_CONTENT:
            file.truncate(0)
            done = 0
        total = done + int(reply.headers.get("Content-Length", 0))
        with transfer(url.rsplit("/", 1)[-1], total) as advance:
            advance(done)
            for chunk in reply.iter_content(1 << 16):
                file.write(chunk)
                advance(len(chunk))
    file.flush()


def _is_temporary(error: BaseException) -> bool:
    """Whether a host that was reached may answer the next request."""
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return error.response.status_code in TEMPORARY
    return isinstance(error, (requests.exceptions.ChunkedEncodingError, requests.ReadTimeout))


def hash_files(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """Return the sha256 of those of the named files that exist."""
    return {name: sha256_file(folder / name) for name in names if (folder / name).is_file()}
