"""`ruler-data show`: one row, for a person or as JSON."""

import json
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from ruler_builders.cli.options import JsonFlag
from ruler_data.errors import RulerError, UsageError
from ruler_data.names import parse_config, quote
from ruler_data.terminal import out


def show(
    folder: Annotated[Path, typer.Argument(help="Folder of a build.")],
    config: Annotated[str, typer.Argument(help="Config, e.g. vt_4096.")],
    index: Annotated[int, typer.Argument(min=0, help="Row, from 0.")] = 0,
    full: Annotated[bool, typer.Option("--full", help="Leave nothing out of the context.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Print one row: context shortened, evidence highlighted."""
    from ruler_builders.folder import Folder
    from ruler_builders.show import show_row
    from ruler_data.parquet import UNREADABLE, read_rows

    parse_config(config)
    manifest = Folder(folder).manifest() if folder.is_dir() else None
    if manifest is None:
        msg = f"{quote(str(folder))}: holds no finished build"
        raise UsageError(msg)
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
