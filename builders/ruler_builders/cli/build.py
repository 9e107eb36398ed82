"""`ruler-data build`: build a folder, and print a line for each config."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace

from rich.table import Table

from ruler_builders.pipeline.build_config import BuildConfig
from ruler_data.manifest import Manifest
from ruler_data.names import counted
from ruler_data.options import JsonFlag, command
from ruler_data.terminal import out as stdout
from ruler_data.terminal import progress, say


@command()
def build(config: BuildConfig, as_json: JsonFlag = False) -> None:
    """Build a folder of frozen configs; resume an interrupted build."""
    from ruler_builders.pipeline.build import build_folder

    with progress(config.tokens) as advance:
        manifest, seconds = build_folder(replace(config, progress=advance))
    if as_json:
        configs = {
            name: {**asdict(info), "seconds": seconds.get(name)}
            for name, info in manifest.configs.items()
        }
        stdout.print_json(json.dumps({"folder": str(config.folder), "configs": configs}))
    else:
        _print_outcome(config, manifest, seconds)


def _print_outcome(config: BuildConfig, manifest: Manifest, seconds: Mapping[str, float]) -> None:
    """Print a line for each config and a summary of the folder or of the shard."""
    table = Table("config", "rows", "fill mean", "fill min", "MB", "seconds", box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, info in manifest.configs.items():
        table.add_row(
            name,
            str(info.rows),
            f"{info.fill_mean:.4f}",
            f"{info.fill_min:.4f}",
            f"{info.bytes / 1e6:.2f}",
            f"{seconds[name]:.1f}" if name in seconds else "kept",
        )
    stdout.print(table)
    suite = "" if config.selection.name == "ruler" else f" of the suite {config.selection.name}"
    size = sum(info.bytes for info in manifest.configs.values()) / 1e6
    total = f"{counted(len(manifest.configs), 'config')}{suite}, {size:.1f} MB"
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
