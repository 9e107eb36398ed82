"""`ruler-data identify`, `import` and `export`: rows from and for other tools."""

from ruler_builders.exchange.export import ExportConfig
from ruler_builders.exchange.export import export as export_data
from ruler_data.options import command
from ruler_data.terminal import say


@command()
def export(config: ExportConfig) -> None:
    """Write a dataset as another tool reads it, with everything that the tool needs."""
    folder = export_data(**vars(config))
    say(f"{folder}: {config.data} for {config.tool}; README.md says how it is used")
