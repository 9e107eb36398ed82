"""Checks of one config: the columns of its file, its rows, their lengths and its summary."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ruler_builders.audit.file_checks import hash_findings, one_line
from ruler_builders.audit.source_check import Available, SourceCheck
from ruler_builders.checks.audit_rows import audit_rows
from ruler_builders.checks.audit_upstream import audit_upstream
from ruler_builders.checks.depth_uniformity import UNTESTED
from ruler_builders.checks.floors import FloorMeter
from ruler_builders.pipeline.pool import Progress
from ruler_builders.pipeline.recount import recount, recounted_rows
from ruler_builders.upstream.columns import prompt_tokens
from ruler_data.errors import BudgetError
from ruler_data.manifest import BALANCED, ConfigInfo, Manifest
from ruler_data.names import parse_config
from ruler_data.parquet import SCHEMA, UNREADABLE, opened, read_packed
from ruler_data.row import PackedRow, RowDigest, question_bytes
from ruler_data.tasks import Qa, Task
from ruler_data.tokenizers import PromptTokenizer, load_tokenizer
from ruler_data.tokenizers.counters import CounterName
from ruler_data.version import __version__


class ConfigVerdict(NamedTuple):
    """The result of checking a config.

    Attributes:
        config: its name.
        findings: what is wrong.
        untested: what could not be tested.
        questions: what each row asks, to compare it with other lengths.
        is_drawn_again: whether each question was drawn again from the seed.
    """

    config: str
    findings: list[str]
    untested: Sequence[str] = ()
    questions: Sequence[bytes] = ()
    is_drawn_again: bool = False


def verify_config(
    folder: Path,
    manifest: Manifest,
    tokenizer: str | None,
    counter: CounterName,
    sources: Available,
    name: str,
    progress: Progress,
) -> ConfigVerdict:
    """Check the file and the rows of one config, in any process.

    Args:
        folder: of the build.
        manifest: of the folder.
        tokenizer: what to count lengths with: name, folder or Hub id; None not to count them.
        counter: library that counts tokens.
        sources: that rows are compared with.
        name: of the config, whose file exists.
        progress: called with the rows that are finished.
    """
    info = manifest.configs[name]
    task_name, length = parse_config(name)
    task, path = manifest.table[task_name], folder / info.file
    findings = hash_findings(info.file, path, info.bytes, info.sha256)
    digest, lengths, questions = RowDigest(), list[int](), list[bytes]()
    library = sources.library(task) if manifest.edition == BALANCED else None
    check = SourceCheck(manifest, task, length, library) if library else None

    def rows() -> Iterator[PackedRow]:
        loaded = _tokenizer(tokenizer, counter) if tokenizer else None
        recounted = recounted_rows(info.rows)
        for row in read_packed(path):
            digest.add(row)
            lengths.append(row.length)
            questions.append(question_bytes(row))
            yield row  # the audit first, which reads all of it
            if check is not None:
                findings.extend(f"{name}/{row.index}: {what}" for what in check.row(row.unpack()))
            if loaded is not None:
                again = row.index in recounted
                findings.extend(
                    _length_findings(name, loaded, row, again, bool(manifest.chat_template))
                )
            progress(name, 1)

    try:
        with path.open("rb") as raw:
            schema = pq.read_schema(raw)
        if not _same_columns(schema):
            expected, found = _columns(SCHEMA), _columns(schema)
            wrong = f"{info.file}: columns expected {expected}, found {found}"
            return ConfigVerdict(name, [*findings, wrong])
        if missing := _missing_values(path):
            return ConfigVerdict(name, [*findings, *(f"{name}/{place}" for place in missing)])
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
    findings += audit.findings + _summary_findings(name, info, digest, lengths)
    is_of_this_version = manifest.package_version == __version__
    checks, recorded = audit.checks, info.audit
    if manifest.is_imported:  # it records other figures as well
        both = checks.keys() & recorded.keys()
        checks, recorded = ({what: one[what] for what in both} for one in (checks, recorded))
    if is_of_this_version and not audit.findings and checks != recorded:
        findings.append(f"{name}: audit expected {checks}, found {recorded}")
    has_floor = info.floor or (is_of_this_version and not manifest.is_imported)
    if has_floor and not audit.findings and (floor := meter.floor()) != info.floor:
        findings.append(f"{name}: floor expected {floor}, found {info.floor}")
    if manifest.edition == BALANCED:
        findings += _exhausted_findings(name, task, info, audit.repeats, check)
    depth = audit.checks.get("depth", "")
    untested = [f"{name}: depth {depth}"] if UNTESTED in depth else []
    if not info.question_digest:
        untested.append(f"{name}: an older version built it and recorded no question digest")
    if not (info.floor or is_of_this_version or manifest.is_imported):
        untested.append(f"{name}: an older version built it and recorded no floor")
    return ConfigVerdict(name, findings, untested, questions, check is not None)


def _exhausted_findings(
    config: str, task: Task, info: ConfigInfo, repeats: Mapping[str, int], check: SourceCheck | None
) -> list[str]:
    """Compare the notes on what ran out with what repeats in the rows."""
    params, notes = task.params, set[str]()
    if isinstance(params, Qa):
        if "documents" in repeats:
            notes.add(f"{params.source} documents, the gold ones too, repeat within a row")
        if count := repeats.get("questions"):
            notes.add(
                f"{params.source} has {count} questions: rows from {count} on repeat these "
                "questions"
            )
    elif task.sources and check is None:
        return []
    if check is not None:
        notes |= check.exhausted
    if sorted(notes) == list(info.exhausted):
        return []
    return [f"{config}: exhausted expected {sorted(notes)}, found {list(info.exhausted)}"]


@lru_cache(maxsize=1)
def _tokenizer(spec: str, counter: CounterName) -> PromptTokenizer:
    tokenizer = load_tokenizer(spec, allow_download=False)
    tokenizer.use(counter)
    return tokenizer


def _missing_values(path: Path) -> list[str]:
    """Return where a value is null, as `row: column`; parquet allows it and a row does not."""
    found = []
    with opened(path) as file:
        offset = 0
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, use_threads=False)
            for name in table.column_names:
                column = table.column(name).combine_chunks()
                inner = [column.flatten()] if pa.types.is_list(column.type) else []
                if any(part.null_count for part in (column, *inner)):
                    values = column.to_pylist()
                    place = next(i for i, value in enumerate(values) if _holds_null(value))
                    found.append(f"{offset + place}: {name} has no value")
            offset += table.num_rows
    return found


def _holds_null(value: object) -> bool:
    if isinstance(value, list):
        return any(map(_holds_null, value))
    if isinstance(value, dict):
        return any(map(_holds_null, value.values()))
    return value is None


def _same_columns(schema: pa.Schema) -> bool:
    return schema.names == SCHEMA.names and all(
        schema.field(name).type == SCHEMA.field(name).type for name in SCHEMA.names
    )


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)


def _length_findings(
    config: str, tokenizer: PromptTokenizer, row: PackedRow, again: bool, has_template: bool
) -> list[str]:
    """Compare a row's length with what its prompt counts; `again` by the reference as well.

    A prompt that contains a chat template is counted without another one.
    """
    content = b"".join((row.context, row.question.encode()))
    if has_template:
        found = prompt_tokens(tokenizer, content.decode(), row.answer_prefix, has_template)
        found += row.max_new_tokens
        if found == row.length:
            return []
        return [f"{config}/{row.index}: length says {row.length}, the tokenizer counts {found}"]
    counts = {tokenizer.count_prompt(content, row.answer_prefix) + row.max_new_tokens}
    if again:
        counts.add(recount(tokenizer, row))
    return [
        f"{config}/{row.index}: length says {row.length}, the tokenizer counts {count}"
        for count in sorted(counts)
        if count != row.length
    ]


def _summary_findings(
    config: str, info: ConfigInfo, digest: RowDigest, lengths: Sequence[int]
) -> list[str]:
    """Check what the manifest states of a config against its rows."""
    if not lengths:
        return []
    length = parse_config(config)[1]
    mean = sum(lengths) / len(lengths)
    found = {
        "rows": len(lengths),
        "digest": digest.hexdigest(),
        "question_digest": digest.question_hexdigest() if info.question_digest else "",
        "length_min": min(lengths),
        "length_mean": round(mean, 3),
        "length_max": max(lengths),
        "fill_min": round(min(lengths) / length, 6),
        "fill_mean": round(mean / length, 6),
    }
    return [
        f"{config}: {name} expected {getattr(info, name)}, found {value}"
        for name, value in found.items()
        if getattr(info, name) != value
    ]
