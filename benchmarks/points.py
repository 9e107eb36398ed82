"""Points that a smaller budget and another form of prompt move, from answers that are recorded.

    python benchmarks/points.py --data FOLDER --tokenizer FOLDER [--run RUN] [--forms RUN RUN]

Budget: the answers of a run are cut to fewer tokens of its tokenizer and scored again; each ends
where a server with that limit would have ended it, since sampling is greedy. Form: two runs of one
model on the same rows, of which only the results are read. What a larger budget or thinking would
have given, recorded answers do not say.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

from measuring import table
from tokenizers import Tokenizer

from ruler_data.names import parse_config
from ruler_data.tasks import TASKS
from ruler_eval.running.data import open_dataset
from ruler_eval.running.run_dir import RunFolder
from ruler_eval.scoring.metrics import SCORERS
from ruler_report import compare

#: Length of the rows whose answers are cut.
LENGTH = 4096
RESULTS = Path(__file__).parents[1] / "results"
#: By name: the tokens that an answer of a budget may have.
BUDGETS: dict[str, Callable[[int], int]] = {
    "as recorded": lambda budget: budget,
    "64 at most": lambda budget: min(budget, 64),
    "half of each": lambda budget: budget // 2,
    "32 at most": lambda budget: min(budget, 32),
    "16 at most": lambda budget: min(budget, 16),
}


def scores(run: Path, data: Path, tokenizer: str) -> dict[str, dict[str, float]]:
    """Return for each budget the mean of each task (percent), over the rows that were answered."""
    answers = RunFolder(run).answers()
    rows = open_dataset(str(data)).choose(lengths=[LENGTH])
    encoder = Tokenizer.from_file(f"{tokenizer}/tokenizer.json")
    means: dict[str, dict[str, float]] = {}
    for config in rows.rows:
        task = TASKS[parse_config(config)[0]]
        texts = [
            (encoder.encode(answers[config, row.index, 0].text or "").ids, row)
            for row in rows.question_rows(config)
        ]
        for name, limit in BUDGETS.items():
            found = [
                SCORERS[task.metric](encoder.decode(ids[: limit(row.max_new_tokens)]), row.outputs)
                for ids, row in texts
            ]
            means.setdefault(name, {})[task.name] = 100 * fmean(found)
    return means


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--run", type=Path, default=RESULTS / "qwen2.5-coder-0.5b")
    smollm = [RESULTS / f"smollm2-135m-instruct-{form}" for form in ("completion", "base")]
    parser.add_argument("--forms", type=Path, nargs=2, default=smollm)
    options = parser.parse_args()
    means = scores(options.run, options.data, options.tokenizer)
    tasks = [task for task in TASKS if task in means["as recorded"]]
    lines = [[name, fmean(by_task.values()), *map(by_task.get, tasks)]
             for name, by_task in means.items()]  # fmt: skip
    print(*table(["tokens of an answer", "mean", *tasks], lines), sep="\n")
    print(compare(*options.forms, lengths="1024", force=True, claimed=True))


if __name__ == "__main__":
    main()
