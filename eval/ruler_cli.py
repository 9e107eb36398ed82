"""The program `ruler-eval`: the commands of the evaluator and of the reports.

It stands above builder and evaluator, so `repeat --pages` builds here the rows that it lacks.
"""

import signal
from collections.abc import Callable
from functools import wraps
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

#: Tokens of the rows that `repeat --pages` builds.
PAGES_LENGTH = 4096
ABOUT = "Run models over frozen RULER datasets, score their answers, report and compare."


def commands() -> dict[str, Callable[..., Any]]:
    """Return the commands by name, in the order of use."""
    from ruler_eval import commands as evaluator
    from ruler_report import commands as reports

    return {
        "doctor": evaluator.doctor,
        "run": evaluator.run,
        "status": evaluator.status,
        "repeat": _with_rows(evaluator.repeat),
        "score": reports.results,
        "report": reports.report,
        "compare": reports.compare,
        "gate": reports.gate,
        "leaderboard": reports.leaderboard,
        "publish": reports.publish,
    }


def _with_rows(repeat: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command `repeat`, which builds rows of the suite `pages` where none are named."""

    @wraps(repeat)
    def command(run: Any = None, **options: Any) -> Any:  # noqa: ANN401 - as `repeat` declares
        lacks = options.get("pages") and not (run or options.get("data")) and options.get("model")
        if not lacks:
            return repeat(run, **options)
        from ruler_builders import build
        from ruler_data.errors import UsageError

        length = options.get("length") or PAGES_LENGTH
        tokenizer = str(options.get("tokenizer") or options["model"])
        with TemporaryDirectory(prefix="ruler-pages-") as folder:
            try:
                build(tokenizer, suite="pages", lengths=[length], out=f"{folder}/pages")
            except UsageError as error:
                if options.get("tokenizer") or not str(error).startswith("tokenizer "):
                    raise
                msg = f"{error}; name the tokenizer of the server's model by --tokenizer"
                raise UsageError(msg) from error
            return repeat(None, **{**options, "data": f"{folder}/pages", "length": length})

    return command


def main() -> NoReturn:
    """Load and run the command; Ctrl-C while it loads ends it without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ruler_data.terminal import run_program

    run_program("ruler-eval", ABOUT, commands)


if __name__ == "__main__":
    main()
