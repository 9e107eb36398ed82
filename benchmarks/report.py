"""What a report of 10 runs of the 13 tasks at 6 lengths costs: CPU time, and the size of its page.

The scores are drawn at random. As a measure of the machine, the time is also given as a ratio to
that of the tables alone (`--no-pictures`), taken in the same run.

    python benchmarks/report.py [--runs 10] [--rows 100]
"""

import argparse
import tempfile
from hashlib import sha256
from pathlib import Path

import numpy as np
from measuring import about, cpu, facts, table

from ruler_data import TASKS
from ruler_eval.running.data import DataInfo
from ruler_eval.running.run_dir import RunInfo
from ruler_eval.scoring.scores import Scores
from ruler_eval.scoring.table import Line, to_table
from ruler_eval.scoring.validity import Validity
from ruler_report import report

LENGTHS = (4096, 8192, 16384, 32768, 65536, 131072)


def results_of(run: int, rows: int, fall: float = 0.04) -> Scores:
    """Return a run whose scores fall with its number and with length."""
    lines = []
    for task in TASKS:
        questions = [sha256(f"{task}/{index}".encode()).hexdigest()[:16] for index in range(rows)]
        for place, length in enumerate(LENGTHS):
            rng = np.random.default_rng([run, place, *task.encode()])
            right = (rng.random(rows) < 0.97 - fall * run - 0.08 * place).tolist()
            for index, is_right in enumerate(right):
                line = Line(task, length, index, 0, questions[index], finish="stop", seconds=0.1)
                line.official = line.exact = line.f1 = float(is_right)
                line.label = None if is_right else ("refusal", "other")[index % 2]
                line.empty, line.truncated = False, not is_right and index < 10
                line.prompt_tokens, line.answer_tokens = length, 7
                if task.startswith("niah"):
                    line.depth, line.shown = [index / rows], [is_right]
                lines.append(line)
    data = DataInfo(None, None, "1.0.0", "ruler", 42, False, "llama3", "f" * 64, {}, {}, "")
    info = RunInfo(data, f"org/model-{run}", None, "completion", "oracle")
    validity = Validity(rows=len(lines), answered=len(lines))
    return Scores(
        run=info,
        fingerprint=info.fingerprint,
        validity=validity,
        tasks=dict(TASKS),
        table=to_table(lines),
    )


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
    head = ("runs", "rows", "files of pictures", "page, MB", "CPU s", "CPU s, no pictures", "ratio")
    row = (options.runs, options.rows, drawn, page / 1e6, whole, bare, whole / bare)
    print(*table(head, [row]), sep="\n")


if __name__ == "__main__":
    main()
