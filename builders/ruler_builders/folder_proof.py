"""Prove what lies beside the rows: manifest, card, licences and files, as a build makes them."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa

from ruler_builders.card import Address, card_files
from ruler_builders.pipeline.build import in_order
from ruler_builders.pipeline.build_one import BuildContext
from ruler_builders.upstream import EDITIONS
from ruler_data.errors import RulerError, UsageError
from ruler_data.files import cache_dir, read_bytes, read_text, sha256_file
from ruler_data.floors import floor as packaged_floor
from ruler_data.manifest import (
    BALANCED,
    FILENAME,
    LOCAL_COPY,
    STATE,
    ConfigInfo,
    Manifest,
    SourceInfo,
    TokenizerInfo,
    layout,
)
from ruler_data.names import parse_config, quote
from ruler_data.parquet import UNREADABLE
from ruler_data.suites import packaged, packaged_suite
from ruler_data.tasks import TASKS, config_place
from ruler_data.tokenizers.hf import FILES
from ruler_data.tokenizers.registry import REGISTRY, load_tokenizer
from ruler_data.version import DATA_VERSION, __version__

#: Fields of the manifest that cannot be made again.
CLAIMED = (
    "pyarrow",
    "siblings",
    "tokenizer.engine",
    "tokenizer.hub_id",
    "tokenizer.mirror",
    "tokenizer.revision",
)
#: Files that the Hub and its clients add to a folder, and the index of an org's first repo.
IGNORED = (".gitattributes", ".git", ".cache", ".huggingface", "index.json")
#: Files beside the rows.
BESIDE = ("README.md", "LICENSES.md")


def as_recorded(
    manifest: Manifest, name: str, figures: Mapping[str, Any], made: ConfigInfo | None
) -> dict[str, Any]:
    """Return what the manifest must state of a config: figures of its rows, and of a whole build.

    Versions differ in audits and floors, which only their own version proves.
    """
    info, task, length = manifest.configs[name], *parse_config(name)
    keys = FIGURES if manifest.edition == BALANCED else (*FIGURES, "audit")
    stated: dict[str, Any] = {key: figures[key] for key in keys if key in figures}
    if manifest.package_version == __version__:
        floor = packaged_floor(task, length, manifest.suite) or (made or info).floor
        stated = {"audit": {}, **stated, "floor": None if manifest.is_imported else floor}
    return stated | ({"exhausted": made.exhausted} if made else {})


#: What a manifest states of the rows of a config.
FIGURES = (
    "rows", "digest", "question_digest", "length_min", "length_mean", "length_max", "fill_min",
    "fill_mean",
)  # fmt: skip


def rebuilt_manifest(
    manifest: Manifest,
    context: BuildContext | None,
    infos: Mapping[str, SourceInfo],
    configs: Mapping[str, ConfigInfo],
    address: Address | None,
) -> Manifest:
    """Return the manifest as it would be written now; claimed fields are copied."""
    is_current = manifest.package_version == __version__
    if address is not None:
        data_version = address.revision.removeprefix("v")
    else:
        data_version = DATA_VERSION if is_current else manifest.data_version
    tokenizer = manifest.tokenizer
    if context is not None:
        actual = context.tokenizer_info
        tokenizer = replace(
            actual,
            name=_tokenizer_name(tokenizer, actual),
            hub_id=tokenizer.hub_id,
            revision=tokenizer.revision,
            mirror=tokenizer.mirror,
            engine=tokenizer.engine,
            files=tokenizer.files if _has_other_files(tokenizer, actual) else actual.files,
        )
    entry = REGISTRY.get(tokenizer.name)
    if entry and entry.revision and tokenizer.hub_id:
        tokenizer = replace(tokenizer, hub_id=entry.source)
    suite = packaged_suite(manifest.suite)
    used = {parse_config(name)[0] for name in configs}
    table = {**manifest.table, **(suite.tasks if suite else {})}
    return replace(
        manifest,
        data_version=data_version,
        tokenizer=tokenizer,
        sources=tuple(infos[name] for name in sorted(infos)),
        configs={name: configs[name] for name in sorted(configs, key=config_place)},
        tasks=in_order({name: table[name] for name in used}),
        chat_template="" if manifest.edition == BALANCED else manifest.chat_template,
        siblings=manifest.siblings if address else {},
    )


def _tokenizer_name(recorded: TokenizerInfo, actual: TokenizerInfo) -> str:
    """Return the name that the tokenizer must have; only a registry name can be checked."""
    if recorded.name not in REGISTRY:  # the last part of an id, or the name that a folder had
        return (recorded.hub_id or recorded.name).rpartition("/")[2]
    with suppress(UsageError):  # not available, so the name is claimed
        registered = load_tokenizer(recorded.name, allow_download=False).info
        if actual.name in REGISTRY or not registered.counts_like(recorded):
            return actual.name
    return recorded.name


def _has_other_files(recorded: TokenizerInfo, actual: TokenizerInfo) -> bool:
    """Whether other files here give the same tokens, so that the recorded ones are claimed.

    From one origin, other hashes are wrong; local copies of a known tokenizer were never compared.
    """
    origin = ("hub_id", "revision", "mirror")
    is_there = all(getattr(recorded, name) == getattr(actual, name) for name in origin)
    elsewhere = not is_there or actual.mirror == LOCAL_COPY
    return elsewhere and actual.counts_like(recorded) and recorded.files.keys() <= {*FILES}


def input_findings(manifest: Manifest) -> Iterator[str]:
    """Yield inputs that no build can have; nothing else of such a manifest makes sense."""
    version = manifest.package_version
    if not _VERSION.fullmatch(version):
        yield f"{FILENAME}: package_version {quote(version)} is not MAJOR.MINOR.PATCH"
    if not _VERSION.fullmatch(manifest.data_version):
        yield f"{FILENAME}: data_version {quote(manifest.data_version)} is not MAJOR.MINOR.PATCH"
    if not manifest.configs:
        yield f"{FILENAME}: names no config"
    if manifest.is_upstream and manifest.edition not in EDITIONS:
        yield f"{FILENAME}: edition {quote(manifest.edition)} is not known"
    for name, task in manifest.tasks.items():
        if name in TASKS or name != task.name:
            yield f"{FILENAME}: tasks has {quote(name)} for {quote(task.name)}"
        if task.params.impossible:
            yield f"{FILENAME}: task {quote(name)}: {task.params.impossible}"
    if manifest.edition == BALANCED:
        tasks = (manifest.table[parse_config(config)[0]] for config in manifest.configs)
        names = {source.name for source in manifest.sources}
        missing = sorted({source for task in tasks for source in task.sources} - names)
        yield from (f"{FILENAME}: does not name the source {source}" for source in missing)
    if suite := packaged_suite(manifest.suite):
        own_texts = {source.name for source in manifest.sources if source.kind == "own"}
        for name in sorted({config.rpartition("_")[0] for config in manifest.configs}):
            parameters = manifest.table.get(name)
            if name not in suite.tasks and not (
                parameters and own_texts.intersection(parameters.sources)
            ):
                yield f"{FILENAME}: suite {suite.name} has no task {quote(name)}"


_VERSION = re.compile(r"(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}")


def findings_beside(
    folder: Path, manifest: Manifest, again: Manifest, address: Address | None
) -> tuple[list[str], dict[str, str]]:
    """Render the files beside the rows again; return what differs, and what was not rendered."""
    findings, unproved, expected = list[str](), dict[str, str](), dict[str, bytes]()
    version = manifest.package_version
    if version != __version__:  # other versions render other text
        remedy = f"pip install 'ruler-data=={version}'"
        why = f"version {version} of ruler-data rendered it; verify it with {remedy}"
        unproved = dict.fromkeys(BESIDE, why)
    elif not all((folder / info.file).is_file() for info in manifest.configs.values()):
        why = "it needs the first rows of all configs, and not all are here"
        unproved = dict.fromkeys(BESIDE, why)
    else:
        try:
            expected = card_files(again, folder.joinpath, address)
        except (RulerError, *UNREADABLE) as error:
            findings.append(f"README.md: cannot be made again: {error}")
    for name in {**manifest.files, **expected}:
        info, path = manifest.files.get(name), folder / name
        if name not in expected and name not in unproved and name not in BESIDE:
            findings.append(f"{FILENAME}: names the file {quote(name)}, which no build writes")
        elif info is None:
            findings.append(f"{FILENAME}: does not name {name}")
        elif not path.is_file():
            findings.append(f"{name}: missing")
        elif (sha256 := sha256_file(path)) != info.sha256 or path.stat().st_size != info.bytes:
            findings.append(f"{name}: sha256 expected {info.sha256}, found {sha256}")
        if name in expected and path.is_file():
            findings += _first_difference(name, read_bytes(path), expected[name])
    return findings, unproved


def _first_difference(name: str, actual: bytes, expected: bytes) -> Iterator[str]:
    """Yield the first line in which two texts differ."""
    texts = (data.decode(errors="replace").split("\n") for data in (actual, expected))
    for line, (line_here, line_expected) in enumerate(zip_longest(*texts, fillvalue="nothing"), 1):
        if line_here != line_expected:
            yield f"{name}: line {line}: expected {quote(line_expected)}, found {quote(line_here)}"
            return
    if actual != expected:
        yield f"{name}: is not UTF-8"


def strays(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Yield the files that the manifest does not name, and links to files elsewhere."""
    expected = {FILENAME, *manifest.files, *(info.file for info in manifest.configs.values())}
    blobs = folder.resolve().parents[1] / "blobs"  # of a snapshot in the Hub's cache
    for path in sorted(folder.rglob("*")):
        place = path.relative_to(folder)
        if place.parts[0] in IGNORED or (path.is_dir() and not path.is_symlink()):
            continue
        if path.is_symlink() and path.resolve().parent != blobs:
            yield f"{place.as_posix()}: is a symbolic link"
            continue
        if place.parts[0] == STATE:
            yield f"{STATE}: left by an unfinished build; run the build again"
            return
        if place.as_posix() not in expected:
            yield f"{place.as_posix()}: not in the manifest"


def manifest_findings(folder: Path, manifest: Manifest, again: Manifest) -> Iterator[str]:
    """Yield where a manifest is not the one that would be written now."""
    text = read_text(folder / FILENAME)
    if manifest.package_version != __version__:  # whose fields may be unknown here
        text = manifest.to_json()
    actual, expected = json.loads(text), json.loads(again.to_json())
    expected["digest"] = actual["digest"]
    unequal = [*differing_values(actual, expected)]
    for place, value, value_expected in unequal:
        if place[0] == "configs" and place[-1] in ("bytes", "sha256"):
            path = manifest.configs[place[1]].file
            yield f"{path}: {place[2]} expected {value}, found {value_expected}"
        else:
            difference = f"expected {quote(str(value_expected), 90)}, found {quote(str(value), 90)}"
            yield f"{FILENAME}: {'.'.join(place)} {difference}"
    if not unequal:  # but in order or notation
        yield from _first_difference(FILENAME, text.encode(), layout(expected).encode())


def differing_values(actual: Any, expected: Any, *place: str) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401
    """Yield where two parsed texts differ, and both values."""
    if isinstance(actual, dict) and isinstance(expected, dict):
        for key in {**actual, **expected}:
            yield from differing_values(actual.get(key), expected.get(key), *place, key)
    elif isinstance(actual, list) and isinstance(expected, list) and len(actual) == len(expected):
        for number, (actual_item, expected_item) in enumerate(zip(actual, expected, strict=True)):
            yield from differing_values(actual_item, expected_item, *place, str(number))
    elif actual != expected:
        yield place, actual, expected


def claims_of(
    manifest: Manifest,
    context: BuildContext | None,
    address: Address | None,
    *,
    has_bytes: bool,
    is_release: bool,
) -> Iterator[str]:
    """Yield the fields that nothing here decides on, with their values."""
    record = asdict(manifest)
    if not has_bytes:
        yield f"bytes of parquet files: of pyarrow {manifest.pyarrow} (here is {pa.__version__})"
    for claim in CLAIMED[has_bytes:]:  # the bytes prove pyarrow
        section, _, name = claim.rpartition(".")
        yield f"{claim}: {(record[section] if section else record)[name] or 'none'}"
    if address and not is_release:
        yield f"card: of {address.repo} at {address.revision}"
    if address:
        yield f"card: code at {address.code or 'no address'}"
    if manifest.package_version != __version__:
        yield f"floors, audits, fields that are not known here: of {manifest.package_version}"
    recorded, actual = manifest.tokenizer, context.tokenizer_info if context else None
    if recorded.name not in REGISTRY or actual is None or actual.name != recorded.name:
        yield f"tokenizer.name: {recorded.name}"
    used = {parse_config(name)[0] for name in manifest.configs}
    suite = packaged_suite(manifest.suite)
    for name in sorted(manifest.tasks.keys() - (suite.tasks if suite else {})):
        yield f"tasks.{name}.about: {manifest.tasks[name].about}"
    alike = [
        suite_packaged.name
        for suite_packaged in packaged().values()
        if suite
        and suite_packaged != suite
        and all(suite_packaged.tasks.get(n) == suite.tasks.get(n) for n in used)
    ]
    if alike or not suite:
        same = f" (the same rows are of {', '.join(alike)})" if alike else ""
        yield f"suite: {manifest.suite}{same}"
    if actual and actual.files != recorded.files:
        hashes = ", ".join(f"{name} {sha256}" for name, sha256 in recorded.files.items())
        yield f"tokenizer.files: {hashes} (those here give the same tokens)"


def proved(folder: Path | str) -> bool:
    """Whether this version has proved a folder with exactly these files."""
    try:
        return receipt(Path(folder)).is_file()
    except OSError:
        return False


def receipt(folder: Path) -> Path:
    """Return the file that marks a folder as proved; its name hashes all paths and contents."""
    listing = hashlib.sha256(f"{__version__}\n".encode())
    for path in sorted(folder.rglob("*")):
        place = path.relative_to(folder)
        if path.is_file() and place.parts[0] not in IGNORED:
            listing.update(f"{place.as_posix()}\0{sha256_file(path)}\n".encode())
    return cache_dir("proved") / listing.hexdigest()


@dataclass(frozen=True)
class Obstacle:
    """Why a config cannot be built again; its rows may still be those of other sources here."""

    why: str
    may_give_rows: bool = False


def sources_and_obstacles(
    manifest: Manifest, context: BuildContext | None
) -> tuple[dict[str, SourceInfo], dict[str, Obstacle]]:
    """Return the entries that the sources must have, and what hinders a build: of a task, or all.

    Of a source that is not here, the entry is as the manifest has it.
    """
    recorded = {source.name: source for source in manifest.sources}
    if manifest.is_imported:
        return recorded, {"": Obstacle("somebody else made these rows (`ruler-data import`)")}
    if context is None:
        tokenizer = f"tokenizer {quote(manifest.tokenizer.name)} with the files of the manifest"
        why = f"{tokenizer} is not available; give --tokenizer FOLDER"
        return recorded, {"": Obstacle(why)}
    infos, obstacles = dict[str, SourceInfo](), dict[str, Obstacle]()
    for name in dict.fromkeys(parse_config(config)[0] for config in manifest.configs):
        task = manifest.table[name]
        try:
            entries = {info.name: info for info in context.source_infos(task, manifest.edition)}
        except (RulerError, KeyError) as error:
            obstacles[name] = Obstacle(str(error))
            needed = recorded if manifest.is_upstream else task.sources
            entries = {n: recorded[n] for n in needed if n in recorded and n not in infos}
        infos |= entries
        for info in entries.values():
            if (record := recorded.get(info.name)) and record.sha256 != info.sha256:
                why = f"source {info.name}: the manifest names sha256 {record.sha256}, and "
                obstacles[name] = Obstacle(f"{why}{info.sha256} is here", may_give_rows=True)
    return infos, obstacles
