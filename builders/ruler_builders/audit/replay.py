"""Rows of an edition of upstream, made again and compared: each depends on all rows before it."""

from collections.abc import Sequence
from pathlib import Path

from ruler_builders.pipeline.build_context import open_context
from ruler_builders.pipeline.pool import Progress
from ruler_builders.sources import Library
from ruler_builders.upstream import Arguments, edition_of, model_template
from ruler_builders.upstream.columns import packed_rows
from ruler_data.errors import RulerError
from ruler_data.manifest import Manifest
from ruler_data.names import config_file, parse_config
from ruler_data.parquet import UNREADABLE, read_rows
from ruler_data.row import serialize


def replay_rows(
    folder: Path,
    manifest: Manifest,
    readable: Sequence[str],
    tokenizer: str,
    sources: Path | str | None,
    progress: Progress,
) -> tuple[int, list[str], list[str]]:
    """Make all rows of a folder again.

    Args:
        folder: of the build.
        manifest: of the folder.
        readable: names of the configs whose file can be read.
        tokenizer: name, folder or Hub id.
        sources: folder with the sources.
        progress: called with the name of a config and the rows that are finished.

    Returns:
        Number of rows, what is wrong, and what could not be replayed.
    """
    library = Library(sources, "real")
    reserve = manifest.tokenizer.extra_reserve
    context = open_context(tokenizer, library, seed=manifest.seed, reserve=reserve)
    edition, named = edition_of(manifest.edition), {one.name: one for one in manifest.sources}
    template = model_template(manifest.chat_template or "base")
    replayed, findings, untested = 0, list[str](), list[str]()
    for name in readable:
        task_name, length = parse_config(name)
        task, rows = manifest.table[task_name], manifest.configs[name].rows
        arguments = Arguments(
            edition, task, length, rows, manifest.seed, template, template_tokens=reserve
        )
        try:
            found = context.upstream.infos(task, edition)
            if other := [one.name for one in found if one.sha256 != named[one.name].sha256]:
                untested.append(f"{name}: not replayed: other files of {', '.join(other)} here")
                continue
            made = packed_rows(arguments, context.upstream, context.tokenizer)
            kept = read_rows(folder / config_file(name))
            for row, again in zip(kept, made, strict=True):
                if serialize(row) != serialize(again):
                    findings.append(f"{name}/{row.index}: differs from the row replayed")
                replayed += 1
                progress(name, 0)
        except UNREADABLE:
            continue  # the audit of the config says so
        except RulerError as error:
            untested.append(f"{name}: not replayed: {error}")
    return replayed, findings, untested
