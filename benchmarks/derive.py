"""What a table of scores costs: CPU seconds for 39,000 rows, and for many runs derived before.

    python benchmarks/derive.py --data FOLDER [--runs 200]

Answers are made up for every row of a built folder: seven in ten right, the others of five kinds
that have to be looked up in the context. The table is derived, then read from the user's cache;
that of right answers comes from the columns of the questions alone. The cost of 39,000 rows is
estimated from those of two and of all rows a config, so the folder needs all tasks and lengths, but
few rows. The many runs have 39,000 rows each: their tables are in the cache, their answers on disk.
"""

import argparse
import json
import os
import random
import tempfile
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
from measuring import about, cpu, facts

from ruler_data import TASKS, parse_config
from ruler_data.row import Row, question_digest
from ruler_eval.running.answers import Answer
from ruler_eval.running.data import Dataset, open_dataset
from ruler_eval.running.journal import NAME
from ruler_eval.running.run_dir import RUN_FILE, RunFolder, RunInfo
from ruler_eval.scoring.loading import derive, keep, load_scores

#: Rows of a config of the suite `ruler`.
RELEASED = 500
#: Calls of which the cheapest counts.
CALLS = 3
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


def journal_of(folder: Path, info: RunInfo) -> Path:
    """Return the file for the answers of a run."""
    return folder / NAME.format("0-of-1", "made-up", info.short_fingerprint)


def write_run(folder: Path, data: Dataset) -> None:
    """Write a run over all rows of a folder."""
    info = RunInfo(data.info, "org/model", None, "completion", "made up")
    folder.mkdir()
    (folder / RUN_FILE).write_text(json.dumps(asdict(info)), encoding="utf-8")
    with journal_of(folder, info).open("w", encoding="utf-8") as file:
        for config in data.rows:
            for row in data.read(config):
                answer = Answer(
                    config,
                    row.index,
                    answer_to(row, config),
                    finish="stop",
                    prompt_tokens=row.length - row.max_new_tokens,
                    answer_tokens=9,
                    seconds=0.1,
                    question_digest=question_digest(row),
                )
                file.write(json.dumps(asdict(answer)) + "\n")


def runs_derived_before(folder: Path, run: Path, number: int) -> list[Path]:
    """Write runs of 39,000 rows whose tables are in the cache; only their models differ."""
    scores = load_scores(run)
    rows = RELEASED * len(scores.run.data.rows)
    times = -(-rows // scores.rows)
    table = pa.concat_tables([scores.table] * times).slice(0, rows).combine_chunks()
    lines = journal_of(run, scores.run).read_bytes().splitlines(keepends=True)
    answers = folder / "answers"
    answers.write_bytes(b"".join((lines * times)[:rows]))
    places = []
    for place in range(number):
        path = folder / str(place)
        path.mkdir()
        info = replace(scores.run, model=f"org/model-{place}")
        (path / RUN_FILE).write_text(json.dumps(asdict(info)), encoding="utf-8")
        journal_of(path, info).hardlink_to(answers)
        keep(path, replace(scores, table=table, run=info))
        places.append(path)
    return places


def least(work: Callable[[], object]) -> float:
    """Return the CPU seconds of the cheapest of some calls; other work only adds to one."""
    return min(cpu(work) for _ in range(CALLS))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=200)
    options = parser.parse_args()
    measured = {}
    with tempfile.TemporaryDirectory() as name:
        os.environ["RULER_CACHE"] = str(Path(name, "cache"))
        data, run = open_dataset(str(options.data)), Path(name, "run")
        write_run(run, data)
        scores = load_scores(run, str(options.data))  # what is loaded once
        assert scores.answered == scores.rows, "a row that counts as unanswered costs nothing"
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
            chosen = data.choose(rows=rows)
            info = RunInfo(chosen.info, "org/model", None, "completion", "made up")
            costs.append([least(partial(derive, info, said, chosen)) for said in (answers, right)])
        (few, few_right), (whole, whole_right) = costs
        steps = (RELEASED - many) / (many - FEW)
        estimate = whole + steps * (whole - few)
        official = whole_right + steps * (whole_right - few_right)
        read = least(lambda: [deque(data.read(config), maxlen=0) for config in data.rows])
        measured["derived / read and nothing else"] = f"{whole / read:.1f}"
        measured["rows derived"] = (
            f"{estimate:.1f} CPU s for {RELEASED * len(data.rows):,} rows, "
            f"estimated from {sum(data.rows.values()):,}"
        )
        measured["all right, no context read"] = f"{official:.1f} CPU s"
        if options.runs:
            places = runs_derived_before(Path(name), run, options.runs)
            spent = cpu(lambda: [load_scores(place) for place in places])
            measured["derived before"] = f"{spent:.1f} CPU s for {options.runs} runs"
    print(*facts(about("numpy", "pyarrow") | measured), sep="\n")


if __name__ == "__main__":
    main()
