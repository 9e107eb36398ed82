"""What the Hub would refuse in a card, found here before the Hub is asked."""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from ruler_builders.card import config_entries
from ruler_data.manifest import Manifest

_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]+)*|multilingual|code")
#: Lists of strings in a card's metadata.
_LISTS = ("license", "language", "tags", "task_categories", "size_categories")
#: Configs that the Hub's Croissant metadata and loading snippets take in; later ones are left out.
CROISSANT_CONFIGS = 100


def card_faults(text: str, manifest: Manifest) -> Iterator[str]:
    """Say what is wrong with a card's metadata: its YAML, its values, its list of configs."""
    if not text.startswith("---\n") or "\n---\n" not in text[4:]:
        yield "the metadata at the top, between two lines `---`, is missing"
        return
    try:
        matter = yaml.safe_load(text[4:].partition("\n---\n")[0])
    except yaml.YAMLError as error:
        yield f"the metadata is no YAML: {' '.join(str(error).split())}"
        return
    if not isinstance(matter, dict):
        yield "the metadata is no mapping"
        return
    for name in _LISTS:
        values = matter.get(name)
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            yield f"{name}: is no list of strings"
        elif name == "language":
            yield from (f"language: {one!r} is no code" for one in values if not _is_code(one))
    yield from _config_faults(matter.get("configs"), manifest)


def _is_code(language: str) -> bool:
    return _LANGUAGE.fullmatch(language) is not None


def _config_faults(configs: Any, manifest: Manifest) -> Iterator[str]:  # noqa: ANN401 - any YAML
    """Compare the configs of a card with those of the manifest."""
    expected = config_entries(manifest)
    if configs == expected:
        return
    names = [one.get("config_name") for one in configs or () if isinstance(one, dict)]
    for name in sorted(set(manifest.configs) - set(map(str, names))):
        yield f"configs: {name} is missing"
    for place, (found, wanted) in enumerate(zip(configs or (), expected, strict=False)):
        if found != wanted:
            yield f"configs: number {place} is not {wanted['config_name']} of the manifest"
    if len(names) > len(expected):
        yield "configs: there are more than in the manifest"
