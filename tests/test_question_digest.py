"""The question digest: equal wherever the same is asked, whatever the tokenizer and the length."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ruler_builders
from ruler_data.errors import RulerError
from ruler_data.manifest import Manifest
from ruler_report import results as score
from tests.runs import golden, make_run
from tests.tampering import copy_of, manifest_of, question_digest, rows_of

Build = Callable[..., Path]
TASKS = ("niah_single_2", "niah_multikey_3", "vt", "cwe", "fwe", "qa_1", "qa_2")


@pytest.fixture(scope="module")
def real(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Build two real rows of a task of each family and source."""

    def build(tokenizer: str, lengths: list[int], seed: int = 42) -> Path:
        out = tmp_path_factory.mktemp("digests") / "out"
        ruler_builders.build(
            str(shared / "tokenizers" / tokenizer),
            out=out,
            tasks=TASKS,
            lengths=lengths,
            rows=2,
            seed=seed,
            sources=shared / "sources",
        )
        return out

    return build


@pytest.mark.slow
def test_two_tokenizers_and_two_lengths_ask_the_same_and_another_seed_does_not(
    real: Build,
) -> None:
    folder = real("llama3", [4096, 8192])
    first, other = manifest_of(folder).configs, manifest_of(real("qwen2.5", [4096])).configs
    reseeded = manifest_of(real("llama3", [4096], seed=7)).configs
    assert len(other) == len(TASKS)
    for name, info in other.items():
        longer = first[name.replace("_4096", "_8192")]
        assert info.question_digest == first[name].question_digest == longer.question_digest
        assert len({info.digest, first[name].digest, longer.digest}) == 3
        assert info.question_digest == question_digest(rows_of(folder, name))
        assert reseeded[name].question_digest != info.question_digest


def retyped(text: str, change: Callable[[dict[str, Any]], None]) -> str:
    """Change the JSON of a manifest, and the digest that it carries of itself, by hand."""
    body = json.loads(text)
    change(body)
    del body["digest"]
    data = json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
    body = {"digest": f"sha256:{hashlib.sha256(data).hexdigest()}", **body}
    return json.dumps(body, indent=1, ensure_ascii=False) + "\n"


def older(body: dict[str, Any]) -> None:
    del body["edition"], body["chat_template"]
    for config in body["configs"].values():
        del config["question_digest"]


def test_scoring_records_the_digest_of_data_that_does_not(
    builds: Callable[..., Path], tmp_path: Path
) -> None:
    copy = copy_of(builds(), tmp_path)
    expected = manifest_of(copy).configs["vt_1024"].question_digest
    manifest = copy / "manifest.json"
    manifest.write_text(retyped(manifest.read_text(), older))
    run = make_run(tmp_path / "run", copy, golden)
    results = score(run, str(copy))
    assert results.configs["vt_1024"].question_digest == expected != ""


def test_a_field_added_without_the_digest_is_an_edit(builds: Callable[..., Path]) -> None:
    text = (builds() / "manifest.json").read_text()
    edited = text.replace('"suite": "ruler"', '"suite": "ruler",\n "colour": "blue"')
    with pytest.raises(RulerError, match="edited after it was written"):
        Manifest.from_json(edited)
