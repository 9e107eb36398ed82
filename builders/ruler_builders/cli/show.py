"""`ruler-data show`: the digests of a folder, or one of its rows, evidence highlighted."""

import json
from contextlib import closing
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated

from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ruler_data.errors import RulerError, UsageError
from ruler_data.manifest import Manifest, read_manifest
from ruler_data.names import parse_config, quote
from ruler_data.options import JsonFlag, Option, command
from ruler_data.row import Row
from ruler_data.terminal import out


@command()
def show(
    folder: Annotated[Path, Option("Folder of a build.", argument=True)],
    config: Annotated[
        str,
        Option("Config, e.g. vt_4096; none: list all with their digests.", argument=True),
    ] = "",
    index: Annotated[int, Option("Row, from 0.", argument=True, min=0)] = 0,
    full: Annotated[bool, Option("Print the whole context.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Print one row: context shortened, evidence highlighted; or the configs of a folder."""
    from ruler_data.parquet import UNREADABLE, read_rows

    if config:
        parse_config(config)
    manifest = read_manifest(folder)
    if not config:
        _show_configs(manifest, as_json=as_json)
        return
    if config not in manifest.configs:
        known = ", ".join(manifest.configs)
        msg = f"{quote(config)} is not in {folder}; it has {known}"
        raise UsageError(msg)
    info = manifest.configs[config]
    if index >= info.rows:
        msg = f"{config} has rows 0 to {info.rows - 1}, not {index}"
        raise UsageError(msg)
    try:
        with closing(read_rows(folder / info.file)) as rows:
            row = next(islice(rows, index, None))
        if row.index != index:
            raise KeyError(index)
    except (*UNREADABLE, StopIteration) as error:
        msg = f"{info.file}: row {index} cannot be read ({type(error).__name__}); verify the folder"
        raise RulerError(msg) from error
    if as_json:
        out.print_json(json.dumps(row.to_record()))
    else:
        show_row(out, config, row, full=full)


def _show_configs(manifest: Manifest, *, as_json: bool) -> None:
    """Print each config's rows, floor and digests; the same questions have one question digest."""
    if as_json:
        out.print_json(json.dumps({name: asdict(info) for name, info in manifest.configs.items()}))
        return
    table = Table("config", "rows", "floor (%)", "question digest", "content digest", box=None)
    for name, info in manifest.configs.items():
        floor = f"{100 * info.floor.score:.1f}" if info.floor else "not recorded"
        asked = info.question_digest or "not recorded"
        table.add_row(name, str(info.rows), floor, asked, info.digest)
    out.print(table)


#: Characters shown at both ends of the context and around each evidence span.
AROUND = 160
#: Evidence spans shown; cwe has three hundred.
SHOWN = 12


def show_row(console: Console, config: str, row: Row, *, full: bool = False) -> None:
    """Print a row; with `full`, its whole context."""
    facts = Table.grid(padding=(0, 2))
    facts.add_row("row", f"{config}/{row.index}")
    facts.add_row("length", f"{row.length} tokens, {row.max_new_tokens} of them for the answer")
    facts.add_row("context", f"{len(row.context):,} characters")
    facts.add_row("evidence", f"{len(row.evidence)} spans")
    answers = Text(", ").join(Text(visible(output), style="bold green") for output in row.outputs)
    console.print(
        Group(
            facts,
            Panel(highlight(row, full=full), title="context", title_align="left"),
            Panel(Text(visible(row.question)), title="question", title_align="left"),
            Panel(Text(visible(row.answer_prefix)), title="answer prefix", title_align="left"),
            Panel(answers, title="gold answers", title_align="left"),
        )
    )


def highlight(row: Row, *, full: bool = False) -> Text:
    """Return the context with its evidence in bold yellow, and the lengths of parts left out."""
    text = Text(visible(row.context))
    for span in row.evidence:
        text.stylize("bold yellow", span.start, span.end)
    if full:
        return text
    size = len(row.context)
    keep = [(0, 2 * AROUND), (size - AROUND, size)]
    keep += [(span.start - AROUND, span.end + AROUND) for span in row.evidence[:SHOWN]]
    shown, done = Text(), 0
    for start, end in sorted((max(a, 0), min(b, size)) for a, b in keep):
        if end <= done:
            continue
        if start > done:
            shown.append(f" [... {start - done:,} characters ...] ", style="dim")
        shown.append_text(text[max(start, done) : end])
        done = end
    return shown


def visible(text: str) -> str:
    """Return text with each control character replaced by its Unicode picture; line feeds stay.

    A terminal would act on the real ones.
    """
    return text.translate(_PICTURES)


_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n"} | {
    127: 0x2421,
    **dict.fromkeys(range(128, 160), 0xFFFD),
}
