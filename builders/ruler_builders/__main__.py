"""The program `ruler-data`, also as `python -m ruler_builders`."""

import signal
from collections.abc import Callable
from typing import Any, NoReturn

ABOUT = "Build, verify, show and publish RULER as frozen, tokenizer-specific datasets."


def table() -> dict[str, Callable[..., Any]]:
    """Return the commands by name, in the order of `--help`."""
    from ruler_builders import commands

    return {
        "build": commands.build,
        "verify": commands.verify,
        "show": commands.show,
        "publish": commands.publish,
        "find": commands.find,
        "identify": commands.identify,
        "export": commands.export,
        "list": commands.list_known,
    }


def main() -> NoReturn:
    """Load and run the command; Ctrl-C while it loads ends it without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ruler_data.terminal import run_program

    run_program("ruler-data", ABOUT, table)


if __name__ == "__main__":
    main()
