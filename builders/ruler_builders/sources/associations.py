"""Associations: things, and descriptions that share no word with them.

    string instrument: cello, banjo, ukulele

Written for this package. No thing fits two descriptions.
"""

from functools import cache
from importlib.resources import files
from pathlib import Path

from ruler_builders.sources.catalogue import packaged_info
from ruler_builders.sources.text_files import read_text
from ruler_data.manifest import SourceInfo

_PATH = Path(str(files("ruler_builders") / "associations.txt"))


@cache
def associations() -> dict[str, tuple[str, ...]]:
    """Return the things that each description fits."""
    lines = (line.split(": ") for line in read_text(_PATH).splitlines())
    return {description: tuple(things.split(", ")) for description, things in lines}


def associations_info() -> SourceInfo:
    """Return their entry for the manifest."""
    title = "Things and their descriptions, of this package"
    return packaged_info("associations", title, [_PATH], "written for this package")
