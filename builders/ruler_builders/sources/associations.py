"""Associations: things, and descriptions that share no word with them.

    string instrument: cello, banjo, ukulele

Written for this package. No thing fits two descriptions.
"""

from functools import cache
from importlib.resources import files
from pathlib import Path

from ruler_builders.sources.text_files import read_text, sha256_of
from ruler_data.manifest import SourceInfo

_PATH = Path(str(files("ruler_builders") / "associations.txt"))


@cache
def associations() -> dict[str, tuple[str, ...]]:
    """Return the things that each description fits."""
    lines = (line.split(": ") for line in read_text(_PATH).splitlines())
    return {description: tuple(things.split(", ")) for description, things in lines}


def associations_info() -> SourceInfo:
    """Return what the manifest says of them."""
    return SourceInfo(
        name="associations",
        title="Things and their descriptions, of this package",
        kind="real",
        url="https://creativecommons.org/publicdomain/zero/1.0/",
        sha256=sha256_of([_PATH]),
        licence="CC0-1.0",
        attribution="the authors of ruler-data",
        pinned=True,
        detail="written for this package",
    )
