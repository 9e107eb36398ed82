"""The build: options in, a finished folder out. Interrupted anywhere, it resumes.

check the options -> read sources -> lock the folder -> keep what is intact
-> build what is missing (`build_one`) -> card and licences -> manifest, last
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ruler_builders.pipeline.build_dir import BuildDir
from ruler_builders.pipeline.build_one import BuildContext, build_in_worker, build_one, open_context
from ruler_builders.pipeline.fit import answer_need, least_length, need
from ruler_builders.pipeline.plan import BuildPlan
from ruler_builders.pipeline.pool import Progress, processes, run_jobs
from ruler_builders.sources.domains import PREFIX
from ruler_builders.sources.library import sources_option
from ruler_builders.sources.text_files import read_text
from ruler_data.errors import BudgetError, RulerError, UsageError
from ruler_data.manifest import BALANCED, FILENAME, Manifest, SourceInfo, shown_seed
from ruler_data.names import counted, parse_config, quote
from ruler_data.reasoning import opens
from ruler_data.suites import packaged_suite
from ruler_data.tasks import OWN_FILE, TASKS, Task, config_place, task_place
from ruler_data.tokenizers.chat_template import TODAY
from ruler_data.tokenizers.registry import REGISTRY, folder_note
from ruler_data.version import DATA_VERSION, __version__


@dataclass(frozen=True, eq=False, repr=False)
class BuiltManifest(Manifest):
    """The manifest of a folder that was just built.

    Attributes:
        folder: that was built.
        seconds: build time by config; configs of an earlier build have none.
        lacking: why the sample was built in place of the real sources; empty if they were used.
    """

    folder: Path = field(kw_only=True)
    seconds: Mapping[str, float] = field(kw_only=True)
    lacking: str = field(kw_only=True, default="")

    def __eq__(self, manifest: object) -> bool:
        return isinstance(manifest, Manifest) and self.to_json() == manifest.to_json()

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
        lines = list(map(_unbroken, self._closing_lines()))
        if not self.seconds:
            return Group(*lines)
        table = Table("config", "rows", "fill mean", "fill min", "MB", "seconds", box=None)
        for column in table.columns[1:]:
            column.justify = "right"
        for name, info in self.configs.items():
            fills = (f"{info.fill_mean:.4f}", f"{info.fill_min:.4f}", f"{info.bytes / 1e6:.2f}")
            duration = "kept"
            if name in self.seconds:
                duration = f"{self.seconds[name]:.1f}"
            table.add_row(name, str(info.rows), *fills, duration)
        return Group(table, *lines)

    def _closing_lines(self) -> Iterator[str]:
        """Yield what was built, in lines; the last of a sample says that it is not RULER."""
        suite = ""
        if self.suite != "ruler":
            suite = f" of the suite {self.suite}"
        size = sum(info.bytes for info in self.configs.values()) / 1e6
        total = f"{self.folder}: {counted(len(self.configs), 'config')}{suite}, {size:.1f} MB"
        if not self.seconds:
            yield f"{total}: complete, nothing to do"
        elif self.is_upstream:
            yield f"{total}, the rows of {self.edition} with its known defects"
        else:
            yield f"{total}, checked"
        if self.is_private and self.seconds:
            yield (
                f"{self.folder}: built from a private seed, which its manifest contains: do not "
                "share the folder; the same command resumes with this seed"
            )
        if self.is_sample:
            yield f"{self.folder} is NOT RULER but a SAMPLE build: {self._cause()}"

    def _cause(self) -> str:
        """Return why the sample was taken, and what would help."""
        if not self.lacking:
            return "its texts are the sample corpus of this package; scores cannot be compared"
        return (
            f"the real sources are not available ({self.lacking}); or give {sources_option()}; the "
            "same command then builds RULER beside it"
        )


def _unbroken(line: str) -> Text:
    """Return a line that only the terminal wraps."""
    return Text(line, no_wrap=True, overflow="ignore")


def _tokenizer_notes(plan: BuildPlan, context: BuildContext) -> Iterator[str]:
    """Yield what the user should know of a tokenizer and its chat template."""
    name = context.tokenizer_info.name
    if note := folder_note(context.tokenizer_info):
        yield note
    if name not in REGISTRY and TODAY in context.tokenizer.render("x", ""):
        yield (
            f"the chat template of {name} tells the date: rows and runs say {TODAY}; a server that "
            "renders prompts itself (--option api=chat) may say another"
        )
    thinks = opens(context.tokenizer.render("{content}", "", {"enable_thinking": False}))
    if thinks and not plan.reserve and plan.template == "base":
        yield (
            f"the chat template of {name} opens a block of reasoning: --protocol completion and "
            "chat refuse it, and these rows leave no room for thinking; give --reserve 16384"
        )


def build_folder(
    plan: BuildPlan,
    *,
    workers: int,
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
    empty = empty_manifest(plan, context)
    if plan.lacking:
        warn(f"the real sources are not available; the SAMPLE corpus is built in {plan.folder}")
    for note in _tokenizer_notes(plan, context):
        warn(note)
    if plan.edition == BALANCED:
        _check_texts(plan, context)
        _check_lengths(plan, context)
        _check_rows(plan, context)
        _check_answers(plan, context)
    else:
        _check_pinned(empty.sources, warn, strict=plan.strict_sources)
    with folder.locked():
        finished, manifest = _resume(folder, empty, plan.suite.rows, force=force)
        missing = [name for name in plan.configs if name not in manifest.configs]
        if finished is not None and not missing and not any(folder.damaged(finished)):
            return BuiltManifest(
                **vars(finished), folder=plan.folder, seconds={}, lacking=plan.lacking
            )
        folder.start(manifest)
        for name, info in manifest.configs.items():
            getattr(progress, "skip", progress)(name, info.rows)
        seconds = dict[str, float]()
        longest_first = sorted(missing, key=lambda name: -parse_config(name)[1])
        lengths = [parse_config(name)[1] for name in longest_first]
        count = processes(workers, plan.suite.rows * sum(lengths), max(lengths, default=0))
        work = partial(build_in_worker, plan)
        in_process = partial(build_one, plan, context)
        results = run_jobs(work, longest_first, count, progress, in_process)
        for name, info, seconds[name] in results:
            manifest = replace(manifest, configs={**manifest.configs, name: info})
            folder.save(manifest)
        from ruler_builders.card import card_files  # slow to load, and needed last

        names = sorted(manifest.configs, key=config_place)
        manifest = replace(manifest, configs={name: manifest.configs[name] for name in names})
        sealed = folder.seal(manifest, card_files(manifest, plan.folder.joinpath))
        return BuiltManifest(
            **vars(sealed), folder=plan.folder, seconds=seconds, lacking=plan.lacking
        )


def empty_manifest(plan: BuildPlan, context: BuildContext) -> Manifest:
    """Return the manifest of a build without configs; this reads all sources."""
    sources = {
        source.name: source
        for task in plan.suite.tasks.values()
        for source in context.source_infos(task, plan.edition)
    }
    return Manifest(
        data_version=DATA_VERSION,
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


def _resume(
    folder: BuildDir, empty: Manifest, rows: int, *, force: bool
) -> tuple[Manifest | None, Manifest]:
    """Return the manifest of a finished build, if any, and `empty` with the intact configs."""
    try:
        finished = folder.manifest()
        if finished is not None:
            finished.check(FILENAME)
    except RulerError:
        if not force:
            raise
        folder.clear()
        finished = None
    earlier = finished or folder.unfinished()
    if earlier is None:
        return None, empty
    if differing := _difference(earlier, empty, rows):
        if not force:
            raise UsageError(
                f"{folder.path}: holds a build with other inputs ({differing}); choose another "
                "--out, give the options that it was built with, or replace it with `build --force`"
            )
        folder.clear()
        return None, empty
    sources = {source.name: source for source in (*earlier.sources, *empty.sources)}
    return finished, replace(
        empty,
        sources=tuple(sources[name] for name in sorted(sources)),
        configs=folder.intact(earlier.configs),
        tasks=in_order(earlier.tasks | empty.tasks),
    )


def _difference(earlier: Manifest, later: Manifest, rows: int) -> str:
    """Return the first input in which two builds differ, in words; empty if none."""
    old = earlier.tokenizer
    new = later.tokenizer
    fewest = min((info.rows for info in earlier.configs.values()), default=rows)
    files = new.fingerprint
    if old.counts_like(new):
        files = old.fingerprint
    for name, before, now in (
        ("data version", earlier.data_version, later.data_version),
        ("rows", fewest, rows),
        ("tokenizer", old.name, new.name),
        ("tokenizer files", old.fingerprint, files),
        ("pyarrow", earlier.pyarrow, later.pyarrow),
        *compared_inputs(earlier, later),
    ):
        if before != now:
            if name == "seed":
                before = shown_seed(before)
                now = shown_seed(now)
            return f"{name} {before}, now {now}"
    return ""


def compared_inputs(earlier: Manifest, later: Manifest) -> Iterator[tuple[str, Any, Any]]:
    """Yield the inputs of rows besides tokenizer and version: name, and value in two manifests.

    Builds of different tasks may use different sources, so only those that both use are compared.
    """
    before = _inputs(earlier)
    now = _inputs(later)
    return ((name, before[name], now[name]) for name in now if name in before)


def _inputs(manifest: Manifest) -> dict[str, Any]:
    return {
        "edition": manifest.edition,
        "chat template": manifest.chat_template or "none",
        "suite": manifest.suite,
        "seed": manifest.seed,
        "template reserve": manifest.tokenizer.template_reserve,
        "reserve": manifest.tokenizer.extra_reserve,
        **{f"source {source.name}": source.sha256 for source in manifest.sources},
        **{f"task {name}": task for name, task in manifest.tasks.items()},
    }


def _check_pinned(
    sources: Sequence[SourceInfo], warn: Callable[[str], None], *, strict: bool
) -> None:
    """Warn of files that are not those of upstream; its rows could not be made of them."""
    for source in (source for source in sources if not source.pinned):
        msg = f"source {source.name}: sha256 {source.sha256} is not a known file of upstream"
        if strict:
            raise RulerError(msg)
        warn(f"{msg}; rows are upstream's for this file, and the manifest says pinned: false")


def _check_texts(plan: BuildPlan, context: BuildContext) -> None:
    """Refuse user texts that contain a special token of the tokenizer.

    A needle hidden in such a text would stand before or after the end of the user's turn.
    """
    tokens = sorted(filter(None, context.tokenizer.special_tokens), key=len, reverse=True)
    if not tokens:
        return
    pattern = re.compile("|".join(map(re.escape, tokens)))
    for where, text in _user_texts(plan, context):
        if match := pattern.search(text):
            line = text.count("\n", 0, match.start()) + 1
            raise UsageError(
                f"{where}, line {line}: {quote(match[0])}: {context.tokenizer_info.name} would "
                "treat this text as a special token; remove it or spell it differently"
            )


def _user_texts(plan: BuildPlan, context: BuildContext) -> Iterator[tuple[str, str]]:
    """Yield the user's texts that tasks draw from, each with its place."""
    used = {source for task in plan.suite.tasks.values() for source in task.sources}
    if folder := context.sources.library.own:
        for domain, files in folder.domains.items():
            if PREFIX + domain in used:
                for file in files:
                    where = f"--haystack: domain {domain}: {quote(file)}"
                    yield where, read_text(folder.root / file)
    for name in sorted(filter(OWN_FILE.fullmatch, used)):
        corpus = context.sources.corpus(name)
        for text in (*corpus.documents, *(question.text for question in corpus.questions)):
            yield f"source {name}: {quote(text)}", text


def _check_lengths(plan: BuildPlan, context: BuildContext) -> None:
    """Refuse lengths at which a row of a task does not fit."""
    short: dict[str, tuple[str, int, int]] = {}
    for name, (task, length) in plan.configs.items():
        # Near the limit all rows are tried, elsewhere a few.
        rows = plan.suite.rows
        if length - plan.reserve >= ALWAYS_FITS:
            rows = 0 if task.name in TASKS else min(rows, 8)
        target = context.target(length)
        lengths = (least_length(task, context.sources, index, target) for index in range(rows))
        if any(least > length for least in lengths):
            needs = [need(task, context.sources, index, target) for index in range(rows)]
            short[name] = task.name, max(needs), length
    if short:
        minima = (f"{name} needs at least {least} tokens" for name, (_, least, _) in short.items())
        raise BudgetError(
            *next(iter(short.values())),
            f"too short: {'; '.join(minima)}; use a greater length or leave the task out",
        )


#: Length (tokens) from which the thirteen tasks are known to fit in every known tokenizer.
ALWAYS_FITS = 4096


def _check_answers(plan: BuildPlan, context: BuildContext) -> None:
    """Refuse tasks of a user's suite in whose `max_new_tokens` no answer of some row fits."""
    if packaged_suite(plan.suite.name):
        return
    shortest = {task.name: (task, length) for task, length in reversed(plan.configs.values())}
    for name, (task, length) in shortest.items():
        if name in TASKS:
            continue
        target = context.target(length)
        rows = range(plan.suite.rows)
        needs = [answer_need(task, context.sources, index, target) for index in rows]
        if (most := max(needs, default=0)) > task.max_new_tokens:
            raise UsageError(
                f"{name}: max_new_tokens: {task.max_new_tokens}: no answer to row "
                f"{needs.index(most)} fits, the shortest takes {most} tokens of "
                f"{context.tokenizer_info.name}; give the task max_new_tokens: {most} or more"
            )


def _check_rows(plan: BuildPlan, context: BuildContext) -> None:
    """Refuse more rows than questions for tasks whose rows differ only in the question."""
    for name, task in plan.suite.tasks.items():
        if task.fills:
            continue
        source = task.sources[0]
        questions = len(context.sources.corpus(source).questions)
        if plan.suite.rows > questions:
            raise UsageError(
                f"{name}: {source} has {questions} questions, and without documents, a repeated "
                f"question gives an identical row; use --rows {questions} or fewer"
            )
