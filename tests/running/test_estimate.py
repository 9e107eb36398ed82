"""What the doctor reckons, against what model cards print and what a hand reckons."""

import pytest

from ruler_eval.doctor.estimate import GPUS, WORST, Estimate, Range, Shape, estimate, shape_of


def shape(**config: object) -> Shape:
    found = shape_of(config)
    assert found is not None
    return found


LLAMA_8B = {
    "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
}  # fmt: skip
LLAMA_70B = {
    **LLAMA_8B, "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
    "num_attention_heads": 64,
}  # fmt: skip
QWEN3_30B_A3B = {
    "hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768,
    "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
    "num_experts": 128, "num_experts_per_tok": 8, "vocab_size": 151936,
}  # fmt: skip
MIXTRAL = {
    **LLAMA_8B, "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000,
}  # fmt: skip
GEMMA3_1B = {
    "hidden_size": 1152, "intermediate_size": 6912, "num_hidden_layers": 26,
    "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 262144,
    "tie_word_embeddings": True,
}  # fmt: skip
GEMMA3_27B = {  # its config says no more: neither the vocabulary nor which layers slide
    "model_type": "gemma3_text", "hidden_size": 5376, "intermediate_size": 21504,
    "num_hidden_layers": 62, "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128,
    "sliding_window": 1024,
}  # fmt: skip
GPT_OSS_120B = {
    "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 36, "head_dim": 64,
    "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 201088,
    "num_local_experts": 128, "num_experts_per_tok": 4, "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 18,
    "quantization_config": {"quant_method": "mxfp4"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "billions", "active"),
    [  # as their model cards print them
        (LLAMA_8B, 8.03, 7.5),
        (LLAMA_70B, 70.55, 69.5),
        (QWEN3_30B_A3B, 30.5, 3.0),
        (MIXTRAL, 46.7, 12.75),
        (GEMMA3_1B, 1.0, 1.0),
        (GEMMA3_27B, 27.0, 27.0),
        (GPT_OSS_120B, 116.8, 5.1),
    ],
)
def test_parameters_counted_from_the_config_are_those_of_the_model_card(
    config: dict[str, object], billions: float, active: float
) -> None:
    found = shape(**config)
    assert found.parameters / 1e9 == pytest.approx(billions, rel=0.005)
    assert found.active / 1e9 == pytest.approx(active, rel=0.02)


def test_keys_and_values_of_llama_8b_are_128_kib_a_token() -> None:
    assert shape(**LLAMA_8B).kv_bytes(1) == 131_072
    assert shape(**LLAMA_70B).kv_bytes(1000) == 327_680_000
    eight_bits = shape_of(LLAMA_8B, options={"kv_cache_dtype": "fp8_e4m3"})
    assert eight_bits and eight_bits.kv_bytes(1) == 65_536


HYBRID: dict[str, tuple[dict[str, object], int]] = {  # layers that keep keys and values of all
    "layer_types": ({"layer_types": ["linear_attention"] * 24 + ["full_attention"] * 8}, 8),
    "mamba": ({"layers_block_type": ["mamba", "attention"] * 16}, 16),
    "interval": ({"full_attention_interval": 4}, 8),
    "period": ({"attn_layer_period": 8, "attn_layer_offset": 4}, 4),
    "pattern": ({"hybrid_override_pattern": "M-M*" * 8}, 8),
}


@pytest.mark.parametrize("way", HYBRID)
def test_layers_without_attention_keep_nothing(way: str) -> None:
    more, layers = HYBRID[way]
    found, full = shape(**LLAMA_8B, **more), shape(**LLAMA_8B)
    assert found.kv_bytes(10_000) == full.kv_bytes(10_000) * layers // 32
    assert found.prefill_flops(131_072) < full.prefill_flops(131_072)


def test_a_model_without_attention_has_an_estimate_and_a_period_of_no_layers_is_none() -> None:
    none = shape(**LLAMA_8B, layer_types=["linear_attention"] * 32)
    found = estimate(none, [(131_072, 30)], GPUS["h100"])
    assert found.kv_bytes_longest == 0 and found.fits and found.gpu_hours
    assert shape(**LLAMA_8B, attn_layer_period=0) == shape(**LLAMA_8B)


def test_a_layer_keeps_no_more_than_its_window() -> None:
    assert shape(**GEMMA3_27B).kv_bytes(131_072) / 1e9 == pytest.approx(11.2, abs=0.1)
    by_hand = 2 * 2 * 8 * 64 * 18 * (131_072 + 128)
    assert shape(**GPT_OSS_120B).kv_bytes(131_072) == by_hand


def test_weights_are_those_of_the_checkpoint_or_of_its_quantization() -> None:
    assert shape(**GPT_OSS_120B).weight_bytes / 1e9 == pytest.approx(65.2, abs=0.3)  # its files
    said = shape_of(GPT_OSS_120B, 65_248_815_744)
    assert said and said.weight_bytes == 65_248_815_744
    awq = {"quant_method": "awq", "bits": 4, "group_size": 128}
    packed = {"config_groups": {"group_0": {"weights": {"num_bits": 8}}}}
    sizes = {"none": 16.1, "awq": 5.9, "fp8": 9.1, "packed": 9.1}
    quantized = {
        "none": None, "awq": awq, "fp8": {"quant_method": "fp8"},
        "packed": {"quant_method": "compressed-tensors", **packed},
    }  # fmt: skip
    for name, billions in sizes.items():
        found = shape(**LLAMA_8B, quantization_config=quantized[name])
        assert found.weight_bytes / 1e9 == pytest.approx(billions, abs=0.2), name
    loaded = shape_of(LLAMA_8B, 16_060_522_496, {"quantization": "fp8"})
    assert loaded and loaded.weight_bytes / 1e9 == pytest.approx(9.1, abs=0.2)


def test_attention_overtakes_the_matrices_at_the_crossover() -> None:
    llama = shape(**LLAMA_8B)
    linear = 2.0 * llama.active
    crossover = next(
        n for n in range(1000, 200_000, 100) if llama.prefill_flops(n) > 2 * linear * n
    )
    assert crossover == pytest.approx(61_000, rel=0.08)


def test_a_sliding_window_bounds_attention() -> None:
    kinds = ["sliding_attention"] * 31 + ["full_attention"]
    mixed = shape(**LLAMA_8B, sliding_window=1024, layer_types=kinds)
    full = shape(**LLAMA_8B)
    assert mixed.prefill_flops(131_072) < 0.4 * full.prefill_flops(131_072)
    assert mixed.prefill_flops(512) == full.prefill_flops(512)


def work(cost: Estimate) -> Range:
    """Return the hours without loading."""
    assert cost.prefill_hours and cost.decoding_hours
    low, high = zip(cost.prefill_hours, cost.decoding_hours, strict=True)
    return sum(low), sum(high)


def test_an_estimate_grows_with_rows_and_samples_and_says_what_does_not_fit() -> None:
    rows = [(131_072, 30)] * 500
    one = estimate(shape(**LLAMA_8B), rows[:1], GPUS["h100"])
    many = estimate(shape(**LLAMA_8B), rows, GPUS["h100"])
    assert one.fits and many.gpu_hours and one.gpu_hours
    assert work(many) == pytest.approx([500 * each for each in work(one)])
    by_hand = 500 * (2 * 7.505e9 * 131_042 + 2 * 32 * 4096 * 131_042**2) / (989e12 * 0.3) / 3600
    assert work(many)[1] == pytest.approx(by_hand, rel=0.05)
    load = WORST.start + 16.06e9 / WORST.loading
    assert 3600 * (many.gpu_hours[1] - work(many)[1]) == pytest.approx(load, rel=0.01)
    four = estimate(shape(**LLAMA_8B), rows, GPUS["h100"], samples=4)
    assert four.answer_tokens == 4 * many.answer_tokens
    assert work(four)[1] == pytest.approx(4 * work(many)[1])
    assert work(many)[0] < work(four)[0] < 2 * work(many)[0]  # at best one prefill for all four
    assert estimate(shape(**LLAMA_70B), rows, GPUS["h100"]).fits is False
    assert estimate(shape(**LLAMA_70B), rows, GPUS["h100"], 4).fits


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


def test_what_is_no_shape_that_we_know_has_no_estimate() -> None:
    assert shape_of({}) is None
    assert shape_of({**LLAMA_8B, "kv_lora_rank": 512}) is None
