"""What `run --check` counts, and the window that a config gives."""

import pytest

from ruler_data.errors import UsageError
from ruler_eval.running.check import cache_bytes
from ruler_eval.running.models import window, with_overrides, with_yarn_window

LLAMA_8B: dict[str, object] = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 128256,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
}  # fmt: skip
SLIDING = {**LLAMA_8B, "sliding_window": 1024, "layer_types": [
    *["sliding_attention"] * 24, *["full_attention"] * 8,
]}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "by_hand"),
    [
        (LLAMA_8B, 2 * 2 * 32 * 8 * 128 * 131_072),
        ({**LLAMA_8B, "head_dim": 64}, 2 * 2 * 32 * 8 * 64 * 131_072),
        (SLIDING, 2 * 2 * 8 * 128 * (24 * 1024 + 8 * 131_072)),
        ({**LLAMA_8B, "sliding_window": 4096}, None),  # of which layers, it does not say
        ({**LLAMA_8B, "kv_lora_rank": 512}, None),
        ({**LLAMA_8B, "linear_num_key_heads": 16}, None),
        ({}, None),
    ],
)
def test_keys_and_values_are_by_hand(config: dict[str, object], by_hand: int | None) -> None:
    assert cache_bytes(config, 131_072) == by_hand


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
THETA = {**YARN, "rope_theta": 1e6}
QWEN = {"max_position_embeddings": 32768, "rope_theta": 1e6}
INNER = {"model_type": "some", "text_config": QWEN}


@pytest.mark.parametrize(
    ("config", "tokens"),
    [
        ({}, None),
        (QWEN, 32768),
        ({**QWEN, "rope_scaling": {"type": "yarn", **YARN}}, 131072),  # as its card tells it
        ({**QWEN, "max_position_embeddings": 131072, "rope_scaling": YARN}, 131072),
        ({**QWEN, "max_position_embeddings": 163840, "rope_scaling": {
            "type": "yarn", "factor": 40, "original_max_position_embeddings": 4096,
        }}, 163840),
        ({"max_position_embeddings": 131072, "rope_scaling": {
            "rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192,
        }}, 131072),
        ({"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 4}}, 16384),
        ({"model_type": "gemma3_text", "max_position_embeddings": 131072, "rope_scaling": {
            "rope_type": "linear", "factor": 8.0,
        }}, 131072),
        ({"max_position_embeddings": 65536, "rope_parameters": {
            "sliding_attention": {"rope_type": "default"}, "full_attention": {
                "rope_type": "yarn", "factor": 8, "original_max_position_embeddings": 8192,
            },
        }}, 65536),
        (INNER, 32768),
        ({**QWEN, "rope_scaling": {**YARN, "factor": "four"}}, None),
        ({**QWEN, "rope_scaling": {**YARN, "original_max_position_embeddings": None}}, None),
    ],
)  # fmt: skip
def test_the_window_is_what_positions_reach(config: dict[str, object], tokens: int | None) -> None:
    assert window(config) == tokens


@pytest.mark.parametrize("name", ["rope_parameters", "rope_scaling"])
def test_overrides_reach_the_window_and_the_engine_is_told(name: str) -> None:
    config = with_overrides(QWEN, {name: THETA})
    assert window(config) == 131072
    passed_on = with_yarn_window(config, {name: THETA})
    assert passed_on == {"max_position_embeddings": 131072, name: THETA}


def test_overrides_of_a_text_config_stay_there() -> None:
    overrides = {"text_config": {"rope_parameters": THETA}}
    config = with_overrides(INNER, overrides)
    assert window(config) == 131072 and window(INNER) == 32768
    longer = {"max_position_embeddings": 131072, "rope_parameters": THETA}
    assert with_yarn_window(config, overrides) == {"text_config": longer}
    assert config["text_config"]["rope_theta"] == 1e6


def test_a_model_without_yarn_is_left_alone() -> None:
    assert with_yarn_window(QWEN, {}) == {}


def test_overrides_without_the_base_of_rope_are_refused() -> None:
    with pytest.raises(UsageError, match=r"add rope_theta \(the model's own is 1000000\.0\)"):
        with_overrides(QWEN, {"rope_parameters": YARN})
    with pytest.raises(UsageError, match=r"the model's own is 1000000\.0"):
        with_overrides({"rope_scaling": None, "rope_parameters": THETA}, {"rope_parameters": YARN})
