"""Options that commands still share as fields of dataclasses."""

from pathlib import Path
from typing import Annotated

from ruler_builders.pipeline.plan import parse_lengths, parse_tasks
from ruler_data.options import Option

__all__ = ["SourcesOption", "WorkersOption", "parse_lengths", "parse_tasks"]

SourcesOption = Annotated[
    Path | str | None, Option("Folder with real sources (default: RULER_SOURCES).", "--sources")
]
WorkersOption = Annotated[int, Option("Number of processes.", min=1, max=1024)]
