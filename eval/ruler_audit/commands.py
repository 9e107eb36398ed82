"""The command `ruler-eval audit`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from ruler_data.signatures import checked
from ruler_data.version import DEFAULT_SEED

if TYPE_CHECKING:
    from ruler_audit.auditor import Audits


@checked
def audit(
    predictions: Annotated[
        list[Path] | Sequence[Path | str] | Path | str,
        Argument(help="Files or folders of answers, as a tool wrote them."),
    ],
    *,
    tokenizer: Annotated[
        str | None, Option(help="That of the rows: a name, folder or Hub id (default: try all).")
    ] = None,
    sources: Annotated[
        Path | str | None, Option(help="Folder with real sources (default: RULER_SOURCES).")
    ] = None,
    length: Annotated[
        str | int | None, Option(help="Length of the rows in tokens, if no name tells, e.g. 4k.")
    ] = None,
    seed: Annotated[int, Option(help="Seed that the rows were drawn with.", min=0)] = DEFAULT_SEED,
    workers: Annotated[int, Option(help="Processes that rebuild rows.", min=1)] = 1,
) -> Audits:
    """Say which rows other people's answers are of, and whether their numbers follow from them.

        ruler-eval audit results/ruler__4096__org--model__knorm__0.50

    Edition, words and tokenizer are found from the gold answers; rows are rebuilt and answers
    scored again. Exit 0: all agrees. 1: gold answers or numbers differ. 3: something cannot be
    known here, and is named.

    Raises:
        UsageError: there are no answers.
        RulerError: a file cannot be read.
    """
    from ruler_audit.answers import read_groups
    from ruler_audit.auditor import audit_groups
    from ruler_audit.editions import Finder
    from ruler_data.names import parse_length

    places = [predictions] if isinstance(predictions, str | Path) else predictions
    size = None if length is None else parse_length(str(length), "--length")
    groups = read_groups(places, size)
    return audit_groups(groups, Finder(seed, tokenizer, sources), workers)
