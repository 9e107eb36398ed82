"""The build: recipe in, folder out; interrupted anywhere, it goes on where it was.

Making one config: its rows drawn, fitted, counted again in part, written and audited.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from ruler_builders.card import card_files
from ruler_builders.checks.audit_rows import audit_rows
from ruler_builders.pipeline.build_config import (
    BuildConfig,
    BuildJob,
    BuiltConfig,
    configs_of_shard,
)
from ruler_builders.pipeline.build_context import BuildContext, open_context, worker_context
from ruler_builders.pipeline.build_dir import BuildDir, locked, workers_lock
from ruler_builders.pipeline.fingerprint import Fingerprint
from ruler_builders.pipeline.fit import make_rows
from ruler_builders.pipeline.pool import Progress, run_jobs
from ruler_builders.pipeline.validate import check_domains, check_lengths, check_rows, check_texts
from ruler_builders.pipeline.write_parquet import write_rows
from ruler_builders.sources import Library
from ruler_data.errors import RulerError, UsageError
from ruler_data.manifest import FILENAME, ConfigInfo, Manifest
from ruler_data.names import config_file
from ruler_data.parquet import read_packed
from ruler_data.row import PackedRow
from ruler_data.tasks import config_place
from ruler_data.version import DATA_VERSION, __version__

#: What runs jobs: opened recipe, jobs and progress in, finished configs out.
Engine = Callable[[BuildContext, Sequence[BuildJob], Progress], Iterable[BuiltConfig]]


def build(
    order: BuildConfig, library: Library, progress: Progress, engine: Engine | None = None
) -> tuple[Manifest | None, list[BuiltConfig]]:
    """Build a folder, or what is missing of it, and return its manifest and its configs.

    A shard builds its share of the configs and leaves the manifest, None here, to the same
    order without a shard, which builds whatever is still missing.

    Raises:
        UsageError: it cannot be built as asked; nothing was written.
        RulerError: a fault of disk, sources or workers; what is finished is kept.
    """
    folder = BuildDir(order.out)
    folder.check()
    check_domains(order, library)
    context = open_context(order.recipe, library)
    asked = {name: order.suite.tasks[name] for name in order.tasks}
    sources = context.source_infos(tuple(asked.values()))
    inputs = Fingerprint.asked(
        order.recipe.seed, order.rows, context.tokenizer_info, sources, order.suite.name, asked
    )
    check_texts(order, context)
    check_lengths(order, context)
    check_rows(order, context)
    with locked(folder, order.share):
        manifest, inputs, infos = _resumed(folder, order, inputs)
        missing = [name for name in configs_of_shard(order) if name not in infos]
        done = [BuiltConfig(name, info, None) for name, info in infos.items()]
        if manifest is not None and not missing and folder.is_whole(manifest):
            return manifest, done
        if order.shard and not missing:
            return None, [one for one in done if one.config in configs_of_shard(order)]
        folder.start(inputs.to_record(), infos)
        for name, info in infos.items():
            progress(name, info.rows)
        hashes = {source.name: source.sha256 for source in sources}
        jobs = sorted(
            (BuildJob(order, name, hashes) for name in missing), key=lambda job: -job.length
        )
        if jobs:
            done += (engine or build_here)(context, jobs, progress)
        done.sort(key=lambda one: config_place(one.config))
        if order.shard:
            return None, [one for one in done if one.config in configs_of_shard(order)]
        return _complete(folder, order, context, inputs, done), done


def build_here(
    context: BuildContext, jobs: Sequence[BuildJob], progress: Progress
) -> Iterable[BuiltConfig]:
    """Build configs on this machine, on as many processes as the order has workers."""
    order = jobs[0].order
    held = workers_lock(BuildDir(order.out), order.share)
    return run_jobs(
        build_config,
        jobs,
        order.workers,
        progress,
        held,
        lambda job, seen: make_config(job, context, seen),
    )


def _resumed(
    folder: BuildDir, order: BuildConfig, asked: Fingerprint
) -> tuple[Manifest | None, Fingerprint, dict[str, ConfigInfo]]:
    """Return the manifest, the inputs and the intact configs that an order goes on with.

    Raises:
        UsageError: the folder holds a build of other inputs, which the order is not to replace.
    """
    manifest, earlier = _found(folder, order)
    if earlier is None:  # records whose inputs are lost could be of any build
        return None, asked, {}
    differing = asked.difference(earlier)
    if not differing:
        infos = folder.intact(manifest.configs if manifest else folder.records())
        return manifest, asked.merged(earlier), infos
    if not order.force:
        msg = (
            f"{order.out}: holds a build with other inputs ({differing}); choose another "
            "--out, or --force to replace it"
        )
        raise UsageError(msg)
    folder.clear()
    return None, asked, {}


def _found(folder: BuildDir, order: BuildConfig) -> tuple[Manifest | None, Fingerprint | None]:
    """Return the manifest of a folder and the inputs of what it holds, finished or not.

    Raises:
        RulerError: the manifest is damaged, and the order is not to replace it.
    """
    try:
        manifest = folder.manifest()
    except RulerError:
        if not order.force:
            raise
        folder.clear()
        return None, None
    if manifest is not None:
        manifest.check(FILENAME)
        return manifest, Fingerprint.of_manifest(manifest)
    record = folder.inputs()
    return None, Fingerprint.from_record(record) if record else None


def _complete(
    folder: BuildDir,
    order: BuildConfig,
    context: BuildContext,
    inputs: Fingerprint,
    done: list[BuiltConfig],
) -> Manifest:
    """Write card and licences, and last the manifest."""
    manifest = Manifest(
        data_version=DATA_VERSION,
        rows_version=DATA_VERSION,
        package_version=__version__,
        seed=order.recipe.seed,
        suite=order.suite.name,
        tokenizer=context.tokenizer_info,
        sources=tuple(inputs.sources[name] for name in sorted(inputs.sources)),
        configs={one.config: one.info for one in done},
        files={},
        pyarrow=pa.__version__,
        tasks=inputs.own_tasks,
    )
    return folder.seal(manifest, card_files(manifest, folder.path.joinpath))


#: One row in so many is counted again by the reference.
RECOUNT_EVERY = 100


def build_config(job: BuildJob, progress: Progress) -> BuiltConfig:
    """Build, audit and record one config, in whatever process."""
    context = worker_context(job.order.recipe)
    for name in job.task.sources:
        found = context.sources.library.info(name).sha256
        if found != job.sources[name]:
            msg = (
                f"source {name} changed while it was built from: sha256 expected "
                f"{job.sources[name]}, found {found}"
            )
            raise RulerError(msg)
    return make_config(job, context, progress)


def make_config(job: BuildJob, context: BuildContext, progress: Progress) -> BuiltConfig:
    """Build, audit and record one config in this process.

    Raises:
        RulerError: the audit refuses it, a count is wrong, or the disk is full.
    """
    started = time.monotonic()
    path = job.order.out / config_file(job.config)
    exhausted: dict[str, None] = {}

    def rows() -> Iterator[PackedRow]:
        target = context.target(job.length)
        for fitted in make_rows(job.task, context.sources, range(job.order.rows), target):
            if fitted.row.index % RECOUNT_EVERY == 0:
                _recount(job.config, context, fitted.row)
            if fitted.exhausted:
                exhausted[f"{fitted.exhausted} repeat within a row"] = None
            yield fitted.row
            progress(job.config, 1)

    info = write_rows(path, rows(), job.task, job.length, job.order.rows)
    reserve = job.order.recipe.extra_reserve
    audit = audit_rows(job.config, job.task, job.length, read_packed(path), reserve)
    if audit.findings:
        path.unlink()
        msg = f"the audit refuses {audit.findings[0]} ({len(audit.findings)} findings)"
        raise RulerError(msg)
    notes = [*exhausted, *_asked_again(job, context)]
    info = replace(info, audit=audit.checks, exhausted=tuple(sorted(notes)))
    BuildDir(job.order.out).record(job.config, info)
    return BuiltConfig(job.config, info, time.monotonic() - started)


def _recount(config: str, context: BuildContext, row: PackedRow) -> None:
    """Count a row again by the reference.

    Raises:
        RulerError: it counts otherwise, so the fast counter is not exact after all.
    """
    content = str(row.context, "utf-8") + row.question
    found = context.tokenizer.recount_prompt(content, row.answer_prefix) + row.max_new_tokens
    if found != row.length:
        msg = (
            f"{config}/{row.index}: {context.tokenizer_info.engine} counts {row.length} tokens and "
            f"the reference {found}; build with --counter tokenizers, and please report this"
        )
        raise RulerError(msg)


def _asked_again(job: BuildJob, context: BuildContext) -> list[str]:
    """Say so where a question answering task has more rows than its source has questions."""
    source = next((name for name in job.task.sources if name in ("squad", "hotpotqa")), None)
    if source is None:
        return []
    asked = len(context.sources.corpus(source).questions)
    if asked >= job.order.rows:
        return []
    return [f"{source} has {asked} questions: rows {asked} and up ask them again"]
