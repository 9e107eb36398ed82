"""Revisions of repos: which commit a name is, and single files of a model at a revision.

Both come from the Hub, or without network from its cache.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from ruler_data.errors import RulerError
from ruler_data.files import offline
from ruler_data.hub.retry import HubDown, client, explain, is_reachable, with_retries
from ruler_data.manifest import FILENAME
from ruler_data.terminal import warn

_COMMIT = re.compile(r"[0-9a-f]{40}")
#: Tag of a release; other names are branches, which may move.
_TAG = re.compile(r"v(\d+\.\d+\.\d+)")


def commit_of(repo: str, revision: str) -> str:
    """Return the commit of a revision, from the Hub or else from its cache.

    Raises:
        RulerError: it is unknown, or the tag of a release has moved since it was cached.
    """
    if _COMMIT.fullmatch(revision):
        return revision
    cached = cached_commit(repo, revision)
    doing = f"{repo} at {revision}"
    if offline():
        reason = "downloads are off"
    else:
        try:
            info = with_retries(doing, lambda: client().dataset_info(repo, revision=revision))
        except HubDown as error:
            reason = str(error).removeprefix(f"{doing}: ")
        else:
            if cached is not None and cached != info.sha and released_version(revision):
                raise moved(repo, revision, cached, str(info.sha))
            return str(info.sha)
    if cached is None:
        raise RulerError(doing, f"{reason}, and the cache does not know which commit it is")
    warn(f"{doing}: {reason}; taken from the cache, where it is commit {cached}")
    return cached


def cached_commit(repo: str, revision: str) -> str | None:
    """Return the commit that a revision had when it was last downloaded; None if never."""
    from huggingface_hub import try_to_load_from_cache

    path = try_to_load_from_cache(repo, FILENAME, revision=revision, repo_type="dataset")
    return Path(path).parent.name if isinstance(path, str) else None


def released_version(revision: str) -> str | None:
    """Return the version of a release's tag, or None for any other revision.

    >>> released_version("v1.0.0")
    '1.0.0'
    """
    match = _TAG.fullmatch(revision)
    return match[1] if match else None


def moved(repo: str, revision: str, before: str, now: str) -> RulerError:
    """Return the error for a revision that is another commit than before."""
    return RulerError(
        f"{repo}: {revision} was commit {before} and is {now} now; a release must not move; "
        "it was changed after publication: give the commit that you want as the revision"
    )


def fetch_files(
    repo: str, files: Sequence[str], revision: str | None, *, allow_download: bool = True
) -> tuple[Path, str]:
    """Return the folder that holds files of a model, and the commit that they are of.

    Cached files are not requested again; only the first file must exist.

    Raises:
        RulerError: they are not available; with the reason.
    """
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    reason = "it is not complete in the Hub's cache, and "
    reason += "the Hub cannot be reached" if allow_download else "downloads are off"
    for local in (True, False) if allow_download and is_reachable() else (True,):
        try:
            return _fetch(repo, files, revision, local)
        except LocalEntryNotFoundError:  # a subclass of the next, about the cache
            if not local:
                reason = "the Hub cannot be reached"
        except EntryNotFoundError:
            reason = f"its repo holds no {files[0]}"
        except Exception as error:  # the client's own errors share no base class
            reason = str(explain(error, "the Hub"))
    raise RulerError(reason)


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
            # The cache also records that a repo does not have a file.
            cached = try_to_load_from_cache(repo, file, revision=revision)
            if file == files[0] or cached is not _CACHED_NO_EXIST:
                raise
        except EntryNotFoundError:
            if file == files[0]:
                raise
        else:
            folder = Path(path).parent
            revision = folder.name  # take the rest from the same commit
    assert folder is not None
    return folder, folder.name
