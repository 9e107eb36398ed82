"""What the doctor reckons, against what model cards print and what a hand reckons."""

import pytest

from ruler_data.errors import UsageError
from ruler_eval.estimate import GPUS, WORST, Estimate, Range, Shape, estimate, shape_of
from ruler_eval.models import window, with_overrides, with_yarn_window


def shape(**config: object) -> Shape:
    found = shape_of(config, None, {})
    assert found is not None
    return found


LLAMA_8B = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 128256,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
}  # fmt: skip
QWEN2 = {
    **LLAMA_8B, "model_type": "qwen2", "sliding_window": 1024, "max_window_layers": 30,
}  # fmt: skip
QWEN3_30B_A3B = {
    "model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144, "num_experts": 128,
    "moe_intermediate_size": 768, "num_hidden_layers": 48, "num_attention_heads": 32,
    "num_key_value_heads": 4, "head_dim": 128, "num_experts_per_tok": 8, "vocab_size": 151936,
}  # fmt: skip
GEMMA3_27B = {  # its config says no more: neither the vocabulary nor which layers slide
    "model_type": "gemma3_text", "hidden_size": 5376, "intermediate_size": 21504,
    "num_hidden_layers": 62, "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128,
    "sliding_window": 1024,
}  # fmt: skip
GPT_OSS_120B = {
    "model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880, "head_dim": 64,
    "num_hidden_layers": 36, "num_attention_heads": 64, "num_key_value_heads": 8,
    "vocab_size": 201088, "num_local_experts": 128, "num_experts_per_tok": 4, "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 18,
}  # fmt: skip
DEEPSEEK_V3 = {
    "model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432,
    "moe_intermediate_size": 2048, "num_hidden_layers": 61, "num_attention_heads": 128,
    "n_shared_experts": 1, "n_routed_experts": 256, "num_experts_per_tok": 8, "kv_lora_rank": 512,
    "q_lora_rank": 1536, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
    "first_k_dense_replace": 3, "vocab_size": 129280,
}  # fmt: skip
QWEN3_NEXT_80B_A3B = {
    "model_type": "qwen3_next", "hidden_size": 2048, "intermediate_size": 5120, "head_dim": 256,
    "num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 2,
    "vocab_size": 151936, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
    "linear_value_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
    "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "num_experts": 512,
    "num_experts_per_tok": 10, "full_attention_interval": 4,
}  # fmt: skip
LLAMA4_SCOUT = {
    "model_type": "llama4_text", "hidden_size": 5120, "intermediate_size": 8192, "head_dim": 128,
    "intermediate_size_mlp": 16384, "num_hidden_layers": 48, "num_attention_heads": 40,
    "num_key_value_heads": 8, "vocab_size": 202048, "num_local_experts": 16,
    "num_experts_per_tok": 1, "interleave_moe_layer_step": 1, "attention_chunk_size": 8192,
}  # fmt: skip
JAMBA_MINI = {
    "model_type": "jamba", "hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 65536,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "num_experts": 16, "num_experts_per_tok": 2, "expert_layer_period": 2, "expert_layer_offset": 1,
    "attn_layer_period": 8, "attn_layer_offset": 4, "mamba_d_state": 16, "mamba_d_conv": 4,
    "mamba_expand": 2, "mamba_dt_rank": 256,
}  # fmt: skip
NEMOTRON_H_8B = {
    "model_type": "nemotron_h", "hidden_size": 4096, "intermediate_size": 21504,
    "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 131072,
    "mamba_num_heads": 128, "mamba_head_dim": 64, "ssm_state_size": 128, "n_groups": 8,
    "conv_kernel": 4,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "billions", "active"),
    [  # as their model cards and papers print them; active ones there count the embedding, or not
        (LLAMA_8B, 8.03, 7.5),
        (QWEN3_30B_A3B, 30.5, 3.0),
        (GEMMA3_27B, 27.0, 27.0),
        (GPT_OSS_120B, 116.8, 5.1),
        (DEEPSEEK_V3, 671.0, 36.6),
        (LLAMA4_SCOUT, 107.8, 16.1),
        (JAMBA_MINI, 51.6, 11.9),
        (NEMOTRON_H_8B, 8.1, 7.57),
    ],
)
def test_parameters_counted_from_the_config_are_those_of_the_model_card(
    config: dict[str, object], billions: float, active: float
) -> None:
    found = shape(**config)
    assert found.parameters / 1e9 == pytest.approx(billions, rel=0.005)
    assert found.active / 1e9 == pytest.approx(active, rel=0.02)


LONG = 131_072


@pytest.mark.parametrize(
    ("config", "by_hand"),
    [
        (LLAMA_8B, 131_072 * LONG),  # 128 KiB a token: 2 · 8 heads · 128 · 32 layers · 2 bytes
        (QWEN2, 131_072 * LONG),  # no layer slides unless `use_sliding_window` says so
        ({**QWEN2, "use_sliding_window": True}, 4096 * (30 * LONG + 2 * 1024)),
        (GEMMA3_27B, 2 * 2 * 16 * 128 * (10 * LONG + 52 * 1024)),  # every sixth layer is full
        (GPT_OSS_120B, 2 * 2 * 8 * 64 * 18 * (LONG + 128)),  # every second layer is full
        (DEEPSEEK_V3, 70_272 * LONG),  # its paper on hardware (arXiv 2505.09343), table 1
        # 12 of 48 layers; the others keep 32 · 128 · 128 numbers and 3 inputs of a convolution.
        (QWEN3_NEXT_80B_A3B, 24_576 * LONG + 36 * 2 * (32 * 128 * 128 + 3 * 8192)),
        (LLAMA4_SCOUT, 2 * 2 * 8 * 128 * (12 * LONG + 36 * 8192)),  # every fourth layer is full
        # 4 GB at 256 K (arXiv 2403.19887, table 1); 28 layers keep 8192 · (16 + 3) numbers.
        (JAMBA_MINI, 16_384 * LONG + 28 * 2 * 8192 * 19),
        (NEMOTRON_H_8B, 4 * 4096 * LONG + 24 * 2 * (8192 * 128 + 3 * (8192 + 2 * 8 * 128))),
    ],
)
def test_what_a_row_keeps_is_what_a_hand_reckons(config: dict[str, object], by_hand: int) -> None:
    assert shape(**config).kv_bytes(LONG) == by_hand


@pytest.mark.parametrize(
    ("config", "copies"), [(LLAMA_8B, {8: 1, 16: 2}), (DEEPSEEK_V3, {2: 2, 8: 8})]
)
def test_gpus_that_share_a_copy_keep_a_head_each_though_it_be_the_same(
    config: dict[str, object], copies: dict[int, int]
) -> None:
    one = shape(**config)
    for gpus, times in copies.items():
        assert one.kv_bytes(LONG, gpus) == times * one.kv_bytes(LONG)
        cost = estimate(one, [(LONG, 30)], None, gpus)
        assert cost.kv_bytes_longest == times * one.kv_bytes(LONG)


def test_keys_and_values_of_eight_bits_take_half_and_the_checkpoint_says_its_size() -> None:
    eight_bits = shape_of(LLAMA_8B, 9_090_000_000, {"kv_cache_dtype": "fp8_e4m3"})
    assert eight_bits and eight_bits.kv_bytes(1) == 65_536
    assert eight_bits.weight_bytes == 9_090_000_000
    assert shape(**LLAMA_8B).weight_bytes == 2 * 8_030_261_248  # the parameters of the model


def test_a_prompt_costs_what_counting_each_pair_of_tokens_gives() -> None:
    scout = shape(**LLAMA4_SCOUT)
    n, head = 20_000, 202_048 * 5120
    pairs = {window: sum(min(place + 0.5, window) for place in range(n)) for window in (n, 8192)}
    attention = 4 * 5120 * (12 * pairs[n] + 36 * pairs[8192])
    body = scout.active - head - 5120
    assert scout.prefill_flops(n) == pytest.approx(attention + 2 * (body * n + head), rel=1e-4)


def work(cost: Estimate) -> Range:
    """Return the hours without loading."""
    assert cost.prefill_hours and cost.decoding_hours
    low, high = zip(cost.prefill_hours, cost.decoding_hours, strict=True)
    return sum(low), sum(high)


def test_an_estimate_grows_with_samples_and_has_no_hours_for_what_does_not_fit() -> None:
    rows = [(131_072, 30)] * 500
    many = estimate(shape(**LLAMA_8B), rows, GPUS["h100"])
    assert many.fits and many.gpu_hours
    by_hand = 500 * (2 * 6.98e9 * 131_042 + 2 * 32 * 4096 * 131_042**2) / (989e12 * 0.3) / 3600
    assert work(many)[1] == pytest.approx(by_hand, rel=0.05)
    load = WORST.start + 16.06e9 / WORST.loading
    assert 3600 * (many.gpu_hours[1] - work(many)[1]) == pytest.approx(load, rel=0.01)
    four = estimate(shape(**LLAMA_8B), rows, GPUS["h100"], samples=4)
    assert work(four)[1] == pytest.approx(4 * work(many)[1])
    assert work(many)[0] < work(four)[0] < 2 * work(many)[0]  # at best one prefill for all four
    large = estimate(shape(**GEMMA3_27B), rows, GPUS["l40s"])
    assert large.fits is False and large.gpu_hours is large.prefill_hours is None
    assert estimate(shape(**GEMMA3_27B), rows, GPUS["l40s"], 4).fits


@pytest.mark.parametrize(
    ("length", "minutes"),
    [(4096, 4), (8192, 5), (16_384, 10), (32_768, 17), (65_536, 40), (131_072, 120)],
)
def test_the_range_holds_what_eight_a100_were_reported_to_take_a_task(
    length: int, minutes: float
) -> None:
    mistral = shape(**{**LLAMA_8B, "vocab_size": 32_000})
    rows = [(length, answer) for answer in [128] * 8 + [30, 120, 50, 32, 32]]
    cost = estimate(mistral, rows, GPUS["a100"], 8, batch=1)
    low, high = (hours * 60 / 8 * 500 / 13 for hours in work(cost))
    assert low < minutes < high < 3.6 * low


@pytest.mark.parametrize(
    "config",
    [
        {},
        {**LLAMA_8B, "model_type": "brand_new"},
        {**LLAMA_8B, "hidden_size": None},
        {**LLAMA_8B, "layer_types": ["full_attention"]},
        {**LLAMA_8B, "layer_types": ["retention"] * 32},
        {**LLAMA_8B, "quantization_config": {"quant_method": "awq"}},
    ],
)
def test_what_no_table_names_has_no_estimate(config: dict[str, object]) -> None:
    assert shape_of(config, None, {}) is None
    assert shape_of(LLAMA_8B, None, {"quantization": "fp8"}) is None


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
