"""`ruler-data show` and `card`: the digests of a dataset, one of its rows, its card."""

import json
from dataclasses import asdict, replace
from typing import Annotated

from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ruler_data.errors import RulerError, UsageError
from ruler_data.manifest import Manifest
from ruler_data.names import check_repo, parse_config, quote
from ruler_data.options import JsonFlag, Option, command
from ruler_data.row import Row
from ruler_data.terminal import out, visible


@command()
def show(
    data: Annotated[str, Option("Folder of a build, or a repo with --revision.", argument=True)],
    config: Annotated[
        str,
        Option("Config, e.g. vt_4096; none: list all with their digests.", argument=True),
    ] = "",
    index: Annotated[int, Option("Row, from 0.", argument=True, min=0)] = 0,
    revision: Annotated[str | None, Option("Tag or commit of a release on the Hub.")] = None,
    full: Annotated[bool, Option("Print the whole context.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Print one row: context shortened, evidence highlighted; or the configs of a dataset."""
    from ruler_data.dataset import Rows, open_source

    if config:
        parse_config(config)
    source = open_source(data, revision)
    configs = source.manifest.configs
    if not config:
        _show_configs(source.manifest, as_json=as_json)
        return
    if config not in configs:
        msg = f"{quote(config)} is not in {source}; it has {', '.join(configs)}"
        raise UsageError(msg)
    if index >= configs[config].rows:
        msg = f"{config} has rows 0 to {configs[config].rows - 1}, not {index}"
        raise UsageError(msg)
    row = Rows(source, config)[index]
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
    keep = [(0, 2 * AROUND), (max(size - AROUND, 0), size)]
    keep += [(max(one.start - AROUND, 0), one.end + AROUND) for one in row.evidence[:SHOWN]]
    shown, done = Text(), 0
    for start, end in sorted(keep):
        if end <= done:
            continue
        if start > done:
            shown.append(f" [... {start - done:,} characters ...] ", style="dim")
        shown.append_text(text[max(start, done) : end])
        done = end
    return shown


@command()
def card(
    data: Annotated[str, Option("Folder of a build, or a repo with --revision.", argument=True)],
    revision: Annotated[str | None, Option("Tag or commit of a release on the Hub.")] = None,
    repo: Annotated[str, Option("Print it as for this repo on the Hub.")] = "",
    version: Annotated[
        str | None, Option("Version of that release [default: 1.0.0].", show_default=False)
    ] = None,
) -> None:
    """Print the card of a folder or a release, or as it will be in a repo."""
    from ruler_builders.card import Address, card_files
    from ruler_builders.pipeline.build_dir import BuildDir
    from ruler_builders.publish.version_rules import Version
    from ruler_data.dataset import open_source

    if version and not repo:
        msg = f"--version {version} is of a release in --repo; name that repo too, or leave it out"
        raise UsageError(msg)
    released = Version.parse(version or "1.0.0")
    address = Address(check_repo(repo), released.tag) if repo else None
    source = open_source(data, revision)
    folder, manifest = source.folder, source.manifest
    if address is None:
        if source.release:
            source.release.fetch((), ["README.md"])
        elif not (folder / "README.md").is_file():
            raise RulerError(folder, "has no README.md; the same build command writes it again")
        text = (folder / "README.md").read_text(encoding="utf-8", errors="replace")
    elif source.release:
        msg = "--repo is for a folder; a release has its card"
        raise UsageError(msg)
    elif BuildDir(folder).intact(manifest.configs) != manifest.configs:
        raise RulerError(folder, "its rows are not those of its manifest; verify it")
    else:
        shown = replace(manifest, data_version=str(released))
        text = card_files(shown, folder.joinpath, address)["README.md"].decode()
    out.print(text, soft_wrap=True, end="")
