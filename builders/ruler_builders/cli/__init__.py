"""The command `ruler-data`. Each command's module is loaded only when that command runs."""

from typing import NoReturn

from ruler_builders.commands import build, verify
from ruler_data.terminal import Command, run_program

ABOUT = "Build, verify, show and publish RULER as frozen, tokenizer-specific datasets."

_ABOUT = {  # for each command, the first line of its docstring
    "show": "Print one row: context shortened, evidence highlighted; or the configs of a dataset.",
    "card": "Print the card of a folder or a release, or as it will be in a repo.",
    "publish": (
        "Publish a folder on the Hub: one commit, verified there, then a tag that never moves."
    ),
    "release": "Build, verify and publish the data of several tokenizers in lockstep; resumable.",
    "find": "Find the published rows for a model's tokenizer, or the command that builds them.",
    "identify": "Say which edition, tokenizer, words and template made anybody's rows.",
    "import": "Write anybody's rows as a frozen folder; print a report of their defects.",
    "export": "Write a dataset as another tool reads it, with everything that the tool needs.",
    "suites": "List the suites of this package: what each is for, and its tasks.",
    "sources": "List the sources: which are available, from where, with which hash.",
    "tokenizers": "List the known tokenizers: which are available, from where, with which hash.",
}
#: Modules of commands that do not have one of their own name.
_SHARED = {
    "card": "show",
    "release": "publish",
    **dict.fromkeys(("identify", "import", "export"), "exchange"),
    **dict.fromkeys(("find", "suites", "sources", "tokenizers"), "listings"),
}
#: Command: the function, or where it is and its line in `--help`.
COMMANDS: dict[str, Command] = {
    "build": build,
    "verify": verify,
    **{
        name: (f"ruler_builders.cli.{_SHARED.get(name, name)}", line)
        for name, line in _ABOUT.items()
    },
}


def main() -> NoReturn:
    """Run the command."""
    run_program("ruler-data", ABOUT, COMMANDS)
