"""`ruler-data verify`: everything a folder promises, checked from its files.

Each finding names file, row and value. Nothing the builder wrote down is believed: hashes are
taken again, rows read and solved again, prompts tokenized again. What is consistent in itself and
still not what was built (another haystack of the same length) is found only by `--rebuild`.
"""

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ruler_builders.audit.config_audit import ConfigJob, verify_config
from ruler_builders.audit.file_checks import (
    card_findings,
    file_findings,
    name_findings,
    source_findings,
)
from ruler_builders.audit.rebuild import rebuild
from ruler_builders.audit.tokenizer_check import exact_counter, tokenizer_findings, tokenizer_spec
from ruler_builders.pipeline.build_dir import BuildDir
from ruler_builders.pipeline.pool import Progress, run_jobs
from ruler_data.errors import RulerError, UsageError
from ruler_data.manifest import FILENAME, Manifest
from ruler_data.names import parse_config, quote
from ruler_data.tokenizers.counters import CounterName


@dataclass(frozen=True)
class VerifyConfig:
    """What to verify.

    Attributes:
        folder: of the build, or of a release in the Hub's cache.
        tokenizer: name, folder or Hub id; None to find it by the manifest.
        count_lengths: whether to tokenize every prompt again.
        rebuild: how many random rows to build again from the seed.
        sources: folder with the sources, for `rebuild`.
        haystack: folder with the texts of the user's own, for `rebuild`.
        workers: processes.
        counter: what counts tokens.
        tasks: to verify; None for all.
        lengths: to verify, in tokens; None for all.
        strays: whether files that the manifest does not name are findings.
    """

    folder: Path
    tokenizer: str | None = None
    count_lengths: bool = True
    rebuild: int = 0
    sources: Path | None = None
    haystack: Path | None = None
    workers: int = 1
    counter: CounterName = "auto"
    tasks: tuple[str, ...] | None = None
    lengths: tuple[int, ...] | None = None
    strays: bool = True


@dataclass(frozen=True)
class AuditReport:
    """What was found, what could not be tested, and how much was looked at."""

    findings: tuple[str, ...]
    untested: tuple[str, ...]
    configs: int
    rows: int
    rebuilt: int


def verify(request: VerifyConfig, progress: Progress) -> AuditReport:
    """Verify a folder.

    Raises:
        UsageError: there is no such folder, or the tokenizer named is another one.
        RulerError: there is no manifest that can be read.
    """
    if not request.folder.is_dir():
        msg = f"{quote(str(request.folder))}: no such folder; name the folder of a build"
        raise UsageError(msg)
    manifest = BuildDir(request.folder).manifest()
    if manifest is None:
        msg = (
            f"{request.folder}: no {FILENAME}, so the build is not finished; run "
            "`ruler-data build` with the same options to finish it"
        )
        raise RulerError(msg)
    chosen = manifest.select(request.tasks, request.lengths)
    findings = list(file_findings(request.folder, manifest, chosen, strays=request.strays))
    findings += source_findings(manifest)
    findings += card_findings(request.folder, manifest)
    spec = None
    if request.count_lengths:
        spec = tokenizer_spec(request.tokenizer, manifest)
        findings += tokenizer_findings(spec, manifest)
    jobs, untested = _jobs(request, manifest, chosen, spec), list[str]()
    for found in run_jobs(verify_config, jobs, request.workers, progress):
        findings += found.findings
        untested += filter(None, [found.untested])
    rebuilt = 0
    if request.rebuild:
        tokenizer = spec or tokenizer_spec(request.tokenizer, manifest)
        some = replace(manifest, configs={name: manifest.configs[name] for name in chosen})
        rebuilt, more = rebuild(
            request.folder, some, tokenizer, request.rebuild,
            sources=request.sources, haystack=request.haystack,
        )  # fmt: skip
        findings += more
    rows = sum(manifest.configs[name].rows for name in chosen)
    return AuditReport(tuple(findings), tuple(untested), len(chosen), rows, rebuilt)


def _jobs(
    request: VerifyConfig, manifest: Manifest, chosen: Collection[str], spec: str | None
) -> list[ConfigJob]:
    """Return a job for each config to look into; what cannot be opened has been found already."""
    counter = request.counter
    if spec:
        counter = exact_counter(counter, spec, request.folder, manifest)
    return [
        ConfigJob(
            request.folder,
            name,
            manifest.table[parse_config(name)[0]],
            info,
            spec,
            counter,
            manifest.tokenizer.extra_reserve,
        )
        for name, info in manifest.configs.items()
        if name in chosen
        and name_findings(name, info, manifest) == []
        and (request.folder / info.file).is_file()
    ]


def report_record(report: AuditReport) -> dict[str, object]:
    """Return a report as plain values, for `--json`."""
    return {"clean": not report.findings, **asdict(report)}
