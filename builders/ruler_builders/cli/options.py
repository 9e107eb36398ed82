"""Options that several commands share, and how their lists are parsed."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from ruler_data.errors import UsageError
from ruler_data.names import quote

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
SourcesOption = Annotated[
    Path | None,
    typer.Option("--sources", help="Folder with real sources (default: RULER_SOURCES)."),
]
HaystackOption = Annotated[
    Path | None,
    typer.Option("--haystack", help="Folder of your own texts, for suites of domains."),
]
CounterOption = Annotated[
    Literal["auto", "tokenizers", "gigatoken"],
    typer.Option(
        "--counter", help="Library that counts tokens; auto takes the fast one where it is exact."
    ),
]
WorkersOption = Annotated[
    int, typer.Option("--workers", min=1, max=1024, help="Number of processes.")
]


def parse_tasks(text: str) -> tuple[str, ...] | None:
    """Return the names in a comma-separated list; None for `all`.

    Raises:
        UsageError: the list is empty.
    """
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if not names:
        msg = "--tasks names no task"
        raise UsageError(msg)
    return None if "all" in names else names


def parse_lengths(text: str) -> tuple[int, ...] | None:
    """Return the lengths (tokens) in a comma-separated list, rising, each once; None for `all`.

    Raises:
        UsageError: one is not a length, or the list is empty.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if parts == ["all"]:
        return None
    for part in parts:
        if not (part.isascii() and part.isdigit() and int(part[:9]) > 0 and len(part) <= 8):
            msg = f"--lengths {quote(part)}: not a number of tokens from 1 to 99999999"
            raise UsageError(msg)
    if not parts:
        msg = "--lengths names no length"
        raise UsageError(msg)
    return tuple(sorted({int(part) for part in parts}))
