"""The command `ruler-eval`. Each command's module is loaded only when that command runs."""

from typing import NoReturn

from ruler_data.terminal import run_program

ABOUT = "Run models over frozen RULER datasets, score their answers, report and compare."

#: Command: where it is, and its line in `--help` (the first of its docstring).
COMMANDS = {
    "score": ("ruler_report.cli", "Score answers against the frozen rows, and write results.json."),
    "report": (
        "ruler_report.cli",
        "Write a report: one HTML page, Markdown, pictures, tables as CSV, and results.json.",
    ),
    "compare": (
        "ruler_report.cli",
        "Compare two runs question by question: differences, intervals, p-values, verdicts.",
    ),
    "publish": (
        "ruler_report.cli",
        "Publish predictions as a dataset, and scores on the model's page.",
    ),
    "doctor": (
        "ruler_eval.cli.doctor",
        "Find what would spoil a run before any GPU is used, and estimate what it would cost.",
    ),
    "run": (
        "ruler_eval.cli.run",
        "Put frozen rows to a model, one journal line for each; go on where a run was interrupted.",
    ),
}


def main() -> NoReturn:
    """Run the command."""
    run_program("ruler-eval", ABOUT, COMMANDS)
