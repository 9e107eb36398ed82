"""`ruler-data identify --out`: anybody's rows as a frozen folder, and their defects.

    parse (`layouts`) -> solve, find the evidence -> count -> parquet -> card, manifest

The edition of such a folder is `imported`. Its prompts and answers are those of the files, but for
an answer prefix that they have lost; `run`, `score` and `compare` take it like any other.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from ruler_builders.card import card_files
from ruler_builders.checks.defects import measure_defects
from ruler_builders.checks.ruler2_rows import gold_texts
from ruler_builders.checks.solvers import LEAST_FILL, solve
from ruler_builders.exchange.layouts import OtherRow, all_tasks, find_files, new_folder, read_file
from ruler_builders.pipeline.build_dir import BuildDir, write_rows
from ruler_builders.pipeline.build_one import BuildContext, open_context
from ruler_builders.pipeline.plan import BuildPlan
from ruler_builders.sources import Library
from ruler_builders.sources.text_files import sha256_of
from ruler_builders.upstream import TEMPLATES, UpstreamSources
from ruler_builders.upstream.columns import evidence_spans, prompt_tokens
from ruler_data.errors import RulerError
from ruler_data.manifest import IMPORTED, ConfigInfo, Manifest, SourceInfo
from ruler_data.names import config_file, config_name, counted, parse_config, parse_length
from ruler_data.parquet import read_rows
from ruler_data.row import Row
from ruler_data.suites import RULER
from ruler_data.tasks import TASKS, Cwe, Qa, Ruler2, Vt, config_place
from ruler_data.tokenizers import PromptTokenizer
from ruler_data.version import DATA_VERSION, __version__

#: Bad rows that an error names.
MOST_NAMED = 5


@dataclass(frozen=True)
class Imported:
    """An import that is done.

    Attributes:
        folder: that was written.
        manifest: of the new folder.
        defects: by config, what is wrong with its rows, each with a figure.
        skipped: bad rows that were left out, each with its reason.
    """

    folder: Path
    manifest: Manifest
    defects: dict[str, dict[str, str]]
    skipped: tuple[str, ...]

    def __str__(self) -> str:
        configs = counted(len(self.manifest.configs), "config")
        rows = counted(sum(info.rows for info in self.manifest.configs.values()), "row")
        return f"{self.report()}\n{self.folder}: {configs}, {rows} imported"

    def to_record(self) -> dict[str, object]:
        """Return the defects as plain values."""
        return {"configs": self.defects, "skipped": self.skipped}

    def report(self) -> str:
        """Return the report of the defects as Markdown, e.g. to post it under the dataset."""
        (source,) = self.manifest.sources
        lines = [f"# RULER rows of {source.title}", ""]
        lines += [f"sha256 {source.sha256}; {source.detail}.", ""]
        lines += ["| config | rows | fill min | fill mean | found |", "|---|--:|--:|--:|---|"]
        for name, info in self.manifest.configs.items():
            defects = "; ".join(
                f"{defect}: {figure}" for defect, figure in self.defects[name].items()
            )
            fill = f"{info.fill_min:.2f} | {info.fill_mean:.2f}"
            lines.append(f"| {name} | {info.rows} | {fill} | {defects or 'nothing'} |")
        if self.skipped:
            lines += ["", f"Rows left out: {len(self.skipped)}.", ""]
            lines += [f"- {reason}" for reason in self.skipped[:100]]
        return "\n".join(lines)


def import_rows(
    data: Path | str,
    *,
    tokenizer: str,
    out: Path,
    revision: str | None = None,
    files: str = "**/*",
    length: str | int | None = None,
    sources: Path | str | None = None,
    skip_bad: bool = False,
) -> Imported:
    """Write anybody's rows as a frozen folder; `skip_bad` leaves out what cannot be read."""
    size = None if length is None else parse_length(str(length), "--length")
    paths, repo = find_files(str(data), revision, files)
    context = open_context(BuildPlan(tokenizer, RULER, Path(), 0, sources_kind="sample"))
    with new_folder(out) as path:
        spool = _Spool(path.parent, _gold_documents(sources))
        spool.read(paths, size, str(data), skip_bad=skip_bad)
        folder = BuildDir(path)
        names = {parse_config(name)[0] for name in spool.figures}
        tasks = {name: all_tasks()[name] for name in sorted(names - TASKS.keys())}
        manifest = Manifest(
            data_version=DATA_VERSION,
            package_version=__version__,
            seed=0,
            suite="ruler2" if tasks else "ruler",
            tasks=tasks,
            tokenizer=context.tokenizer_info,
            sources=(_source(repo or Path(data).name, repo, sorted(spool.files), spool.layouts),),
            configs={
                name: _write(folder.path, context, name, spool)
                for name in sorted(spool.figures, key=config_place)
            },
            files={},
            pyarrow=pa.__version__,
            edition=IMPORTED,
            chat_template=spool.template,
        )
        manifest = folder.seal(manifest, card_files(manifest, folder.path.joinpath))
    defects = {name: info.audit for name, info in manifest.configs.items()}
    return Imported(out, manifest, defects, tuple(spool.bad))


def _source(title: str, repo: str, files: Sequence[Path], layouts: Iterable[str]) -> SourceInfo:
    return SourceInfo(
        name=IMPORTED,
        title=title,
        kind="own",
        url=f"https://huggingface.co/datasets/{repo.partition('@')[0]}" if repo else "",
        sha256=sha256_of(files),
        licence="unknown",
        attribution="unknown",
        pinned=False,
        detail=f"layout {' and '.join(sorted(layouts))}, {counted(len(files), 'file')}",
    )


class _Spool:
    """The rows of all files, one file of lines a config, and their defects.

    Attributes:
        bad: rows that cannot be read, each with its reason.
        figures: by config, the number of rows and of those with each defect.
        files: that have rows; a folder keeps other things, such as settings.
        layouts: names of the layouts that occur.
        template: the chat template of all prompts; empty for none.
    """

    def __init__(self, folder: Path, gold: Mapping[str, list[str]]) -> None:
        self.folder = folder
        self.bad: list[str] = []
        self.figures: dict[str, Counter[str]] = {}
        self.files = set[Path]()
        self.layouts: set[str] = set()
        self.template = ""
        self._gold = gold

    def read(self, files: Sequence[Path], size: int | None, where: str, *, skip_bad: bool) -> None:
        """Read all files; `size` is the length of all configs, in tokens, if no name tells.

        Raises:
            RulerError: rows cannot be read, or have different chat templates.
        """
        templates = set[str]()
        for path in files:
            for row in read_file(path, size):
                if isinstance(row, str):
                    self.bad.append(row)
                elif row.size is None:
                    self.bad.append(
                        f"{row.where}: no name tells its length in tokens; give --length"
                    )
                else:
                    self.files.add(path)
                    templates.add(row.template)
                    self._add(config_name(row.task.name, row.size), row)
        self.template = _common_template(templates, where)
        if self.bad and not skip_bad:
            raise RulerError(where, f"bad rows: {self._reasons()}; --skip-bad leaves them out")
        if not self.figures:
            raise RulerError(where, f"no row can be read: {self._reasons()}")

    def _reasons(self) -> str:
        """Return why the first bad rows cannot be read."""
        reasons = "; ".join(self.bad[:MOST_NAMED]) or "no known layout"
        if len(self.bad) > MOST_NAMED:
            reasons += f" and {len(self.bad) - MOST_NAMED:,} more"
        return reasons

    def _add(self, name: str, row: OtherRow) -> None:
        figures = self.figures.setdefault(name, Counter())
        place = figures["rows"]
        task = row.task
        converted = row.row(place)
        # The solvers know neither a chat template nor vt's assignments within a line.
        question = converted.question.removesuffix(row.closing)
        context = converted.context
        if isinstance(task.params, Vt):
            context = _ASSIGNMENT.sub(r"\1\n", _BEFORE.sub("\n", context.rstrip("\n")))
        texts, problems = _solve(replace(converted, context=context, question=question), self._gold)
        figures.update(problems)
        figures.update(_oddities(row, place))
        figures["rows"] += 1
        self.layouts.add(row.layout)
        spans = tuple(sorted(evidence_spans(texts, task.params, converted.context)))
        with (self.folder / name).open("a", encoding="utf-8") as file:
            file.write(json.dumps(replace(converted, evidence=spans).to_record()) + "\n")

    def rows(self, name: str, tokenizer: PromptTokenizer) -> Iterator[Row]:
        """Yield the rows of a config, counted with the tokenizer of the import."""
        figures = self.figures[name]
        limit = parse_config(name)[1]
        with (self.folder / name).open(encoding="utf-8") as file:
            for row in map(Row.from_record, map(json.loads, file)):
                content = row.context + row.question
                tokens = prompt_tokens(tokenizer, content, row.answer_prefix, bool(self.template))
                length = tokens + row.max_new_tokens
                figures["longer than the config's length, with BOS and template"] += length > limit
                figures[f"fill below {LEAST_FILL}"] += length < LEAST_FILL * limit
                yield replace(row, length=length)


def _common_template(templates: Collection[str], where: str) -> str:
    """Return the name of the chat template of all prompts; empty for none.

    Raises:
        RulerError: there are several.
    """
    if len(templates) > 1:
        names = ", ".join(map(ascii, sorted(templates)))[:200]
        problem = f"different chat templates ({names})"
        raise RulerError(where, f"{problem}; import them apart with --files")
    for template in templates:
        if template == "base":
            return ""
        if template in TEMPLATES:
            return template
        return "another"
    return ""


def _oddities(row: OtherRow, place: int) -> Iterator[str]:
    """Yield in which columns a row, the `place`-th of its config, differs from upstream's."""
    if not row.has_prefix:
        yield "answer prefix lost, and put back"
    if row.index not in (None, place):
        yield "stored index is not the row's number"
    budget = row.task.max_new_tokens
    if row.budget not in (None, budget):
        yield f"token budget {row.budget}, upstream's {budget}"
    if len(set(row.outputs)) < len(row.outputs):
        yield "an answer is listed twice"


def _gold_documents(sources: Path | str | None) -> dict[str, list[str]]:
    """Return the gold documents by question, from the available sources."""
    documents: dict[str, list[str]] = {}
    read = UpstreamSources(Library(sources, "real").folder)
    for name in ("squad", "hotpotqa"):
        with suppress(RulerError):
            documents |= {question.query: question.gold for question in read.corpus(name)[1]}
    return documents


def _write(folder: Path, context: BuildContext, name: str, spool: _Spool) -> ConfigInfo:
    """Write a config and return its entry, with the defects of its rows."""
    task_name, length = parse_config(name)
    count = spool.figures[name].pop("rows")
    task = all_tasks()[task_name]
    path = folder / config_file(name)
    info = write_rows(path, spool.rows(name, context.tokenizer), task, length, count)
    checks = measure_defects(task, read_rows(path))
    for defect, often in spool.figures[name].items():
        if often:
            checks[defect] = f"{often} of {count} rows"
    if spool.template:
        checks["chat template in the prompt"] = f"{spool.template}; run with the protocol base"
    return replace(info, audit=checks)


#: An assignment to the end of its line, and what is before one.
_ASSIGNMENT = re.compile(r"(VAR [A-Z]+ = (?:VAR [A-Z]+|[0-9]+)) ?\n?")
_BEFORE = re.compile(rf"(?:\n ?| |(?<=[^\n ]))(?={_ASSIGNMENT.pattern})")
_DOCUMENTS = re.compile(r"Document [0-9]+:\n(.*?)(?=\n\n(?:Document [0-9]+:\n|\Z))", re.DOTALL)
_LISTED = re.compile(r"[0-9]+\. (.+?)(?= [0-9]+\. |\s*$)")


def _solve(row: Row, gold: Mapping[str, list[str]]) -> tuple[list[str], list[str]]:
    """Return the evidence texts of the answers, and what is wrong with the answers.

    The row has no chat template; `gold` are the documents that the source names for a question.
    """
    task = all_tasks()[row.task]
    outputs = frozenset(row.outputs)
    if isinstance(task.params, Ruler2):
        texts = gold_texts(task.params, row)
        if texts:
            return texts, []
        return texts, ["no text shows the answer, or several do"]
    if isinstance(task.params, Qa):
        return _solve_qa(row, gold.get(row.question.rpartition("Question: ")[2], []))
    if isinstance(task.params, Cwe):  # upstream lists phrases too, which the solver does not
        answers, has_tie = _most_common(row)
        texts = list(row.outputs)
    else:
        solved = solve(task, row)
        answers = solved.answers
        has_tie = bool(solved.complaint)
        texts = solved.evidence or []
    problems = []
    if outputs - answers:
        problems.append("an answer is not in the prompt")
    if answers - outputs or (has_tie and not problems):
        problems.append("the prompt supports other answers too")
    return texts, problems


def _most_common(row: Row) -> tuple[frozenset[str], bool]:
    """Return the ten most common words of a list, and whether another one is as common."""
    items = row.context.rpartition("Memorize the ones that appear most often.\n")[2]
    *ten, last = Counter(_LISTED.findall(items)).most_common(11) or [("", 0)]
    has_tie = bool(ten) and ten[-1][1] == last[1]
    return frozenset(word for word, _ in ten), has_tie


def _solve_qa(row: Row, gold: list[str]) -> tuple[list[str], list[str]]:
    """Return the gold documents: the source's, or the only one with an answer."""
    answers = [output.lower() for output in row.outputs]
    documents = _DOCUMENTS.findall(row.context)
    matches = [text for text in documents if any(answer in text.lower() for answer in answers)]
    if not matches and row.outputs[0].lower() not in ("yes", "no"):
        return gold, ["no document has an answer"]
    problems = []
    if len(matches) > 1:
        problems.append("several documents have an answer")
    if gold:
        return gold, problems
    if len(matches) == 1:
        return matches, problems
    return [], problems
