"""Build one config: draw and fit its rows, recount a few, write, audit and record them."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ruler_builders.checks.audit_rows import audit_rows
from ruler_builders.checks.audit_upstream import audit_upstream
from ruler_builders.checks.floors import FloorMeter
from ruler_builders.pipeline.build_context import BuildContext, worker_context
from ruler_builders.pipeline.build_dir import BuildDir
from ruler_builders.pipeline.fit import make_rows, recount, recounted_rows
from ruler_builders.pipeline.plan import BuildPlan
from ruler_builders.pipeline.pool import Progress, no_cycles
from ruler_builders.pipeline.write_parquet import write_rows
from ruler_builders.tasks.qa import repeated
from ruler_builders.upstream import Arguments, edition_of, model_template
from ruler_builders.upstream.columns import packed_rows
from ruler_data.errors import RulerError
from ruler_data.manifest import BALANCED, ConfigInfo
from ruler_data.names import config_file
from ruler_data.parquet import read_rows
from ruler_data.row import PackedRow
from ruler_data.tasks import Qa

#: A config's name, its entry for the manifest, and the seconds that it took.
Built = tuple[str, ConfigInfo, float]


def build_in_worker(plan: BuildPlan, name: str, progress: Progress) -> Built:
    """Build one config in another process, which opens tokenizer and sources itself."""
    return build_one(plan, worker_context(replace(plan, folder=Path())), name, progress)


@no_cycles()
def build_one(plan: BuildPlan, context: BuildContext, name: str, progress: Progress) -> Built:
    """Build, audit and record one config in this process.

    Raises:
        RulerError: the audit has findings, a count is wrong, or the disk is full.
    """
    started = time.monotonic()
    task, length = plan.configs[name]
    path, notes = plan.folder / config_file(name), set[str]()
    is_balanced = plan.edition == BALANCED

    def reported() -> Iterator[PackedRow]:
        balanced = _fitted(plan, context, name, notes)
        for row in balanced if is_balanced else _replayed(plan, context, name):
            yield row
            progress(name, 1)

    info = write_rows(path, reported(), task, length, plan.suite.rows)
    meter = FloorMeter(task, info.rows)
    written = meter.watch(read_rows(path))
    if is_balanced:
        audit = audit_rows(name, task, length, written, plan.reserve)
    else:
        audit = audit_upstream(name, task, written)
    if audit.findings:
        path.unlink()
        msg = f"the audit failed: {audit.findings[0]} (findings: {len(audit.findings)})"
        raise RulerError(msg)
    info = replace(info, audit=audit.checks, exhausted=tuple(sorted(notes)), floor=meter.floor())
    BuildDir(plan.folder).record(name, info)
    return name, info, time.monotonic() - started


def _fitted(
    plan: BuildPlan, context: BuildContext, name: str, notes: set[str]
) -> Iterator[PackedRow]:
    """Yield the rows of a config, and note which sources run out."""
    (task, length), rows = plan.configs[name], plan.suite.rows
    recounted = recounted_rows(rows, length)
    for row in make_rows(task, context.sources, range(rows), context.target(length), notes):
        if row.index in recounted and (found := recount(context.tokenizer, row)) != row.length:
            msg = (
                f"{name}/{row.index}: {context.tokenizer_info.engine} counts {row.length} tokens "
                f"and the reference {found}; build with --counter tokenizers, and please report "
                "this"
            )
            raise RulerError(msg)
        yield row
    if isinstance(task.params, Qa):
        notes.update(repeated(context.sources.corpus(task.params.source), task.params, rows))


def _replayed(plan: BuildPlan, context: BuildContext, name: str) -> Iterator[PackedRow]:
    """Yield the rows of a config of an edition of upstream."""
    task, length = plan.configs[name]
    arguments = Arguments(
        edition_of(plan.edition),
        task,
        length,
        plan.suite.rows,
        plan.seed,
        model_template(plan.template),
        template_tokens=plan.reserve,
    )
    return packed_rows(arguments, context.upstream, context.tokenizer)
