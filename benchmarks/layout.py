"""Bytes and reading times of ways to lay out the same rows, measured in one run.

    python benchmarks/layout.py dist/llama3

For every task of a built folder, at its greatest length: the bytes of the file as published, with
zstd at level 3 and 9 throughout, and as `datasets` itself writes parquet (snappy, small row
groups). Then, for the first such config, `load_dataset` into an empty cache and streaming's first
row, each in a process of its own, as published and as `datasets` writes it.
"""

import argparse
import io
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Dataset, disable_progress_bars
from measuring import about, facts, table

from ruler_builders.pipeline.build_dir import parquet_options, row_groups
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
    with pq.ParquetWriter(sink, SCHEMA, **{**parquet_options(task), **changes}) as writer:
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
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    disable_progress_bars()
    manifest = Manifest.from_json((options.folder / "manifest.json").read_text(encoding="utf-8"))
    length = max(parse_config(name)[1] for name in manifest.configs)
    longest = {n: one for n, one in manifest.configs.items() if parse_config(n)[1] == length}
    whole = sum(info.bytes for info in manifest.configs.values())
    content = f"{len(manifest.configs)} configs, {whole / 1e6:.1f} MB in all"
    known = {"tokenizer": manifest.tokenizer.name, "data": content}
    print("# Layout of the files", "", *facts(about("pyarrow", "datasets") | known), sep="\n")
    with tempfile.TemporaryDirectory() as scratch:
        other = Path(scratch) / "snappy.parquet"
        lines: list[list[object]] = []
        for name, info in longest.items():
            path = options.folder / info.file
            zstd = (size(path, compression_level=level) for level in (3, 9))
            sizes = [info.bytes, *zstd, by_datasets(path, other)]
            lines.append([name, info.rows, *(one / 1e6 for one in sizes)])
        totals = np.array([line[2:] for line in lines], dtype=float).sum(axis=0).tolist()
        heads = ("config", "rows", "published", "zstd 3", "zstd 9", "`to_parquet` (snappy)")
        print(f"\nThe configs of {length:,} tokens, in MB:\n")
        print(*table(heads, [*lines, ["**all**", "", *totals]]), sep="\n")
        first = next((name for name in longest if name.startswith("niah_single_2")), name)
        path = options.folder / longest[first].file
        by_datasets(path, other)
        print(f"\nReading {first}, CPU seconds (median of {REPEATS}):\n")
        lines = []
        for mode, what in (("l", "load_dataset, empty cache"), ("s", "streaming, first row")):
            spent, plain = seconds(path, mode), seconds(other, mode)
            lines.append([what, spent, plain, plain / spent])
        print(*table(("", "published", "`to_parquet`", "ratio"), lines), sep="\n")


if __name__ == "__main__":
    main()
