"""One config of a folder: its file's columns, its rows, their lengths and its figures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ruler_builders.audit.file_checks import hash_findings, one_line
from ruler_builders.checks.audit_rows import audit_rows
from ruler_builders.checks.depth_uniformity import UNTESTED
from ruler_builders.pipeline.pool import Progress
from ruler_data.manifest import ConfigInfo
from ruler_data.names import parse_config
from ruler_data.parquet import SCHEMA, UNREADABLE, read_packed
from ruler_data.row import PackedRow, RowDigest
from ruler_data.tasks import Task
from ruler_data.tokenizers import Tokenizer, load_tokenizer
from ruler_data.tokenizers.counters import CounterName

#: One row in so many is counted by the reference as well.
RECOUNT_EVERY = 100


@dataclass(frozen=True)
class ConfigJob:
    """One config for a worker."""

    folder: Path
    config: str
    task: Task
    info: ConfigInfo
    tokenizer: str | None
    counter: CounterName
    reserve: int


@dataclass(frozen=True)
class Verified:
    """What was found in one config, and what of it could not be tested."""

    findings: list[str]
    untested: str = ""


def verify_config(job: ConfigJob, progress: Progress) -> Verified:
    """Check one config's file and rows, in whatever process."""
    path = job.folder / job.info.file
    findings = hash_findings(job.info.file, path, job.info.bytes, job.info.sha256)
    _, length = parse_config(job.config)
    try:
        with path.open("rb") as raw:
            schema = pq.read_schema(raw)
        if not _same_columns(schema):
            findings.append(
                f"{job.info.file}: columns expected {_columns(SCHEMA)}, found {_columns(schema)}"
            )
            return Verified(findings)
        digest, lengths = RowDigest(), list[int]()
        tokenizer = _tokenizer(job.tokenizer, job.counter) if job.tokenizer else None

        def rows() -> Iterator[PackedRow]:
            for row in read_packed(path):
                digest.add(row)
                lengths.append(row.length)
                yield row  # and see first whether it can be read at all
                if tokenizer is not None:
                    findings.extend(_length_findings(job.config, tokenizer, row))
                progress(job.config, 1)

        if absent := _absent_values(path):
            return Verified([*findings, *(f"{job.config}/{place}" for place in absent)])
        audit = audit_rows(job.config, job.task, length, rows(), job.reserve)
    except UNREADABLE as error:
        return Verified([*findings, f"{job.info.file}: cannot be read: {one_line(error)}"])
    findings += audit.findings + _summary_findings(job, digest.hexdigest(), lengths, length)
    depth = audit.checks.get("depth", "")
    return Verified(findings, f"{job.config}: depth {depth}" if UNTESTED in depth else "")


@lru_cache(maxsize=1)
def _tokenizer(spec: str, counter: CounterName) -> Tokenizer:
    tokenizer = load_tokenizer(spec, allow_download=False)
    tokenizer.use(counter)
    return tokenizer


def _absent_values(path: Path) -> list[str]:
    """Return where a value is absent, as `row: column`; parquet allows it and a row does not."""
    found = []
    with path.open("rb") as raw, pq.ParquetFile(raw, pre_buffer=False) as file:
        offset = 0
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, use_threads=False)
            for name in table.column_names:
                column = table.column(name).combine_chunks()
                inner = [column.flatten()] if pa.types.is_list(column.type) else []
                if column.null_count or any(one.null_count for one in inner):
                    values = column.to_pylist()
                    place = next(i for i, value in enumerate(values) if _has_absent(value))
                    found.append(f"{offset + place}: {name} has no value")
            offset += table.num_rows
    return found


def _has_absent(value: object) -> bool:
    if isinstance(value, list):
        return any(map(_has_absent, value))
    if isinstance(value, dict):
        return any(map(_has_absent, value.values()))
    return value is None


def _same_columns(schema: pa.Schema) -> bool:
    return schema.names == SCHEMA.names and all(
        schema.field(name).type == SCHEMA.field(name).type for name in SCHEMA.names
    )


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)


def _length_findings(config: str, tokenizer: Tokenizer, row: PackedRow) -> list[str]:
    content, prefix = b"".join((row.context, row.question.encode())), row.answer_prefix
    counts = {tokenizer.count_prompt(content, prefix)}
    if row.index % RECOUNT_EVERY == 0:
        counts.add(tokenizer.recount_prompt(content.decode(), prefix))
    return [
        f"{config}/{row.index}: length says {row.length}, the tokenizer counts {found}"
        for found in (count + row.max_new_tokens for count in sorted(counts))
        if found != row.length
    ]


def _summary_findings(
    job: ConfigJob, digest: str, lengths: Sequence[int], length: int
) -> list[str]:
    """Check what the manifest says of a config against its rows."""
    info = job.info
    if not lengths:
        return []
    mean = sum(lengths) / len(lengths)
    said_and_found = {
        "rows": (info.rows, len(lengths)),
        "digest": (info.digest, digest),
        "length_min": (info.length_min, min(lengths)),
        "length_mean": (info.length_mean, round(mean, 3)),
        "length_max": (info.length_max, max(lengths)),
        "fill_min": (info.fill_min, round(min(lengths) / length, 6)),
        "fill_mean": (info.fill_mean, round(mean / length, 6)),
    }
    return [
        f"{job.config}: {name} expected {said}, found {found}"
        for name, (said, found) in said_and_found.items()
        if said != found
    ]
