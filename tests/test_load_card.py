"""The card of a built folder, read by the Hub's own library and by plain YAML."""

from pathlib import Path
from typing import Any

from huggingface_hub import DatasetCard, DatasetCardData

from tests.tampering import manifest_of


def front_matter(card: DatasetCard) -> dict[str, Any]:
    """Return a card's YAML as the Hub's library understood it."""
    assert isinstance(card.data, DatasetCardData)
    return dict(card.data.to_dict())  # type: ignore[no-untyped-call]


def test_the_card_lists_a_config_for_every_file_and_nothing_else(sample_build: Path) -> None:
    card = DatasetCard.load(sample_build / "README.md")
    listed = {item["config_name"]: item for item in front_matter(card)["configs"]}
    files = sorted(path.relative_to(sample_build) for path in sample_build.rglob("*.parquet"))
    named = [item["data_files"] for item in listed.values()]
    assert sorted(Path(one["path"]) for [one] in named) == files
    assert {one["split"] for [one] in named} == {"test"}
    manifest = manifest_of(sample_build)
    assert list(listed) == list(manifest.configs)
    for name, item in listed.items():
        assert item["version"] == manifest.data_version
        assert manifest.configs[name].digest in str(item), "what keeps the cache from being stale"
