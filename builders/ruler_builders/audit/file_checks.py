"""Checks that need no rows: hashes, file names, sources and the card."""

import hashlib
from collections.abc import Collection, Iterator
from pathlib import Path

from ruler_builders.card import card_faults
from ruler_builders.pipeline.build_dir import STATE
from ruler_builders.sources import CATALOGUE
from ruler_builders.sources.domains import BUNDLED, PREFIX, bundled_info
from ruler_builders.sources.sample import sample_info
from ruler_data.errors import UsageError
from ruler_data.manifest import FILE_NAME, FILENAME, ConfigInfo, Manifest, SourceInfo
from ruler_data.names import config_file, parse_config, quote

#: Files that the Hub's clients add to a folder.
IGNORED = (".gitattributes", ".git", ".cache", ".huggingface")


def file_findings(
    folder: Path, manifest: Manifest, configs: Collection[str], *, strays: bool = True
) -> Iterator[str]:
    """Check that the files are those of the manifest; with `strays`, that there are no others.

    Only the files of `configs` must exist.
    """
    for name, info in manifest.configs.items():
        yield from name_findings(name, info, manifest)
        if name in configs and not (folder / info.file).is_file():
            yield f"{info.file}: missing"
    for file, entry in manifest.files.items():
        if not FILE_NAME.fullmatch(file):
            yield f"{FILENAME}: names the file {quote(file)}, which is not of this folder"
        elif not (folder / file).is_file():
            yield f"{file}: missing"
        else:
            yield from hash_findings(file, folder / file, entry.bytes, entry.sha256)
    if not strays:
        return
    expected = {FILENAME, *manifest.files, *(info.file for info in manifest.configs.values())}
    for path in sorted(folder.rglob("*")):
        place = path.relative_to(folder)
        if place.parts[0] in IGNORED or (path.is_dir() and not path.is_symlink()):
            continue
        if place.parts[0] == STATE:
            yield f"{STATE}: left by an unfinished build; run the build again"
            return
        if place.as_posix() not in expected:
            yield f"{place.as_posix()}: not in the manifest"


def source_findings(manifest: Manifest) -> Iterator[str]:
    """Check what the manifest states of its sources against what this package knows."""
    if not manifest.configs:
        yield f"{FILENAME}: names no config"
    needed = {
        source
        for name in manifest.configs
        if not manifest.is_imported
        if (task := manifest.table.get(name.rpartition("_")[0]))
        for source in task.sources
    }
    named = {source.name: source for source in manifest.sources}
    for name in sorted(needed - named.keys()):
        yield f"{FILENAME}: does not name the source {name}, which its configs use"
    for name, source in named.items():
        yield from _domain_findings(name, source)
        if name not in CATALOGUE:
            continue
        sample = sample_info(name)
        if (source.kind == "sample") != (source.sha256 == sample.sha256):
            yield f"{FILENAME}: source {name}: its sha256 is not that of the {source.kind} one"
        elif source.kind == "real":
            pinned = source.sha256 in CATALOGUE[name].pinned_sha256()
            if pinned != source.pinned:
                yield f"{FILENAME}: source {name}: pinned expected {pinned}, found {source.pinned}"


def _domain_findings(name: str, source: SourceInfo) -> Iterator[str]:
    """Check that a domain is one of the package, or marked as the user's own."""
    domain = name.removeprefix(PREFIX)
    if domain == name:
        return
    expected = bundled_info(domain) if domain in BUNDLED else None
    if expected and source != expected:
        yield f"{FILENAME}: source {name}: is not the one of this package: {source.sha256}"
    if not expected and (source.kind != "own" or source.pinned):
        yield f"{FILENAME}: source {name}: is not a domain of this package, and not marked as own"


def card_findings(folder: Path, manifest: Manifest) -> list[str]:
    """Check that the configs of the card are those of the manifest."""
    try:
        text = (folder / "README.md").read_text(encoding="utf-8")
    except FileNotFoundError:
        return []  # the manifest names it, so this is a finding already
    except (OSError, UnicodeDecodeError) as error:
        return [f"README.md: cannot be read: {one_line(error)}"]
    return [f"README.md: {fault}" for fault in card_faults(text, manifest, trusted=False)]


def name_findings(name: str, info: ConfigInfo, manifest: Manifest) -> list[str]:
    """Check that a config has the name of a known task and a file at the right path."""
    try:
        task, _ = parse_config(name)
    except UsageError as error:
        return [f"{FILENAME}: {error}"]
    if task not in manifest.table:
        return [f"{FILENAME}: config {quote(name)} is of no known task"]
    if info.file != config_file(name):
        return [f"{FILENAME}: config {name} names the file {quote(info.file)}"]
    return []


def hash_findings(name: str, path: Path, size: int, sha256: str) -> list[str]:
    """Check the size and the sha256 of a file."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    actual = path.stat().st_size
    if found == sha256 and actual == size:
        return []
    if found == sha256:
        return [f"{name}: bytes expected {size}, found {actual}"]
    sizes = "" if actual == size else f", {actual} bytes instead of {size}"
    return [f"{name}: sha256 expected {sha256}, found {found}{sizes}"]


def one_line(error: Exception) -> str:
    """Return the first line of an error's message."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
