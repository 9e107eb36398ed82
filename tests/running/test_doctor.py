"""`ruler-eval doctor`: each fault that would spoil a run is found without loading anything."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ruler_data.files import sha256_file
from ruler_data.manifest import Manifest
from tests.running import tiny
from tests.running.processes import evaluate, refusal


def examine(data: Path, model: Path, *more: object) -> dict[str, Any]:
    done = evaluate("doctor", "--data", data, "--model", model, "--json", *more)
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode == 1) == (found["errors"] > 0)
    return found


def errors(found: dict[str, Any]) -> list[str]:
    return [
        f"{one['about']}: {one['message']}" for one in found["findings"] if one["level"] == "error"
    ]


def test_every_row_of_data_in_the_models_tokenizer_is_as_long_as_its_length_says(
    frozen: Path, tiny: Path
) -> None:
    found = examine(frozen, tiny, "--all")
    assert found["rows"] == 40 and errors(found) == []
    (room,) = found["findings"]
    assert room["about"] == "vt_2048" and "numbered list take up to" in room["message"]
    assert "the protocol gives 30" in room["message"]
    enough = examine(frozen, tiny, "--extra-tokens", 40)
    assert enough["findings"] == []


def with_template(folder: Path, template: str | None, **changes: object) -> Path:
    """Write a model whose template and tokenizer's config are other than the data's."""
    tiny.make_model(folder)
    path = folder / "tokenizer_config.json"
    body = {**json.loads(path.read_text()), "chat_template": template, **changes}
    path.write_text(json.dumps({name: value for name, value in body.items() if value is not None}))
    return folder


BROKEN: dict[str, tuple[str, dict[str, object], str]] = {
    "a second BOS in the template": (
        "<s>" + tiny.LLAMA, {}, "the prompt begins with 2 BOS tokens, the model expects one",
    ),
    "a BOS that the config does not name": (
        tiny.LLAMA.replace("{{ bos_token }}", "<s>"), {"bos_token": None}, "begins with 2 BOS",
    ),
    "no generation prompt": (
        tiny.LLAMA.split("{% if add_generation_prompt %}")[0], {}, "it has no generation prompt",
    ),
    "a template that loses the context": (
        tiny.LLAMA.replace("m.content | trim", "m.content[-200:]"), {}, "is not in the prompt",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_template_is_found(frozen: Path, tmp_path: Path, fault: str) -> None:
    template, changes, said = BROKEN[fault]
    found = examine(frozen, with_template(tmp_path / "broken", template, **changes), "--sample", 3)
    assert any(said in error for error in errors(found)), found["findings"]


def test_a_missing_bos_is_found(frozen: Path, tmp_path: Path) -> None:
    tiny.make_tokenizer(tmp_path / "m", tiny.QWEN3, adds_bos=False)
    path = tmp_path / "m" / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "add_bos_token": True}))
    (tmp_path / "m" / "config.json").write_text(json.dumps(tiny.config()))
    found = examine(frozen, tmp_path / "m", "--sample", 2)
    assert any("begins with no BOS" in error for error in errors(found))


def test_another_tokenizer_is_told_with_both_names_and_lengths(
    frozen: Path, tmp_path: Path
) -> None:
    model = with_template(tmp_path / "other", tiny.QWEN3)
    found = examine(frozen, model, "--sample", 2)
    about = {one["about"]: one["message"] for one in found["findings"]}
    assert "other has fingerprint" in about["tokenizer"] and "counted in tiny" in about["tokenizer"]
    assert "lengths are not this model's" in about["vt_2048/0"]


def test_prompts_over_the_window_are_found_by_config(frozen: Path, tmp_path: Path) -> None:
    found = examine(frozen, tiny.make_model(tmp_path / "tiny", window=2000))
    assert {error.split("/")[0] for error in errors(found)} == {"vt_2048", "fwe_2048"}
    assert "the window is 2000" in errors(found)[0] and "20 of 20 rows" in errors(found)[0]


def test_yarn_given_as_an_option_extends_the_window(frozen: Path, tmp_path: Path) -> None:
    model = tiny.make_model(tmp_path / "tiny", window=1024)
    rope = {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024,
        "rope_theta": 10000.0,
    }  # fmt: skip
    option = f"hf_overrides={json.dumps({'rope_parameters': rope})}"
    assert errors(examine(frozen, model)) and not errors(examine(frozen, model, "--option", option))


def test_a_golden_answer_that_is_nowhere_in_the_prompt_is_found(
    frozen: Path, tiny: Path, tmp_path: Path
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    copy = tmp_path / "copy"
    shutil.copytree(frozen, copy)
    path = copy / "vt_2048" / "test-00000-of-00001.parquet"
    table = pq.read_table(path)
    outputs = [["ZZZZZ"], *table["outputs"].to_pylist()[1:]]
    place = table.schema.get_field_index("outputs")
    changed = table.set_column(place, table.schema.field("outputs"), pa.array(outputs))
    pq.write_table(changed, path, write_page_checksum=True)
    manifest = Manifest.from_json((copy / "manifest.json").read_text())
    object.__setattr__(manifest.configs["vt_2048"], "sha256", sha256_file(path))
    (copy / "manifest.json").write_text(manifest.to_json())
    found = examine(copy, tiny, "--all")
    (error,) = errors(found)
    assert "gold answer 'ZZZZZ' is not in the prompt" in error and "1 of 20 rows" in error


def test_an_unknown_gpu_is_refused_with_those_known(frozen: Path, tiny: Path) -> None:
    done = evaluate("doctor", "--data", frozen, "--model", tiny, "--gpu", "h1000")
    assert "'h1000': not known; known: a10" in refusal(done)
