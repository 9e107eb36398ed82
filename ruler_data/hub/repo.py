"""Repos of the Hub: what they hold, upload of files in one commit, and tags that never move.

Every step first reads the state of the Hub and then does what is missing, so repeating it after a
lost response, a race or a crash has the same effect as doing it once.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from huggingface_hub import (
    CommitOperationAdd,
    CommitOperationDelete,
    DatasetInfo,
    RepoFile,
    get_session,
)
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError
from huggingface_hub.utils import hf_raise_for_status  # type: ignore[attr-defined] # documented

from ruler_data.errors import RulerError
from ruler_data.hub.client import (
    NO_TOKEN,
    HubDown,
    client,
    one_line,
    token,
    with_retries,
)
from ruler_data.network import offline

#: The branch that releases are committed to.
BRANCH = "main"
# Statuses after which a step looks again:
#: a replica lags behind,
UNKNOWN = 404
#: another commit came first,
MOVED = 412
#: it exists already.
EXISTS = 409


@dataclass(frozen=True)
class Entry:
    """A path of a listing, of a folder or of a commit.

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

    def is_same(self, file: "PushFile") -> bool:
        """Whether a file that was made has these bytes."""
        if self.kind or self.bytes != file.size:
            return False
        if self.sha256:
            return self.sha256 == file.sha256
        return self.git_hash == file.git_oid

    def __str__(self) -> str:
        if self.sha256:
            return f"{self.bytes:,} bytes, sha256 {self.sha256}"
        return f"{self.bytes:,} bytes, git's hash {self.git_hash}"


#: Files of a commit by path.
Tree = Mapping[str, Entry]


@dataclass(frozen=True)
class PushFile:
    """A file to upload.

    Attributes:
        path: in the repo.
        size: in bytes.
        sha256: by which the Hub identifies large files.
        source: returns its bytes or their path; called only if it has to be sent.
    """

    path: str
    size: int
    sha256: str
    source: Callable[[], Path | bytes] = field(compare=False)

    @classmethod
    def of_bytes(cls, path: str, data: bytes) -> "PushFile":
        """Return a file with these bytes."""
        return cls(path, len(data), hashlib.sha256(data).hexdigest(), lambda: data)

    def read(self) -> bytes:
        """Return its bytes."""
        data = self.source()
        if isinstance(data, Path):
            return data.read_bytes()
        return data

    def addition(self) -> CommitOperationAdd:
        """Return it as an operation of a commit."""
        return CommitOperationAdd(self.path, self.source())

    @cached_property
    def git_oid(self) -> str:
        """The hash by which git and the Hub identify small files."""
        data = self.read()
        return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def head(repo: str) -> DatasetInfo | None:
    """Return the newest commit (`sha`) of a dataset repo, or None if there is no such repo."""

    def look() -> DatasetInfo | None:
        try:
            return client().dataset_info(repo, revision=BRANCH)
        except GatedRepoError:
            raise
        except RepositoryNotFoundError:
            return None

    return with_retries(repo, look)


def tree(repo: str, commit: str) -> dict[str, Entry]:
    """Return the files of a repo at a commit, by path."""

    def look() -> dict[str, Entry]:
        files = dict[str, Entry]()
        for item in client().list_repo_tree(
            repo, recursive=True, revision=commit, repo_type="dataset"
        ):
            if not isinstance(item, RepoFile):
                continue
            files[item.path] = Entry(item.size, git_hash=item.blob_id)
            if item.lfs:
                files[item.path] = Entry(item.size, sha256=item.lfs.sha256)
        return files

    return with_retries(f"{repo} at {commit}", look, also={UNKNOWN})


def tags(repo: str) -> dict[str, str]:
    """Return the tags of a dataset repo with their commits."""
    refs = with_retries(repo, lambda: client().list_repo_refs(repo, repo_type="dataset"))
    return {tag.name: tag.target_commit for tag in refs.tags}


def missing(files: Iterable[PushFile], remote: Tree) -> list[PushFile]:
    """Return the files that a repo does not hold with these bytes."""
    return [file for file in files if not remote.get(file.path, Entry()).is_same(file)]


def check_token(repos: Iterable[str], tell: Callable[[str], None]) -> str:
    """Check the token's role before anything else; return what remains unknown.

    Raises:
        RulerError: the token may only read, or the Hub does not accept it.
    """
    if offline():
        raise HubDown("downloads are off")
    if token() is None:  # of a dry run
        return NO_TOKEN
    if resource := os.environ.get("HF_OIDC_RESOURCE"):  # a token of an hour for one repo
        tell(f"note: the token is of a trusted publisher of {resource}; its role was not checked")
        return ""
    account: Mapping[str, Any] = with_retries("the token", client().whoami)
    access = (account.get("auth") or {}).get("accessToken") or {}
    if access.get("role") == "read":
        raise RulerError("the token can only read; use one with write access")
    name = account.get("name")
    members = {name, *(org.get("name") for org in account.get("orgs") or ())}
    for repo in repos:
        owner = repo.partition("/")[0]
        if owner not in members:
            return (
                f"the token is of {name}, who is not seen to belong to {owner}, so whether it may "
                "write is not known"
            )
    return ""


def check_card(repo: str, text: str) -> None:
    """Let the Hub check the metadata of a card (`/api/validate-yaml`); nothing is written.

    Raises:
        RulerError: the Hub refuses it; with the Hub's message.
    """
    where = f"{repo}: README.md"

    def ask() -> None:
        # Of the library, version 1 asks huggingface.co, whatever HF_ENDPOINT is.
        card = {"repoType": "dataset", "content": text}
        response = get_session().post(f"{client().endpoint}/api/validate-yaml", json=card)
        if response.status_code == 400:
            raise RulerError(where, f"the Hub refuses the files: {one_line(response.text)}")
        hf_raise_for_status(response)
        response.json()  # another answer is not of the Hub

    with_retries(where, ask)


def ensure_repo(repo: str, *, private: bool = False) -> None:
    """Create a dataset repo if there is none."""
    with_retries(
        f"{repo}: create",
        lambda: client().create_repo(repo, repo_type="dataset", private=private, exist_ok=True),
    )


def put_files(
    repo: str,
    files: Sequence[PushFile] | Callable[[str], Sequence[PushFile]],
    message: str,
    *,
    remove: Callable[[Tree], Iterable[str]] = lambda _: (),
) -> tuple[str, list[str]]:
    """Upload files to a repo in one commit, unless it holds them already.

    Other people's commits in between are kept.

    Args:
        repo: id of a repo that exists.
        files: to upload, or returns them for the commit that they will follow; those that the
            repo holds already are not sent.
        message: of the commit.
        remove: selects which of the repo's files to delete.

    Returns:
        the commit that holds the files, and the paths that were sent or removed.

    Raises:
        RulerError: the Hub refuses, or cannot be reached.
    """
    doing = f"{repo}: commit"
    # Kept between attempts: they remember what is uploaded.
    additions = dict[PushFile, CommitOperationAdd]()

    def settle() -> tuple[str, list[str]]:
        info = client().dataset_info(repo, revision=BRANCH)
        commit = str(info.sha)
        remote = tree(repo, commit)
        required = files(commit) if callable(files) else files
        new = missing(required, remote)
        gone = sorted(set(remove(remote)) & remote.keys())
        if not new and not gone:
            return commit, sorted(file.path for file in required if file in additions)
        operations = list[CommitOperationAdd | CommitOperationDelete]()
        for file in new:
            if file not in additions:
                additions[file] = file.addition()
            operations.append(additions[file])
        operations += map(CommitOperationDelete, gone)
        done = client().create_commit(
            repo,
            operations=operations,
            commit_message=message,
            repo_type="dataset",
            revision=BRANCH,
            parent_commit=commit,
        )
        return done.oid, [*(file.path for file in new), *gone]

    with_retries(doing, lambda: client().dataset_info(repo))  # 404: no such repo
    return with_retries(doing, settle, also={MOVED, EXISTS, UNKNOWN})


def put_tag(repo: str, tag: str, commit: str) -> None:
    """Put a tag on a commit and read it back; a tag that exists is never moved.

    Raises:
        RulerError: the tag is on another commit, or the Hub refuses.
    """

    def settle() -> None:
        target = tags(repo).get(tag)
        if target is None:
            client().create_tag(repo, tag=tag, revision=commit, repo_type="dataset")
            target = tags(repo).get(tag)
        if target is None:  # a replica that lags behind
            raise TimeoutError(tag)
        if target != commit:
            raise RulerError(
                repo,
                f"tag {tag} is on commit {target}, not on {commit}; a tag is never moved, so "
                "release this as another version",
            )

    with_retries(f"{repo}: tag {tag}", settle, also={EXISTS})
