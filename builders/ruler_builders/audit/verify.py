"""`verify`: check everything that a folder promises, from its files alone.

    hashes, names, sources and card of the folder -> columns, rows, lengths of every config
    -> on request, rows built again from the seed; all rows of an edition of upstream, replayed

Nothing that the builder recorded is trusted: hashes are taken again, rows are read and solved
again, prompts are tokenized again. A folder that is consistent but was not built as its manifest
says (e.g. another haystack of the same length) is found only by rebuilding rows.
"""

from collections.abc import Collection
from dataclasses import KW_ONLY, asdict, dataclass, replace
from functools import partial
from html import escape
from pathlib import Path
from typing import Annotated

from ruler_builders.audit.config_audit import verify_config
from ruler_builders.audit.file_checks import (
    card_findings,
    file_findings,
    name_findings,
    source_findings,
)
from ruler_builders.audit.rebuild import rebuild_rows
from ruler_builders.audit.replay import replay_rows
from ruler_builders.audit.tokenizer_check import exact_counter, tokenizer_findings, tokenizer_spec
from ruler_builders.pipeline.build_config import (
    CounterOption,
    HaystackOption,
    ProgressOption,
    SourcesOption,
    WorkersOption,
    no_progress,
    parse_lengths,
    parse_tasks,
)
from ruler_builders.pipeline.build_dir import BuildDir
from ruler_builders.pipeline.pool import run_jobs
from ruler_data.errors import RulerError, UsageError
from ruler_data.manifest import FILENAME
from ruler_data.names import quote
from ruler_data.options import Option, takes_options


@dataclass(frozen=True, repr=False)
class AuditReport:
    """The result of `verify`.

    Attributes:
        findings: what is wrong, each with file, row and value; empty for a clean folder.
        untested: what could not be tested.
        configs: number of configs that were checked.
        rows: number of rows in them.
        rebuilt: number of rows that were built again.
    """

    findings: tuple[str, ...]
    untested: tuple[str, ...]
    configs: int
    rows: int
    rebuilt: int

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    def to_dict(self) -> dict[str, object]:
        """Return the report as plain values."""
        return {"clean": self.clean, **asdict(self)}

    def to_records(self) -> list[dict[str, str]]:
        """Return one record for each finding: where it is and what is wrong."""
        parts = (finding.partition(": ") for finding in self.findings)
        return [{"where": where, "finding": finding} for where, _, finding in parts]

    def __repr__(self) -> str:
        result = "clean" if self.clean else f"{len(self.findings)} findings"
        return f"<AuditReport: {result}; {self.configs} configs, {self.rows} rows>"

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
    count_lengths: Annotated[bool, Option("Tokenize every prompt again.", command=False)] = True
    rebuild: Annotated[
        int, Option("Build this many random rows again and compare them.", min=0)
    ] = 0
    sources: SourcesOption = None
    haystack: HaystackOption = None
    workers: WorkersOption = 1
    counter: CounterOption = "auto"
    strays: Annotated[
        bool, Option("Report files that the manifest does not name.", command=False)
    ] = True
    progress: ProgressOption = no_progress

    def fetched(self) -> tuple["VerifyConfig", str]:
        """Return the options with a folder, which is downloaded if a revision is given.

        The second value names the data and, for a release, its commit.
        """
        if not self.revision:
            return self, str(self.data)
        from ruler_data.hub import open_release

        release = open_release(str(self.data), self.revision)
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
    if not folder.is_dir():
        msg = f"{quote(str(folder))}: no such folder; name the folder of a build"
        raise UsageError(msg)
    manifest = BuildDir(folder).manifest()
    if manifest is None:
        msg = (
            f"{folder}: no {FILENAME}, so the build is not finished; run `ruler-data build` with "
            "the same options to finish it"
        )
        raise RulerError(msg)
    names = manifest.select(parse_tasks(config.tasks), parse_lengths(config.lengths))
    chosen = replace(manifest, configs={name: manifest.configs[name] for name in names})
    findings = list(file_findings(folder, manifest, chosen.configs, strays=config.strays))
    findings += source_findings(manifest)
    findings += card_findings(folder, manifest)
    needed = config.count_lengths or config.rebuild
    spec = tokenizer_spec(config.tokenizer, manifest) if needed else ""
    counted, counter = spec if config.count_lengths else None, config.counter
    if counted:
        findings += tokenizer_findings(counted, manifest)
        counter = exact_counter(counter, counted, manifest)
    readable = [
        name
        for name, info in chosen.configs.items()
        if not name_findings(name, info, manifest) and (folder / info.file).is_file()
    ]
    untested: list[str] = []
    work = partial(verify_config, folder, manifest, counted, counter)
    for wrong, skipped in run_jobs(work, readable, config.workers, config.progress):
        findings += wrong
        untested += skipped
    rebuilt = 0
    if manifest.is_imported:
        untested.append("imported rows: files, digests and lengths hold; who made them is unknown")
    elif manifest.is_upstream:
        if spec:
            rebuilt, wrong, skipped = replay_rows(
                folder, chosen, readable, spec, config.sources, config.progress
            )
            findings += wrong
            untested += skipped
    elif config.rebuild:
        rebuilt, wrong = rebuild_rows(
            folder,
            chosen,
            readable,
            spec,
            config.rebuild,
            sources=config.sources,
            haystack=config.haystack,
        )
        findings += wrong
    rows = sum(info.rows for info in chosen.configs.values())
    return AuditReport(tuple(findings), tuple(untested), len(chosen.configs), rows, rebuilt)
