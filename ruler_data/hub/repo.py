"""What a dataset repo of the Hub holds, and whether it holds a file to be."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ruler_data.hub.client import client
from ruler_data.hub.retry import patiently

if TYPE_CHECKING:
    from huggingface_hub import RepoFile

#: The branch that releases are committed to.
BRANCH = "main"
#: What a replica that lags behind says of a new commit.
UNKNOWN = 404


@dataclass(frozen=True)
class PushFile:
    """A file to be.

    Attributes:
        path: in the repo.
        size: in bytes.
        sha256: by which the Hub knows large files.
        source: returns its bytes or where they lie; asked only where it is to be sent.
    """

    path: str
    size: int
    sha256: str
    source: Callable[[], Path | bytes]

    @classmethod
    def of_bytes(cls, path: str, data: bytes) -> "PushFile":
        """Return a file of these bytes."""
        return cls(path, len(data), hashlib.sha256(data).hexdigest(), lambda: data)

    def read(self) -> bytes:
        """Return its bytes."""
        data = self.source()
        return data if isinstance(data, bytes) else data.read_bytes()

    @cached_property
    def git_oid(self) -> str:
        """The hash by which git, and the Hub, know small files."""
        data = self.read()
        return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()

    def is_held(self, held: "RepoFile | None") -> bool:
        """Whether the Hub holds exactly these bytes."""
        if held is None or held.size != self.size:
            return False
        return held.lfs.sha256 == self.sha256 if held.lfs else held.blob_id == self.git_oid


def head(repo: str) -> str | None:
    """Return the commit at the head of a dataset repo, or None if there is no such repo."""
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    def look() -> str | None:
        try:
            return str(client().dataset_info(repo, revision=BRANCH).sha)
        except GatedRepoError:
            raise
        except RepositoryNotFoundError:
            return None

    return patiently(repo, look)


def tree(repo: str, commit: str, kind: str = "dataset") -> dict[str, "RepoFile"]:
    """Return the files of a repo at a commit, by path."""
    from huggingface_hub import RepoFile

    def look() -> dict[str, RepoFile]:
        entries = client().list_repo_tree(repo, recursive=True, revision=commit, repo_type=kind)
        return {entry.path: entry for entry in entries if isinstance(entry, RepoFile)}

    return patiently(f"{repo} at {commit}", look, also={UNKNOWN})


def tags(repo: str) -> dict[str, str]:
    """Return the tags of a dataset repo with their commits."""
    refs = patiently(repo, lambda: client().list_repo_refs(repo, repo_type="dataset"))
    return {tag.name: tag.target_commit for tag in refs.tags}


def changed(before: Mapping[str, "RepoFile"], now: Mapping[str, "RepoFile"]) -> list[str]:
    """Return the paths that hold other bytes now, or none."""
    return [
        path
        for path, entry in before.items()
        if path not in now or now[path].blob_id != entry.blob_id
    ]


def missing(files: Iterable[PushFile], held: Mapping[str, "RepoFile"]) -> list[PushFile]:
    """Return the files that a repo does not hold with these bytes."""
    return [file for file in files if not file.is_held(held.get(file.path))]
