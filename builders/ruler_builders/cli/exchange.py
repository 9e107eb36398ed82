"""`ruler-data identify`, `import` and `export`: rows from and for other tools."""

import json
from dataclasses import asdict

from ruler_builders.exchange.export import ExportConfig
from ruler_builders.exchange.export import export as export_data
from ruler_builders.exchange.identify import IdentifyConfig
from ruler_builders.exchange.identify import identify as identify_rows
from ruler_builders.exchange.imports import ImportConfig, import_rows
from ruler_data.errors import RulerError
from ruler_data.options import JsonFlag, command
from ruler_data.terminal import out, say, warn


@command()
def identify(config: IdentifyConfig, as_json: JsonFlag = False) -> None:
    """Say which edition, tokenizer, words and template made anybody's rows."""
    found = identify_rows(**vars(config))
    if as_json:
        out.print_json(json.dumps([asdict(one) for one in found]))
    else:
        for one in found:
            say(str(one))
        for note in dict.fromkeys(note for one in found for note in one.untested):
            warn(note)
    if not any(one.edition for one in found):
        raise RulerError(config.data, "no known edition made these rows")


@command()
def import_(config: ImportConfig, as_json: JsonFlag = False) -> None:
    """Write anybody's rows as a frozen folder; print a report of their defects."""
    done = import_rows(**vars(config))
    if as_json:
        out.print_json(json.dumps({"configs": done.defects, "skipped": done.skipped}))
        return
    out.print(done.report(), soft_wrap=True)
    rows = sum(info.rows for info in done.manifest.configs.values())
    say(f"{config.out}: {len(done.manifest.configs)} configs, {rows} rows imported")


@command()
def export(config: ExportConfig) -> None:
    """Write a dataset as another tool reads it, with everything that the tool needs."""
    folder = export_data(**vars(config))
    say(f"{folder}: {config.data} for {config.tool}; README.md says how it is used")
