"""Merge published and built configs into one dataset: manifest, card and paths of files."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ruler_builders.card import EVAL, Address, card_files
from ruler_builders.checks.floors import known_floor
from ruler_builders.pipeline.build_dir import BuildDir
from ruler_builders.publish.version_rules import Version
from ruler_data.dataset import open_source
from ruler_data.errors import RulerError, UsageError
from ruler_data.hub.download import Release
from ruler_data.hub.repo import PushFile
from ruler_data.manifest import BALANCED, FILENAME, ConfigInfo, Manifest, SourceInfo
from ruler_data.names import check_repo, parse_config
from ruler_data.tasks import config_place, task_place
from ruler_data.version import __version__


@dataclass(frozen=True)
class Dataset:
    """The contents of a release; the manifest is the last file."""

    manifest: Manifest
    files: tuple[PushFile, ...]


def compose(
    folder: Path,
    built: Manifest,
    base: Release | None,
    version: Version,
    repo: str,
    siblings: Mapping[str, str] | None = None,
) -> Dataset:
    """Return the dataset with all configs that were published before or are built in a folder.

    A config that was built again replaces the published one; none is removed. `siblings` are added
    to those that the published manifest names.

    Raises:
        UsageError: the two cannot be one dataset.
    """
    before = base.manifest if base else replace(built, siblings={})
    kept = {name: info for name, info in before.configs.items() if name not in built.configs}
    if base is not None:
        _check_same_inputs(built, base, list(kept))
    if before.package_version != __version__:  # which had other floors, or none
        kept = {name: _as_now(before, name, info) for name, info in kept.items()}
    configs, tasks = built.configs | kept, before.tasks | built.tasks
    sources = _sources(before) | _sources(built)
    manifest = replace(
        built,
        data_version=str(version),
        package_version=__version__,
        sources=tuple(sources[name] for name in sorted(sources)),
        configs={name: configs[name] for name in sorted(configs, key=config_place)},
        files={},
        tasks={name: tasks[name] for name in sorted(tasks, key=task_place)},
        siblings={**before.siblings, **(siblings or {})},
    )

    def locate(file: str) -> Path:
        config = file.split("/")[0]
        return base.fetch([config]) / file if base and config in kept else folder / file

    beside = card_files(manifest, locate, Address(repo, version.tag))
    rows = [
        PushFile(info.file, info.bytes, info.sha256, partial(locate, info.file))
        for info in manifest.configs.values()
    ]
    if base is not None and EVAL not in base.manifest.files:
        del beside[EVAL]  # the Hub refused it
    return _dataset(manifest, rows, [PushFile.of_bytes(*item) for item in beside.items()])


def _as_now(manifest: Manifest, name: str, info: ConfigInfo) -> ConfigInfo:
    """Return an older version's entry of a config as this version writes it."""
    floor = known_floor(manifest.suite, *parse_config(name)) or info.floor
    audit = {} if manifest.edition == BALANCED else info.audit
    return replace(info, audit=audit, floor=floor)


def card_of(data: str, revision: str | None, repo: str, version: str | None) -> str:
    """Return the card of a folder or a release, or as it will be in a repo; no line feed ends it.

    Raises:
        UsageError: the options contradict each other.
        RulerError: the folder has no card, or other rows than its manifest says.
    """
    if version and not repo:
        msg = f"--version {version} is of a release in --repo; name that repo too, or leave it out"
        raise UsageError(msg)
    released = Version.parse(version or "1.0.0")
    source = open_source(data, revision)
    folder, manifest = source.folder, source.manifest
    if not repo:
        if source.release:
            source.release.fetch((), ["README.md"])
        elif not (folder / "README.md").is_file():
            raise RulerError(folder, "has no README.md; the same build command writes it again")
        text = (folder / "README.md").read_text(encoding="utf-8", errors="replace")
        return text.removesuffix("\n")
    if source.release:
        msg = "--repo is for a folder; a release has its card"
        raise UsageError(msg)
    if BuildDir(folder).intact(manifest.configs) != manifest.configs:
        raise RulerError(folder, "its rows are not those of its manifest; verify it")
    shown = replace(manifest, data_version=str(released))
    files = card_files(shown, folder.joinpath, Address(check_repo(repo), released.tag))
    return files["README.md"].decode().removesuffix("\n")


def without(dataset: Dataset, path: str) -> Dataset:
    """Return a dataset without one of the files beside its rows."""
    rows = [file for file in dataset.files if "/" in file.path]
    beside = [file for file in dataset.files if "/" not in file.path]
    left = [file for file in beside if file.path not in (path, FILENAME)]
    return _dataset(dataset.manifest, rows, left)


def _dataset(manifest: Manifest, rows: list[PushFile], beside: list[PushFile]) -> Dataset:
    manifest = manifest.with_files({file.path: file.read() for file in beside})
    last = PushFile.of_bytes(FILENAME, manifest.to_json().encode())
    return Dataset(manifest, (*rows, *beside, last))


def _check_same_inputs(new: Manifest, base: Release, kept: list[str]) -> None:
    """Refuse to mix configs of other tokenizers or other inputs."""
    old, where = base.manifest, f"{base.repo} at {base.revision}"
    if not old.tokenizer.counts_like(new.tokenizer):
        msg = (
            f"{where} holds the tokenizer {old.tokenizer.name}, this folder {new.tokenizer.name} "
            "(other files); a repo holds one tokenizer, since loading a config downloads all of "
            "its splits: publish into another repo"
        )
        raise UsageError(msg)
    values = {
        "tokens kept free": tuple(
            (one.tokenizer.template_reserve, one.tokenizer.extra_reserve) for one in (old, new)
        ),
        "edition": (old.edition, new.edition),
        "chat template": (old.chat_template or "none", new.chat_template or "none"),
        "suite": (old.suite, new.suite),
        "seed": (old.seed, new.seed),
        "rows of data version": (old.rows_version.split(".")[0], new.rows_version.split(".")[0]),
    }
    for name in sorted(old.tasks.keys() & new.tasks.keys()):
        values[f"task {name}"] = (old.tasks[name], new.tasks[name])
    new_sources = _sources(new)
    for name in kept:
        for source in old.sources:
            used = source.name in old.table[name.rpartition("_")[0]].sources
            if used and new_sources.get(source.name, source).sha256 != source.sha256:
                values[f"source {source.name}"] = (source.sha256, new_sources[source.name].sha256)
    for what, (before, now) in values.items():
        if kept and before != now:
            msg = (
                f"{where} was built with {what} {before}, this folder with {now}; build all of its "
                f"configs again (this folder has no {kept[0]}), or publish into another repo"
            )
            raise UsageError(msg)


def _sources(manifest: Manifest) -> dict[str, SourceInfo]:
    return {source.name: source for source in manifest.sources}
