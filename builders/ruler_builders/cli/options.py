"""Options that several commands share, and how their lists are read."""

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

from ruler_data.errors import UsageError
from ruler_data.names import config_name, parse_config, quote

JsonFlag = Annotated[bool, typer.Option("--json", help="Print figures as JSON on standard output.")]
SourcesOption = Annotated[
    Optional[Path],  # noqa: UP045 - typer reads it at run time
    typer.Option("--sources", help="Folder with real sources (default: RULER_SOURCES)."),
]
HaystackOption = Annotated[
    Optional[Path],  # noqa: UP045 - typer reads it at run time
    typer.Option("--haystack", help="Folder of texts of your own, for suites of domains."),
]
CounterOption = Annotated[
    Literal["auto", "tokenizers", "gigatoken"],
    typer.Option(
        "--counter", help="What counts tokens; auto takes the fast one where it is exact."
    ),
]
WorkersOption = Annotated[
    int, typer.Option("--workers", min=1, max=1024, help="Processes to work on.")
]


def parse_tasks(text: str, known: Collection[str]) -> tuple[str, ...]:
    """Return task names in the order of those that are known.

    Raises:
        UsageError: one is not known.
    """
    asked = parse_names(text)
    if "all" in asked:
        return tuple(known)
    for name in asked:
        if name not in known:
            msg = f"--tasks {quote(name)}: no such task; known: {', '.join(known)}"
            raise UsageError(msg)
    return tuple(name for name in known if name in asked)


def parse_names(text: str) -> tuple[str, ...]:
    """Return the names of tasks in a list, whatever they are.

    Raises:
        UsageError: there is none.
    """
    asked = tuple(part.strip() for part in text.split(",") if part.strip())
    if not asked:
        msg = "--tasks names no task"
        raise UsageError(msg)
    return asked


def parse_lengths(text: str) -> tuple[int, ...]:
    """Return lengths in tokens, rising, each once.

    Raises:
        UsageError: one is no length.
    """
    asked = [part.strip() for part in text.split(",") if part.strip()]
    for part in asked:
        if not (part.isascii() and part.isdigit() and int(part[:9]) > 0 and len(part) <= 8):
            msg = f"--lengths {quote(part)}: not a number of tokens from 1 to 99999999"
            raise UsageError(msg)
    if not asked:
        msg = "--lengths names no length"
        raise UsageError(msg)
    found = tuple(sorted({int(part) for part in asked}))
    for length in found:
        parse_config(config_name("vt", length))
    return found
