"""The program `ruler-eval`: the commands of the evaluator and of the reports."""

import signal
from collections.abc import Callable
from typing import Any, NoReturn

ABOUT = "Run models over frozen RULER datasets, score their answers, report and compare."


def commands() -> dict[str, Callable[..., Any]]:
    """Return the commands by name, in the order of use."""
    from ruler_eval import commands as evaluator
    from ruler_report import commands as reports

    return {
        "doctor": evaluator.doctor,
        "run": evaluator.run,
        "status": evaluator.status,
        "repeat": evaluator.repeat,
        "score": reports.results,
        "report": reports.report,
        "compare": reports.compare,
        "gate": reports.gate,
        "leaderboard": reports.leaderboard,
        "publish": reports.publish,
    }


def main() -> NoReturn:
    """Load and run the command; Ctrl-C while it loads ends it without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ruler_data.terminal import run_program

    run_program("ruler-eval", ABOUT, commands())


if __name__ == "__main__":
    main()
