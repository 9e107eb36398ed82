"""What the doctor reckons, against what model cards print and what a hand reckons."""

import pytest

from ruler_eval.data import Size
from ruler_eval.doctor.estimate import GPUS, Shape, estimate, shape_of


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


@pytest.mark.parametrize(
    ("config", "billions", "active"),
    [  # as their model cards print them
        (LLAMA_8B, 8.03, 7.5),
        (LLAMA_70B, 70.55, 69.5),
        (QWEN3_30B_A3B, 30.5, 3.0),
        (MIXTRAL, 46.7, 12.75),
        (GEMMA3_1B, 1.0, 1.0),
    ],
)
def test_parameters_counted_from_the_config_are_those_of_the_model_card(
    config: dict[str, object], billions: float, active: float
) -> None:
    found = shape(**config)
    assert found.parameters / 1e9 == pytest.approx(billions, rel=0.005)
    assert found.active / 1e9 == pytest.approx(active, rel=0.02)


def test_keys_and_values_of_llama_8b_are_128_kib_a_token() -> None:
    assert shape(**LLAMA_8B).kv_bytes == 131_072
    assert shape(**LLAMA_70B).kv_bytes == 327_680


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


def test_an_estimate_grows_with_rows_and_says_what_does_not_fit() -> None:
    rows = [Size(131_072, 30)] * 500
    one = estimate(shape(**LLAMA_8B), rows[:1], GPUS["h100"])
    many = estimate(shape(**LLAMA_8B), rows, GPUS["h100"])
    assert one.gpu_hours and many.gpu_hours and one.fits
    assert many.gpu_hours == pytest.approx(500 * one.gpu_hours)
    by_hand = 500 * (2 * 7.505e9 * 131_042 + 2 * 32 * 4096 * 131_042**2) / (989e12 * 0.4) / 3600
    assert many.gpu_hours == pytest.approx(by_hand, rel=0.05)
    assert estimate(shape(**LLAMA_70B), rows, GPUS["h100"]).fits is False
    assert estimate(shape(**LLAMA_70B), rows, GPUS["h100"], 4).fits


def test_what_is_no_shape_that_we_know_has_no_estimate() -> None:
    assert shape_of({}) is None
    assert shape_of({**LLAMA_8B, "kv_lora_rank": 512}) is None
