"""`ruler-eval status`."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ruler_data.names import quote
from ruler_data.terminal import out, raise_if_interrupted, say
from ruler_eval import run_status
from ruler_eval.run_status import Status, duration

#: Reasons of unscored rows that are shown.
REASONS = 5


def status(
    run: Annotated[Path, typer.Argument(help="Folder of a run.")],
    watch: Annotated[
        float | None,
        typer.Option(min=1, help="Show it again every so many seconds, until the run ends."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show how far a run is: rows, speed, time left, last answers, unscored rows, per shard."""
    while True:
        found = run_status.status(run)
        if as_json:
            out.print_json(json.dumps(_record(found)))
        else:
            if watch:
                out.clear()  # only on a terminal
            _print(found)
        waits = any(shard.state == "not started" for shard in found.shards)
        if watch is None or found.answered == found.rows or not (found.running or waits):
            return
        time.sleep(watch)
        raise_if_interrupted()


def _record(found: Status) -> dict[str, object]:
    reasons = found.unscored.items()
    return {
        "rows": found.rows,
        "answered": found.answered,
        "unscored": [{"reason": text, "rows": n, "first": first} for text, (n, first) in reasons],
        "rows_per_second": found.speed,
        "seconds_left": found.left,
        "shards": [asdict(shard) for shard in found.shards],
        "configs": [asdict(config) for config in found.configs],
        "last": [asdict(prediction) for prediction in found.last],
    }


def _print(found: Status) -> None:
    parts = [
        f"{found.answered:,} of {found.rows:,} rows answered",
        f"{sum(rows for rows, _ in found.unscored.values()):,} unscored",
        f"{found.speed:.2f} rows/s" if found.speed else "",
        f"{duration(found.left)} left" if found.left else "",
    ]
    say(f"{found.folder}: {', '.join(filter(None, parts))}")
    table = Table("shard", "state", "rows", "unscored", "rows/s", "left", box=None)
    for each in found.shards:
        rows = "" if each.pending is None else f"/{each.answered + each.pending:,}"
        speed = "" if each.speed is None else f"{each.speed:.2f}"
        counts = (f"{each.answered:,}{rows}", f"{each.unscored:,}")
        table.add_row(each.shard, each.state, *counts, speed, duration(each.left))
    out.print(table)
    table = Table("config", "answered", "unscored", "cut off", box=None)
    for one in found.configs:
        answered = f"{one.answered:,}/{one.rows:,}"
        table.add_row(one.config, answered, f"{one.unscored:,}", f"{one.truncated:,}")
    out.print(table)
    for reason, (number, first) in list(found.unscored.items())[:REASONS]:
        say(f"unscored: {number:,} rows, e.g. {first}: {quote(reason, 200)}")
    for last in found.last:
        tokens = f", {last.answer_tokens} tokens" if last.answer_tokens is not None else ""
        say(f"last: {last.config}/{last.index}{tokens}: {quote(last.text or '', 100)}")
