"""How often labels and exact scores are right: a confusion table, as Markdown.

    python benchmarks/failures.py [--sources DIR] [--rows N] [--half {development,held-out}]

Answers of known label are made from rows of the 13 tasks, and of suites that have other needles or
chains, at 4,096 tokens (`tests/labelled_answers.py`).
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from measuring import table

from ruler_data import TASKS
from ruler_data.suites import packaged
from ruler_eval.metrics import clean, score_row
from ruler_report.exact import exact_scores
from ruler_report.failures import MEANINGS, failure_of
from tests.labelled_answers import labelled_answers
from tests.rows import make

HALVES = ("development", "held-out")
MORE = ("niah_w_w", "niah_w_u", "niah_n_w", "vt_chains_4", "niah_lookalikes", "niah_values_8")
NONE = "(no failure)"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sources", type=Path, help="real sources [default: the sample corpus]")
    parser.add_argument("--rows", type=int, default=6, help="of each task")
    parser.add_argument("--half", choices=HALVES, default="development")
    parser.add_argument("--errors", action="store_true", help="print every wrong label")
    options = parser.parse_args()
    tasks = {name: task for suite in packaged().values() for name, task in suite.tasks.items()}
    pairs: Counter[tuple[str, str]] = Counter()
    causes: Counter[tuple[str, bool]] = Counter()
    exact: Counter[bool] = Counter()
    for name in (*TASKS, *MORE):
        for index in range(options.rows):
            row, task = make("mistral", name, index, sources=options.sources), tasks[name]
            for cause, kinds, answer in labelled_answers(row, task, HALVES.index(options.half)):
                said = clean(answer)
                score = score_row(row, task, said)
                found = failure_of(row, task, said, score, None)
                best = kinds[0] or NONE
                pairs[best, best if found in kinds else found or NONE] += 1
                causes[cause, found in kinds] += 1
                if options.errors and found not in kinds:
                    print(f"{name}/{index} {cause}: {found}, not {kinds[0]}: {answer!r}")
                if cause.startswith("right") and task.metric == "all":
                    exact[exact_scores(row, task, said, score)[0] == 1] += 1
                    if options.errors and exact_scores(row, task, said, score)[0] < 1:
                        print(f"{name}/{index} {cause}: exact score 0: {answer!r} {row.outputs}")
    print(f"Exact score of right answers: {exact[True]:,} of {exact.total():,} are 1.\n")
    show(pairs, causes)


def show(pairs: Counter[tuple[str, str]], causes: Counter[tuple[str, bool]]) -> None:
    """Print the share of right labels, the confusion table, and the causes."""
    total, right = pairs.total(), sum(count for (a, b), count in pairs.items() if a == b)
    print(f"{right:,} of {total:,} labels are right: {100 * right / total:.1f} %\n")
    rows = []
    for kind in (kind for kind in (NONE, *MEANINGS) if any(pair[0] == kind for pair in pairs)):
        labels = Counter({found: count for (real, found), count in pairs.items() if real == kind})
        others = ", ".join(f"{found} ({n})" for found, n in labels.most_common() if found != kind)
        share = 100 * labels[kind] / labels.total()
        rows.append((kind, labels.total(), f"{share:.1f} %", others))
    print(*table(("right label", "answers", "labelled so", "taken for"), rows), "", sep="\n")
    by_cause = []
    for cause in dict.fromkeys(cause for cause, _ in causes):
        good, every = causes[cause, True], causes[cause, True] + causes[cause, False]
        by_cause.append((cause, every, f"{100 * good / every:.1f} %"))
    print(*table(("cause", "answers", "right"), by_cause), sep="\n")


if __name__ == "__main__":
    main()
