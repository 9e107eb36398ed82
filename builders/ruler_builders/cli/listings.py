"""`ruler-data suites`, `sources` and `tokenizers`: what there is."""

import json

from rich.table import Table

from ruler_builders.cli.options import JsonFlag, SourcesOption
from ruler_data.suites import packaged
from ruler_data.terminal import out


def suites(as_json: JsonFlag = False) -> None:
    """List the suites of this package: what each is for, and its tasks."""
    found = packaged().values()
    if as_json:
        records = [
            {
                "name": suite.name, "about": suite.about, "tasks": list(suite.tasks),
                "lengths": suite.lengths, "rows": suite.rows,
            }
            for suite in found
        ]  # fmt: skip
        out.print_json(json.dumps(records))
        return
    table = Table("suite", "tasks", "rows", "what it is for", box=None)
    for suite in found:
        table.add_row(suite.name, str(len(suite.tasks)), str(suite.rows), suite.about)
    out.print(table)


def sources(folder: SourcesOption = None, as_json: JsonFlag = False) -> None:
    """List the sources: what is at hand, from where, with which hash."""
    from ruler_builders.sources.library import inventory

    records = inventory(folder)
    if as_json:
        out.print_json(json.dumps(records))
        return
    table = Table("source", "at hand", "pinned", "sha256", "licence", box=None)
    for record in records:
        table.add_row(
            record["name"], record["where"], record["pinned"], record["sha256"][:16],
            record["licence"],
        )  # fmt: skip
    out.print(table)


def tokenizers(as_json: JsonFlag = False) -> None:
    """List the known tokenizers: what is at hand, from where, with which hash."""
    from ruler_data.tokenizers.registry import inventory

    records = inventory()
    if as_json:
        out.print_json(json.dumps(records))
        return
    table = Table("name", "source", "revision", "at hand", "fingerprint", "note", box=None)
    for record in records:
        table.add_row(
            record["name"], record["source"], record["revision"][:12], record["where"],
            record["fingerprint"][:16], record["note"],
        )  # fmt: skip
    out.print(table)
