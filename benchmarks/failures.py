"""How often labels and exact scores are right: a confusion table, as Markdown.

    python benchmarks/failures.py [--errors]

Answers of known label (`tests/labelled_answers.py`) are to rows of the 13 tasks, and of suites that
have other needles or chains.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from measuring import table

from ruler_eval.scoring.exact import exact_scores
from ruler_eval.scoring.labels import MEANINGS, failure_of
from ruler_eval.scoring.metrics import clean, score_row
from tests.labelled_answers import RIGHT, labelled_answers


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--errors", action="store_true", help="print every wrong label")
    options = parser.parse_args()
    pairs: Counter[tuple[str, str]] = Counter()
    exact: Counter[bool] = Counter()
    for row, task, label, text in labelled_answers():
        answer = clean(text)
        score = score_row(row, task, answer)
        printed = failure_of(row, task, answer, score) or RIGHT
        pairs[label, printed] += 1
        if label == RIGHT and task.metric == "all":
            exact[exact_scores(row, task, answer, score)[0] == 1] += 1
        if options.errors and printed != label:
            print(f"{task.name}: {printed}, not {label}: {answer!r}")
    total = pairs.total()
    right = sum(count for (label, printed), count in pairs.items() if label == printed)
    print(f"{right:,} of {total:,} labels are right: {100 * right / total:.1f} %")
    print(f"Exact score of right answers: {exact[True]:,} of {exact.total():,} are 1.\n")
    heads = ("right label", "answers", "labelled so", "taken for")
    print(*table(heads, confusions(pairs)), sep="\n")


def confusions(pairs: Counter[tuple[str, str]]) -> Iterator[tuple[object, ...]]:
    """Yield for each right label how often it was printed, and what was printed instead."""
    for label in (RIGHT, *MEANINGS):
        printed = Counter({name: count for (real, name), count in pairs.items() if real == label})
        number = printed.total()
        if number:
            right = printed.pop(label, 0)
            wrong = ", ".join(f"{name} ({count})" for name, count in printed.most_common())
            yield (label, number, f"{100 * right / number:.1f} %", wrong)


if __name__ == "__main__":
    main()
