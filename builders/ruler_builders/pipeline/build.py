"""The build: options in, a finished folder out. Interrupted anywhere, it resumes.

check the options -> read sources -> lock the folder -> keep what is intact
-> build what is missing (`build_one`) -> card and licences -> manifest, last
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Group, RenderableType
from rich.table import Table

from ruler_builders.pipeline.build_context import BuildContext, open_context
from ruler_builders.pipeline.build_dir import BuildDir, locked
from ruler_builders.pipeline.build_one import Built, build_in_worker, build_one
from ruler_builders.pipeline.plan import BuildPlan
from ruler_builders.pipeline.pool import Progress, run_jobs
from ruler_builders.pipeline.validate import check_domains, check_inputs
from ruler_data.errors import RulerError, UsageError
from ruler_data.manifest import FILENAME, Manifest, shown_seed
from ruler_data.names import counted, parse_config
from ruler_data.tasks import TASKS, Task, config_place, task_place
from ruler_data.version import DATA_VERSION, __version__


@dataclass(frozen=True, eq=False)
class BuiltManifest(Manifest):
    """The manifest of a folder that was just built.

    Attributes:
        folder: that was built.
        seconds: that each config took; one that was kept is not among them.
    """

    folder: Path = field(kw_only=True)
    seconds: Mapping[str, float] = field(kw_only=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Manifest) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def to_record(self) -> dict[str, Any]:
        """Return the folder and its configs with their figures."""
        configs = {
            name: {**asdict(info), "seconds": self.seconds.get(name)}
            for name, info in self.configs.items()
        }
        return {"folder": str(self.folder), "configs": configs}

    def __rich__(self) -> RenderableType:
        """A line for each config and a summary; one line if there was nothing to do."""
        suite = "" if self.suite == "ruler" else f" of the suite {self.suite}"
        size = sum(info.bytes for info in self.configs.values()) / 1e6
        total = f"{self.folder}: {counted(len(self.configs), 'config')}{suite}, {size:.1f} MB"
        if not self.seconds:
            return f"{total}: complete, nothing to do"
        what = "checked"
        if self.is_upstream:
            what = f"the rows of {self.edition} with its known defects"
        elif self.is_sample:
            what += ", a SAMPLE build, not comparable with RULER"
        lines = [f"{total}, {what}"]
        if self.is_private:
            lines.append(
                f"{self.folder}: built from a private seed, which its manifest contains: do not "
                "share the folder; the same command resumes with this seed"
            )
        return Group(self._table(), *lines)

    def _table(self) -> Table:
        table = Table("config", "rows", "fill mean", "fill min", "MB", "seconds", box=None)
        for column in table.columns[1:]:
            column.justify = "right"
        for name, info in self.configs.items():
            table.add_row(
                name,
                str(info.rows),
                f"{info.fill_mean:.4f}",
                f"{info.fill_min:.4f}",
                f"{info.bytes / 1e6:.2f}",
                f"{self.seconds[name]:.1f}" if name in self.seconds else "kept",
            )
        return table


def build_folder(
    plan: BuildPlan,
    *,
    workers: int,
    on_ray: bool,
    force: bool,
    progress: Progress,
    warn: Callable[[str], None],
) -> BuiltManifest:
    """Build what is missing in a folder, and return its manifest.

    Raises:
        UsageError: it cannot be built with these options; nothing was written.
        RulerError: a fault of disk, sources or workers; finished configs are kept.
    """
    folder = BuildDir(plan.folder)
    folder.check()
    context = open_context(plan, warn)
    check_domains(plan, context)
    wanted = empty_manifest(plan, context)
    check_inputs(plan, context, wanted.sources, warn)
    with locked(folder):
        finished, manifest = _resume(folder, wanted, plan.suite.rows, force=force)
        missing = [name for name in plan.configs if name not in manifest.configs]
        if finished is not None and not missing and folder.is_whole(finished):
            return BuiltManifest(**vars(finished), folder=plan.folder, seconds={})
        folder.start(manifest, plan.suite.rows)
        for name, info in manifest.configs.items():
            progress(name, info.rows)
        infos, seconds = dict(manifest.configs), dict[str, float]()
        longest_first = sorted(missing, key=lambda name: -parse_config(name)[1])
        work = partial(_build_configs, plan, context, longest_first, workers, progress)
        for name, info, took in work(on_ray=on_ray):
            infos[name], seconds[name] = info, took
        configs = {name: infos[name] for name in sorted(infos, key=config_place)}
        return BuiltManifest(
            **vars(_seal(folder, replace(manifest, configs=configs))),
            folder=plan.folder,
            seconds=seconds,
        )


def _seal(folder: BuildDir, manifest: Manifest) -> Manifest:
    from ruler_builders.card import card_files  # slow to load, and needed last

    return folder.seal(manifest, card_files(manifest, folder.path.joinpath))


def empty_manifest(plan: BuildPlan, context: BuildContext) -> Manifest:
    """Return the manifest of a build without configs; this reads all sources."""
    sources = {
        source.name: source
        for task in plan.suite.tasks.values()
        for source in context.source_infos(task, plan.edition)
    }
    return Manifest(
        data_version=DATA_VERSION,
        rows_version=DATA_VERSION,
        package_version=__version__,
        seed=plan.seed,
        suite=plan.suite.name,
        tokenizer=context.tokenizer_info,
        sources=tuple(sources[name] for name in sorted(sources)),
        configs={},
        files={},
        pyarrow=pa.__version__,
        tasks=in_order(plan.suite.tasks),
        edition=plan.edition,
        chat_template="" if plan.template == "base" else plan.template,
    )


def in_order(tasks: Mapping[str, Task]) -> dict[str, Task]:
    """Return the tasks beyond the thirteen in the order of tables."""
    return {name: tasks[name] for name in sorted(tasks.keys() - TASKS.keys(), key=task_place)}


def _build_configs(
    plan: BuildPlan,
    context: BuildContext,
    names: Sequence[str],
    workers: int,
    progress: Progress,
    *,
    on_ray: bool,
) -> Iterable[Built]:
    """Build configs on this machine or on a Ray cluster."""
    if on_ray:
        from ruler_builders.pipeline.ray_build import build_on_ray

        return build_on_ray(plan, context, names, workers, progress)
    here = partial(build_one, plan, context)
    return run_jobs(partial(build_in_worker, plan), names, workers, progress, here)


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
        tasks=in_order(earlier.tasks | wanted.tasks),
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
