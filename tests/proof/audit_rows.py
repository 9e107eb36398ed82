"""All that the rows of a config must be, so that their generator is right."""

from collections.abc import Iterable

from ruler_builders.checks.solvers import fill_finding, row_findings
from ruler_data.row import Row
from ruler_data.tasks import Task
from tests.proof.task_parameters import frame_findings, parameter_findings


def audit_rows(task: Task, length: int, rows: Iterable[Row]) -> list[str]:
    """Return what is wrong, as far as neither tokenizer nor sources are needed; with row and value.

    `length` is the config's, in tokens.
    """
    findings, prompts, lengths = list[str](), dict[str, int](), list[int]()
    for place, row in enumerate(rows):
        lengths.append(row.length)
        found = [
            *frame_findings(task, row),
            *row_findings(task, length, place, row),
            *parameter_findings(task, length, row),
        ]
        if (first := prompts.setdefault(row.prompt, place)) < place:
            found.append(f"same prompt as row {first}")
        findings += [f"{task.name}_{length}/{row.index}: {finding}" for finding in found]
    if unfilled := fill_finding(task, length, 0, lengths):
        findings.append(f"{task.name}_{length}/{unfilled[0]}: {unfilled[1]}")
    return findings
