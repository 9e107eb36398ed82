"""The real `datasets` library on a built folder: offline, by name, as its users load it.

Each load runs in a process of its own: `datasets` reads its environment when it is imported.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from huggingface_hub import DatasetCard, DatasetCardData

from ruler_data import TASKS, Row
from tests import forks
from tests.conftest import Cli
from tests.tampering import file_of, manifest_of, rows_of

T = TypeVar("T")
Load = Callable[..., Any]
Build = Callable[..., None]

INT, STRING = "Value('int32')", "Value('string')"
FEATURES = {
    "index": INT,
    "task": STRING,
    "context": STRING,
    "question": STRING,
    "answer_prefix": STRING,
    "outputs": f"List({STRING})",
    "max_new_tokens": INT,
    "length": INT,
    "evidence": f"List({{'start': {INT}, 'end': {INT}}})",
    "haystack": f"{{'start': {INT}, 'end': {INT}}}",
}


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Load]:
    """Run a function in one process that has a new Hugging Face home and no network."""
    with forks.pool({**os.environ, "HF_HOME": str(tmp_path_factory.mktemp("hf"))}) as pool:
        yield lambda work, *arguments: pool.submit(work, *arguments).result(timeout=120)


def names_in_datasets(folder: Path) -> list[str]:
    import datasets

    return list(datasets.get_dataset_config_names(str(folder)))


def load_each(
    folder: Path, configs: list[str], *, streaming: bool = False
) -> dict[str, tuple[dict[str, str], list[dict[str, Any]]]]:
    """Return each config's features, as `datasets` prints them, and its rows."""
    import datasets

    found = {}
    for config in configs:
        rows = datasets.load_dataset(str(folder), config, split="test", streaming=streaming)
        features = {name: repr(feature) for name, feature in rows.features.items()}
        found[config] = features, [dict(row) for row in rows]
    return found


def splits_of(folder: Path, config: str) -> list[str]:
    import datasets

    return list(datasets.load_dataset(str(folder), config))


def error_of(folder: Path, *arguments: str) -> str:
    import datasets

    try:
        datasets.load_dataset(str(folder), *arguments, split="test")
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "none"


@pytest.fixture
def build(cli: Cli, tiny: Path) -> Build:
    """Build a small folder from a seed."""
    options = ("--tasks", "vt,fwe", "--lengths", 1280, "--rows", 3, "--sources", "sample")

    def built(folder: Path, seed: int, *more: object) -> None:
        done = cli("build", *options, "--tokenizer", tiny, "--seed", seed, "--out", folder, *more)
        assert done.returncode == 0, done.stderr

    return built


def rows_from(records: list[dict[str, Any]]) -> list[Row]:
    return [Row.from_record(record) for record in records]


def test_datasets_lists_the_configs_of_one_split(sample_build: Path, load: Load) -> None:
    assert load(names_in_datasets, sample_build) == [f"{task}_4096" for task in TASKS]
    assert load(splits_of, sample_build, "qa_1_4096") == ["test"]


def test_configs_load_with_features_and_rows(sample_build: Path, load: Load) -> None:
    configs = [f"{task}_4096" for task in TASKS]
    for config, (features, records) in load(load_each, sample_build, configs).items():
        assert features == FEATURES, config
        assert list(features) == list(FEATURES), config
        assert rows_from(records) == rows_of(sample_build, config)
        assert [record["index"] for record in records] == list(range(6))


def stream_each(folder: Path, configs: list[str]) -> Any:  # noqa: ANN401 - as load_each
    return load_each(folder, configs, streaming=True)


def test_streaming_gives_what_loading_gives(sample_build: Path, load: Load) -> None:
    configs = ["vt_4096", "fwe_4096"]
    assert load(stream_each, sample_build, configs) == load(load_each, sample_build, configs)


@pytest.mark.parametrize("arguments", [(), ("vt_8192",)])
def test_a_config_that_is_not_named_or_not_there_is_told_with_those_that_are(
    arguments: tuple[str, ...], sample_build: Path, load: Load
) -> None:
    error = load(error_of, sample_build, *arguments)
    assert error.startswith("ValueError")
    assert "vt_4096" in error


def test_columns_in_the_file_are_those_of_the_contract(sample_build: Path) -> None:
    """What `datasets` sees is not made right by it: the file itself has these types."""
    import pyarrow.parquet as pq

    span = pa.struct([("start", pa.int32()), ("end", pa.int32())])
    types = {INT: pa.int32(), STRING: pa.string(), FEATURES["outputs"]: pa.list_(pa.string())}
    types[FEATURES["haystack"]] = span
    for task in TASKS:
        schema = pq.read_schema(sample_build / file_of(f"{task}_4096"))
        found = {field.name: field.type for field in schema}
        assert found == {name: types.get(text, pa.list_(span)) for name, text in FEATURES.items()}


@pytest.mark.slow
def test_rows_are_never_loaded_stale(tmp_path: Path, load: Load, build: Build) -> None:
    """`datasets` names its cache after the folder's last part."""
    folder, other = tmp_path / "build", tmp_path / "other" / "build"
    seen = []
    for place, seed in ((folder, 1), (folder, 2), (other, 3), (folder, 1)):
        build(place, seed, "--force")
        loaded = load(load_each, place, ["vt_1280", "fwe_1280"])
        for config, (_, records) in loaded.items():
            assert rows_from(records) == rows_of(place, config), (seed, config)
        seen.append(loaded["vt_1280"])
    assert seen[0] == seen[3] and seen[1] != seen[0] != seen[2]


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
