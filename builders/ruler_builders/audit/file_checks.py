"""What a folder's files show without their rows: hashes, names, sources and the card."""

import hashlib
from collections.abc import Collection, Iterator
from itertools import zip_longest
from pathlib import Path

from ruler_builders.card import configs_yaml
from ruler_builders.pipeline.build_dir import STATE
from ruler_builders.sources import CATALOGUE
from ruler_builders.sources.domains import BUNDLED, PREFIX, bundled_info
from ruler_builders.sources.sample import sample_info
from ruler_data.errors import UsageError
from ruler_data.manifest import FILE_NAME, FILENAME, ConfigInfo, Manifest, SourceInfo
from ruler_data.names import config_file, parse_config, quote

#: Files that the Hub's clients put beside ours.
IGNORED = (".gitattributes", ".git", ".cache", ".huggingface")


def file_findings(
    folder: Path, manifest: Manifest, configs: Collection[str], *, strays: bool = True
) -> Iterator[str]:
    """Check that the files are those of the manifest, and, for `strays`, that there are no others.

    Only the files of `configs` must be there.
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
    """Check what the manifest says of its sources against what this package knows of them."""
    if not manifest.configs:
        yield f"{FILENAME}: names no config"
    needed = {
        source
        for name in manifest.configs
        if name.rpartition("_")[0] in manifest.table
        for source in manifest.table[name.rpartition("_")[0]].sources
    }
    named = {source.name: source for source in manifest.sources}
    for name in sorted(needed - named.keys()):
        yield f"{FILENAME}: does not name the source {name}, which its configs hold text of"
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
    """Check that a domain is the package's own, or said to be of unknown origin."""
    domain = name.removeprefix(PREFIX)
    if domain == name:
        return
    expected = bundled_info(domain) if domain in BUNDLED else None
    if expected and source != expected:
        yield f"{FILENAME}: source {name}: is not the one of this package: {source.sha256}"
    if not expected and (source.kind != "own" or source.pinned):
        yield f"{FILENAME}: source {name}: is of no domain of this package, and not said to be own"


def card_findings(folder: Path, manifest: Manifest) -> list[str]:
    """Check that the card's configs are the manifest's, with their digests.

    As text: what stands there is either what the manifest gives or wrong, so a stranger's YAML,
    which may be made to take for ever, is never parsed.
    """
    try:
        text = (folder / "README.md").read_text(encoding="utf-8")
    except FileNotFoundError:
        return []  # said already
    except (OSError, UnicodeDecodeError) as error:
        return [f"README.md: cannot be read: {one_line(error)}"]
    matter = text.removeprefix("---\n").partition("---\n")[0]
    above, key, below = matter.partition("configs:\n")
    found, expected = (key + below).splitlines(), configs_yaml(manifest).splitlines()
    if found == expected:
        return []
    first = above.count("\n") + 2  # lines count from 1, and the first is `---`
    pairs = enumerate(zip_longest(found, expected, fillvalue="nothing"), first)
    line, (said, wanted) = next((n, pair) for n, pair in pairs if pair[0] != pair[1])
    return [f"README.md: line {line}: expected {quote(wanted)}, found {quote(said)}"]


def name_findings(name: str, info: ConfigInfo, manifest: Manifest) -> list[str]:
    """Check that a config is named after a task we know and lies where it should."""
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
    """Return the first line of what an error says."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
