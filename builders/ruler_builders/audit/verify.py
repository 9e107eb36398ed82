"""`verify`: check everything that a folder promises, from its files alone.

    hashes, names, sources and card of the folder -> columns, rows, lengths of every config
    -> on request, rows built again from the seed; all rows of an edition of upstream, replayed

Nothing that the builder recorded is trusted: hashes are taken again, rows are read and solved
again, prompts are tokenized again. A folder that is consistent but was not built as its manifest
says (e.g. another haystack of the same length) is found only by rebuilding rows.
"""

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from functools import partial
from html import escape
from pathlib import Path

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
from ruler_builders.pipeline.build_dir import BuildDir
from ruler_builders.pipeline.pool import Progress, run_jobs
from ruler_data.errors import RulerError, UsageError
from ruler_data.manifest import FILENAME
from ruler_data.names import quote
from ruler_data.tokenizers.counters import CounterName


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


def verify(
    folder: str | Path,
    *,
    tasks: Collection[str] | None = None,
    lengths: Collection[int] | None = None,
    tokenizer: str | None = None,
    count_lengths: bool = True,
    rebuild: int = 0,
    sources: Path | None = None,
    haystack: Path | None = None,
    workers: int = 1,
    counter: CounterName = "auto",
    strays: bool = True,
    progress: Progress = lambda _name, _rows: None,
) -> AuditReport:
    """Verify a folder and return what is wrong with it.

    Args:
        folder: of a build, or of a release in the Hub's cache.
        tasks: check only these; None for all.
        lengths: check only these, in tokens; None for all.
        tokenizer: name, folder or Hub id; None to find it by the files of the manifest.
        count_lengths: tokenize every prompt again.
        rebuild: number of random rows to build again from the seed and to compare.
        sources: folder with the real sources, for `rebuild` and for editions of upstream.
        haystack: folder with the user's own texts, for `rebuild`.
        workers: number of processes.
        counter: library that counts tokens.
        strays: report files that the manifest does not name.
        progress: called with the name of a config and the rows that are finished.

    Raises:
        UsageError: the folder does not exist, it has no such task or length, or the tokenizer is
            not available.
        RulerError: there is no manifest, or it cannot be read.
    """
    folder = Path(folder)
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
    chosen = replace(
        manifest,
        configs={name: manifest.configs[name] for name in manifest.select(tasks, lengths)},
    )
    findings = list(file_findings(folder, manifest, chosen.configs, strays=strays))
    findings += source_findings(manifest)
    findings += card_findings(folder, manifest)
    spec = tokenizer_spec(tokenizer, manifest) if count_lengths or rebuild else ""
    counted = spec if count_lengths else None
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
    for wrong, skipped in run_jobs(work, readable, workers, progress):
        findings += wrong
        untested += skipped
    rebuilt = 0
    if manifest.is_upstream:
        if spec:
            rebuilt, wrong, skipped = replay_rows(folder, chosen, readable, spec, sources, progress)
            findings += wrong
            untested += skipped
    elif rebuild:
        rebuilt, wrong = rebuild_rows(
            folder, chosen, readable, spec, rebuild, sources=sources, haystack=haystack
        )
        findings += wrong
    rows = sum(info.rows for info in chosen.configs.values())
    return AuditReport(tuple(findings), tuple(untested), len(chosen.configs), rows, rebuilt)
