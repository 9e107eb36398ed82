"""Downloads: a published dataset, checked by its manifest; single files of a model.

Branches and tags can move, so a revision is resolved to a commit once, by the Hub or, without
network, from the Hub's cache. Every file is then requested by that commit.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from huggingface_hub import _CACHED_NO_EXIST, try_to_load_from_cache
from huggingface_hub.errors import (
    EntryNotFoundError,
    LocalEntryNotFoundError,
    RemoteEntryNotFoundError,
)

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import sha256_file
from ruler_data.hub.client import HubDown, at_most, client, with_retries
from ruler_data.hub.repo import tree
from ruler_data.manifest import FILENAME, ConfigInfo, FileInfo, Manifest, read_manifest_file
from ruler_data.names import (
    check_name,
    check_repo,
    check_revision,
    config_file,
    quote,
    released_version,
)
from ruler_data.network import offline
from ruler_data.terminal import warn

#: Number of parallel downloads.
AT_ONCE = 4
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Snapshot:
    """A dataset on the Hub at one commit.

    Attributes:
        repo: its id, e.g. `org/ruler`.
        revision: requested tag, branch or commit.
        commit: that the revision was resolved to.
        folder: its files in the Hub's cache; only those fetched are there.
        manifest: of that commit.
    """

    repo: str
    revision: str
    commit: str
    folder: Path
    manifest: Manifest

    def fetch(self, configs: Iterable[str] | None = None, files: Collection[str] = ()) -> Path:
        """Download configs (None for all) and other files of the manifest; return the folder.

        A file in the cache with the right hash is not downloaded again.

        Raises:
            UsageError: the release has no such config.
            RulerError: a file is not available, or its sha256 is not that of the manifest.
        """
        where = f"{self.repo} at {self.revision}"
        infos = self.manifest.configs
        entries = dict[str, ConfigInfo | FileInfo]()
        for name in files:
            if name not in self.manifest.files:
                raise RulerError(where, f"its manifest names no {quote(name)}")
            entries[check_name("file", name)] = self.manifest.files[name]
        if configs is None:
            configs = infos
        for config in configs:
            if config not in infos:
                known = ", ".join(infos)
                raise UsageError(f"{quote(config)} is not in {where}; it has {known}")
            entries[config_file(config)] = infos[config]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self._fetch_file, entries, entries.values()))
        return self.folder

    def _fetch_file(self, name: str, entry: ConfigInfo | FileInfo) -> None:
        """Download a file unless it is in the cache; one that is damaged once more."""
        fetch = partial(_download, self.repo, self.commit, name, entry.bytes)
        actual = sha256_file(fetch())
        if actual != entry.sha256:
            actual = sha256_file(fetch(again=True))
        if actual != entry.sha256:
            where = f"{self.repo} at {self.commit}"
            problem = f"refused: sha256 expected {entry.sha256}, found {actual}"
            raise RulerError(where, name, problem)


def open_release(repo: str, revision: str) -> Snapshot:
    """Return a release at a tag, branch or commit; only its manifest is downloaded.

    Raises:
        UsageError: repo or revision is not a valid name.
        RulerError: there is no such release, it is not available, or it was moved.
    """
    check_repo(repo)
    check_revision(revision)
    repo, commit = resolve(repo, revision)
    if offline() or revision == commit or cached_commit(repo, revision) == commit:
        path = _download(repo, commit, FILENAME)
    else:  # by its name, so that the cache then knows the revision's commit
        path = _download(repo, revision, FILENAME)
        if path.parent.name != commit:  # it moved in between
            raise moved(repo, revision, commit, path.parent.name)
    where = f"{repo} at {revision} ({commit}): {FILENAME}"
    try:
        manifest = read_manifest_file(path, where)
    except RulerError:
        if offline():
            raise
        # The cache would keep a damaged download for ever.
        manifest = read_manifest_file(_download(repo, commit, FILENAME, again=True), where)
    if released_version(revision) not in (None, manifest.data_version):
        problem = f"has data version {manifest.data_version}, so the tag is on another release"
        raise RulerError(where, problem)
    manifest.check(where)
    return Snapshot(repo, revision, commit, path.parent, manifest)


def fetch_file(
    repo: str, name: str, revision: str, size: int | None = None, *, again: bool = False
) -> Path | None:
    """Return a file of a dataset repo at a branch or commit; None if the repo does not have it.

    While the Hub cannot be reached, it is taken from the cache; `again` downloads it anew. No more
    than `size` bytes are downloaded.

    Raises:
        RulerError: there is no such repo, or it is not available.
    """
    try:
        return _download(repo, revision, name, size, again=again)
    except RulerError as error:
        if isinstance(error.__cause__, RemoteEntryNotFoundError):
            return None
        raise


def fetch_tables(
    repo: str, revision: str, pattern: str, suffixes: Collection[str]
) -> tuple[str, list[Path]]:
    """Return the commit of a revision of anybody's dataset, and some of its files, downloaded.

    Args:
        repo: id of the dataset.
        revision: tag, branch or commit.
        pattern: of the paths to take, as in a shell; `**/*` takes all.
        suffixes: of the files to take.

    Raises:
        UsageError: repo or revision is not a valid name.
        RulerError: there is no such repo, or it is not available.
    """
    check_repo(repo)
    check_revision(revision)
    repo, commit = resolve(repo, revision)
    glob = pattern.removeprefix("**/")
    paths = []
    for name, file in sorted(tree(repo, commit).items()):
        if name.endswith(tuple(suffixes)) and fnmatch(name, glob):
            paths.append(_download(repo, commit, name, file.bytes))
    return commit, paths


def resolve(repo: str, revision: str) -> tuple[str, str]:
    """Return the name of a repo and the commit of a revision, from the Hub or else from its cache.

    The name is today's, under which the files of a repo that was renamed are the same.

    Raises:
        RulerError: it is unknown, or the tag of a release has moved since it was cached.
    """
    doing = f"{repo} at {revision}"
    cached = cached_commit(repo, revision)
    if _COMMIT.fullmatch(revision):
        cached = revision
    reason = "downloads are off"
    if not offline():
        try:
            info = with_retries(doing, lambda: client().dataset_info(repo, revision=revision))
        except HubDown as error:
            reason = str(error).removeprefix(f"{doing}: ")
        else:
            name = str(info.id)
            commit = str(info.sha)
            if name != repo:
                warn(f"{repo} is now {name}")
                cached = cached_commit(name, revision) or cached
            if cached not in (None, commit) and released_version(revision):
                raise moved(repo, revision, str(cached), commit)
            return name, commit
    if cached is None:
        raise HubDown(doing, f"the cache does not know which commit it is, and {reason}")
    if cached != revision:
        warn(f"{doing}: {reason}; taken from the cache, where it is commit {cached}")
    return repo, cached


def cached_commit(repo: str, revision: str) -> str | None:
    """Return the commit that a revision had when it was last downloaded; None if never."""
    path = try_to_load_from_cache(repo, FILENAME, revision=revision, repo_type="dataset")
    if not isinstance(path, str):
        return None
    return Path(path).parent.name


def moved(repo: str, revision: str, before: str, now: str) -> RulerError:
    """Return the error for a revision that is another commit than before."""
    return RulerError(
        f"{repo}: {revision} was commit {before} and is {now} now; a release must not move; "
        "it was changed after publication: give the commit that you want as the revision"
    )


def _download(
    repo: str, revision: str, name: str, size: int | None = None, *, again: bool = False
) -> Path:
    """Return a file of a repo; while the Hub is down, the one in the cache.

    Args:
        repo: id of a dataset.
        revision: branch, tag or commit.
        name: of the file.
        size: bytes that it has, where that is stated; no more are downloaded.
        again: whether to download it anew.

    Raises:
        RulerError: it does not exist, is not available, or is larger.
    """
    release = f"{repo} at {revision}"
    where = f"{release}: {name}"
    why = "downloads are off"
    fetch = partial(
        client().hf_hub_download,
        *(repo, name),
        repo_type="dataset",
        revision=revision,
    )
    try:
        if not offline():
            with at_most(size):
                return Path(with_retries(where, partial(fetch, force_download=again)))
    except HubDown as error:
        why = str(error).removeprefix(f"{where}: ")
    except RulerError as error:
        if isinstance(error.__cause__, RemoteEntryNotFoundError) and name == FILENAME:
            problem = f"holds no {FILENAME}, so it is not a release of ruler-data"
            raise RulerError(release, problem) from error
        raise
    try:
        return Path(fetch(local_files_only=True))
    except LocalEntryNotFoundError as error:
        raise HubDown(where, f"not in the Hub's cache, and {why}") from error


def fetch_files(
    repo: str, files: Sequence[str], revision: str | None, *, allow_download: bool = True
) -> tuple[Path, str]:
    """Return the folder that holds files of a model, and the commit that they are of.

    Cached files are not requested again; only the first file must exist.

    Raises:
        RulerError: they are not available; with the reason.
    """
    try:
        return _fetch(repo, files, revision, local=True)
    except LocalEntryNotFoundError as error:
        if offline() or not allow_download:
            raise RulerError(
                "it is not complete in the Hub's cache, and downloads are off"
            ) from error
    try:
        return with_retries("the Hub", lambda: _fetch(repo, files, revision, local=False))
    except RulerError as error:
        if isinstance(error.__cause__, EntryNotFoundError):
            raise RulerError(f"its repo holds no {files[0]}") from error
        raise


def _fetch(
    repo: str, files: Sequence[str], revision: str | None, *, local: bool
) -> tuple[Path, str]:
    """Return the folder and the commit of the files."""
    folder: Path | None = None
    for file in files:
        try:
            path = client().hf_hub_download(
                repo, file, revision=revision, local_files_only=local, etag_timeout=10
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
