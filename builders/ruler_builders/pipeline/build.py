"""The build: options in, a finished folder out. Interrupted anywhere, it resumes.

check the options -> read sources -> lock the folder -> keep what is intact
-> build what is missing (`build_one`) -> card and licences -> manifest, last
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from ruler_builders.card import card_files
from ruler_builders.pipeline.build_config import BuildConfig, silent
from ruler_builders.pipeline.build_context import BuildContext, open_context
from ruler_builders.pipeline.build_dir import BuildDir, locked, workers_lock
from ruler_builders.pipeline.build_one import Built, build_in_worker, build_one
from ruler_builders.pipeline.pool import run_jobs
from ruler_builders.pipeline.validate import check_domains, check_inputs, check_options
from ruler_data.errors import RulerError, UsageError
from ruler_data.manifest import FILENAME, Manifest, shown_seed
from ruler_data.names import parse_config
from ruler_data.options import takes_options
from ruler_data.tasks import TASKS, Task, config_place, task_place
from ruler_data.version import DATA_VERSION, __version__


@takes_options(BuildConfig)
def build(config: BuildConfig) -> Manifest:
    """Build a folder of frozen configs and return its manifest; resume an interrupted build.

    The same options give the same bytes, on any machine and with any number of workers. A script
    that sets `workers` needs the guard `if __name__ == "__main__":`, since workers import it. A
    shard returns the manifest of its configs and writes none.

    Raises:
        UsageError: it cannot be built with these options; nothing was written.
        RulerError: a fault of disk, sources or workers; finished configs are kept.
    """
    return build_folder(config)[0]


def build_folder(config: BuildConfig) -> tuple[Manifest, dict[str, float]]:
    """Do as `build`, and return the seconds that each config took, unless it was kept.

    After shards, the same options without a shard build what is still missing and write the
    manifest.
    """
    check_options(config)
    folder = BuildDir(config.folder)
    folder.check()
    seed = folder.choose_seed(config.seed, fresh=config.fresh)
    chosen = replace(config, suite=config.selection, seed=seed)
    context = open_context(chosen)
    check_domains(chosen, context)
    wanted = _empty_manifest(chosen, context, seed)
    check_inputs(chosen, context, wanted.sources)
    with locked(folder, config.share):
        if not config.fresh or folder.keep_seed(seed) == seed:
            return _build_locked(chosen, context, wanted)
    return build_folder(config)  # another shard has just kept its seed


def _empty_manifest(config: BuildConfig, context: BuildContext, seed: int) -> Manifest:
    """Return the manifest of a build without configs; this reads all sources."""
    sources = {
        source.name: source
        for task in config.selection.tasks.values()
        for source in context.source_infos(task, config.edition)
    }
    return Manifest(
        data_version=DATA_VERSION,
        rows_version=DATA_VERSION,
        package_version=__version__,
        seed=seed,
        suite=config.selection.name,
        tokenizer=context.tokenizer_info,
        sources=tuple(sources[name] for name in sorted(sources)),
        configs={},
        files={},
        pyarrow=pa.__version__,
        tasks=_in_order(config.selection.tasks),
        edition=config.edition,
        chat_template="" if config.template == "base" else config.template,
    )


def _in_order(tasks: Mapping[str, Task]) -> dict[str, Task]:
    """Return the tasks beyond the thirteen in the order of tables."""
    return {name: tasks[name] for name in sorted(tasks.keys() - TASKS.keys(), key=task_place)}


def _build_locked(
    config: BuildConfig, context: BuildContext, wanted: Manifest
) -> tuple[Manifest, dict[str, float]]:
    """Build what is missing in a locked folder."""
    folder, rows = BuildDir(config.folder), config.selection.rows
    finished, manifest = _resume(folder, wanted, rows, force=config.force)
    infos, seconds, names = dict(manifest.configs), dict[str, float](), config.shard_configs
    missing = [name for name in names if name not in infos]
    if finished is not None and not missing and folder.is_whole(finished):
        return finished, seconds
    if missing or not config.share:
        folder.start(manifest, rows)
        for name, info in manifest.configs.items():
            config.progress(name, info.rows)
    if missing:
        longest_first = sorted(missing, key=lambda name: -parse_config(name)[1])
        for name, info, took in _build_configs(config, context, wanted, longest_first):
            infos[name], seconds[name] = info, took
    kept = sorted(names if config.share else infos, key=config_place)
    manifest = replace(manifest, configs={name: infos[name] for name in kept})
    if not config.share:
        manifest = folder.seal(manifest, card_files(manifest, folder.path.joinpath))
    return manifest, seconds


def _build_configs(
    config: BuildConfig, context: BuildContext, wanted: Manifest, names: Sequence[str]
) -> Iterable[Built]:
    """Build configs on this machine or on a Ray cluster."""
    sha256 = {source.name: source.sha256 for source in wanted.sources}
    elsewhere = replace(config, progress=silent, warn=silent)  # no functions of the caller
    if config.engine == "ray":
        from ruler_builders.pipeline.ray_build import build_on_ray

        return build_on_ray(elsewhere, context, sha256, names, config.progress)
    return run_jobs(
        partial(build_in_worker, elsewhere, sha256),
        names,
        config.workers,
        config.progress,
        workers_lock(BuildDir(config.folder), config.share),
        here=partial(build_one, config, context),
    )


def _resume(
    folder: BuildDir, wanted: Manifest, rows: int, *, force: bool
) -> tuple[Manifest | None, Manifest]:
    """Return the manifest of a finished build, if any, and `wanted` with the intact configs."""
    try:
        finished = folder.manifest()
    except RulerError:
        if not force:
            raise
        folder.clear()
        finished = None
    if finished is None:
        unfinished = folder.unfinished()
        if unfinished is None:  # without inputs, configs could be of any build
            return None, wanted
        earlier, earlier_rows = unfinished
    else:
        finished.check(FILENAME)
        earlier = finished
        earlier_rows = min((info.rows for info in finished.configs.values()), default=0)
    differing = _difference(earlier, earlier_rows, wanted, rows)
    if differing and not force:
        msg = (
            f"{folder.path}: holds a build with other inputs ({differing}); choose another "
            "--out, or --force to replace it"
        )
        raise UsageError(msg)
    if differing:
        folder.clear()
        return None, wanted
    sources = {source.name: source for source in (*earlier.sources, *wanted.sources)}
    return finished, replace(
        wanted,
        sources=tuple(sources[name] for name in sorted(sources)),
        configs=folder.intact(earlier.configs),
        tasks=_in_order(earlier.tasks | wanted.tasks),
    )


def _difference(earlier: Manifest, earlier_rows: int, wanted: Manifest, rows: int) -> str:
    """Return the first input in which two builds differ, in words; empty if none.

    The inputs are all that decides the bytes of a config. Builds of different tasks may use
    different sources, so only those that both use are compared.
    """
    before, now = _values(earlier, earlier_rows), _values(wanted, rows)
    if earlier.tokenizer.counts_like(wanted.tokenizer):
        now["tokenizer files"] = before["tokenizer files"]
    for name, value in now.items():
        if before[name] != value:
            shown = shown_seed if name == "seed" else str
            return f"{name} {shown(before[name])}, now {shown(value)}"
    sha256 = {source.name: source.sha256 for source in earlier.sources}
    for source in wanted.sources:
        if (expected := sha256.get(source.name, source.sha256)) != source.sha256:
            return f"source {source.name}: sha256 expected {expected}, found {source.sha256}"
    for name, task in wanted.tasks.items():
        if earlier.tasks.get(name, task) != task:
            return f"task {name} was different: {earlier.tasks[name].params}"
    return ""


def _values(manifest: Manifest, rows: int) -> dict[str, Any]:
    """Return the inputs of a build besides sources and tasks, by the name that errors use."""
    tokenizer = manifest.tokenizer
    return {
        "data version": manifest.rows_version,
        "edition": manifest.edition,
        "chat template": manifest.chat_template or "none",
        "suite": manifest.suite,
        "seed": manifest.seed,
        "rows": rows,
        "tokenizer": tokenizer.name,
        "tokenizer files": tokenizer.fingerprint,
        "template reserve": tokenizer.template_reserve,
        "reserve": tokenizer.extra_reserve,
        "pyarrow": manifest.pyarrow,
    }
