"""The program `ruler-eval`: the commands of the evaluator and of the reports."""

import signal
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from ruler_data.terminal import Command

ABOUT = "Run models over frozen RULER datasets, score their answers, report and compare."


def commands() -> dict[str, "Command"]:
    """Return the commands by name; a pair is a module and the command's line in `--help`."""
    from ruler_report import commands as reports

    return {
        "score": reports.results,
        "report": reports.report,
        "compare": reports.compare,
        "gate": reports.gate,
        "leaderboard": reports.leaderboard,
        "publish": reports.publish,
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

    run_program("ruler-eval", ABOUT, commands())


if __name__ == "__main__":
    main()
