"""`verify`: check everything that a folder promises, from its files alone.

    hashes, names, sources and card of the folder -> columns, rows, lengths of every config

Nothing that the builder recorded is trusted: hashes are taken again, rows are read and solved
again, and with tokenizer and sources every row is built again and compared byte for byte.
"""

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from functools import partial
from html import escape
from pathlib import Path
from typing import Annotated

from rich.text import Text

from ruler_builders.audit.config_audit import ConfigVerdict, verify_config
from ruler_builders.audit.file_checks import (
    file_findings,
    manifest_findings,
    name_findings,
    source_findings,
    text_findings,
)
from ruler_builders.audit.source_check import Available, find_sources, is_text, open_tokenizer
from ruler_builders.pipeline.build_dir import BuildDir
from ruler_builders.pipeline.plan import SourcesOption, WorkersOption, parse_lengths, parse_tasks
from ruler_builders.pipeline.pool import Progress, run_jobs, silent
from ruler_data.dataset import open_source
from ruler_data.errors import RulerError, UsageError
from ruler_data.manifest import BALANCED, FILENAME, Manifest
from ruler_data.names import counted, parse_config, quote
from ruler_data.options import Option, takes_options
from ruler_data.suites import packaged_suite
from ruler_data.tasks import Qa, Task, config_place
from ruler_data.terminal import visible_line
from ruler_data.tokenizers import PromptTokenizer
from ruler_data.tokenizers.counters import CounterName
from ruler_data.tokenizers.protocol import template_reserve
from ruler_data.tokenizers.registry import LOCAL_COPY, REGISTRY, find_by_fingerprint


@dataclass(frozen=True, repr=False)
class AuditReport:
    """The result of `verify`.

    Attributes:
        findings: what is wrong, each with file, row and value; empty for a clean folder.
        untested: what could not be tested.
        proved: what the folder was proved to hold, if nothing is wrong.
        configs: number of configs that were checked.
        rows: number of rows in them.
        rebuilt: number of rows that were built again.
    """

    findings: tuple[str, ...]
    untested: tuple[str, ...]
    configs: int
    rows: int
    rebuilt: int
    proved: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    @property
    def exit_status(self) -> int:
        """0: nothing is wrong; 1: there are findings."""
        return int(not self.clean)

    @property
    def failure(self) -> str:
        """The outcome in a line, if anything is wrong."""
        found = counted(len(self.findings), "finding")
        return "" if self.clean else f"verification failed: {found}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be tested."""
        return self.untested if self.clean else ()

    def __rich__(self) -> Text:
        lines = list(self.findings)
        if self.clean:
            rebuilt = f", {counted(self.rebuilt, 'row')} rebuilt" if self.rebuilt else ""
            checked = f"{counted(self.configs, 'config')}, {counted(self.rows, 'row')}"
            lines = [*(f"proved: {line}" for line in self.proved), f"clean: {checked}{rebuilt}"]
        return Text("\n".join(map(visible_line, lines)), no_wrap=True, overflow="ignore")

    def to_record(self) -> dict[str, object]:
        """Return the report as plain values."""
        return {"clean": self.clean, **asdict(self)}

    def to_records(self) -> list[dict[str, str]]:
        """Return one record for each finding: where it is and what is wrong."""
        parts = (finding.partition(": ") for finding in self.findings)
        return [{"where": where, "finding": finding} for where, _, finding in parts]

    def __repr__(self) -> str:
        result = "clean" if self.clean else counted(len(self.findings), "finding")
        checked = f"{counted(self.configs, 'config')}, {counted(self.rows, 'row')}"
        return f"<AuditReport: {result}; {checked}>"

    def _repr_html_(self) -> str:
        """Return the findings as a table, for notebooks."""
        cells = (
            f"<tr><td>{escape(record['where'])}</td><td>{escape(record['finding'])}</td></tr>"
            for record in self.to_records()
        )
        return f"<p>{escape(repr(self))}</p><table>{''.join(cells)}</table>"


@dataclass(frozen=True)
class VerifyConfig:
    """The options of a verification."""

    data: Annotated[
        str | Path, Option("Folder of a build, or a repo with --revision.", argument=True)
    ]
    _: KW_ONLY
    revision: Annotated[str, Option("Tag or commit of a release on the Hub; it is downloaded.")] = (
        ""
    )
    tasks: Annotated[
        str | Collection[str] | None, Option("Verify only these, comma-separated.")
    ] = "all"
    lengths: Annotated[str | Collection[int] | None, Option("Verify only these (tokens).")] = "all"
    tokenizer: Annotated[
        str | None,
        Option("Folder or Hub id of the tokenizer, if it cannot be found from the manifest."),
    ] = None
    count_lengths: Annotated[
        bool, Option("Count every prompt and build every row again.", command=False)
    ] = True
    rebuild: Annotated[
        int, Option("Insist on building rows again: all, or this many with --no-lengths.", min=0)
    ] = 0
    sources: SourcesOption = None
    haystack: Annotated[Path | str | None, Option("Folder of your own texts.")] = None
    workers: WorkersOption = 1
    counter: Annotated[CounterName, Option("Library that counts tokens.")] = "auto"
    strays: Annotated[
        bool, Option("Report files that the manifest does not name.", command=False)
    ] = True
    progress: Annotated[Progress, Option("Called with rows.", command=False)] = silent

    @property
    def tokens(self) -> int | None:
        """Tokens of the rows to verify; None if the folder has no manifest."""
        manifest = BuildDir(Path(self.data)).manifest()
        if manifest is None:
            return None
        try:
            names = manifest.select(parse_tasks(self.tasks), parse_lengths(self.lengths))
            return sum(manifest.configs[name].rows * parse_config(name)[1] for name in names)
        except UsageError:  # verify says what is wrong
            return None

    def fetched(self) -> tuple["VerifyConfig", str]:
        """Return the options with a folder, which is downloaded if a revision is given.

        The second value names the data and, for a release, its commit.
        """
        if Path(self.data).is_dir() and not self.revision:
            return self, str(self.data)
        source = open_source(str(self.data), self.revision or None)
        if (release := source.release) is None:
            return replace(self, data=source.folder), str(self.data)
        chosen = release.manifest.select(parse_tasks(self.tasks), parse_lengths(self.lengths))
        folder = release.fetch(chosen, files=release.manifest.files)
        where = f"{self.data} at {self.revision} (commit {release.commit})"
        return replace(self, data=folder, revision="", strays=False), where


@takes_options(VerifyConfig)
def verify(config: VerifyConfig) -> AuditReport:
    """Verify a folder and return what is wrong with it.

    Raises:
        UsageError: the folder does not exist, it has no such task or length, or the tokenizer is
            not available.
        RulerError: there is no manifest, or it cannot be read.
    """
    config, _ = config.fetched()
    folder = Path(config.data)
    build = BuildDir(folder)
    manifest = build.manifest()
    if manifest is None:
        why = (
            "the build is not finished; run `ruler-data build` with the same options to finish it"
            if build.state.exists() or any(folder.glob("*/*.parquet"))
            else "it is not the folder of a build; name one that `ruler-data build` wrote"
        )
        msg = f"{folder}: no {FILENAME}: {why}"
        raise RulerError(msg)
    names = manifest.select(parse_tasks(config.tasks), parse_lengths(config.lengths))
    chosen = replace(manifest, configs={name: manifest.configs[name] for name in names})
    findings = list(file_findings(folder, manifest, chosen.configs, strays=config.strays))
    findings += source_findings(manifest)
    findings += manifest_findings(folder, manifest)
    needed = config.count_lengths or config.rebuild
    spec, counter = _tokenizer_spec(config.tokenizer, manifest) if needed else "", config.counter
    if spec:
        findings += _tokenizer_findings(open_tokenizer(spec, counter), manifest)
    readable = [
        name
        for name, info in chosen.configs.items()
        if not name_findings(name, info, manifest) and (folder / info.file).is_file()
    ]
    wrong, untested = text_findings(folder, manifest)
    is_rendered = not any("not rendered again" in one for one in untested)
    findings += wrong
    again = None if config.count_lengths else _at_random(chosen, readable, config.rebuild)
    sources, wrong = find_sources(manifest, config.sources, config.haystack)
    findings += wrong
    if config.rebuild and manifest.edition == BALANCED:
        findings += _obstacles(manifest, sources)
    work = partial(verify_config, folder, manifest, spec, counter, sources, again)
    done = run_jobs(work, readable, config.workers, config.progress)
    verdicts = {verdict.config: verdict for verdict in done}
    for name in readable:
        findings += verdicts[name].findings
        untested += verdicts[name].untested
    if manifest.edition == BALANCED:
        findings += _pairing_findings(verdicts)
        untested += _unproved(manifest, sources, readable)
    rebuilt = sum(verdict.built for verdict in verdicts.values())
    if manifest.is_imported:
        untested.append("imported rows: files, digests and lengths hold; who made them is unknown")
    rows = sum(info.rows for info in chosen.configs.values())
    proved = _proved(chosen, verdicts, sources, config.count_lengths, rebuilt, is_rendered)
    return AuditReport(
        tuple(dict.fromkeys(findings)),
        tuple(untested),
        len(chosen.configs),
        rows,
        rebuilt,
        () if findings else tuple(proved),
    )


def _tokenizer_spec(spec: str | None, manifest: Manifest) -> str:
    """Return how to load the manifest's tokenizer: as given, or found by its files."""
    if spec is not None:
        return spec
    found = find_by_fingerprint(manifest.tokenizer)
    if found is None:
        msg = (
            f"tokenizer {quote(manifest.tokenizer.name)} with the files of the manifest is not "
            "available; give --tokenizer FOLDER, or --rows 0 to verify without it"
        )
        raise UsageError(msg)
    return found


def _tokenizer_findings(tokenizer: PromptTokenizer, manifest: Manifest) -> list[str]:
    """Check that a tokenizer is the manifest's: its files, and the tokens of its template."""
    expected = manifest.tokenizer
    findings = [
        f"tokenizer {expected.name}: {name} sha256 expected {sha256}, "
        f"found {tokenizer.info.files.get(name, 'no such file')}"
        for name, sha256 in expected.files.items()
        if tokenizer.info.files.get(name) != sha256 and not tokenizer.info.counts_like(expected)
    ]
    reserve = template_reserve(tokenizer)
    if reserve != expected.template_reserve:
        findings.append(
            f"tokenizer {expected.name}: template reserve expected {expected.template_reserve}, "
            f"found {reserve}"
        )
    return findings


def _at_random(manifest: Manifest, configs: Sequence[str], rows: int) -> dict[str, list[int]]:
    """Choose rows of these configs, by config and rising."""
    every = [(name, index) for name in configs for index in range(manifest.configs[name].rows)]
    chosen: dict[str, list[int]] = {}
    for name, index in sorted(random.SystemRandom().sample(every, min(rows, len(every)))):
        chosen.setdefault(name, []).append(index)
    return chosen


def _obstacles(manifest: Manifest, sources: Available) -> Iterator[str]:
    """Say why rows that shall be built again cannot be."""
    if not sources.is_current:
        yield f"{FILENAME}: rows of data version {manifest.rows_version} cannot be built again"
    for info in manifest.sources:
        if reason := sources.missing.get(info.name):
            option = "--haystack" if info.kind == "own" else "--sources"
            yield (
                f"source {info.name}: sha256 expected {info.sha256}, found none: {reason}; give "
                f"{option} with the files of the build"
            )


def _pairing_findings(verdicts: Mapping[str, ConfigVerdict]) -> Iterator[str]:
    """Compare the questions of each task at its lengths."""
    first: dict[str, str] = {}
    for name in sorted(verdicts, key=config_place):
        other = first.setdefault(parse_config(name)[0], name)
        pairs = zip(verdicts[name].questions, verdicts[other].questions, strict=False)
        for index, (here, there) in enumerate(pairs):
            if here != there:
                yield f"{name}/{index}: asks another question than {other}/{index}"
                break


def _unproved(manifest: Manifest, sources: Available, configs: Sequence[str]) -> Iterator[str]:
    """Say what could not be proved, for want of a source or of any record of it."""
    for source, reason in sources.missing.items():
        names = [name for name in configs if source in _task(manifest, name).sources]
        if names:
            option = "--haystack" if sources.kinds[source] == "own" else "--sources"
            lost = "texts" if is_text(source) else "texts, questions and answers"
            why, _, _ = reason.partition("; give ")
            why = why if why.startswith(f"source {source}") else f"source {source}: {why}"
            remedy = "" if "pip install" in reason else f": give {option} DIR"
            yield f"{why}; the {lost} of {', '.join(names)} were not compared with it{remedy}"
    if not sources.is_current:
        yield f"rows of data version {manifest.rows_version} were not compared with the seed"
    if packaged_suite(manifest.suite) is None:
        yield f"suite {quote(manifest.suite)}: not of this package, so its tasks are not compared"
    if manifest.tokenizer.mirror == LOCAL_COPY:
        name, hub_id = quote(manifest.tokenizer.name), manifest.tokenizer.hub_id
        yield f"tokenizer {name}: from a local folder; not compared with the files of {hub_id}"
    if manifest.tokenizer.name not in REGISTRY and manifest.tokenizer.hub_id is None:
        name = quote(manifest.tokenizer.name)
        yield f"tokenizer {name}: of a local folder; only its files are proved, not its name"


def _proved(
    manifest: Manifest,
    verdicts: Mapping[str, ConfigVerdict],
    sources: Available,
    is_counted: bool,
    rebuilt: int,
    is_rendered: bool,
) -> Iterator[str]:
    """Say what was proved of a clean folder."""
    rendered = ", card, licences and eval.yaml" if is_rendered else ""
    yield f"files, columns, digests, depths{rendered} follow from the manifest"
    if manifest.is_upstream:
        yield f"rows replayed by upstream's generator, byte for byte: {rebuilt}"
    if manifest.edition != BALANCED:
        return
    count, drawn = len(verdicts), sum(one.is_drawn for one in verdicts.values())
    qa = [name for name in verdicts if isinstance(_task(manifest, name).params, Qa)]
    yield (
        f"every prompt has the parameters of its task ({counted(count, 'config')}), and a solver "
        f"that reads only the prompt finds its answers ({counted(count - len(qa), 'config')})"
    )
    if qa:
        whose = counted(len(qa), "config")
        yield f"the gold documents of qa are there and contain an answer ({whose})"
    whose = f"{drawn} of {counted(count, 'config')}"
    yield f"questions, answers and examples are those of the seed ({whose})"
    texts = [name for name in sources.kinds if name not in sources.missing]
    yield f"texts are those of the sources: {', '.join(texts) or 'none compared'}"
    if is_counted:
        yield "the tokenizer counts the length of every prompt as stated"
    rows = sum(info.rows for info in manifest.configs.values())
    yield f"rows built again from the seed, byte for byte: {rebuilt} of {rows}"


def _task(manifest: Manifest, config: str) -> Task:
    return manifest.table[parse_config(config)[0]]
