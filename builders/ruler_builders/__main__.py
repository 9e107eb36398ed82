"""The program `ruler-data`, also as `python -m ruler_builders`."""

import signal
from collections.abc import Callable
from typing import Any

ABOUT = "Build, verify, show and publish RULER as frozen, tokenizer-specific datasets."


def table() -> dict[str, Callable[..., Any]]:
    """Return the commands by name, in the order of `--help`."""
    from ruler_builders import commands

    return {
        "build": commands.build,
        "verify": commands.verify,
        "show": commands.show,
        "card": commands.card,
        "publish": commands.publish,
        "release": commands.release,
        "find": commands.find,
        "identify": commands.identify,
        "import": commands.import_rows,
        "export": commands.export,
        "suites": commands.suites,
        "procedures": commands.procedures,
        "sources": commands.sources,
        "tokenizers": commands.tokenizers,
    }


def main() -> None:
    """Load and run the command."""
    _end_on_interrupt()
    from ruler_data.terminal import run_program

    run_program("ruler-data", ABOUT, table())


def program() -> None:
    """Run `main` in a process with limits, so that a folder's tokenizer needs no other one."""
    _end_on_interrupt()
    from ruler_data.untrusted.child import supervise

    supervise("ruler-data")
    main()


def _end_on_interrupt() -> None:
    """Let Ctrl-C end the program without a traceback while it loads."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    program()
