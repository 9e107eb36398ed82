"""The program `ruler-eval`: the commands of the evaluator and of the reports."""

import signal
from typing import NoReturn

ABOUT = "Run models over frozen RULER datasets, score their answers, report and compare."

#: Command: its module, and its line in `--help` (the first line of its docstring).
COMMANDS = {
    "score": ("ruler_report.cli", "Score answers against the frozen rows, and write results.json."),
    "report": (
        "ruler_report.cli",
        "Write a report: one HTML page, Markdown, pictures, scores as CSV, and results.json.",
    ),
    "compare": (
        "ruler_report.cli",
        "Compare two runs: differences with intervals, p-values, verdicts.",
    ),
    "gate": (
        "ruler_report.cli",
        "Test that a run is not inferior to a baseline: one line; exit status 1 if not shown.",
    ),
    "leaderboard": (
        "ruler_report.cli",
        "Rank any number of runs: one page to sort and filter, and leaderboard.json.",
    ),
    "publish": (
        "ruler_report.cli",
        "Publish predictions as a dataset, and scores on the model's page.",
    ),
    "doctor": (
        "ruler_eval.cli.doctor",
        "Check a run for problems without a GPU, and estimate its cost.",
    ),
    "run": (
        "ruler_eval.cli.run",
        "Run a model over the rows; the same command resumes an interrupted run.",
    ),
    "status": (
        "ruler_eval.cli.status",
        "Show how far a run is: rows of each config, and why rows are unscored.",
    ),
}


def main() -> NoReturn:
    """Load and run the command; Ctrl-C while it loads ends it without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ruler_data.terminal import run_program

    run_program("ruler-eval", ABOUT, COMMANDS)


if __name__ == "__main__":
    main()
