"""What the estimate counts from a config, against the models that transformers makes of it."""

import pytest
import torch
import transformers

from ruler_eval.estimate import TYPES, shape_of

SMALL: dict[str, object] = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 6, "num_attention_heads": 8,
    "num_key_value_heads": 2, "vocab_size": 300,
}  # fmt: skip
MOE = {"moe_intermediate_size": 48, "num_experts_per_tok": 2}
MLA = {
    "kv_lora_rank": 24, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 12,
    "n_routed_experts": 8, "n_shared_experts": 2, "first_k_dense_replace": 2, **MOE,
}  # fmt: skip
QWEN_MOE = {"num_experts": 8, "decoder_sparse_step": 2, "mlp_only_layers": [1], **MOE}
#: Configs of each architecture that are unlike their defaults where it matters.
CONFIGS: dict[str, list[dict[str, object]]] = {
    "llama": [SMALL, {**SMALL, "attention_bias": True, "mlp_bias": True, "head_dim": 24}],
    "mistral": [{**SMALL, "head_dim": 24, "sliding_window": 128}],
    "phi3": [{**SMALL, "tie_word_embeddings": True, "pad_token_id": 0}],
    "mixtral": [{**SMALL, "num_local_experts": 4, "num_experts_per_tok": 2}],
    "qwen2": [{**SMALL, "tie_word_embeddings": True}],
    "qwen3": [{**SMALL, "head_dim": 24}],
    "gemma2": [{**SMALL, "head_dim": 24}],
    "gemma3_text": [{**SMALL, "head_dim": 24}, {}],
    "gpt_oss": [{**SMALL, "head_dim": 24, "num_local_experts": 4, "num_experts_per_tok": 2}, {}],
    "qwen2_moe": [{**SMALL, **QWEN_MOE, "shared_expert_intermediate_size": 40}],
    "qwen3_moe": [{**SMALL, **QWEN_MOE, "head_dim": 24}],
    "qwen3_next": [
        {
            **SMALL, **QWEN_MOE, "head_dim": 24, "linear_num_value_heads": 4,
            "linear_num_key_heads": 2, "linear_key_head_dim": 16, "linear_value_head_dim": 12,
            "shared_expert_intermediate_size": 40,
        },
        {},
    ],
    "llama4_text": [
        {**SMALL, "head_dim": 24, "interleave_moe_layer_step": 2, "intermediate_size_mlp": 80}, {},
    ],
    "jamba": [{**SMALL, "num_hidden_layers": 8, "num_experts": 4, "mamba_d_state": 8}, {}],
    "nemotron_h": [
        {
            **SMALL, "hybrid_override_pattern": "M-M*EM", "mamba_num_heads": 6, "head_dim": 24,
            "mamba_head_dim": 8, "ssm_state_size": 16, "n_groups": 2, "moe_latent_size": latent,
            "n_routed_experts": 4, **MOE, "moe_shared_expert_intermediate_size": 56,
        }
        for latent in (None, 32)
    ],
    "deepseek_v2": [{**SMALL, **MLA, "q_lora_rank": None}],
    "deepseek_v3": [{**SMALL, **MLA, "q_lora_rank": 20, "attention_bias": True, "n_group": 1}, {}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "given"), [(kind, given) for kind, all_ in CONFIGS.items() for given in all_]
)
def test_the_parameters_of_every_known_architecture_are_those_of_its_model(
    kind: str, given: dict[str, object]
) -> None:
    config = transformers.AutoConfig.for_model(kind, **given)
    with torch.device("meta"):
        made = transformers.AutoModelForCausalLM.from_config(config)
    expected = sum(part.numel() for part in made.parameters())
    for written in (config.to_dict(), config.to_diff_dict()):
        found = shape_of(written, None, {})
        assert found is not None and found.parameters == expected


def test_every_known_architecture_is_tried() -> None:
    assert set(TYPES) - {"kimi_k2"} == set(CONFIGS)  # Kimi K2 is a DeepSeek-V3 by another name
