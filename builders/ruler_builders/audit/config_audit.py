"""Checks of one config: the columns of its file, its rows, their lengths and its summary."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ruler_builders.audit.file_checks import hash_findings, one_line
from ruler_builders.audit.source_check import Available, RowCheck, open_tokenizer
from ruler_builders.checks.audit_rows import audit_rows
from ruler_builders.checks.audit_upstream import audit_upstream
from ruler_builders.checks.depth_uniformity import UNTESTED
from ruler_builders.checks.floors import FloorMeter
from ruler_builders.pipeline.fit import recount, recounted_rows
from ruler_builders.pipeline.pool import Progress, no_cycles
from ruler_builders.pipeline.write_parquet import row_figures
from ruler_builders.sources import Library
from ruler_builders.upstream import Arguments, UpstreamSources, edition_of, model_template
from ruler_builders.upstream.columns import packed_rows, prompt_tokens
from ruler_data.errors import BudgetError, RulerError
from ruler_data.manifest import BALANCED, Manifest
from ruler_data.names import parse_config
from ruler_data.parquet import SCHEMA, UNREADABLE, read_packed
from ruler_data.row import PackedRow, Row, RowDigest, question_bytes, serialize
from ruler_data.tokenizers import PromptTokenizer
from ruler_data.tokenizers.counters import CounterName
from ruler_data.version import __version__


class ConfigVerdict(NamedTuple):
    """The result of checking a config.

    Attributes:
        questions: what each row asks, to compare it with other lengths.
        is_drawn: whether each question was drawn again from the seed.
        built: number of rows that were built again and compared.
    """

    config: str
    findings: list[str]
    untested: Sequence[str] = ()
    questions: Sequence[bytes] = ()
    is_drawn: bool = False
    built: int = 0


@no_cycles()
def verify_config(
    folder: Path,
    manifest: Manifest,
    tokenizer: str,
    counter: CounterName,
    sources: Available,
    chosen: Mapping[str, Sequence[int]] | None,
    name: str,
    progress: Progress,
) -> ConfigVerdict:
    """Check the file and the rows of one config, in any process.

    `tokenizer` may be empty, to do without. Where rows are `chosen`, only these are built again and
    no lengths are counted.
    """
    info = manifest.configs[name]
    task_name, length = parse_config(name)
    task, path = manifest.table[task_name], folder / info.file
    findings, untested = hash_findings(info.file, path, info.bytes, info.sha256), list[str]()
    digest, lengths, questions = RowDigest(), list[int](), list[bytes]()
    loaded = open_tokenizer(tokenizer, counter) if tokenizer else None
    indices = range(info.rows) if chosen is None else chosen.get(name, ())
    is_balanced = manifest.edition == BALANCED
    check = RowCheck(manifest, name, sources, tokenizer, counter, indices) if is_balanced else None
    made: Iterator[PackedRow] = iter(())
    if loaded and manifest.is_upstream:
        made = _replayed(manifest, name, sources.folder, loaded, untested)
    replayed = 0

    def rows() -> Iterator[Row]:
        nonlocal replayed
        recounted = recounted_rows(info.rows, length)
        for row in read_packed(path):
            digest.add(row)
            lengths.append(row.length)
            questions.append(question_bytes(row))
            yield (unpacked := row.unpack())  # the audit first, which reads all of it
            wrong = list(check.row(row, unpacked)) if check else []
            if is_replayed := (upstream := next(made, None)) is not None:
                replayed += 1
                if serialize(row) != serialize(upstream):
                    wrong.append("differs from the row replayed")
            findings.extend(f"{name}/{row.index}: {what}" for what in wrong)
            is_counted = (is_replayed or (check is not None and check.builds)) and not wrong
            again = row.index in recounted
            if loaded is not None and chosen is None and (again or not is_counted):
                findings.extend(
                    _length_findings(name, loaded, row, again, bool(manifest.chat_template))
                )
            progress(name, 1)
        if check is not None:
            findings.extend(f"{name}/{index}: is missing" for index in check.missing())

    try:
        with path.open("rb") as raw:
            schema = pq.read_schema(raw)
        found, expected = ([(one.name, one.type) for one in each] for each in (schema, SCHEMA))
        if found != expected:
            wrong = f"{info.file}: columns expected {_listed(expected)}, found {_listed(found)}"
            return ConfigVerdict(name, [*findings, wrong])
        reserve = manifest.tokenizer.extra_reserve
        meter = FloorMeter(task, info.rows)
        if manifest.is_upstream or manifest.is_imported:
            audit = audit_upstream(name, task, meter.watch(rows()), imported=manifest.is_imported)
        else:
            audit = audit_rows(name, task, length, meter.watch(rows()), reserve)
    except UNREADABLE as error:
        return ConfigVerdict(name, [*findings, f"{info.file}: cannot be read: {one_line(error)}"])
    except BudgetError as error:
        return ConfigVerdict(name, [*findings, f"{name}: {error}"])
    findings += audit.findings
    figures = row_figures(digest, lengths, length) if lengths else {}
    if not info.question_digest:
        figures.pop("question_digest", None)  # an older version built it
    compared = {what: (getattr(info, what), figure) for what, figure in figures.items()}
    is_of_this_version = manifest.package_version == __version__
    if not audit.findings:
        checks, recorded = audit.checks, info.audit
        if manifest.is_imported:  # it records other figures as well
            both = checks.keys() & recorded.keys()
            checks, recorded = ({what: one[what] for what in both} for one in (checks, recorded))
        if is_of_this_version:
            compared["audit"] = checks, recorded
        if info.floor or (is_of_this_version and not manifest.is_imported):
            compared["floor"] = meter.floor(), info.floor
    if check and check.has_texts:
        compared["exhausted"] = sorted(check.exhausted), list(info.exhausted)
    findings += [
        f"{name}: {what} expected {expected}, found {found}"
        for what, (expected, found) in compared.items()
        if expected != found
    ]
    depth = audit.checks.get("depth", "")
    untested += [f"{name}: depth {depth}"] if UNTESTED in depth else []
    if loaded and check and check.has_texts and not check.builds:
        untested.append(
            f"{name}: rows are not built again: punkt_tab, which cuts essays, is missing"
        )
    if not info.question_digest:
        untested.append(f"{name}: an older version built it and recorded no question digest")
    if not (info.floor or is_of_this_version or manifest.is_imported):
        untested.append(f"{name}: an older version built it and recorded no floor")
    is_drawn, built = (check.draws, check.built) if check else (False, replayed)
    return ConfigVerdict(name, findings, untested, questions, is_drawn, built)


def _replayed(
    manifest: Manifest,
    config: str,
    folder: str | None,
    tokenizer: PromptTokenizer,
    untested: list[str],
) -> Iterator[PackedRow]:
    """Yield the rows that an edition of upstream gives, and say in `untested` what stops it."""
    task_name, length = parse_config(config)
    arguments = Arguments(
        edition_of(manifest.edition),
        manifest.table[task_name],
        length,
        manifest.configs[config].rows,
        manifest.seed,
        model_template(manifest.chat_template or "base"),
        template_tokens=manifest.tokenizer.extra_reserve,
    )
    sources = _upstream_sources(folder)
    expected = {source.name: source.sha256 for source in manifest.sources}
    try:
        found = sources.infos(arguments.task, arguments.edition)
        if other := [one.name for one in found if one.sha256 != expected.get(one.name)]:
            untested.append(f"{config}: not replayed: other files of {', '.join(other)} here")
        else:
            yield from packed_rows(arguments, sources, tokenizer)
    except RulerError as error:
        untested.append(f"{config}: not replayed: {error}")


@lru_cache(maxsize=1)
def _upstream_sources(folder: str | None) -> UpstreamSources:
    return UpstreamSources(Library(folder, "real").folder)


def _listed(columns: Sequence[tuple[str, pa.DataType]]) -> str:
    return ", ".join(f"{name}: {kind}" for name, kind in columns)


def _length_findings(
    config: str, tokenizer: PromptTokenizer, row: PackedRow, again: bool, has_template: bool
) -> list[str]:
    """Compare a row's length with what its prompt counts; `again` by the reference as well."""
    content = b"".join((row.context, row.question.encode()))
    counts = {prompt_tokens(tokenizer, content, row.answer_prefix, has_template)}
    if again and not has_template:
        counts.add(recount(tokenizer, row) - row.max_new_tokens)
    return [
        f"{config}/{row.index}: length says {row.length}, the tokenizer counts {length}"
        for length in sorted(count + row.max_new_tokens for count in counts)
        if length != row.length
    ]
