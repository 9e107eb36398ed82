"""The program `ruler-eval`: the commands of the evaluator and of the reports.

It stands above builder and evaluator, so `check-engine` builds here the rows that it lacks.
"""

import signal
from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn

#: Tokens of the rows that `check-engine` builds: at least so many, and two blocks of the cache
#: beside what rows leave free (residues, answer, chat template), in steps of a page.
PAGES_LENGTH = 4096
FREE = 512
PAGE = 128
ABOUT = "Run models over frozen RULER datasets, score their answers, report and compare."


def commands() -> dict[str, Callable[..., Any]]:
    """Return the commands by name, in the order of use."""
    from ruler_audit import commands as audits
    from ruler_eval import commands as evaluator
    from ruler_report import commands as reports
    from ruler_report import scored

    return {
        "run": evaluator.run_or_check,
        "status": evaluator.status,
        "repeat": evaluator.repeat,
        "check-engine": _with_rows(evaluator.check_engine),
        "score": scored.score,
        "report": reports.report,
        "compare": reports.compare,
        "audit": audits.audit,
        "publish": reports.publish,
    }


def pages_length(block: int | None) -> int:
    """Return the length of rows that have two blocks of a cache, in tokens.

    >>> pages_length(None), pages_length(16), pages_length(8320)
    (4096, 4096, 17152)
    """
    need = 2 * (block or 0) + FREE
    return max(PAGES_LENGTH, -(-need // PAGE) * PAGE)


def _with_rows(check_engine: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command `check-engine`, which builds its rows if none are named."""

    @wraps(check_engine)
    def command(data: Any = None, model: str = "", **options: Any) -> Any:  # noqa: ANN401
        from ruler_data.signatures import declared, fitting

        fitting(declared(check_engine), {"data": data, "model": model, **options})
        if data is not None or not model:
            return check_engine(data, model, **options)
        from tempfile import TemporaryDirectory

        from ruler_builders import build
        from ruler_data.errors import UsageError

        length = options.pop("length", None) or pages_length(options.get("block"))
        tokenizer = str(options.get("tokenizer") or model)
        with TemporaryDirectory(prefix="ruler-pages-") as folder:
            try:
                build(tokenizer, suite="pages", lengths=[length], out=f"{folder}/pages")
            except UsageError as error:
                if options.get("tokenizer") or not str(error).startswith("tokenizer "):
                    raise
                raise UsageError(
                    f"{error}; name the tokenizer of the server's model by --tokenizer"
                ) from error
            return check_engine(f"{folder}/pages", model, length=length, **options)

    return command


def main() -> NoReturn:
    """Load and run the command; Ctrl-C while it loads ends it without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ruler_data.terminal import run_program

    run_program("ruler-eval", ABOUT, commands)


if __name__ == "__main__":
    main()
