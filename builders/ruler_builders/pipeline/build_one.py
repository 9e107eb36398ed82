"""Build one config: draw and fit its rows, check and write them."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from ruler_builders.checks.defects import measure_defects
from ruler_builders.checks.floors import FloorMeter
from ruler_builders.checks.solvers import column_findings, fill_finding, row_findings
from ruler_builders.pipeline.build_context import BuildContext, shows, worker_context
from ruler_builders.pipeline.fit import make_rows, recount, recounted_rows
from ruler_builders.pipeline.plan import BuildPlan
from ruler_builders.pipeline.pool import Progress, no_cycles
from ruler_builders.pipeline.write_parquet import write_rows
from ruler_builders.tasks.qa import repeated
from ruler_builders.upstream import Arguments, edition_of, model_template
from ruler_builders.upstream.columns import packed_rows
from ruler_data.errors import RulerError
from ruler_data.floors import floor as packaged_floor
from ruler_data.manifest import BALANCED, ConfigInfo
from ruler_data.names import config_file
from ruler_data.parquet import read_rows
from ruler_data.row import PackedRow
from ruler_data.tasks import Qa

#: A config's name, its entry for the manifest, and the seconds that it took.
BuiltConfig = tuple[str, ConfigInfo, float]


def build_in_worker(plan: BuildPlan, name: str, progress: Progress) -> BuiltConfig:
    """Build one config in another process, which opens tokenizer and sources itself."""
    return build_one(plan, worker_context(replace(plan, folder=Path())), name, progress)


@no_cycles()
def build_one(plan: BuildPlan, context: BuildContext, name: str, progress: Progress) -> BuiltConfig:
    """Build and check one config in this process.

    Raises:
        RulerError: a row is not what its task asks for, a count is wrong, or the disk is full.
    """
    start = time.monotonic()
    task, length = plan.configs[name]
    path, rows, notes = plan.folder / config_file(name), plan.suite.rows, set[str]()
    floor = packaged_floor(task.name, length, plan.suite.name)
    meter, lengths = None if floor else FloorMeter(task, rows), list[int]()

    def checked_rows() -> Iterator[PackedRow]:
        for place, packed in enumerate(made_rows(plan, context, name, rows, range(rows), notes)):
            row = packed.unpack()
            if plan.edition == BALANCED:
                findings = row_findings(task, length - plan.reserve, place, row)
            else:
                findings = column_findings(task, place, row)
            for flaw in findings:
                msg = f"{name}/{row.index}: {flaw}; please report this"
                raise RulerError(msg)
            lengths.append(row.length)
            if meter:
                meter.add(place, row)
            yield packed
            progress(name, 1)

    info = write_rows(path, checked_rows(), task, length, rows)
    if plan.edition != BALANCED:
        info = replace(info, audit=measure_defects(task, read_rows(path)))
    elif finding := fill_finding(task, length, plan.reserve, lengths):
        path.unlink()
        msg = f"{name}/{finding[0]}: {finding[1]}"
        raise RulerError(msg)
    floor = meter.floor() if meter else floor
    info = replace(info, exhausted=tuple(sorted(notes)), floor=floor)
    return name, info, time.monotonic() - start


def made_rows(
    plan: BuildPlan,
    context: BuildContext,
    name: str,
    rows: int,
    indices: Iterable[int],
    notes: set[str],
) -> Iterator[PackedRow]:
    """Make rows of a config with `rows` rows; `notes` gets the sources that run out.

    The reference library counts a few of them again. An edition of upstream is replayed from row 0
    on.
    """
    task, length = plan.configs[name]
    if plan.edition != BALANCED:
        yield from _replayed(plan, context, name, rows)
        return
    checks = recounted_rows(rows, length)
    for row in make_rows(task, context.sources, indices, context.target(length), notes):
        if row.index in checks:
            _check_prompt(context, f"{name}/{row.index}", row)
        yield row
    if isinstance(task.params, Qa):
        notes.update(repeated(context.sources.corpus(task.params.source), task.params, rows))


def _check_prompt(context: BuildContext, where: str, row: PackedRow) -> None:
    """Check the length of a row by the reference, and that its prompt holds its text whole."""
    tokenizer, content = context.tokenizer, str(row.context, "utf-8") + row.question
    if (exact := recount(tokenizer, row)) != row.length:
        problem = f"{context.tokenizer_info.engine} counts {row.length} tokens"
        remedy = "build with --counter tokenizers, and please report this"
        raise RulerError(where, f"{problem} and the reference {exact}; {remedy}")
    if not shows(tokenizer, content, row.answer_prefix):
        problem = f"the chat template of {tokenizer.info.name} changes context or question"
        raise RulerError(where, problem, "give the tokenizer another template")


def _replayed(plan: BuildPlan, context: BuildContext, name: str, rows: int) -> Iterator[PackedRow]:
    """Yield the rows of a config of an edition of upstream."""
    task, length = plan.configs[name]
    arguments = Arguments(
        edition_of(plan.edition),
        task,
        length,
        rows,
        plan.seed,
        model_template(plan.template),
        template_tokens=plan.reserve,
    )
    return packed_rows(arguments, context.upstream, context.tokenizer)
