"""What a build checks of each row, and `verify` of each row that it reads.

The generators cannot know that a prompt has one answer, so a solver that shares no code with them
finds the answers and the evidence in the finished prompt.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from ruler_builders.checks.solvers import solve
from ruler_data.row import Row
from ruler_data.tasks import Task


def row_findings(task: Task, length: int, place: int, row: Row) -> Iterator[str]:
    """Yield what is wrong with row `place` of a config; `length` (tokens) is its greatest."""
    yield from column_findings(task, place, row)
    if row.length > length:
        yield f"length {row.length} is over the config's {length} without what it keeps free"
    solved = solve(task, row)
    if solved.complaint:
        yield solved.complaint
    if len(set(row.outputs)) != len(row.outputs):
        yield f"column outputs contains {Counter(row.outputs).most_common(1)[0][0]!r} twice"
    if wrong := sorted(frozenset(row.outputs) ^ solved.answers):
        if wrong[0] in row.outputs:
            yield f"column outputs contains {wrong[0]!r}, which the prompt does not support"
        else:
            yield f"column outputs does not contain {wrong[0]!r}, which the prompt gives"
    yield from _evidence_findings(row, solved.evidence)


def column_findings(task: Task, place: int, row: Row, *, any_budget: bool = False) -> Iterator[str]:
    """Compare the columns that place and task decide."""
    if row.index != place:
        yield f"row {place} of the file has index {row.index}"
    if row.task != task.name:
        yield f"task is {row.task!r}"
    if row.max_new_tokens != task.max_new_tokens and not any_budget:
        yield f"max_new_tokens is {row.max_new_tokens}, the task's is {task.max_new_tokens}"
    if not row.outputs or not all(row.outputs):
        yield "a gold answer is empty"
    if any(not 0 <= span.start < span.end <= len(row.context) for span in row.evidence):
        yield "an evidence span is outside the context"


def _evidence_findings(row: Row, expected: list[str] | None) -> Iterator[str]:
    if list(row.evidence) != sorted(row.evidence, key=lambda span: span.start):
        yield "evidence spans are not in order"
    held = [row.context[span.start : span.end] for span in row.evidence]
    if expected is not None and held != expected:
        pairs = zip(held, expected, strict=False)
        differing = next((f"{a[:60]!r} for {b[:60]!r}" for a, b in pairs if a != b), None)
        yield f"evidence holds {differing or f'{len(held)} spans, not {len(expected)}'}"
    if expected is None and not held:
        yield "no evidence"


#: Room (tokens) from which every row must fill at least this share of it.
FULL_FROM, LEAST_FILL = 4096, 0.99


def fill_finding(
    task: Task, length: int, reserve: int, lengths: Sequence[int]
) -> tuple[int, str] | None:
    """Return the least full row and what is wrong; None if all rows are full enough.

    A question without documents has nothing to fill its length with. Reserved tokens do not count
    as room. All lengths are in tokens; `lengths` is the column.

    >>> from ruler_data.tasks import TASKS
    >>> fill_finding(TASKS["vt"], 4096, 0, [4090, 4056])
    >>> fill_finding(TASKS["vt"], 5096, 1000, [4090, 4054, 4060])[0]
    1
    """
    room, least = length - reserve, min(lengths, default=0)
    needed = math.ceil(LEAST_FILL * room)
    short = sum(found < needed for found in lengths)
    if not (short and task.fills and room >= FULL_FROM):
        return None
    return lengths.index(least), (
        f"length {least} leaves the config unfilled: of {room} tokens at least {needed} are "
        f"needed ({LEAST_FILL}); short rows: {short} of {len(lengths)}; the haystack's "
        "segments are too long: use a greater length, or texts with more and shorter lines"
    )
