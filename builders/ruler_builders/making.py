"""Making one config: its rows drawn, fitted, counted again in part, written and audited."""

import time
from collections.abc import Iterator
from dataclasses import replace

from ruler_builders.audit.checks import audit_rows
from ruler_builders.fit import make_rows
from ruler_builders.folder import Folder
from ruler_builders.freeze import write_rows
from ruler_builders.order import Done, Job
from ruler_builders.parallel import Progress
from ruler_builders.workshop import Workshop, workers_workshop
from ruler_data.errors import RulerError
from ruler_data.names import config_file
from ruler_data.parquet import read_packed
from ruler_data.row import PackedRow

#: One row in so many is counted again by the reference.
RECOUNT_EVERY = 100


def build_config(job: Job, progress: Progress) -> Done:
    """Build, audit and record one config, in whatever process."""
    shop = workers_workshop(job.order.recipe)
    for name in job.task.sources:
        found = shop.materials.library.info(name).sha256
        if found != job.sources[name]:
            msg = (
                f"source {name} changed while it was built from: sha256 expected "
                f"{job.sources[name]}, found {found}"
            )
            raise RulerError(msg)
    return make_config(job, shop, progress)


def make_config(job: Job, shop: Workshop, progress: Progress) -> Done:
    """Build, audit and record one config in this process.

    Raises:
        RulerError: the audit refuses it, a count is wrong, or the disk is full.
    """
    started = time.monotonic()
    path = job.order.out / config_file(job.config)
    exhausted: dict[str, None] = {}

    def rows() -> Iterator[PackedRow]:
        target = shop.target(job.length)
        for fitted in make_rows(job.task, shop.materials, range(job.order.rows), target):
            if fitted.row.index % RECOUNT_EVERY == 0:
                _recount(job.config, shop, fitted.row)
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
    notes = [*exhausted, *_asked_again(job, shop)]
    info = replace(info, audit=audit.checks, exhausted=tuple(sorted(notes)))
    Folder(job.order.out).record(job.config, info)
    return Done(job.config, info, time.monotonic() - started)


def _recount(config: str, shop: Workshop, row: PackedRow) -> None:
    """Count a row again by the reference.

    Raises:
        RulerError: it counts otherwise, so the fast counter is not exact after all.
    """
    content = str(row.context, "utf-8") + row.question
    found = shop.tokenizer.recount_prompt(content, row.answer_prefix) + row.max_new_tokens
    if found != row.length:
        engine, remedy = shop.tokenizer_info.engine, "build with --counter tokenizers, and "
        if engine.startswith("tokenizers "):
            engine, remedy = f"{engine}, given pieces of the text,", ""
        msg = (
            f"{config}/{row.index}: {engine} counts {row.length} tokens and the reference {found}; "
            f"{remedy}please report this"
        )
        raise RulerError(msg)


def _asked_again(job: Job, shop: Workshop) -> list[str]:
    """Say so where a question answering task has more rows than its source has questions."""
    source = next((name for name in job.task.sources if name in ("squad", "hotpotqa")), None)
    if source is None:
        return []
    asked = len(shop.materials.corpus(source).questions)
    if asked >= job.order.rows:
        return []
    return [f"{source} has {asked} questions: rows {asked} and up ask them again"]
