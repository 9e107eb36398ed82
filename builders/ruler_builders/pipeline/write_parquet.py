"""Write rows to a parquet file, atomically; the rows alone decide its bytes.

The layout was measured: zstd instead of the snappy that `push_to_hub` writes (308 MB of essay rows:
177 MB snappy, 10.7 MB zstd 3, 2.0 MB zstd 9), no dictionary on long text, a page index and page
checksums, and row groups small enough to start streaming from.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ruler_data.files import replacing, sha256_file
from ruler_data.manifest import ConfigInfo
from ruler_data.parquet import CANARY, SCHEMA, to_table
from ruler_data.row import PackedRow, Row, RowDigest, utf8
from ruler_data.tasks import Niah, Qa, Task

#: Most rows of a row group, and most bytes of text unless one row has more. The writer holds a
#: group three times in memory.
GROUP_ROWS = 100
GROUP_BYTES = 40_000_000

#: Columns with few distinct values; a dictionary on long text only costs time.
DICTIONARY = ["task", "answer_prefix"]

#: zstd levels. Essays, domains and documents repeat from row to row, and only high levels look back
#: far enough to find that. Noise repeats within a line, which low levels compress better, and
#: needles, words and coded words do not repeat (`benchmarks/layout.py`).
LEVEL_TEXTS, LEVEL = 9, 3


class _Writer(pq.ParquetWriter):  # type: ignore[misc]
    """A writer that is not closed when it is collected as garbage, which would print an error."""

    def __del__(self) -> None:
        """Leave the file open: its name marks it as partial."""


def write_rows(
    path: Path, rows: Iterable[Row | PackedRow], task: Task, length: int, expected: int
) -> ConfigInfo:
    """Write rows to a parquet file, atomically, and return its entry for the manifest.

    The last two parts of `path` are its path in the manifest. `task` decides the compression level,
    `length` (tokens) the fill, and `expected`, a number of rows, the space that an error names.

    Raises:
        RulerError: the disk is full or the folder not writable.
    """
    digest, lengths = RowDigest(), list[int]()
    text_bytes = 0

    def record(row: Row | PackedRow) -> Row | PackedRow:
        digest.add(row)
        lengths.append(row.length)
        return row

    def need() -> str:
        most = text_bytes * expected // max(len(lengths), 1) // 1_000_000 + 1
        return f"its {expected} rows need up to {most} MB; "

    with replacing(path, need) as file:
        writer = _Writer(file, SCHEMA, **parquet_options(task))
        writer.add_key_value_metadata({"canary": CANARY})
        for group in row_groups(map(record, rows)):
            text_bytes += group.nbytes
            writer.write_table(group, row_group_size=len(group))
            del group  # frees its memory for the next one
        writer.close()
    return ConfigInfo(
        file=f"{path.parent.name}/{path.name}",
        bytes=path.stat().st_size,
        sha256=sha256_file(path),
        **row_figures(digest, lengths, length),
    )


def row_groups(rows: Iterable[Row | PackedRow]) -> Iterator[pa.Table]:
    """Turn rows into tables of at most `GROUP_ROWS` rows and `GROUP_BYTES` of text, or one row."""
    group, size = list[Row | PackedRow](), 0
    for row in rows:
        text = len(utf8(row.context))
        if group and (len(group) == GROUP_ROWS or size + text > GROUP_BYTES):
            yield to_table(group)
            group, size = [], 0
        group.append(row)
        size += text
    if group:
        yield to_table(group)


def parquet_options(task: Task) -> dict[str, object]:
    """Return the options of the parquet writer for a task."""
    texts = isinstance(task.params, Niah) and task.params.haystack in ("essays", "domains")
    return {
        "compression": "zstd",
        "compression_level": LEVEL_TEXTS if texts or isinstance(task.params, Qa) else LEVEL,
        "use_dictionary": DICTIONARY,
        "write_page_index": True,
        "write_page_checksum": True,
        "store_schema": True,
    }


def row_figures(digest: RowDigest, lengths: Sequence[int], length: int) -> dict[str, Any]:
    """Return what the manifest states of the rows of a config, whose length is in tokens."""
    mean = sum(lengths) / len(lengths)
    return {
        "rows": len(lengths),
        "digest": digest.hexdigest(),
        "question_digest": digest.question_hexdigest(),
        "length_min": min(lengths),
        "length_mean": round(mean, 3),
        "length_max": max(lengths),
        "fill_min": round(min(lengths) / length, 6),
        "fill_mean": round(mean / length, 6),
    }
