"""Build one config in its context, which a process opens once: draw, fit, check and write rows."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from ruler_builders.checks.defects import measure_defects
from ruler_builders.checks.solvers import column_findings, fill_finding, row_findings
from ruler_builders.pipeline.build_dir import write_rows
from ruler_builders.pipeline.fit import Target, checked_rows, make_row, make_rows, recount
from ruler_builders.pipeline.plan import BuildPlan
from ruler_builders.pipeline.pool import Progress, silent
from ruler_builders.rows.tokenized_sources import TokenizedSources
from ruler_builders.sources import Library
from ruler_builders.tasks.qa import repeated
from ruler_builders.upstream import Arguments, UpstreamSources, edition_of, model_template
from ruler_builders.upstream.columns import packed_rows
from ruler_data.errors import RulerError, UsageError
from ruler_data.floors import floor as packaged_floor
from ruler_data.manifest import BALANCED, ConfigInfo, SourceInfo, TokenizerInfo
from ruler_data.names import config_file
from ruler_data.parquet import read_rows
from ruler_data.row import PackedRow, no_cycles, utf8
from ruler_data.tasks import TASKS, Qa, Task
from ruler_data.tokenizers import PromptTokenizer, load_tokenizer
from ruler_data.tokenizers.protocol import Text, template_reserve

#: Tokens of a build from which loading a fast counter (half a second) saves more than it costs.
WORTHWHILE = 2**18
#: Bytes of each prompt that a fast counter is tested on.
PROBE_LENGTH = 8192
#: A user's turn, which a chat template must neither repeat nor rewrite nor cut. It is longer than
#: rows below 4,096 tokens, whose fill has no bound.
TURN = "HowLongIsThis?" * 5000
#: What a chat template must show as it stands in a user's turn.
SHOWN = {
    "digits": "0 1 23 456 789",
    "the case of letters": "One TWO three",
    "line feeds": "one\ntwo\n\nthree",
    "spaces": "one  two\tthree",
    "punctuation": "<a> & \"b\" 'c' {d} [e] $f `g` **h** #i \\j -> k: l, m!",
    "letters that are not ASCII": "naïve 東京 Ωmega",
}


@dataclass(frozen=True)
class BuildContext:
    """A tokenizer, the sources counted in it, and the sources of editions of upstream.

    `tokenizer_info` is the tokenizer as the manifest names it, with both reserves.
    """

    tokenizer: PromptTokenizer
    tokenizer_info: TokenizerInfo
    sources: TokenizedSources
    upstream: UpstreamSources

    def target(self, length: int) -> Target:
        """Return what rows of a config of this length (tokens) are fitted to."""
        info = self.tokenizer_info
        return Target(length, info.template_reserve, info.extra_reserve)

    def source_infos(self, task: Task, edition: str) -> list[SourceInfo]:
        """Return what the manifest says of the sources of a task; this reads them."""
        if edition != BALANCED:
            return self.upstream.infos(task, edition_of(edition))
        return [self.sources.library.info(name) for name in task.sources]


def open_context(plan: BuildPlan, warn: Callable[[str], None] = silent) -> BuildContext:
    """Find the sources of a build, load its tokenizer and choose the counter.

    Raises:
        UsageError: sources or tokenizer are not available, or the counter named is not exact.
    """
    library = Library(
        plan.sources,
        plan.sources_kind,
        strict=plan.strict_sources,
        warn=warn,
        haystack=plan.haystack,
        samples=plan.samples,
        network=plan.network,
        essays=plan.essays,
    )
    tokenizer = load_tokenizer(plan.tokenizer)
    where = f"tokenizer {tokenizer.info.name}"
    for feature, text in SHOWN.items():
        if not shows(tokenizer, text):
            why = f"its chat template changes {feature} in the user's text ({text!r}), so that no "
            raise UsageError(where, f"{why}prompt is as its row has it; give it another template")
    if has_own_template(tokenizer) and (times := tokenizer.render(TURN, "").count(TURN)) != 1:
        problem = f"its chat template shows the user's text {times} times, and not once as it is"
        raise UsageError(
            f"tokenizer {tokenizer.info.name}: {problem}; no row can be fitted with it"
        )
    if len({*tokenizer.prompt_ids(TURN, "", None)} - {tokenizer.bos_id}) < 2:
        raise UsageError(
            f"tokenizer {tokenizer.info.name}: it reads all words of a text as one token"
        )
    tokenizer.check_bos()
    reserve = template_reserve(tokenizer)
    counter = plan.counter
    if counter == "auto" and plan.tokens < WORTHWHILE:
        counter = "tokenizers"
    tokenizer.use(counter, probes)
    return BuildContext(
        tokenizer,
        replace(tokenizer.info, template_reserve=reserve, extra_reserve=plan.reserve),
        TokenizedSources(plan.seed, library, tokenizer),
        UpstreamSources(library.folder, version=plan.words, network=plan.network),
    )


def has_own_template(tokenizer: PromptTokenizer) -> bool:
    """Whether the chat template comes with the tokenizer; that of mistral-common is the package's.

    Rendering with the package's means decoding, a tenth of a second for a long turn.
    """
    from ruler_data.tokenizers.hf import HfTokenizer

    return isinstance(tokenizer, HfTokenizer)


def shows(tokenizer: PromptTokenizer, text: str) -> bool:
    """Whether a prompt holds a user's text whole; a template may strip a turn."""
    return not has_own_template(tokenizer) or text.strip() in tokenizer.render(text, "")


@lru_cache(maxsize=1)
def worker_context(plan: BuildPlan) -> BuildContext:
    """Open the context of a build in a worker process, once; its parent has downloaded all."""
    os.environ["RULER_OFFLINE"] = "1"
    os.environ["HF_HUB_OFFLINE"] = "1"
    return open_context(plan)


class ByteCounter:
    """Counts bytes, where rows are drawn without a tokenizer."""

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the bytes of each text."""
        return [len(utf8(text)) for text in texts]

    def count_prompt(self, content: Text, answer_prefix: str) -> int:
        """Return the bytes of a prompt without a template."""
        return len(utf8(content)) + len(utf8(answer_prefix))


def probes() -> Iterator[tuple[str, str]]:
    """Yield one prompt of every task (content and answer prefix), made of the sample corpus.

    A fast counter is used only if it gives the ids of the reference on all of them.
    """
    sample = TokenizedSources(0, Library(kind="sample"), ByteCounter())
    for task in TASKS.values():
        row = make_row(task, sample, 0, Target(PROBE_LENGTH, 0)).unpack()
        yield row.context + row.question, row.answer_prefix


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
    path = plan.folder / config_file(name)
    rows = plan.suite.rows
    notes = set[str]()
    lengths = list[int]()

    def checked_rows() -> Iterator[PackedRow]:
        for place, packed in enumerate(made_rows(plan, context, name, rows, range(rows), notes)):
            row = packed.unpack()
            if plan.edition == BALANCED:
                findings = row_findings(task, length - plan.reserve, place, row)
            else:
                findings = column_findings(task, place, row)
            for flaw in findings:
                raise RulerError(f"{name}/{row.index}: {flaw}; please report this")
            lengths.append(row.length)
            yield packed
            progress(name, 1)

    info = write_rows(path, checked_rows(), task, length, rows)
    if plan.edition != BALANCED:
        info = replace(info, audit=measure_defects(task, read_rows(path)))
    elif finding := fill_finding(task, length, plan.reserve, lengths):
        path.unlink()
        raise RulerError(f"{name}/{finding[0]}: {finding[1]}")
    floor = packaged_floor(task.name, length, plan.suite.name)
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

    A few of them are checked. An edition of upstream is replayed from row 0 on.
    """
    task, length = plan.configs[name]
    if plan.edition != BALANCED:
        yield from _replayed(plan, context, name, rows)
        return
    checks = checked_rows(rows, length)
    is_recounted = recounted(plan, name)
    for row in make_rows(task, context.sources, indices, context.target(length), notes):
        if row.index in checks:
            _check_prompt(context, f"{name}/{row.index}", row, is_recounted=is_recounted)
        yield row
    if isinstance(task.params, Qa):
        notes.update(repeated(context.sources.corpus(task.params.source), task.params, rows))


#: Tasks between those that are recounted at neighbouring lengths: other texts at each.
RECOUNTED_STEP = 5


def recounted(plan: BuildPlan, name: str) -> bool:
    """Whether the reference library counts rows of a config again.

    It takes a hundred times as long as a fast counter, so each length has one config whose rows it
    counts, of another task than the lengths beside it.
    """
    task, length = plan.configs[name]
    tasks = [*plan.suite.tasks]
    place = RECOUNTED_STEP * plan.suite.lengths.index(length)
    return task.name == tasks[place % len(tasks)]


def _check_prompt(context: BuildContext, where: str, row: PackedRow, *, is_recounted: bool) -> None:
    """Check that a prompt holds its text whole, and its fast count by the reference."""
    tokenizer = context.tokenizer
    content = str(row.context, "utf-8") + row.question
    if not shows(tokenizer, content):
        problem = f"the chat template of {tokenizer.info.name} changes context or question"
        raise RulerError(where, problem, "give the tokenizer another template")
    if not (is_recounted and tokenizer.is_fast):
        return
    exact = recount(tokenizer, row)
    if exact != row.length:
        raise RulerError(
            where,
            f"{context.tokenizer_info.engine} counts {row.length} tokens and the reference "
            f'{exact}; build in Python with counter="tokenizers", and please report this',
        )


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
