"""The command `ruler-data`."""

from typing import NoReturn

from ruler_builders import commands
from ruler_data.terminal import Command, run_program

ABOUT = "Build, verify, show and publish RULER as frozen, tokenizer-specific datasets."

COMMANDS: dict[str, Command] = {
    "build": (
        "ruler_builders.cli.build",
        "Build a folder of frozen configs; resume an interrupted build.",
    ),
    "verify": (
        "ruler_builders.cli.verify",
        "Check everything that a folder or a release promises; exit 0 only if it is clean.",
    ),
    "show": commands.show,
    "card": commands.card,
    "publish": commands.publish,
    "release": commands.release,
    "find": commands.find,
    "identify": commands.identify,
    "import": commands.import_rows,
    "export": commands.export,
    "suites": commands.suites,
    "sources": commands.sources,
    "tokenizers": commands.tokenizers,
}


def main() -> NoReturn:
    """Run the command."""
    run_program("ruler-data", ABOUT, COMMANDS)
