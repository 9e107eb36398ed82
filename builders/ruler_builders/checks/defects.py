"""Measured defects of rows of upstream's editions, and of imported rows.

Such rows are not solved: some of upstream's have no single answer, and a replay proves more.
"""

import re
from collections import Counter
from collections.abc import Iterable

from ruler_builders.checks.prompt_parser import queried_keys
from ruler_data.row import Row
from ruler_data.tasks import Cwe, Fwe, Niah, Qa, Task

#: A place of the gold document is named if it is so many times as frequent as by chance.
UNLIKELY = 3
#: Characters before a word of cwe that hold its number.
LABEL = 12
_DOCUMENT = re.compile(r"Document ([0-9]+):\n")


def measure_defects(task: Task, rows: Iterable[Row]) -> dict[str, str]:
    """Return the defects that the rows of a config have, each with how often."""
    prompts: Counter[tuple[str, str]] = Counter()
    figures: Counter[str] = Counter()
    layouts: set[object] = set()
    gold: Counter[tuple[int, int]] = Counter()
    count = 0
    for row in rows:
        prompts[row.context, row.question] += 1
        count += 1
        if isinstance(task.params, Niah):
            figures["queried key is not unique"] += _repeats_key(row, task.params)
        elif isinstance(task.params, Qa) and row.evidence:
            gold[_gold_place(row)] += 1
        elif isinstance(task.params, Cwe | Fwe):
            layouts.add(_layout(row))
    figures["same prompt as an earlier row"] = count - len(prompts)
    for (place, documents), often in gold.items():
        alike = sum(times for (_, total), times in gold.items() if total == documents)
        if often > max(1, UNLIKELY * alike / documents):
            figures[f"gold document is {place} of {documents}"] = often
    defects = {defect: f"{n} of {count} rows" for defect, n in figures.most_common(4) if n}
    if 0 < len(layouts) < count:
        defects["different layouts"] = f"{len(layouts)} in {count} rows"
    return defects


def _repeats_key(row: Row, params: Niah) -> bool:
    """Whether another needle has the key of a question."""
    counts = (row.context.count(f" for {key} is: ") for key in queried_keys(row))
    return any(count > params.values for count in counts)


def _gold_place(row: Row) -> tuple[int, int]:
    """Return the number of the first document with evidence (0: none), and of all documents."""
    starts = [match.end() for match in _DOCUMENT.finditer(row.context)]
    gold = [starts.index(span.start) + 1 for span in row.evidence if span.start in starts]
    return (gold or [0])[0], len(starts)


def _layout(row: Row) -> object:
    """Return which positions of a list hold common words, or the ranks of a text's words."""
    if row.evidence:
        return tuple(
            row.context[max(span.start - LABEL, 0) : span.start].split()[-1]
            for span in row.evidence
        )
    words = row.context.split()
    numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}
    return hash(tuple(numbers[word] for word in words))
