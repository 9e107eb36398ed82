"""Files that are whole or absent, and their hashes.

Where the package keeps things between runs: one folder, named by RULER_CACHE.

Pinned downloads: what arrives is what was named, or it is refused.

Hashes of a tokenizer's files, and copies of them kept by hash.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import platformdirs

from ruler_data.errors import RulerError


def sha256_file(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_file(path: Path, text: str) -> None:
    """Write a text file atomically; see `write_bytes`."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically: it is the old one or the new one, never half.

    Raises:
        RulerError: it cannot be written.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        msg = (
            f"{path}: cannot be written: {error.strerror or error}; it needs {len(data):,} bytes; "
            "free space and run it again to resume"
        )
        raise RulerError(msg) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make a rename in a folder last through a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def cache_dir(*parts: str) -> Path:
    """Return a folder in the user's cache; nothing in it is needed, all of it saves time."""
    own = os.environ.get("RULER_CACHE")
    return (Path(own) if own else _users()).joinpath(*parts)


def _users() -> Path:
    with suppress(RuntimeError, KeyError):
        root = platformdirs.user_cache_path("ruler-data")
        if root.is_absolute():
            return root
    # Who has no home folder. Releases of platformdirs say so, or return what begins with `~`.
    return Path(tempfile.gettempdir()) / f"ruler-data-{os.getuid()}"


#: Seconds without an answer after which a host counts as unreachable.
TIMEOUT = 10


class Unreachable(RulerError):
    """The address did not answer; another may."""


def offline() -> bool:
    """Whether the user has turned downloads off (RULER_OFFLINE or HF_HUB_OFFLINE)."""
    return any(os.environ.get(name, "0") not in ("", "0") for name in _SWITCHES)


_SWITCHES = ("RULER_OFFLINE", "HF_HUB_OFFLINE")


def download(
    url: str,
    sha256: str | None,
    folder: Path,
    *,
    name: str | None = None,
    unzip: list[str] | None = None,
) -> Path:
    """Return a downloaded file, from the folder if it is there already with the right hash.

    Args:
        url: its address.
        sha256: its hash; None only where the caller checks what was unpacked.
        folder: where to keep it.
        name: of the file there; None for the address's last part.
        unzip: members to unpack beside it.

    Raises:
        Unreachable: no answer, or downloads are off.
        RulerError: the hash differs.
    """
    if offline():
        msg = f"{url}: downloads are off (RULER_OFFLINE or HF_HUB_OFFLINE is set)"
        raise Unreachable(msg)
    import pooch
    import requests

    pooch.get_logger().setLevel("ERROR")
    name = name or url.rsplit("/", 1)[-1]
    try:
        pooch.retrieve(
            url,
            known_hash=f"sha256:{sha256}" if sha256 else None,
            path=folder,
            fname=name,
            downloader=pooch.HTTPDownloader(timeout=TIMEOUT, progressbar=False),
            processor=pooch.Unzip(members=unzip, extract_dir=".") if unzip else None,
        )
    except ValueError as error:  # how pooch says that the hash differs
        found = str(error).split("(")[-1].split(")")[0]
        msg = f"{url}: refused: sha256 expected {sha256}, found {found}"
        raise RulerError(msg) from error
    except (requests.RequestException, OSError) as error:
        msg = f"{url}: cannot be downloaded ({type(error).__name__})"
        raise Unreachable(msg) from error
    return folder / name


def hash_files(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """Return the sha256 of those of the named files that exist."""
    return {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in names
        if (folder / name).is_file()
    }


def keep_copy(folder: Path, files: dict[str, str], place: Path) -> None:
    """Copy a tokenizer's files to `place`, so that `verify` finds it by its fingerprint.

    A copy that cannot be made is no error: it only spares the user an option later.
    """
    if place.exists():
        return
    partial = place.with_name(place.name + ".partial")
    try:
        partial.mkdir(parents=True, exist_ok=True)
        for name in files:
            shutil.copyfile(folder / name, partial / name)
        partial.rename(place)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)
