"""The inputs that a manifest records: what no build can have, and the plan of the same build."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ruler_builders.pipeline.plan import BuildPlan
from ruler_builders.sources.catalogue import essays_of
from ruler_builders.upstream import EDITIONS
from ruler_builders.upstream.sources import words_of
from ruler_data.manifest import BALANCED, FILENAME, LOCAL_COPY, Manifest, TokenizerInfo
from ruler_data.names import parse_config, quote
from ruler_data.suites import Suite, packaged_suite
from ruler_data.tokenizers.hf import FILES
from ruler_data.tokenizers.registry import REGISTRY

#: Of the manifest: what decides no byte of the rows or of the card.
STATED = ("engine", "hub_id", "mirror", "revision")
#: A version that can be installed.
_VERSION = re.compile(r"\d+(\.\d+){1,3}")
_OWN_VERSION = re.compile(r"[1-9]\d*\.(0|[1-9]\d*)\.(0|[1-9]\d*)")


def input_findings(manifest: Manifest) -> Iterator[str]:
    """Yield inputs that no build can have."""
    if not _OWN_VERSION.fullmatch(manifest.package_version):
        version = quote(manifest.package_version)
        yield f"{FILENAME}: package_version {version} is no version of ruler-data"
    if not _VERSION.fullmatch(manifest.pyarrow):
        yield f"{FILENAME}: pyarrow {quote(manifest.pyarrow)} is no version of pyarrow"
    if not manifest.configs:
        yield f"{FILENAME}: names no config"
    if manifest.is_upstream and manifest.edition not in EDITIONS:
        yield f"{FILENAME}: edition {quote(manifest.edition)} is not known"
    for name, task in manifest.tasks.items():
        if task.params.impossible:
            yield f"{FILENAME}: task {quote(name)}: {task.params.impossible}"
    for name in tasks_of(manifest):
        yield from _task_findings(manifest, name)


def _task_findings(manifest: Manifest, name: str) -> Iterator[str]:
    """Yield what a task of configs needs and the manifest does not name."""
    kinds = {source.name: source.kind for source in manifest.sources}
    needed = manifest.table[name].sources
    for source in needed:
        if manifest.edition == BALANCED and source not in kinds:
            yield f"{FILENAME}: does not name the source {source}"
    suite = packaged_suite(manifest.suite)
    if suite and name not in suite.tasks and "own" not in map(kinds.get, needed):
        yield f"{FILENAME}: suite {suite.name} has no task {quote(name)}"


def tasks_of(manifest: Manifest) -> list[str]:
    """Return the names of the tasks that have configs."""
    return list(dict.fromkeys(parse_config(config)[0] for config in manifest.configs))


def plan_of(
    manifest: Manifest,
    folder: Path,
    tokenizer: str,
    sources: Path | str | None,
    haystack: Path | str | None,
) -> BuildPlan:
    """Return the plan of the build whose inputs a manifest records."""
    table = dict(manifest.table)
    if suite := packaged_suite(manifest.suite):
        table |= suite.tasks
    tasks = {name: replace(table[name], name=name) for name in tasks_of(manifest)}
    lengths = {parse_config(config)[1] for config in manifest.configs}
    rows = max(info.rows for info in manifest.configs.values())
    template = "base"
    if manifest.edition != BALANCED and manifest.chat_template:
        template = manifest.chat_template
    return BuildPlan(
        tokenizer,
        Suite(manifest.suite, "", tasks, tuple(sorted(lengths)), rows),
        folder,
        manifest.seed,
        sources=sources,
        haystack=haystack,
        sources_kind="real",
        samples=frozenset(source.name for source in manifest.sources if source.kind == "sample"),
        edition=manifest.edition,
        template=template,
        reserve=manifest.tokenizer.extra_reserve,
        network=False,
        essays=essays_of(manifest),
        words=words_of(manifest),
    )


def stated_of_tokenizer(recorded: TokenizerInfo, actual: TokenizerInfo) -> Iterator[str]:
    """Yield what an entry states of a tokenizer beside what decides the rows."""
    for name in STATED:
        if value := getattr(recorded, name):
            yield f"tokenizer.{name}: {value}"
    if actual.name != recorded.name or actual.name not in REGISTRY:
        yield f"tokenizer.name: {recorded.name}"
    if actual.files != recorded.files:
        hashes = (f"{name} {sha256}" for name, sha256 in recorded.files.items())
        yield f"tokenizer.files: {', '.join(hashes)} (those here give the same tokens)"


def expected_tokenizer(recorded: TokenizerInfo, actual: TokenizerInfo) -> TokenizerInfo:
    """Return the entry that a tokenizer must have; where it is from and what counted is stated.

    From one origin, other hashes are wrong; local copies of a known tokenizer were never compared.
    """
    stated = {name: getattr(recorded, name) for name in STATED}
    name = recorded.name
    if name in REGISTRY and actual.name in REGISTRY:
        name = actual.name
    entry = REGISTRY.get(name)
    if entry and entry.revision and recorded.hub_id:
        stated["hub_id"] = entry.source
    origin = (actual.hub_id, actual.revision, actual.mirror)
    is_same = origin == (recorded.hub_id, recorded.revision, recorded.mirror)
    is_elsewhere = actual.mirror == LOCAL_COPY or not is_same
    files = actual.files
    if is_elsewhere and actual.counts_like(recorded) and recorded.files.keys() <= {*FILES}:
        files = recorded.files
    return replace(actual, **stated, name=name, files=files)
