"""Where the files of a source are: the user's folder, the user's cache, a pinned download."""

from pathlib import Path

from ruler_builders.sources.catalogue import Download, SourceSpec
from ruler_builders.sources.files import sha256_of
from ruler_data.errors import UsageError
from ruler_data.fetch import Unreachable, download
from ruler_data.places import cache_folder


def local_files(folder: Path, spec: SourceSpec) -> list[Path]:
    """Return a user's copy of a source; no files where there is none.

    Raises:
        UsageError: two files could be it, or what has its name is not files.
    """
    for pattern in spec.local:
        found = sorted(folder.glob(pattern))
        if len(found) > 1:
            msg = f"source {spec.name}: both {found[0].name} and {found[1].name}; keep one"
            raise UsageError(msg)
        if not found:
            continue
        files = sorted(found[0].glob("*.txt")) if found[0].is_dir() else found
        if not (files and all(path.is_file() for path in files)):
            msg = f"source {spec.name}: {found[0].name} is no file, and no folder of .txt files"
            raise UsageError(msg)
        return files
    return []


def pinned_files(spec: SourceSpec, *, network: bool) -> list[Path]:
    """Return the pinned files of a source, from the cache or, with a network, from their hosts.

    Raises:
        Unreachable: one is not in the cache and cannot be downloaded.
    """
    folder = cache_folder("sources", spec.name)
    return [_fetch(one, folder, network) for one in spec.downloads]


def _fetch(alternatives: tuple[Download, ...], folder: Path, network: bool) -> Path:
    """Return a pinned file from the cache or from the first address that answers.

    A file in the cache is checked too, and fetched again when it was damaged.
    """
    for one in alternatives:
        path = folder / one.url.rsplit("/", 1)[-1]
        if path.is_file() and sha256_of([path]) == one.sha256:
            return path
    if not network:
        msg = "downloads are off"
        raise Unreachable(msg)
    reasons = []
    for one in alternatives:
        try:
            return download(one.url, one.sha256, folder)
        except Unreachable as error:
            reasons.append(str(error))
    msg = "; ".join(reasons)
    raise Unreachable(msg)
