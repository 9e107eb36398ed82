"""Write the tiny Llama as GGUF in float32: `python -m tests.engines.gguf_file MODEL OUT.gguf`.

llama.cpp's rotary embedding pairs neighbouring numbers, so the rows of queries and keys are put in
another order.
"""

import json
import sys
from pathlib import Path

import gguf
from safetensors.numpy import load_file

#: Parts of the names of weights, there and here.
NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm", "model.embed_tokens": "token_embd",
    "model.norm": "output_norm", "lm_head": "output", "model.layers": "blk",
}  # fmt: skip


def main(model: Path, out: Path) -> None:
    """Write sizes, vocabulary and weights."""
    made, config = gguf.GGUFWriter(out, "llama"), json.loads((model / "config.json").read_text())
    heads = {"attn_q.": config["num_attention_heads"], "attn_k.": config["num_key_value_heads"]}
    made.add_context_length(config["max_position_embeddings"])
    made.add_embedding_length(config["hidden_size"])
    made.add_block_count(config["num_hidden_layers"])
    made.add_feed_forward_length(config["intermediate_size"])
    made.add_head_count(heads["attn_q."])
    made.add_head_count_kv(heads["attn_k."])
    made.add_rope_dimension_count(config["head_dim"])
    made.add_rope_freq_base(10_000.0)
    made.add_layer_norm_rms_eps(config["rms_norm_eps"])
    made.add_file_type(gguf.LlamaFileType.ALL_F32)
    body = json.loads((model / "tokenizer.json").read_text())
    special = {one["content"]: one["id"] for one in body["added_tokens"]}
    ids: dict[str, int] = body["model"]["vocab"] | special
    tokens = sorted(ids, key=ids.__getitem__)
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    made.add_tokenizer_model("gpt2")
    made.add_tokenizer_pre("gpt-2")
    made.add_token_list(tokens)
    made.add_token_types([control if token in special else normal for token in tokens])
    made.add_token_merges([" ".join(pair) for pair in body["model"]["merges"]])
    made.add_bos_token_id(ids["<s>"])
    made.add_eos_token_id(ids["</s>"])
    for long, weights in load_file(model / "model.safetensors").items():
        name = long
        for there, here in NAMES.items():
            name = name.replace(there, here)
        for part, count in heads.items():
            if part in name:
                halves = weights.reshape(count, 2, -1, weights.shape[1])
                weights = halves.swapaxes(1, 2).reshape(weights.shape)
        made.add_tensor(name, weights)
    made.write_header_to_file()
    made.write_kv_data_to_file()
    made.write_tensors_to_file()
    made.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
