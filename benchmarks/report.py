"""What a report of 10 runs of the 13 tasks at 6 lengths costs: CPU time, and the size of its page.

The scores are drawn at random. As a measure of the machine, the time is also given as a ratio to
that of the tables alone (`--no-pictures`), taken in the same run.

    python benchmarks/report.py [--runs 10] [--rows 100]
"""

import argparse
import random
import tempfile
from hashlib import sha256
from pathlib import Path

import numpy as np
from measuring import about, cpu, facts, table

from ruler_data import TASKS
from ruler_eval.running.data import DataInfo
from ruler_eval.running.run_dir import RunInfo
from ruler_eval.scoring.columns import Column, Counts
from ruler_eval.scoring.results import ConfigScores, Depth, Scores
from ruler_report import report

LENGTHS = (4096, 8192, 16384, 32768, 65536, 131072)


def results_of(run: int, rows: int, fall: float = 0.04, pool: int = 0) -> Scores:
    """Return a run whose scores fall with its number and with length.

    All runs have the same rows, or each has its own of a pool of questions.
    """
    configs = {}
    for task in TASKS.values():
        asked = random.Random(f"{run}/{task.name}").sample(range(pool), rows if pool else 0)
        texts = (sha256(f"{task.name}/{index}".encode()).hexdigest() for index in sorted(asked))
        questions = "".join(digest[:16] for digest in texts)
        for place, length in enumerate(LENGTHS):
            name = f"{task.name}_{length}"
            rng = np.random.default_rng([run, *name.encode()])
            right = rng.random(rows) < 0.97 - fall * run - 0.08 * place
            scores, wrong = right.astype(float), tuple(np.flatnonzero(~right).tolist())
            configs[name] = ConfigScores(
                digest=name, question_digest=task.name, family=task.params.family,
                category=task.category, metric=task.metric, rows=rows,
                scores=Column(scores), exact=Column(scores), f1=Column(scores),
                characters=Counts((20,) * rows), tokens=Counts((7,) * rows), questions=questions,
                truncated=wrong[:2], empty=wrong[2:3], failed=(), missing=(),
                failures={"refusal": wrong[::2], "other": wrong[1::2]} if wrong else {},
                depth=Depth((rows,) * 10, (rows - len(wrong),) * 10, (rows,) * 10),
            )  # fmt: skip
    digests, counts = {name: name for name in configs}, dict.fromkeys(configs, rows)
    data = DataInfo(
        None, None, "1.0.0", "ruler", 42, False, "llama3", "f" * 64, digests, counts, ""
    )
    info = RunInfo(data, f"org/model-{run}", None, "completion", "oracle")
    return Scores(info, info.fingerprint, configs)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--rows", type=int, default=100)
    options = parser.parse_args()
    runs = [results_of(run, options.rows) for run in range(options.runs)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        report(runs[:1], folder / "warm")  # what is loaded once
        bare = cpu(lambda: report(runs, folder / "bare", pictures=False))
        whole = cpu(lambda: report(runs, folder / "whole"))
        page = (folder / "whole" / "index.html").stat().st_size
        drawn = len(list((folder / "whole" / "figures").iterdir()))
    print(*facts(about("matplotlib")), "", sep="\n")
    head = ("runs", "rows", "pictures", "page, MB", "CPU s", "CPU s, no pictures", "ratio")
    row = (options.runs, options.rows, drawn, page / 1e6, whole, bare, whole / bare)
    print(*table(head, [row]), sep="\n")


if __name__ == "__main__":
    main()
