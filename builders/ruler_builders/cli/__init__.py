"""The command `ruler-data`. Each command's module is loaded only when that command runs."""

from typing import NoReturn

from ruler_data.terminal import run_program

ABOUT = "Build, verify, show and publish RULER as frozen, tokenizer-specific datasets."

#: Command: where it is, and its line in `--help` (the first of its docstring).
COMMANDS = {
    "build": (
        "ruler_builders.cli.build",
        "Build a folder of frozen configs; resume an interrupted build.",
    ),
    "verify": (
        "ruler_builders.cli.verify",
        "Check everything that a folder or a release promises; exit 0 only if it is clean.",
    ),
    "show": (
        "ruler_builders.cli.show",
        "Print one row: context shortened, evidence highlighted; or the configs of a dataset.",
    ),
    "card": ("ruler_builders.cli.card", "Print the card of a folder, check it, or write it again."),
    "publish": (
        "ruler_builders.cli.publish",
        "Publish a folder on the Hub: one commit, verified there, then a tag that never moves.",
    ),
    "release": (
        "ruler_builders.cli.publish",
        "Build, verify and publish the data of several tokenizers in lockstep; resumable.",
    ),
    "find": (
        "ruler_builders.cli.listings",
        "Find the published rows for a model's tokenizer, or the command that builds them.",
    ),
    "identify": (
        "ruler_builders.cli.exchange",
        "Say which edition, tokenizer, words and template made anybody's rows.",
    ),
    "import": (
        "ruler_builders.cli.exchange",
        "Write anybody's rows as a frozen folder; print a report of their defects.",
    ),
    "export": (
        "ruler_builders.cli.exchange",
        "Write a dataset as another tool reads it, with everything that the tool needs.",
    ),
    "suites": (
        "ruler_builders.cli.listings",
        "List the suites of this package: what each is for, and its tasks.",
    ),
    "sources": (
        "ruler_builders.cli.listings",
        "List the sources: which are available, from where, with which hash.",
    ),
    "tokenizers": (
        "ruler_builders.cli.listings",
        "List the known tokenizers: which are available, from where, with which hash.",
    ),
}


def main() -> NoReturn:
    """Run the command."""
    run_program("ruler-data", ABOUT, COMMANDS)
