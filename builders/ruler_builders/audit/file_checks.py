"""Checks that need no rows: hashes, file names, sources and the card."""

import hashlib
import re
from collections.abc import Collection, Iterator
from dataclasses import asdict
from itertools import islice, zip_longest
from pathlib import Path

import pyarrow.parquet as pq

from ruler_builders.card import EVAL, Address, card_files, config_faults
from ruler_builders.card_figure import PICTURE, WRITER
from ruler_builders.pipeline.build_dir import STATE
from ruler_builders.sources import CATALOGUE
from ruler_builders.sources.domains import PREFIX
from ruler_builders.sources.packaged import PACKAGED, packaged_info
from ruler_builders.sources.user_texts import own_info
from ruler_builders.sources.words import words_info
from ruler_builders.upstream.sources import upstream_info
from ruler_data.errors import RulerError, UsageError
from ruler_data.manifest import (
    FILE_NAME,
    FILENAME,
    IMPORTED,
    ConfigInfo,
    Manifest,
    SourceInfo,
    TokenizerInfo,
)
from ruler_data.names import config_file, is_repo, parse_config, quote
from ruler_data.parquet import UNREADABLE
from ruler_data.suites import packaged_suite
from ruler_data.tasks import TASKS
from ruler_data.tokenizers.llama import LLAMA
from ruler_data.tokenizers.registry import REGISTRY
from ruler_data.version import DATA_VERSION, __version__

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
    """Check what the manifest states of its sources, as far as names and hashes decide it."""
    if not manifest.configs:
        yield f"{FILENAME}: names no config"
    needed = {
        source
        for name in manifest.configs
        if not manifest.is_imported
        if (task := manifest.table.get(name.rpartition("_")[0]))
        for source in task.sources
    }
    for name in sorted(needed - {source.name for source in manifest.sources}):
        yield f"{FILENAME}: does not name the source {name}, which its configs use"
    for source in manifest.sources:
        expected = _known(source, manifest)
        if expected is None:
            yield f"{FILENAME}: source {quote(source.name)} is not one of this package"
        else:
            yield from entry_findings(source, expected)


def entry_findings(source: SourceInfo, expected: SourceInfo) -> Iterator[str]:
    """Compare what the manifest states of a source."""
    found = asdict(source)
    for field, wanted in asdict(expected).items():
        if found[field] != wanted:
            yield (
                f"{FILENAME}: source {source.name}: {field} expected {quote(str(wanted))}, "
                f"found {quote(str(found[field]))}"
            )


def _known(source: SourceInfo, manifest: Manifest) -> SourceInfo | None:
    """Return the entry that a source of this name and hash must have; None if there is none."""
    name, sha256 = source.name, source.sha256
    if name.startswith(PREFIX) and name not in PACKAGED:
        return own_info(name, sha256, source.detail)
    if manifest.is_imported and name == IMPORTED:
        return source
    if manifest.is_upstream and name in (*CATALOGUE, "words", "english_words"):
        return upstream_info(name, sha256)
    if name == "words":
        return words_info()
    packaged, spec = packaged_info(name) if name in PACKAGED else None, CATALOGUE.get(name)
    if spec is None or (packaged and sha256 == packaged.sha256):
        return packaged
    detail = source.detail if name == "essays" else ""  # what has cut them
    return spec.info(sha256, detail, pinned=sha256 in spec.pinned)


def manifest_findings(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Check versions, suite and tokenizer of a manifest against what this package knows."""
    version, rows = manifest.data_version, manifest.rows_version
    for name in ("data_version", "rows_version", "package_version"):
        if not _VERSION.fullmatch(getattr(manifest, name)):
            yield f"{FILENAME}: {name} {quote(getattr(manifest, name))} is not MAJOR.MINOR.PATCH"
            return
    if not _numbers("1.0.0") <= _numbers(rows) <= _numbers(DATA_VERSION):
        yield f"{FILENAME}: rows_version is {rows}, this version knows 1.0.0 to {DATA_VERSION}"
    written = manifest.package_version
    if _numbers(written) > _numbers(__version__):
        yield (
            f"{FILENAME}: package_version is {written}, this is {__version__}; verify with version "
            f"{written} or later: pip install -U ruler-data"
        )
    if (address := _address(folder)) is None and version != rows:
        yield f"{FILENAME}: data_version is {version}, and the rows of an unpublished folder {rows}"
    elif address is not None and address.revision != f"v{version}":
        yield f"{FILENAME}: data_version is {version}, and the card is of {address.revision}"
    writers = {writer for info in manifest.configs.values() if (writer := _writer(folder, info))}
    if writers and manifest.pyarrow not in writers:
        yield f"{FILENAME}: pyarrow is {manifest.pyarrow}, the files are of {', '.join(writers)}"
    for repo, name in manifest.siblings.items():
        if not (is_repo(repo) and is_repo(f"owner/{name}")):
            yield f"{FILENAME}: sibling {quote(repo)} ({quote(name)}) is not a repo of a tokenizer"
    yield from _suite_findings(manifest)
    yield from _registry_findings(manifest.tokenizer)


_VERSION = re.compile(r"(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _writer(folder: Path, info: ConfigInfo) -> str:
    """Return the version of pyarrow that wrote a config; empty if it cannot be read."""
    try:
        with (folder / info.file).open("rb") as file:
            created = str(pq.read_metadata(file).created_by)
    except (OSError, *UNREADABLE):
        return ""
    return created.removeprefix("parquet-cpp-arrow version ")


def _suite_findings(manifest: Manifest) -> Iterator[str]:
    """Compare the tasks of a suite of this package; a user's own suite has other tasks."""
    for name, task in manifest.tasks.items():
        if name in TASKS or name != task.name:
            yield f"{FILENAME}: tasks has {quote(name)} for {quote(task.name)}"
        if task.params.impossible:
            yield f"{FILENAME}: task {quote(name)}: {task.params.impossible}"
    suite = packaged_suite(manifest.suite)
    used = {name.rpartition("_")[0] for name in manifest.configs}
    own = {info.name for info in manifest.sources if info.kind == "own"}
    if suite is None:
        return
    for name in sorted(used | manifest.tasks.keys()):
        found, expected = manifest.table.get(name), suite.tasks.get(name)
        if found is None or own.intersection(found.sources) or found == expected:
            continue
        if expected is None and name in TASKS and name in used:
            yield f"{FILENAME}: suite {manifest.suite} has no task {name}, and {name} has configs"
        elif expected is None:
            yield f"{FILENAME}: suite {manifest.suite} has no task {name}"
        else:
            yield f"{FILENAME}: task {name} is {found}, in the suite {expected}"


def _registry_findings(tokenizer: TokenizerInfo) -> Iterator[str]:
    """Check name, origin and engine of a tokenizer as far as its name decides them."""
    known, origin = REGISTRY.get(tokenizer.name), (tokenizer.hub_id, tokenizer.revision)
    wanted = "a local folder"
    is_right = origin == (None, None)
    if known and known.revision:
        wanted = f"{known.source} at {known.revision}"
        is_right = is_right or origin == (known.source, known.revision)
        if tokenizer.name in LLAMA:
            wanted += ", or Meta's package"
            is_right = is_right or (origin[0] is None and bool(_META.fullmatch(origin[1] or "")))
    elif known:
        wanted = "a package"
        is_right = origin[0] is None and bool(_PACKAGE.fullmatch(origin[1] or ""))
    elif tokenizer.hub_id is not None:
        wanted = f"{tokenizer.name} of an owner, at a commit"
        is_named = tokenizer.hub_id.rpartition("/")[2] == tokenizer.name
        is_right = is_named and bool(_COMMIT.fullmatch(tokenizer.revision or ""))
    if not is_right:
        where = " at ".join(quote(part) for part in origin if part) or "a local folder"
        yield f"{FILENAME}: tokenizer {quote(tokenizer.name)} is from {where}, expected {wanted}"
    if not _ENGINE.fullmatch(tokenizer.engine):
        yield f"{FILENAME}: tokenizer engine {quote(tokenizer.engine)} is none of this package"


_COMMIT = re.compile("[0-9a-f]{40}")
_PACKAGE = re.compile(r"(mistral-common|tiktoken) [0-9][0-9a-z.]*")
_META = re.compile(r"llama-models [0-9][0-9a-z.]*")
_ENGINE = re.compile(r"(tokenizers|gigatoken|mistral-common|tiktoken) [0-9][0-9a-z.+]*")


def text_findings(folder: Path, manifest: Manifest) -> tuple[list[str], list[str]]:
    """Render the card and the files beside it again; return what differs, what is not compared."""
    names = ("README.md", "LICENSES.md", EVAL, PICTURE)
    found, findings, untested = dict[str, bytes](), list[str](), list[str]()
    for name in names:
        if name not in manifest.files and name in names[:2]:  # the Hub may refuse the others
            findings.append(f"{FILENAME}: does not name {name}")
        try:
            if name in manifest.files:
                found[name] = (folder / name).read_bytes()
        except FileNotFoundError:
            continue  # the manifest names it, so this is a finding already
        except OSError as error:
            findings.append(f"{name}: cannot be read: {one_line(error)}")
    try:
        if manifest.package_version != __version__:
            msg = f"version {manifest.package_version} wrote them"
            raise ValueError(msg)
        files = [folder / info.file for info in manifest.configs.values()]
        if not (files and all(path.is_file() for path in files)):
            msg = "that needs the first rows of every config, and they are not all here"
            raise ValueError(msg)
        expected = card_files(manifest, folder.joinpath, _address(folder))
    except (RulerError, StopIteration, *UNREADABLE) as error:
        if data := found.get("README.md"):
            faults = config_faults(data.decode(errors="replace"), manifest)
            findings += [f"README.md: {fault}" for fault in faults]
        return findings, [f"{', '.join(names)}: not rendered again: {one_line(error)}"]
    picture, drawn = found.pop(PICTURE, b""), expected[PICTURE]
    if picture and picture != drawn and WRITER.encode() in picture:
        findings.append(f"{PICTURE}: is not the picture of these rows")
    elif picture and picture != drawn:
        untested.append(f"{PICTURE}: not drawn again: another version of Pillow wrote it")
    for name, data in found.items():
        texts = (text.decode(errors="replace").split("\n") for text in (data, expected[name]))
        pairs = zip_longest(*texts, fillvalue="nothing")
        differing = (pair for pair in enumerate(pairs, 1) if pair[1][0] != pair[1][1])
        for line, (there, wanted) in islice(differing, 1):
            findings.append(f"{name}: line {line}: expected {quote(wanted)}, found {quote(there)}")
    return findings, untested


def _address(folder: Path) -> Address | None:
    """Return the repo and revision that a folder's card names; None for an unpublished one."""
    try:
        text = (folder / "README.md").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    match = _VERIFY_LINE.search(text)
    return Address(match[1], match[2]) if match else None


_VERIFY_LINE = re.compile(r"^ruler-data verify (\S+) --revision (v\S+) ", re.MULTILINE)


def name_findings(name: str, info: ConfigInfo, manifest: Manifest) -> list[str]:
    """Check that a config has the name of a known task and a file at the right path."""
    try:
        task, _ = parse_config(name)
    except UsageError as error:
        return [f"{FILENAME}: {error}"]
    if task not in manifest.table:
        return [f"{FILENAME}: config {quote(name)} is of no known task"]
    if manifest.table[task].params.impossible or manifest.table[task].name != task:
        return [f"{FILENAME}: config {quote(name)} is of a task that cannot be"]
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
