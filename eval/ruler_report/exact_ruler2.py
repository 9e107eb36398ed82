"""Exact score and failure kinds of RULER v2: what an answer names of the labelled texts.

task            named in an answer                          exact score 1
basic, qa easy  numbers with as many digits as gold ones    all gold ones (qa: one), no other
copy            questions of the context, word for word     all gold ones and no other
solve           the letter that it chooses                  the gold one
qa answers      the last paragraph, as SQuAD compares       a gold answer
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from ruler_data.row import Row
from ruler_data.tasks import Params, Ruler2
from ruler_eval.metrics_ruler2 import chosen_letter

_QUESTION = re.compile(r"Question \d{7}: (.*)")


def is_answered(params: Ruler2) -> bool:
    """Whether the gold answers are those of a question about documents, in free words."""
    return params.kind == "qa" and params.level in ("medium", "hard")


def last_part(params: Params, answer: str) -> str:
    """Return the part of an answer that counts if it is asked to copy first."""
    several = isinstance(params, Ruler2) and params.level == "medium" and params.kind != "mk_niah"
    return answer.rstrip().rpartition("\n\n")[2] if several else answer


def named(row: Row, params: Ruler2, answer: str) -> Iterator[str]:
    """Yield in lower case what an answer names: letters, numbers, or questions of the context."""
    answer = last_part(params, answer)
    if params.metric == "letter":
        yield (chosen_letter(answer) or "").lower()
    elif params.kind == "qa" or params.level == "basic":
        yield from re.findall(rf"(?<!\d)\d{{{len(row.outputs[0])}}}(?!\d)", answer)
    else:
        spaced = " ".join(answer.lower().split())
        yield from (text for text in _questions(row.context) if text in spaced)


@lru_cache(maxsize=2)
def _questions(context: str) -> list[str]:
    return [text.lower() for text in dict.fromkeys(_QUESTION.findall(context))]
