"""Rows built again from the seed, and compared byte for byte with the published ones."""

import random
from pathlib import Path

from ruler_builders.audit.file_checks import name_findings, one_line
from ruler_builders.pipeline.build_context import BuildContext, RowConfig, open_context
from ruler_builders.pipeline.fit import make_row
from ruler_builders.sources import CATALOGUE, Library
from ruler_data.errors import UsageError
from ruler_data.manifest import FILENAME, Manifest
from ruler_data.names import config_file, parse_config
from ruler_data.parquet import UNREADABLE, read_rows
from ruler_data.row import serialize
from ruler_data.tasks import Task
from ruler_data.version import DATA_VERSION


def rebuild(
    folder: Path,
    manifest: Manifest,
    tokenizer: str,
    rows: int,
    *,
    sources: Path | None = None,
    haystack: Path | None = None,
) -> tuple[int, list[str]]:
    """Build random rows again and compare them byte for byte."""
    kinds = {source.kind for source in manifest.sources if source.name in CATALOGUE}
    recipe = RowConfig(
        tokenizer=tokenizer,
        seed=manifest.seed,
        sources=sources,
        kind="sample" if kinds == {"sample"} else "auto",
        strict=False,
        extra_reserve=manifest.tokenizer.extra_reserve,
        haystack=haystack,
    )
    library = recipe.library()
    context = open_context(recipe, library)
    if findings := _rebuild_obstacles(manifest, library):
        return 0, findings
    intact = {
        name: info.rows
        for name, info in manifest.configs.items()
        if not name_findings(name, info, manifest) and (folder / info.file).is_file()
    }
    every = [(name, index) for name, size in intact.items() for index in range(size)]
    chosen = sorted(random.SystemRandom().sample(every, min(rows, len(every))))
    for name in dict.fromkeys(name for name, _ in chosen):
        wanted = {index for other, index in chosen if other == name}
        task = manifest.table[parse_config(name)[0]]
        findings += _compare_rebuilt(folder, name, task, wanted, context)
    return len(chosen), findings


def _rebuild_obstacles(manifest: Manifest, library: Library) -> list[str]:
    """Return what makes it pointless to rebuild rows: other code or other sources."""
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


def _compare_rebuilt(
    folder: Path, name: str, task: Task, wanted: set[int], context: BuildContext
) -> list[str]:
    """Build rows of a config again and compare them byte for byte."""
    _, length = parse_config(name)
    try:
        rows = {row.index: row for row in read_rows(folder / config_file(name))}
        same = {
            index: index in rows
            and serialize(rows[index])
            == serialize(make_row(task, context.sources, index, context.target(length)).row)
            for index in sorted(wanted)
        }
    except UNREADABLE as error:
        return [f"{config_file(name)}: cannot be read: {one_line(error)}"]
    return [
        f"{name}/{index}: rebuilt from the seed, it is another row"
        for index, equal in same.items()
        if not equal
    ]
