"""The listing of a dataset: every path with its bytes and hash, of a folder or of a Hub commit.

    listing = folder_listing(Path("dist/llama3"))
    listing["manifest.json"].bytes, listing["manifest.json"].sha256

A folder is walked without following links, so that what lies there is listed and not what it says.
Left out are the few things that the Hub and its clients add.
"""

import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ruler_data.errors import RulerError
from ruler_data.files import read_bytes, sha256_file
from ruler_data.hub.repo import PushFile, tree
from ruler_data.index import FILENAME as INDEX
from ruler_data.index import LARGEST, Index
from ruler_data.manifest import STATE

#: What the Hub adds to a repo.
ATTRIBUTES = ".gitattributes"
#: What clients of the Hub and of git add to a folder.
CLIENTS = (ATTRIBUTES, ".git", ".cache", ".huggingface")


@dataclass(frozen=True)
class Entry:
    """A path of a listing.

    Attributes:
        bytes: size of the file.
        sha256: of the file; empty for a small file on the Hub, which lists git's hash of it.
        git_hash: of a small file on the Hub.
        kind: what it is, in words, if it is no regular file.
    """

    bytes: int = 0
    sha256: str = ""
    git_hash: str = ""
    kind: str = ""

    def is_same(self, file: PushFile) -> bool:
        """Whether the file that was made has these bytes."""
        if self.kind or self.bytes != file.size:
            return False
        if self.sha256:
            return self.sha256 == file.sha256
        return self.git_hash == file.git_oid

    def __str__(self) -> str:
        if self.sha256:
            return f"{self.bytes:,} bytes, sha256 {self.sha256}"
        return f"{self.bytes:,} bytes, git's hash {self.git_hash}"


def folder_listing(folder: Path, repos: Collection[str] = ()) -> dict[str, Entry]:
    """Return the listing of a folder; `index.json` is left out if it lists one of the repos."""
    root = folder.resolve()
    blobs = _blobs(root)
    listing = dict[str, Entry]()

    def fail(error: OSError) -> None:
        raise RulerError(folder, f"cannot be read: {error.strerror}") from error

    for place, folders, files in os.walk(root, onerror=fail):
        is_root = Path(place) == root
        for name in (*folders, *files):
            path = Path(place, name)
            entry = _entry(path, blobs)
            is_added = is_root and name in CLIENTS and (entry is None or not entry.kind)
            if entry is not None and not is_added:
                listing[path.relative_to(root).as_posix()] = entry
        if is_root:
            folders[:] = [name for name in folders if name not in CLIENTS]
    if INDEX in listing and not listing[INDEX].kind and lists(root / INDEX, repos):
        del listing[INDEX]
    return listing


def _blobs(root: Path) -> Path | None:
    """Return where the files of a snapshot in a Hub cache are; None for any other folder."""
    if root.parent.name == "snapshots" and re.fullmatch("[0-9a-f]{40}", root.name):
        return root.parents[1] / "blobs"
    return None


def _entry(path: Path, blobs: Path | None) -> Entry | None:
    """Return what lies at a path; None for a folder."""
    mode = path.lstat().st_mode
    if stat.S_ISDIR(mode):
        return None
    if stat.S_ISLNK(mode):
        target = path.resolve()
        if blobs is None or target.parent != blobs or not target.is_file():
            return Entry(kind="a symbolic link")
    elif not stat.S_ISREG(mode):
        return Entry(kind="neither a file nor a folder")
    return Entry(path.stat().st_size, sha256_file(path))


def lists(path: Path, repos: Collection[str]) -> bool:
    """Whether a file is an index of an org that names one of the repos."""
    with suppress(RulerError):
        index = Index.from_json(read_bytes(path, LARGEST, INDEX), INDEX)
        return any(sibling.repo in repos for sibling in index.siblings)
    return False


def hub_listing(repo: str, commit: str) -> dict[str, Entry]:
    """Return the listing of a commit on the Hub."""
    listing = dict[str, Entry]()
    for path, file in tree(repo, commit).items():
        if file.lfs:
            listing[path] = Entry(file.size, sha256=file.lfs.sha256)
        elif path != ATTRIBUTES:
            listing[path] = Entry(file.size, git_hash=file.blob_id)
    return listing


def differences(
    listing: Mapping[str, Entry], made: Mapping[str, PushFile]
) -> Iterator[tuple[str, str]]:
    """Yield each path that is not the same in both listings, and the difference in words."""
    for path in sorted(listing.keys() | made.keys()):
        entry = listing.get(path)
        file = made.get(path)
        if entry is None:
            yield path, "missing"
        elif entry.kind:
            yield path, f"is {entry.kind}"
        elif path.startswith(f"{STATE}/"):
            yield path, "left by an unfinished build; run the build again"
        elif file is None:
            yield path, "no build makes it"
        elif not entry.is_same(file):
            made_entry = Entry(file.size, file.sha256)
            if not entry.sha256:
                made_entry = Entry(file.size, git_hash=file.git_oid)
            yield path, f"expected {made_entry}, found {entry}"
