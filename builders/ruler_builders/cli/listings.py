"""`ruler-data suites`, `sources` and `tokenizers`: what is available."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

from rich.table import Table

from ruler_builders.pipeline.build_config import SourcesOption
from ruler_data.options import JsonFlag, Option, command
from ruler_data.terminal import out, say

#: Characters of a hash that a table shows; JSON has all.
SHOWN = 16


@command()
def suites(as_json: JsonFlag = False) -> None:
    """List the suites of this package: what each is for, and its tasks."""
    from ruler_data.suites import packaged

    records = [
        {
            "name": suite.name,
            "about": suite.about,
            "tasks": list(suite.tasks),
            "lengths": suite.lengths,
            "rows": suite.rows,
        }
        for suite in packaged().values()
    ]
    _print("suite", records, ("name", "tasks", "rows", "about"), as_json)


@command()
def sources(folder: SourcesOption = None, as_json: JsonFlag = False) -> None:
    """List the sources: which are available, from where, with which hash."""
    from ruler_builders.sources.library import inventory

    columns = ("name", "where", "pinned", "sha256", "licence")
    _print("source", inventory(folder), columns, as_json)


@command()
def tokenizers(as_json: JsonFlag = False) -> None:
    """List the known tokenizers: which are available, from where, with which hash."""
    from ruler_data.tokenizers.registry import inventory

    columns = ("name", "source", "revision", "where", "fingerprint", "note")
    _print("name", inventory(), columns, as_json)


@command()
def find(
    model: Annotated[str, Option("Model: folder or Hub id; or a name of the registry.")],
    repo: Annotated[
        str | None, Option("Repo whose index.json lists datasets, e.g. org/ruler.", "--in")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Find the published rows for a model's tokenizer, or the command that builds them."""
    from ruler_data.index import find as find_rows

    found = find_rows(model, repo)
    release, tokenizer = found.release, found.tokenizer
    fingerprint = tokenizer and (tokenizer.identity or tokenizer.fingerprint)
    if as_json:
        record = {
            "model": model,
            "fingerprint": fingerprint,
            "release": release and asdict(release),
        }
        snippets = {"load": found.load, "run": found.run, "build": found.build}
        out.print_json(json.dumps(record | snippets))
        return
    say(f"tokenizer of {model}: {fingerprint or 'not available; the index lists the model'}")
    if release:
        say(f"{release.repo} {release.tag}, commit {release.commit}")
        say(f"  {found.load}")
        say(f"  {found.run}")
    else:
        where = f"{repo}: no rows for it" if repo else "no repo to look in (--in org/ruler)"
        say(f"{where}; build them:")
        say(f"  {found.build}")


def _print(
    kind: str, records: Sequence[Mapping[str, Any]], keys: Sequence[str], as_json: bool
) -> None:
    """Print records as JSON, or some of their values as a table."""
    if as_json:
        out.print_json(json.dumps(records))
        return
    headings = {"name": kind, "where": "available", "about": "what it is for"}
    table = Table(*(headings.get(key, key) for key in keys), box=None)
    for record in records:
        table.add_row(*(_cell(key, record[key]) for key in keys))
    out.print(table)


def _cell(key: str, value: object) -> str:
    if isinstance(value, list):
        return str(len(value))
    return str(value)[:SHOWN] if key in ("sha256", "fingerprint", "revision") else str(value)
