"""Checks of the rows of one config; each finding names the row and the value."""

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ruler_builders.audit.fill import fill_finding
from ruler_builders.audit.frames import frame_findings
from ruler_builders.audit.solvers import evidence_of, solve
from ruler_data.digest import serialize
from ruler_data.row import Row, Span
from ruler_data.tasks import Cwe, Fwe, Niah, Qa, Task, Vt

#: Chance at which a sound dataset would fail the test of depths.
ALPHA = 1e-4


@dataclass
class ConfigAudit:
    """Findings of a config's rows, gathered row by row.

    Attributes:
        config: the config's name.
        findings: what is wrong, in words; empty for a clean config.
        checks: what was checked, for the manifest: check -> result.
    """

    config: str
    findings: list[str] = field(default_factory=list)
    checks: dict[str, str] = field(default_factory=dict)

    def find(self, message: str, index: int | None = None) -> None:
        """Note something wrong, with the row where there is one."""
        where = self.config if index is None else f"{self.config}/{index}"
        self.findings.append(f"{where}: {message}")


def audit_rows(
    config: str, task: Task, length: int, rows: Iterable[Row], reserve: int = 0
) -> ConfigAudit:
    """Check everything that the rows themselves can show, without tokenizer or sources.

    `length` is the config's and `reserve` what is kept free of it, in tokens.
    """
    audit = ConfigAudit(config)
    seen: dict[bytes, int] = {}
    depths: list[float] = []
    grain = 0.0
    lengths: list[int] = []
    for place, row in enumerate(rows):
        lengths.append(row.length)
        for message in _row_findings(task, length, place, row):
            audit.find(message, row.index)
        key = hashlib.sha256(serialize(_anonymous(row))).digest()
        if key in seen:
            audit.find(f"same prompt as row {seen[key]}", row.index)
        seen[key] = row.index
        found, row_grain = _depths(task, row)
        depths += found
        grain = max(grain, row_grain)
    if not (count := len(lengths)):
        audit.find("no rows")
        return audit
    if unfilled := fill_finding(task, length, reserve, lengths):
        audit.find(unfilled[1], unfilled[0])
    found_in = f"{count} of {count}" if task.fills else "without documents there is none to find"
    audit.checks = {
        "rows in order": f"{count}",
        "fixed text of the prompts": f"{count} of {count}",
        "answers found by the solver": found_in,
        "evidence": found_in,
        "duplicates": "0",
    }
    if depths:
        distance, limit = uniformity(depths), ks_limit(len(depths)) + grain
        audit.checks["depth"] = f"KS {distance:.4f} <= {limit:.4f}, {len(depths)} gold pieces"
        if distance > limit:
            audit.find(
                f"gold depth is not uniform: KS {distance:.4f} over {len(depths)} pieces, "
                f"limit {limit:.4f}"
            )
    return audit


def uniformity(depths: list[float]) -> float:
    """Return the Kolmogorov-Smirnov distance of depths from the uniform distribution on [0, 1].

    >>> uniformity([0.25, 0.75])
    0.25
    """
    ordered, size = sorted(depths), len(depths)
    return max(max((i + 1) / size - depth, depth - i / size) for i, depth in enumerate(ordered))


def ks_limit(size: int) -> float:
    """Return the distance that `size` uniform depths exceed with probability `ALPHA`.

    The bound of Dvoretzky, Kiefer and Wolfowitz with Massart's constant (1990): it holds for
    every size.
    """
    return min(math.sqrt(math.log(2 / ALPHA) / (2 * size)), 1.0)


def _row_findings(task: Task, length: int, place: int, row: Row) -> Iterator[str]:
    if row.index != place:
        yield f"row {place} of the file has index {row.index}"
    if row.task != task.name:
        yield f"task is {row.task!r}"
    if row.max_new_tokens != task.max_new_tokens:
        yield f"max_new_tokens is {row.max_new_tokens}, the task's is {task.max_new_tokens}"
    if row.length > length:
        yield f"length {row.length} is over the config's {length}"
    if not row.outputs or not all(row.outputs):
        yield "a golden answer is empty"
    yield from frame_findings(task, row)
    solved = solve(task, row)
    if solved.complaint:
        yield solved.complaint
    if len(set(row.outputs)) != len(row.outputs):
        yield f"outputs says {Counter(row.outputs).most_common(1)[0][0]!r} twice"
    if wrong := sorted(frozenset(row.outputs) ^ solved.answers):
        if wrong[0] in row.outputs:
            yield f"outputs says {wrong[0]!r}, which the prompt does not bear out"
        else:
            yield f"outputs lacks {wrong[0]!r}, which the prompt gives"
    yield from _evidence_findings(task, row)


def _evidence_findings(task: Task, row: Row) -> Iterator[str]:
    expected = evidence_of(task, row)
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


def _anonymous(row: Row) -> Row:
    """Return the row as far as a model sees it, to find the same prompt twice."""
    return Row(0, row.task, row.context, row.question, row.answer_prefix, (), 0, 0, ())


def _depths(task: Task, row: Row) -> tuple[list[float], float]:
    """Return the relative depths of the gold pieces in the haystack, and their grain.

    The haystack of a document task has few places; their distance is the grain, by which even
    a perfectly even choice of places differs from the uniform distribution.
    """
    if not row.evidence or isinstance(task.params, Cwe | Fwe):
        return [], 0.0
    try:
        start = _haystack_start(task, row)
    except ValueError:  # no instruction: the solver has said so
        return [], 0.0
    last = row.evidence[-1]
    gold = sum(span.end - span.start for span in row.evidence)
    free = max(len(row.context) - start - gold, 1)
    depths, before = [], 0
    for span in row.evidence:
        depths.append(min(max((span.start - start - before) / free, 0.0), 1.0))
        before += span.end - span.start
    return depths, _grain(task, row, free, last)


def _haystack_start(task: Task, row: Row) -> int:
    """Return where the haystack begins: behind the instruction, and behind vt's example."""
    opening = _OPENINGS[type(task.params)]
    find = row.context.rindex if isinstance(task.params, Vt) else row.context.index
    return find(opening) + len(opening)


_OPENINGS: dict[type, str] = {
    Niah: "afterwards.\n",
    Vt: "hidden in the following text.\n\n",
    Qa: "given documents.\n\n",
}


def _grain(task: Task, row: Row, free: int, last: Span) -> float:
    """Return the share of the haystack that its mean unit takes."""
    if isinstance(task.params, Qa):
        return 1.0 / max(row.context.count("Document "), 1)
    if isinstance(task.params, Niah) and task.params.haystack in ("essays", "domains"):
        grid = 1.0 / task.params.depths if task.params.depths else 0.0
        return min(150 / free + grid, 1.0)
    return min((last.end - last.start + 100) / free, 1.0)
