"""What `ruler-data build` says when it is done: a table for a person, or a record for a program."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.table import Table

from ruler_data.manifest import Manifest
from ruler_data.terminal import out, say

if TYPE_CHECKING:
    from ruler_builders.order import Done, Order


def print_outcome(order: "Order", manifest: Manifest | None, done: Sequence["Done"]) -> None:
    """Print a line for each config, and what became of the folder; a shard has no manifest."""
    out.print(_table(done))
    suite = "" if order.suite.name == "ruler" else f" of the suite {order.suite.name}"
    total = f"{len(done)} configs{suite}, {sum(one.info.bytes for one in done) / 1e6:.1f} MB"
    if manifest is None:
        say(f"{order.out}: shard {'/'.join(map(str, order.shard or ()))}: {total}")
        return
    sample = ", a SAMPLE build, not comparable with RULER" if manifest.is_sample else ""
    say(f"{order.out}: {total}, audited{sample}")
    if manifest.is_private:
        say(
            f"{order.out}: built from a private seed, which its manifest gives away: keep the "
            "folder to yourself; the same command goes on with this seed"
        )


def print_record(order: "Order", done: Sequence["Done"]) -> None:
    """Print figures of each config as JSON."""
    configs = {one.config: {**asdict(one.info), "seconds": one.seconds} for one in done}
    out.print_json(json.dumps({"folder": str(order.out), "configs": configs}))


def _table(done: Sequence["Done"]) -> Table:
    table = Table("config", "rows", "fill mean", "fill min", "MB", "seconds", box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for one in done:
        info = one.info
        seconds = "kept" if one.seconds is None else f"{one.seconds:.1f}"
        table.add_row(
            one.config, str(info.rows), f"{info.fill_mean:.4f}", f"{info.fill_min:.4f}",
            f"{info.bytes / 1e6:.2f}", seconds,
        )  # fmt: skip
    return table
