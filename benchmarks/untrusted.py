"""What the checks of files and tokenizers cost: CPU seconds with them and without.

    python benchmarks/untrusted.py --data FOLDER                             # reading
    python benchmarks/untrusted.py --tokenizer FOLDER --pairs 3 -- --rows 20 # a build

Reading: a process loads a built folder and reads all rows of its least length; the checks are timed
inside it, so other work on the machine does not matter. Build: whole commands in turns, with the
tokenizer within limits and, by `--trust`, without; options after `--` are those of `build`.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from measuring import about, facts, run, table

import ruler_data
from ruler_data.untrusted.pages import ParquetRows


def reading(data: Path) -> list[str]:
    """Return how long it takes to load and read, and the share of the checks."""
    checks, measured = 0.0, ParquetRows._measured

    def timed(rows: ParquetRows, number: int, columns: Sequence[str] | None) -> Iterator[object]:
        nonlocal checks
        start = time.process_time()
        pages = list(measured(rows, number, columns))
        checks += time.process_time() - start
        return iter(pages)

    ParquetRows._measured = timed  # type: ignore[assignment, method-assign]
    start = time.process_time()
    dataset = ruler_data.load(str(data))
    least = min(int(name.rpartition("_")[2]) for name in dataset)
    configs = [name for name in dataset if name.endswith(f"_{least}")]
    rows = sum(len(row.context) > 0 for name in configs for row in dataset[name])
    spent = time.process_time() - start
    return [f"- {rows:,} rows of {len(configs)} configs: {spent:.3f} CPU s, checks {checks:.3f}: "
            f"with / without {spent / (spent - checks):.3f}"]  # fmt: skip


def builds(tokenizer: Path, pairs: int, options: Sequence[str]) -> list[str]:
    """Return the CPU seconds of builds with checks and without, in turns."""
    lines = []
    for pair in range(pairs):
        spent = {}
        for trust in ([], ["--trust"])[:: -1 if pair % 2 else 1]:
            with tempfile.TemporaryDirectory() as out:
                command = ["ruler-data", "build", "--tokenizer", str(tokenizer), "--out", out]
                spent[not trust] = run([*command, "--force", *trust, *options]).cpu
        lines.append((pair + 1, spent[True], spent[False], spent[True] / spent[False]))
    heads = ("pair", "with, CPU s", "without, CPU s", "with / without")
    middle = f"- with / without, median: {median(line[-1] for line in lines):.3f}"
    return [*table(heads, lines), "", middle]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--tokenizer", type=Path)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("options", nargs="*")
    given = parser.parse_args()
    lines = reading(given.data) if given.data else []
    lines += builds(given.tokenizer, given.pairs, given.options) if given.tokenizer else []
    print("\n".join([*facts(about("pyarrow", "tokenizers")), *lines]))
