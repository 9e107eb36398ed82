"""`ruler-data build`: build a folder, and print a line for each config."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from rich.table import Table

from ruler_builders.pipeline.build_config import BuildConfig
from ruler_data.manifest import Manifest
from ruler_data.names import counted
from ruler_data.options import JsonFlag, command
from ruler_data.terminal import out as stdout
from ruler_data.terminal import progress, say

if TYPE_CHECKING:
    from ruler_builders.pipeline.build_one import BuiltConfig


@command()
def build(config: BuildConfig, as_json: JsonFlag = False) -> None:
    """Build a folder of frozen configs; resume an interrupted build."""
    from ruler_builders.pipeline.build import build_folder

    with progress(config.tokens) as advance:
        manifest, built = build_folder(replace(config, progress=advance))
    if as_json:
        configs = {one.name: {**asdict(one.info), "seconds": one.seconds} for one in built}
        stdout.print_json(json.dumps({"folder": str(config.folder), "configs": configs}))
    else:
        _print_outcome(config, manifest, built)


def _print_outcome(config: BuildConfig, manifest: Manifest, built: Sequence["BuiltConfig"]) -> None:
    """Print a line for each config and a summary of the folder or of the shard."""
    table = Table("config", "rows", "fill mean", "fill min", "MB", "seconds", box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for one in built:
        table.add_row(
            one.name,
            str(one.info.rows),
            f"{one.info.fill_mean:.4f}",
            f"{one.info.fill_min:.4f}",
            f"{one.info.bytes / 1e6:.2f}",
            "kept" if one.seconds is None else f"{one.seconds:.1f}",
        )
    stdout.print(table)
    suite = "" if config.selection.name == "ruler" else f" of the suite {config.selection.name}"
    size = sum(one.info.bytes for one in built) / 1e6
    total = f"{counted(len(built), 'config')}{suite}, {size:.1f} MB"
    if not manifest.files:  # only a whole folder has a card
        say(f"{config.folder}: shard {config.shard}: {total}")
        return
    if manifest.is_upstream:
        say(f"{config.folder}: {total}, the rows of {manifest.edition} with its known defects")
        return
    sample = ", a SAMPLE build, not comparable with RULER" if manifest.is_sample else ""
    say(f"{config.folder}: {total}, audited{sample}")
    if manifest.is_private:
        say(
            f"{config.folder}: built from a private seed, which its manifest contains: do not "
            "share the folder; the same command resumes with this seed"
        )
