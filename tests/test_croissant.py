"""The Croissant file of a dataset: it names every file and column, and mlcroissant reads it."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

import ruler_builders
import ruler_data
from ruler_builders.exchange.croissant import write_croissant
from ruler_data.dataset import open_source
from ruler_data.names import config_file, config_name
from ruler_data.parquet import SCHEMA

LENGTHS = (4096, 8192, 16384, 32768, 65536, 131072)


@pytest.fixture(scope="module")
def croissant(sample_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("croissant") / "out"
    return ruler_builders.export(sample_build, tool="croissant", out=out) / "croissant.json"


def ids(part: object) -> list[str]:
    """All that a file names by an id, or refers to."""
    if isinstance(part, list):
        return [one for item in part for one in ids(item)]
    if isinstance(part, dict):
        own = [part["@id"]] if set(part) == {"@id"} else []
        return own + [one for value in part.values() for one in ids(value)]
    return []


def test_every_file_has_its_hash_and_every_column_its_meaning(
    croissant: Path, sample_build: Path
) -> None:
    body = json.loads(croissant.read_text())
    files = {one["@id"]: one for one in body["distribution"]}
    for name, file in files.items():
        data = (sample_build / name).read_bytes()
        assert file["sha256"] == hashlib.sha256(data).hexdigest()
        assert file["contentSize"] == f"{len(data)} B"
        assert Path(file["contentUrl"]) == (sample_build / name).resolve()
    records = {one["@id"]: one["field"] for one in body["recordSet"]}
    assert list(records) == list(ruler_data.load(sample_build))
    for config, fields in records.items():
        assert [one["name"] for one in fields] == SCHEMA.names
        assert all(one["description"] for one in fields)
        known = {config_file(config)} | {one["@id"] for one in fields}
        assert set(ids([one for one in body["recordSet"] if one["@id"] == config])) <= known


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of libraries that it uses
def test_mlcroissant_reads_the_rows(croissant: Path, sample_build: Path) -> None:
    mlcroissant = pytest.importorskip("mlcroissant")
    dataset = mlcroissant.Dataset(str(croissant))  # which raises for metadata that is not valid
    for config in ("vt_4096", "fwe_4096"):
        rows = ruler_data.load(sample_build, config)
        found = list(dataset.records(config))
        assert len(found) == len(rows)
        for row, record in zip(rows, found, strict=True):
            text = {"context", "question", "answer_prefix", "task"}
            for column, value in row.to_record().items():
                given = record[f"{config}/{column}"]
                if column in text:
                    assert given.decode() == value
                elif column == "outputs":
                    assert [one.decode() for one in given] == value
                elif column != "evidence" or value:
                    key = f"{config}/{column}/"
                    wanted = value if column != "evidence" else [
                        {key + side: at for side, at in span.items()} for span in value
                    ]  # fmt: skip
                    assert given == wanted


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of libraries that it uses
def test_mlcroissant_accepts_the_78_configs_of_the_paper(
    sample_build: Path, tmp_path: Path
) -> None:
    mlcroissant = pytest.importorskip("mlcroissant")
    source = open_source(sample_build)
    one = next(iter(source.manifest.configs.values()))
    configs = {config_name(task, n): one for task in ruler_data.TASKS for n in LENGTHS}
    source = replace(source, manifest=replace(source.manifest, configs=configs))
    about = {"data": str(tmp_path), "tokenizer": "mistral", "configs": configs}
    write_croissant(source, about, tmp_path)
    path = tmp_path / "croissant.json"
    dataset = mlcroissant.Dataset(str(path))
    assert len(dataset.metadata.record_sets) == 78 and path.stat().st_size < 1_000_000
