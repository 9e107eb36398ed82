"""All that the rows of a config must be, so that their generator is right.

Each finding names the row and the value.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain

from ruler_builders.checks.solvers import fill_finding, row_findings
from ruler_data.row import Row
from ruler_data.tasks import Task
from tests.proof.depth_uniformity import Depths
from tests.proof.task_parameters import frame_findings, parameter_findings


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
        found = row_findings(task, length - reserve, place, row)
        for message in chain(
            frame_findings(task, row), found, parameter_findings(task, length, row)
        ):
            audit.find(message, row.index)
        prompt = hash((row.context, row.question, row.answer_prefix))  # of 64 bits
        if (first := seen.setdefault(prompt, place)) < place:
            audit.find(f"same prompt as row {first}", row.index)
        depths.add(row)
    if not lengths:
        audit.find("no rows")
        return audit
    if unfilled := fill_finding(task, length, reserve, lengths):
        audit.find(unfilled[1], unfilled[0])
    tested, biased = depths.verdict()
    if tested:
        audit.checks["depth"] = tested
    for message in biased:
        audit.find(message)
    return audit
