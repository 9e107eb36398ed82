"""How often labels and exact scores are right: a confusion table, as Markdown.

    python benchmarks/failures.py [--errors]

Answers of known label (`tests/labelled_answers.py`) are to rows of the 13 tasks, and of suites that
have other needles or chains.
"""

import argparse
import sys
from collections import Counter
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
        found = failure_of(row, task, answer, score) or RIGHT
        pairs[label, found] += 1
        if label == RIGHT and task.metric == "all":
            exact[exact_scores(row, task, answer, score)[0] == 1] += 1
        if options.errors and found != label:
            print(f"{task.name}: {found}, not {label}: {answer!r}")
    total, right = pairs.total(), sum(count for (a, b), count in pairs.items() if a == b)
    print(f"{right:,} of {total:,} labels are right: {100 * right / total:.1f} %")
    print(f"Exact score of right answers: {exact[True]:,} of {exact.total():,} are 1.\n")
    rows = []
    for label in (RIGHT, *MEANINGS):
        found_as = Counter({found: n for (real, found), n in pairs.items() if real == label})
        others = ", ".join(f"{one} ({n})" for one, n in found_as.most_common() if one != label)
        if every := found_as.total():
            rows.append((label, every, f"{100 * found_as[label] / every:.1f} %", others))
    print(*table(("right label", "answers", "labelled so", "taken for"), rows), sep="\n")


if __name__ == "__main__":
    main()
