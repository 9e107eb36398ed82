"""The strict score of one answer: gold answers count as whole words only.

    answer                      gold answers    official    strict
    "They are QZKRAB."          QZKRA           1.0         0.0
    "I do not know of any."     no              1.0         0.0

It is reported beside the official score (`ruler_eval.metrics`), never in its place.
"""

import re
from collections.abc import Mapping, Sequence

from ruler_data.tasks import Metric
from ruler_eval.metrics import Scorer, without_reasoning
from ruler_report.exact import contains

_WORD = re.compile(r"[^\W_]+")


def strict_recall(answer: str, outputs: Sequence[str]) -> float:
    """Return the share of the gold answers that the answer contains as whole words.

    >>> strict_recall("QZKRAB, plmew", ["QZKRA", "PLMEW"])
    0.5
    """
    answer = without_reasoning(answer)
    return sum(contains(answer, output) for output in outputs) / len(outputs)


def strict_any_of(answer: str, outputs: Sequence[str]) -> float:
    """Return 1 if the answer contains any gold answer as whole words, else 0.

    `yes` and `no` count only as the first word: both occur in almost any refusal.

    >>> strict_any_of("I do not know of any.", ["no"]), strict_any_of("No, she was not.", ["no"])
    (0.0, 1.0)
    """
    answer = without_reasoning(answer)
    word = _WORD.search(answer)
    first = word[0].lower() if word else ""
    return float(
        any(
            first == output.lower() if output.lower() in ("yes", "no") else contains(answer, output)
            for output in outputs
        )
    )


#: The strict scorers; `Task.metric` names one.
STRICT: Mapping[Metric, Scorer] = {"all": strict_recall, "part": strict_any_of}
