"""Which commit a name is: asked of the Hub once, or else known from what its cache noted.

A few files of a model on the Hub: from its cache, or from the Hub at a revision.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from ruler_data.errors import RulerError
from ruler_data.files import offline
from ruler_data.hub.client import client
from ruler_data.hub.retry import HubDown, with_retries
from ruler_data.manifest import FILENAME
from ruler_data.terminal import warn

_COMMIT = re.compile(r"[0-9a-f]{40}")
#: How releases are tagged; other names are branches, which are meant to move.
_TAG = re.compile(r"v(\d+\.\d+\.\d+)")


def commit_of(repo: str, revision: str) -> str:
    """Return the commit that a revision is, from the Hub, or else from its cache.

    Raises:
        RulerError: it is not known, or a tag is another commit than the cache noted.
    """
    if _COMMIT.fullmatch(revision):
        return revision
    noted = noted_commit(repo, revision)
    doing = f"{repo} at {revision}"
    if offline():
        reason = "downloads are off"
    else:
        try:
            info = with_retries(doing, lambda: client().dataset_info(repo, revision=revision))
        except HubDown as error:
            reason = str(error).removeprefix(f"{doing}: ")
        else:
            if noted is not None and noted != info.sha and released_version(revision):
                raise moved(repo, revision, noted, str(info.sha))
            return str(info.sha)
    if noted is None:
        msg = f"{doing}: {reason}, and the cache does not know which commit it is"
        raise RulerError(msg)
    warn(f"{doing}: {reason}; taken from the cache, where it is commit {noted}")
    return noted


def noted_commit(repo: str, revision: str) -> str | None:
    """Return the commit that the Hub's cache noted for a revision when it was last downloaded."""
    from huggingface_hub import try_to_load_from_cache

    path = try_to_load_from_cache(repo, FILENAME, revision=revision, repo_type="dataset")
    return Path(path).parent.name if isinstance(path, str) else None


def released_version(revision: str) -> str | None:
    """Return the version that a revision is the tag of, or None if it is another name.

    >>> released_version("v1.0.0")
    '1.0.0'
    """
    match = _TAG.fullmatch(revision)
    return match[1] if match else None


def moved(repo: str, revision: str, before: str, now: str) -> RulerError:
    """Return the error that a name is another commit than before."""
    return RulerError(
        f"{repo}: {revision} was commit {before} and is {now} now; a release never moves, so "
        "somebody changed it: ask for the commit that you mean"
    )


def fetch_files(
    repo: str, files: Sequence[str], revision: str | None, *, allow_download: bool = True
) -> tuple[Path, str]:
    """Return the folder that holds files of a model, and the commit that they are of.

    What the cache holds is not asked for again; only the first file must exist.

    Raises:
        RulerError: why they cannot be had.
    """
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    reason = "it is not whole in the Hub's cache, and downloads are off"
    if allow_download and not _is_reachable():
        allow_download = False
        reason = "it is not whole in the Hub's cache, and the Hub cannot be reached"
    for local in (True, False) if allow_download else (True,):
        try:
            return _fetch(repo, files, revision, local)
        except GatedRepoError:
            reason = "it is gated: accept its licence on the Hub and log in with a token"
        except RepositoryNotFoundError:
            reason = "the Hub knows no such repo, or your token may not see it"
        except LocalEntryNotFoundError:  # a kind of the next, but of the cache
            if not local:
                reason = "the Hub cannot be reached"
        except EntryNotFoundError:
            reason = f"its repo holds no {files[0]}"
        except Exception as error:  # the client's own errors share no base class
            if not local:
                reason = f"the Hub cannot be reached ({type(error).__name__})"
    raise RulerError(reason)


def _is_reachable() -> bool:
    """Whether the Hub answers at all; its client retries for half a minute to find out."""
    import requests
    from huggingface_hub.constants import ENDPOINT, HF_HUB_OFFLINE

    if HF_HUB_OFFLINE:
        return False
    try:
        requests.head(ENDPOINT, timeout=10)
    except requests.RequestException:
        return False
    return True


def _fetch(
    repo: str, files: Sequence[str], revision: str | None, offline: bool
) -> tuple[Path, str]:
    """Return the folder and the commit of the files.

    File by file: listing a repo retries for half a minute where there is no network.
    """
    from huggingface_hub import _CACHED_NO_EXIST, hf_hub_download, try_to_load_from_cache
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    folder: Path | None = None
    for file in files:
        try:
            path = hf_hub_download(
                repo, file, revision=revision, local_files_only=offline, etag_timeout=10
            )
        except LocalEntryNotFoundError:
            # Not cached: the repo has no such file only if the cache has noted that.
            noted = try_to_load_from_cache(repo, file, revision=revision)
            if file == files[0] or noted is not _CACHED_NO_EXIST:
                raise
        except EntryNotFoundError:
            if file == files[0]:
                raise
        else:
            folder = Path(path).parent
            revision = folder.name  # the rest from the same commit
    assert folder is not None
    return folder, folder.name
