"""Checks of the rows of one config; each finding names the row and the value.

A build and `verify` use the same checks.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from ruler_builders.checks.depth_uniformity import Depths
from ruler_builders.checks.prompt_parser import frame_findings
from ruler_builders.checks.solvers import solve
from ruler_builders.checks.task_parameters import parameter_findings
from ruler_data.row import Row
from ruler_data.tasks import Task


@dataclass
class ConfigAudit:
    """What is wrong with the rows of a config, and each check with its result."""

    config: str
    findings: list[str] = field(default_factory=list)
    checks: dict[str, str] = field(default_factory=dict)

    def find(self, message: str, index: int | None = None) -> None:
        """Add a finding, of one row or of the whole config."""
        where = self.config if index is None else f"{self.config}/{index}"
        self.findings.append(f"{where}: {message}")


def audit_rows(
    config: str, task: Task, length: int, rows: Iterable[Row], reserve: int = 0
) -> ConfigAudit:
    """Check everything that needs neither tokenizer nor sources.

    `length` is the config's, and `reserve` is kept free of each prompt, both in tokens.
    """
    audit = ConfigAudit(config)
    seen: dict[int, int] = {}
    depths = Depths(task)
    lengths: list[int] = []
    for place, row in enumerate(rows):
        lengths.append(row.length)
        found = _row_findings(task, length - reserve, place, row)
        for message in chain(found, parameter_findings(task, length, row)):
            audit.find(message, row.index)
        prompt = hash((row.context, row.question, row.answer_prefix))  # of 64 bits
        if (first := seen.setdefault(prompt, place)) < place:
            audit.find(f"same prompt as row {first}", row.index)
        depths.add(row)
    if not (count := len(lengths)):
        audit.find("no rows")
        return audit
    if unfilled := fill_finding(task, length, reserve, lengths):
        audit.find(unfilled[1], unfilled[0])
    found_in = f"{count} of {count}" if task.fills else "without documents there is none to find"
    audit.checks = {
        "rows in order": f"{count}",
        "fixed text of the prompts": f"{count} of {count}",
        "parameters of the task": f"{count} of {count}",
        "answers found by the solver": found_in,
        "evidence": found_in,
        "duplicates": "0",
    }
    tested, biased = depths.verdict()
    if tested:
        audit.checks["depth"] = tested
    for message in biased:
        audit.find(message)
    return audit


def column_findings(task: Task, place: int, row: Row, *, any_budget: bool = False) -> Iterator[str]:
    """Compare the columns that place and task decide."""
    if row.index != place:
        yield f"row {place} of the file has index {row.index}"
    if row.task != task.name:
        yield f"task is {row.task!r}"
    if row.max_new_tokens != task.max_new_tokens and not any_budget:
        yield f"max_new_tokens is {row.max_new_tokens}, the task's is {task.max_new_tokens}"


def _row_findings(task: Task, length: int, place: int, row: Row) -> Iterator[str]:
    yield from column_findings(task, place, row)
    if row.length > length:
        yield f"length {row.length} is over the config's {length} without what it keeps free"
    if not row.outputs or not all(row.outputs):
        yield "a gold answer is empty"
    yield from frame_findings(task, row)
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


def _evidence_findings(row: Row, expected: list[str] | None) -> Iterator[str]:
    if any(not 0 <= span.start < span.end <= len(row.context) for span in row.evidence):
        yield "an evidence span is outside the context"
        return
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
