"""Rows built again from the seed and compared, byte for byte, with those of a folder."""

import random
from collections.abc import Sequence
from pathlib import Path

from ruler_builders.audit.file_checks import one_line
from ruler_builders.pipeline.build_context import BuildContext, open_context
from ruler_builders.pipeline.fit import make_row
from ruler_builders.sources import CATALOGUE, Library
from ruler_data.errors import UsageError
from ruler_data.manifest import FILENAME, Manifest
from ruler_data.names import config_file, parse_config
from ruler_data.parquet import UNREADABLE, read_rows
from ruler_data.row import serialize
from ruler_data.tasks import Task
from ruler_data.version import DATA_VERSION


def rebuild_rows(
    folder: Path,
    manifest: Manifest,
    readable: Sequence[str],
    tokenizer: str,
    rows: int,
    *,
    sources: Path | str | None = None,
    haystack: Path | str | None = None,
) -> tuple[int, list[str]]:
    """Build random rows of a folder again; return how many, and the findings.

    Args:
        folder: of the build.
        manifest: of the folder.
        readable: names of the configs to choose rows from.
        tokenizer: name, folder or Hub id.
        rows: number of rows.
        sources: folder with the real sources.
        haystack: folder with the user's own texts.

    Raises:
        UsageError: the tokenizer or a folder is not available.
    """
    kinds = {source.kind for source in manifest.sources if source.name in CATALOGUE}
    library = Library(sources, "sample" if kinds == {"sample"} else "auto", haystack=haystack)
    reserve = manifest.tokenizer.extra_reserve
    context = open_context(tokenizer, library, seed=manifest.seed, reserve=reserve)
    if findings := _obstacles(manifest, library):
        return 0, findings
    every = [(name, index) for name in readable for index in range(manifest.configs[name].rows)]
    chosen = sorted(random.SystemRandom().sample(every, min(rows, len(every))))
    for name in dict.fromkeys(name for name, _ in chosen):
        indices = [index for other, index in chosen if other == name]
        task = manifest.table[parse_config(name)[0]]
        findings += _compare(folder, name, task, indices, context)
    return len(chosen), findings


def _obstacles(manifest: Manifest, library: Library) -> list[str]:
    """Return why rows cannot be rebuilt: another data version, or other sources."""
    findings = []
    if manifest.rows_version.split(".")[0] != DATA_VERSION.split(".")[0]:
        findings.append(
            f"{FILENAME}: rows of data version {manifest.rows_version} cannot be rebuilt by this "
            f"version, which builds {DATA_VERSION}"
        )
    for source in manifest.sources:
        option = "--haystack" if source.kind == "own" else "--sources"
        try:
            found = library.info(source.name)
        except UsageError as error:
            findings.append(f"source {source.name}: {error}")
            continue
        if (found.kind, found.sha256) != (source.kind, source.sha256):
            findings.append(
                f"source {source.name}: sha256 expected {source.sha256} ({source.kind}), found "
                f"{found.sha256} ({found.kind}); give {option} with the files of the build"
            )
    return findings


def _compare(
    folder: Path, name: str, task: Task, indices: Sequence[int], context: BuildContext
) -> list[str]:
    """Build some rows of a config again and compare them byte for byte."""
    target = context.target(parse_config(name)[1])
    try:
        rows = {
            row.index: serialize(row)
            for row in read_rows(folder / config_file(name))
            if row.index in indices
        }
    except UNREADABLE as error:
        return [f"{config_file(name)}: cannot be read: {one_line(error)}"]
    return [
        f"{name}/{index}: differs from the row rebuilt from the seed"
        for index in indices
        if rows.get(index) != serialize(make_row(task, context.sources, index, target).row)
    ]
