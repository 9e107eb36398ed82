"""`ruler-eval status`."""

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ruler_data.names import quote
from ruler_data.terminal import out, say
from ruler_eval import run_status
from ruler_eval.cli.run import show


def status(
    run: Annotated[Path, typer.Argument(help="Folder of a run.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show how far a run is: rows of each config, and why rows are unscored."""
    found = run_status.status(run)
    if as_json:
        out.print_json(
            json.dumps(
                {
                    "rows": found.rows,
                    "answered": found.answered,
                    "unscored": found.unscored,
                    "configs": [asdict(one) for one in found.configs],
                }
            )
        )
        return
    show(found)
    for reason, rows in Counter(found.unscored.values()).most_common(5):
        say(f"unscored: {rows:,} rows: {quote(reason, 200)}")
