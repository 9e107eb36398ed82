"""What derived results cost: CPU seconds for 39,000 rows, and for a board of many runs.

    python benchmarks/derive.py --data FOLDER [--runs 200] [--rows 500] [--pool]

Answers are made up for every row of a built folder: seven in ten right, the others of five kinds
that have to be looked up in the context. Scores are derived, then read from results.json; those of
right answers come from the columns of the questions alone. The cost of 39,000 rows is estimated
from those of two and of all rows a config, so the folder needs all tasks and lengths, but few rows.
The board is of runs whose results are in memory, with the same rows, or each with half of a pool.
"""

import argparse
import json
import os
import random
import resource
import tempfile
from collections import deque
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from measuring import about, cpu, facts
from report import results_of

from ruler_data import TASKS, parse_config
from ruler_data.row import Row
from ruler_eval.running.answers import Answer
from ruler_eval.running.data import Dataset, open_dataset
from ruler_eval.running.run_dir import RUN_FILE, RunFolder, RunInfo
from ruler_eval.scoring.derive import derive, load_scores
from ruler_eval.scoring.results import FILENAME
from ruler_report.board import build

#: Rows of a config of the suite `ruler`.
RELEASED = 500
#: Rows of a config whose cost is taken as that of opening it.
FEW = 2
WRONG = (
    "I could not find it in the text above.",
    "The text mentions 7654321, 1234567 and QZKRA, but none of them fits the question.",
    "**Answer:** Normandy",
    "",
)


def right_answer(row: Row, config: str) -> str:
    """Return all gold answers, or one where one is enough."""
    is_any = TASKS[parse_config(config)[0]].metric == "part"
    return row.outputs[0] if is_any else ", ".join(row.outputs)


def answer_to(row: Row, config: str) -> str:
    """Return a right answer in seven of ten rows."""
    rng = random.Random(f"{config}/{row.index}")
    if rng.random() < 0.7:
        return right_answer(row, config)
    return rng.choice((*WRONG, f"1. {row.outputs[0]}\n2. {row.context[2000:2030]}"))


def write_run(folder: Path, data: Dataset) -> None:
    """Write a run over all rows of a folder."""
    info = RunInfo(data.info, "org/model", None, "completion", "made up")
    folder.mkdir()
    (folder / RUN_FILE).write_text(json.dumps(asdict(info)), encoding="utf-8")
    with (folder / "answers-0-of-1.jsonl").open("w", encoding="utf-8") as file:
        for config in data.rows:
            for row in data.read(config):
                text = answer_to(row, config)
                answer = Answer(config, row.index, text, "stop", row.length, 9, 0.1)
                file.write(json.dumps(asdict(answer)) + "\n")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--rows", type=int, default=RELEASED)
    parser.add_argument("--pool", action="store_true", help="each run has half of a pool")
    given = parser.parse_args()
    measured = {}
    with tempfile.TemporaryDirectory() as name:
        os.environ["RULER_CACHE"] = str(Path(name, "cache"))
        if given.data:
            data, run = open_dataset(str(given.data)), Path(name, "run")
            write_run(run, data)
            load_scores(run, str(given.data))  # what is loaded once
            answers = RunFolder(run).answers()
            right = {
                (config, row.index, 0): replace(
                    answers[config, row.index, 0], text=right_answer(row, config)
                )
                for config in data.rows
                for row in data.question_rows(config)
            }
            many = max(data.rows.values())
            costs = []
            for rows in (FEW, many):
                part = data.choose(rows=rows)
                info = RunInfo(part.info, "org/model", None, "completion", "made up")
                costs.append([cpu(partial(derive, info, said, part)) for said in (answers, right)])
            (few, few_right), (whole, whole_right) = costs
            steps = (RELEASED - many) / (many - FEW)
            estimate = whole + steps * (whole - few)
            official = whole_right + steps * (whole_right - few_right)
            again = cpu(lambda: load_scores(run, str(given.data)))
            read = cpu(lambda: [deque(data.read(config), maxlen=0) for config in data.rows])
            measured["derived / read and nothing else"] = f"{whole / read:.1f}"
            measured["rows derived"] = (
                f"{estimate:.1f} CPU s for {RELEASED * len(data.rows):,} rows, "
                f"estimated from {sum(data.rows.values()):,}; from {FILENAME} {again:.2f} CPU s"
            )
            measured["all right, no context read"] = f"{official:.1f} CPU s"
        if given.runs:
            pool = 2 * given.rows if given.pool else 0
            runs = [results_of(n, given.rows, 0.6 / given.runs, pool) for n in range(given.runs)]
            spent = cpu(lambda: build(runs))
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
            measured["board"] = (
                f"{spent:.1f} CPU s for {given.runs} runs of {given.rows} rows; {peak:.0f} MB, the "
                "runs and Python included"
            )
    print(*facts(about("numpy", "pyarrow") | measured), sep="\n")


if __name__ == "__main__":
    main()
