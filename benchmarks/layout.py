"""Bytes and reading times of ways to lay out the same rows, measured in one run.

    python benchmarks/layout.py dist/llama3

For every task of a built folder, at its greatest length: the bytes of the file as published, with
zstd at level 3 and 9 throughout, and as `datasets` itself writes parquet (snappy, small row
groups). Then, for the first such config, `load_dataset` into an empty cache and streaming's first
row, each in a process of its own, as published and as `datasets` writes it.
"""

import argparse
import io
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Dataset, disable_progress_bars

from ruler_builders.pipeline.write_parquet import layout, row_groups
from ruler_data import TASKS, Manifest, parse_config
from ruler_data.parquet import SCHEMA, read_rows

#: Times that each reading is repeated; the median is reported.
REPEATS = 5

READ = """
import os, sys, time
from datasets import load_dataset
start = time.process_time()
rows = load_dataset("parquet", data_files=sys.argv[1], split="train", streaming=sys.argv[2] == "s")
next(iter(rows))
print(time.process_time() - start, flush=True)
os._exit(0)  # threads that read ahead may never end where reading stopped early
"""


def size(path: Path, **changes: object) -> int:
    """Return the bytes of a file's rows written with changed options."""
    task = TASKS[parse_config(path.parent.name)[0]]
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, SCHEMA, **{**layout(task), **changes}) as writer:
        for group in row_groups(read_rows(path)):
            writer.write_table(group, row_group_size=len(group))
    return sink.tell()


def by_datasets(path: Path, out: Path) -> int:
    """Write a file's rows as `datasets` does and return the bytes."""
    records = [row.to_record() for row in read_rows(path)]
    Dataset(pa.Table.from_pylist(records, SCHEMA)).to_parquet(str(out))
    return out.stat().st_size


def seconds(path: Path, mode: str) -> float:
    """Return the median CPU seconds of reading a file with `datasets` in a fresh process."""
    found = []
    for _ in range(REPEATS):
        cache = tempfile.mkdtemp()
        done = subprocess.run(
            [sys.executable, "-c", READ, str(path), mode], check=True, capture_output=True,
            text=True, env={**os.environ, "HF_HOME": cache, "HF_HUB_OFFLINE": "1"},
        )  # fmt: skip
        shutil.rmtree(cache)
        found.append(float(done.stdout))
    return statistics.median(found)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    disable_progress_bars()
    manifest = Manifest.from_json((options.folder / "manifest.json").read_text(encoding="utf-8"))
    length = max(parse_config(name)[1] for name in manifest.configs)
    whole = sum(info.bytes for info in manifest.configs.values())
    lines = [
        "# Layout of the files", "",
        f"- machine: {platform.machine()}, {os.cpu_count()} cores; pyarrow {version('pyarrow')}, "
        f"datasets {version('datasets')}",
        f"- tokenizer {manifest.tokenizer.name}, {len(manifest.configs)} configs, "
        f"{whole / 1e6:.1f} MB in all; below, the configs of {length:,} tokens, in MB", "",
        "| config | rows | published | zstd 3 | zstd 9 | `to_parquet` (snappy) |",
        "|---|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    totals = [0, 0, 0, 0]
    with tempfile.TemporaryDirectory() as scratch:
        other = Path(scratch) / "snappy.parquet"
        for name, info in manifest.configs.items():
            if parse_config(name)[1] != length:
                continue
            path = options.folder / info.file
            sizes = [
                info.bytes, size(path, compression_level=3), size(path, compression_level=9),
                by_datasets(path, other),
            ]  # fmt: skip
            totals = [a + b for a, b in zip(totals, sizes, strict=True)]
            shown = " | ".join(f"{one / 1e6:.1f}" for one in sizes)
            lines.append(f"| {name} | {info.rows} | {shown} |")
            print(lines[-1], file=sys.stderr, flush=True)
        lines.append("| **all** | | " + " | ".join(f"{one / 1e6:.1f}" for one in totals) + " |")
        first = f"niah_single_2_{length}" if f"niah_single_2_{length}" in manifest.configs else name
        path = options.folder / manifest.configs[first].file
        by_datasets(path, other)
        lines += ["", f"Reading {first}, CPU seconds (median of {REPEATS}):", ""]
        lines += ["| | published | `to_parquet` | ratio |", "|---|---:|---:|---:|"]
        for mode, what in (("l", "load_dataset, empty cache"), ("s", "streaming, first row")):
            ours, theirs = seconds(path, mode), seconds(other, mode)
            lines.append(f"| {what} | {ours:.2f} | {theirs:.2f} | {theirs / ours:.1f} |")
    page = "\n".join(lines) + "\n"
    print(page)
    print(json.dumps({"total_mb": whole / 1e6}))


if __name__ == "__main__":
    main()
