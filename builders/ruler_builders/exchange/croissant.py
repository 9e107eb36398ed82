"""Croissant: the dataset as JSON-LD, for catalogues and for the library `mlcroissant`.

Format: https://docs.mlcommons.org/croissant/docs/croissant-spec-1.1.html. The Hub writes metadata
of its own for a public repo; this adds the sha256 of each file, all licences, the meaning of each
column, and configs beyond the hundredth.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from ruler_data.dataset import Source
from ruler_data.names import config_file
from ruler_data.parquet import SCHEMA

_TERMS = (
    "arrayShape citeAs column containedIn equivalentProperty extract field fileObject fileProperty "
    "fileSet format includes isArray isLiveDataset jsonPath key md5 parentField path recordSet "
    "references regex repeated replace samplingRate separator source subField transform"
)
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "description": {"@container": "@language"},
    "name": {"@container": "@language"},
    **{term: f"cr:{term}" for term in _TERMS.split()},
}

_COLUMNS = {
    "index": "Number of the row in its config, from 0.",
    "task": "Name of the task.",
    "context": "Instruction, in-context example where the task has one, and haystack.",
    "question": "Query that follows the context.",
    "answer_prefix": "Beginning of the model's answer in the completion protocol.",
    "outputs": "Gold answers.",
    "max_new_tokens": "Largest number of tokens of an answer.",
    "length": "Tokens of the prompt, and of the longest answer.",
    "evidence": "Spans of the context that the answer depends on, in characters.",
}
_SPAN = {"start": "First character.", "end": "Character after the last one."}
_LIST = {"isArray": True, "arrayShape": "-1"}

_CITATION = (
    "@article{hsieh2024ruler, title={RULER: What's the Real Context Size of Your Long-Context "
    "Language Models?}, author={Hsieh, Cheng-Ping and Sun, Simeng and Kriman, Samuel and Acharya, "
    "Shantanu and Rekesh, Dima and Jia, Fei and Zhang, Yang and Ginsburg, Boris}, "
    "journal={arXiv preprint arXiv:2404.06654}, year={2024}}"
)


def write_croissant(source: Source, about: Mapping[str, Any], folder: Path) -> None:
    """Write `croissant.json`: each config is a file with its sha256, and a set of records."""
    manifest, release = source.manifest, source.release
    page = f"https://huggingface.co/datasets/{release.repo}" if release else about["data"]
    files = f"{page}/resolve/{release.commit}" if release else page
    name = release.repo.replace("/", "-") if release else "ruler"
    infos = {config: manifest.configs[config] for config in about["configs"]}
    body = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": name,
        "description": (
            "RULER, a benchmark of how much of its context a language model can really use, as "
            f"frozen rows. Lengths are counted in the tokenizer {about['tokenizer']}."
        ),
        "url": page,
        "version": manifest.data_version,
        "license": sorted({one.licence for one in manifest.sources} | {"Apache-2.0"}),
        "creator": {"@type": "sc:Organization", "name": "The ruler-data contributors"},
        "citeAs": _CITATION,
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": config_file(config),
                "name": config_file(config),
                "contentUrl": f"{files}/{config_file(config)}",
                "contentSize": f"{info.bytes} B",
                "encodingFormat": "application/x-parquet",
                "sha256": info.sha256,
            }
            for config, info in infos.items()
        ],
        "recordSet": [_records(config, info.rows) for config, info in infos.items()],
    }
    text = json.dumps(body, indent=1, ensure_ascii=False) + "\n"
    (folder / "croissant.json").write_text(text, encoding="utf-8")


def _records(config: str, rows: int) -> dict[str, Any]:
    def field(name: str, meaning: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        about = {"@type": "cr:Field", "@id": f"{config}/{name}", "name": name}
        return {**about, "description": meaning, **more}

    def column(name: str, kind: pa.DataType, path: str = "") -> dict[str, Any]:
        transform = {"transform": {"jsonPath": path}} if path else {}
        found = {"fileObject": {"@id": config_file(config)}, "extract": {"column": name}}
        text = "sc:Text" if pa.types.is_string(kind) else "sc:Integer"
        return {"dataType": text, "source": {**found, **transform}}

    fields = []
    for name, meaning in _COLUMNS.items():
        kind = SCHEMA.field(name).type
        many, item = (_LIST, kind.value_type) if pa.types.is_list(kind) else ({}, kind)
        if pa.types.is_struct(item):
            sides = [
                field(f"{name}/{side}", about, **column(name, pa.int32(), f"$[*].{side}"))
                for side, about in _SPAN.items()
            ]
            fields.append(field(name, meaning, **many, subField=sides))
        else:
            fields.append(field(name, meaning, **many, **column(name, item)))
    return {
        "@type": "cr:RecordSet",
        "@id": config,
        "name": config,
        "description": f"The {rows} rows of the config {config}, split test.",
        "key": {"@id": f"{config}/index"},
        "field": fields,
    }
