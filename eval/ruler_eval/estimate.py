"""Estimate the cost of a run: sizes exactly, from the model's config; times on a GPU as a range.

`TYPES` names the architectures that are known; of any other there is no estimate. Parameters equal
those of the models of transformers 5 (tests/engines). Vision parts and layers for multi-token
prediction are left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, log2
from typing import Any, NamedTuple

#: Share of a GPU's memory that weights, keys and values may take, by default.
USABLE = 0.9
#: Rows answered at once, at most, and bytes of a number in bf16.
BATCH, BF16 = 128, 2


class Speed(NamedTuple):
    """How well hardware is used; assumptions, not measurements.

    With `WORST` and one row at a time the estimate covers a public report of 500 rows a task of
    Mistral 7B on eight A100 with tensor parallelism (github.com/NVIDIA/RULER/issues/7, and 79 on
    its setting): 4, 5, 10, 17, 40 and 120 minutes at 4,096 to 131,072 tokens.
    """

    prefill: float  # share of the peak that long prefills reach
    decoding: float  # share of the memory bandwidth that decoding reaches
    parallel: float  # efficiency left by each doubling of the GPUs that share a copy
    loading: float  # bytes of weights loaded per second
    start: float  # seconds that an engine takes to start besides (compilation, CUDA graphs)


BEST = Speed(prefill=0.6, decoding=0.8, parallel=0.95, loading=5e9, start=20)
WORST = Speed(prefill=0.3, decoding=0.4, parallel=0.8, loading=0.5e9, start=180)


class Gpu(NamedTuple):
    """One GPU: dense bf16 operations a second, bytes a second from its memory, and its bytes."""

    flops: float
    bandwidth: float
    memory: float


#: Dense bf16 throughput (data sheets often print twice that, with sparsity), memory bandwidth and
#: memory, from the data sheets of NVIDIA (A10, A100 80GB SXM, L4, L40S, H100 SXM, H200 SXM, B200 in
#: HGX, "Ada" architecture white paper for the RTX 4090) and AMD (MI300X).
GPUS = {
    name: Gpu(teraflops * 1e12, bandwidth * 1e9, memory * 1e9)
    for name, teraflops, bandwidth, memory in (
        ("a10", 125, 600, 24),
        ("l4", 121, 300, 24),
        ("rtx4090", 165.2, 1008, 24),
        ("l40s", 362, 864, 48),
        ("a100", 312, 2039, 80),
        ("h100", 989, 3350, 80),
        ("h200", 989, 4800, 141),
        ("b200", 2250, 8000, 180),
        ("mi300x", 1307, 5300, 192),
    )
}

_QWEN_MOE = {"decoder_sparse_step": 1, "mlp_only_layers": ()}
_MLA = {"first_k_dense_replace": 0}
#: Architectures, by `model_type` of the language model: what they do that their config does not
#: say, and what configs leave out.
TYPES: Mapping[str, Mapping[str, Any]] = {
    "llama": {},
    "mistral": {},
    "phi3": {},
    "mixtral": {},
    "qwen2": {"qkv_bias": True},
    "qwen3": {"qk_norm": True},
    "gemma2": {"norms": 4, "sliding_window_pattern": 2, "tie_word_embeddings": True},
    "gemma3_text": {
        "norms": 4, "sliding_window_pattern": 6, "tie_word_embeddings": True, "qk_norm": True,
        "vocab_size": 262_208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
        "sliding_window": 4096,
    },
    "gpt_oss": {
        "attention_bias": True, "sinks": True, "expert_bias": True, "sliding_window_pattern": 2,
    },
    "qwen2_moe": {**_QWEN_MOE, "qkv_bias": True, "shared_gate": True},
    "qwen3_moe": {**_QWEN_MOE, "qk_norm": True},
    "qwen3_next": {
        **_QWEN_MOE, "qk_norm": True, "gated_attention": True, "shared_gate": True,
        "full_attention_interval": 4,
    },
    "llama4_text": {"no_rope_layer_interval": 4, "interleave_moe_layer_step": 1},
    "jamba": {},
    "nemotron_h": {"norms": 1, "ungated": True},
    "deepseek_v2": _MLA,
    "deepseek_v3": _MLA,
    "kimi_k2": _MLA,
}  # fmt: skip


#: Mixer and feed-forward part of each kind of layer of Nemotron-H: letters of older configs, names.
_NEMOTRON_H = {
    name: kind
    for names, kind in (
        ("M mamba linear_attention", ("mamba2", "")),
        ("* attention full_attention", ("full", "")),
        ("- mlp", ("", "mlp")),
        ("E moe", ("", "moe")),
    )
    for name in names.split()
}


class Layer(NamedTuple):
    """One layer: its parameters, and what it keeps of a row."""

    parameters: int
    active: int  # those that a token passes through
    kv: int = 0  # numbers kept for a token
    width: float = 0  # a token that sees another costs 4 operations for each unit
    window: int | None = None  # tokens that it attends to; None for all
    state: int = 0  # numbers of a state that does not grow with the prompt

    def held(self, tokens: int, item: int) -> int:
        """Return the bytes kept of a row: no more than its window, and the state in bf16."""
        return self.kv * min(tokens, self.window or tokens) * item + BF16 * self.state

    def flops(self, tokens: int) -> float:
        """Return the operations of a forward pass over a prompt.

        2 for each active parameter and token; 4 (scores and sum) for each pair of tokens and unit
        of width, where each token sees those before it (Kaplan et al. 2020, arXiv 2001.08361,
        Table 1). Recurrences are left out; their projections are not.
        """
        seen = min(tokens, self.window or tokens)
        return 2.0 * self.active * tokens + 4.0 * self.width * seen * (tokens - seen / 2)


class Shape(NamedTuple):
    """A decoder."""

    layers: tuple[Layer, ...]
    embeddings: int  # parameters, of both if they are two
    head: int  # parameters that the last token of a prompt and each token of an answer passes
    weight_bytes: int  # of all weights, as they are stored
    kv_item: int = BF16  # bytes of one number in the KV cache

    @property
    def parameters(self) -> int:
        """All parameters."""
        return sum(layer.parameters for layer in self.layers) + self.embeddings

    @property
    def active(self) -> int:
        """Parameters that a token of an answer passes, without the input embedding, a lookup."""
        return sum(layer.active for layer in self.layers) + self.head

    def kv_bytes(self, tokens: int) -> int:
        """Return the bytes that are kept of a row: keys, values, and states of fixed size."""
        return sum(layer.held(tokens, self.kv_item) for layer in self.layers)

    def prefill_flops(self, tokens: int) -> float:
        """Return the operations of a forward pass over a prompt."""
        return sum(layer.flops(tokens) for layer in self.layers) + 2.0 * self.head


def shape_of(
    config: Mapping[str, Any], checkpoint_bytes: int | None, options: Mapping[str, Any]
) -> Shape | None:
    """Return the shape that a config describes; None for one that is not supported.

    Args:
        config: the part that describes the language model.
        checkpoint_bytes: of the weights, where the checkpoint says so; without them they are taken
            as bf16, and quantized ones are not supported.
        options: of the engine: `quantization` and `kv_cache_dtype` of vLLM count.
    """
    known = TYPES.get(str(config.get("model_type")))
    quantized = "quantization" in options
    if known is None or quantized or (config.get("quantization_config") and not checkpoint_bytes):
        return None
    c = {**known, **{name: value for name, value in config.items() if value is not None}}
    try:
        hidden, vocabulary = c["hidden_size"], c["vocab_size"]
        layers = tuple(_layer(c, *kind) for kind in _kinds(c))
    except (KeyError, TypeError, ValueError, ZeroDivisionError, AttributeError):
        return None
    head = vocabulary * hidden
    copies = 1 if c.get("tie_word_embeddings") else 2
    parameters = sum(layer.parameters for layer in layers) + copies * head + hidden
    kv_item = 1 if "8" in str(options.get("kv_cache_dtype")) else BF16
    weights = checkpoint_bytes or BF16 * parameters
    return Shape(layers, copies * head + hidden, head + hidden, weights, kv_item)


def _kinds(c: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the mixer and the feed-forward part of each layer; an empty text for none."""
    if c["model_type"] == "nemotron_h":  # each layer is one of the two
        kinds = c.get("hybrid_override_pattern") or c.get("layers_block_type") or c["layer_types"]
        return [_NEMOTRON_H[kind] for kind in kinds]
    count = c["num_hidden_layers"]
    return [(_mixer(c, layer), _feed_forward(c, layer)) for layer in range(count)]


def _mixer(c: Mapping[str, Any], layer: int) -> str:
    if kinds := c.get("layer_types"):
        return str(kinds[layer]).partition("_")[0]
    # One layer in so many, from this one on, has full attention.
    for name, first, other in (
        ("attn_layer_period", c.get("attn_layer_offset"), "mamba"),
        ("full_attention_interval", -1, "linear"),
        ("no_rope_layer_interval", -1, "chunked"),
        ("sliding_window_pattern", -1, "sliding"),
    ):
        if name in c:
            return "full" if layer % c[name] == first % c[name] else other
    return "sliding" if c.get("sliding_window") and c.get("use_sliding_window", True) else "full"


def _feed_forward(c: Mapping[str, Any], layer: int) -> str:
    if not _experts_of(c):
        return "mlp"
    if "expert_layer_period" in c:
        sparse = layer % c["expert_layer_period"] == c["expert_layer_offset"]
    elif "interleave_moe_layer_step" in c:
        sparse = (layer + 1) % c["interleave_moe_layer_step"] == 0
        sparse = layer in c["moe_layers"] if "moe_layers" in c else sparse
    elif "decoder_sparse_step" in c:
        sparse = (layer + 1) % c["decoder_sparse_step"] == 0 and layer not in c["mlp_only_layers"]
    else:
        sparse = layer >= c.get("first_k_dense_replace", 0)
    return "moe" if sparse else "mlp"


def _layer(c: Mapping[str, Any], mixer: str, feed_forward: str) -> Layer:
    hidden, inner = c["hidden_size"], c.get("intermediate_size_mlp") or c["intermediate_size"]
    kv, width, window, state, mixed, all_experts = 0, 0.0, None, 0, 0, 0
    if mixer in _RECURRENT:
        mixed, state = _RECURRENT[mixer](c)
    elif mixer:
        mixed, kv, width = _latent_attention(c) if "kv_lora_rank" in c else _attention(c)
        window = c.get(
            {"sliding": "sliding_window", "chunked": "attention_chunk_size"}.get(mixer, "")
        )
    if feed_forward == "moe":
        all_experts, fed = _moe(c)
    else:
        fed = _matrices(c) * hidden * inner if feed_forward else 0
        fed += (_matrices(c) - 1) * inner + hidden if feed_forward and c.get("mlp_bias") else 0
    shared = c.get("norms", 2) * hidden + mixed
    return Layer(shared + (all_experts or fed), shared + fed, kv, width, window, state)


def _attention(c: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return parameters, kept numbers and width of grouped-query attention."""
    hidden, heads = c["hidden_size"], c["num_attention_heads"]
    head = c.get("head_dim") or hidden // heads
    q, kv = heads * head, 2 * c.get("num_key_value_heads", heads) * head
    asked = 2 * q if c.get("gated_attention") else q
    own = hidden * (asked + kv) + q * hidden
    if c.get("attention_bias") or c.get("qkv_bias"):
        own += asked + kv
    own += hidden if c.get("attention_bias") else 0
    own += 2 * head if c.get("qk_norm") else 0
    return own + (heads if c.get("sinks") else 0), kv, q


def _latent_attention(c: Mapping[str, Any]) -> tuple[int, int, float]:
    """Return the same of multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, table 1)."""
    hidden, heads, rank = c["hidden_size"], c["num_attention_heads"], c["kv_lora_rank"]
    rope, value = c["qk_rope_head_dim"], c["v_head_dim"]
    query = c["qk_nope_head_dim"] + rope
    low = c.get("q_lora_rank")
    own = hidden * low + low + low * heads * query if low else hidden * heads * query
    own += hidden * (rank + rope) + rank + rank * heads * (query - rope + value)
    own += heads * value * hidden
    if c.get("attention_bias"):
        own += (low or 0) + rank + rope + hidden
    return own, rank + rope, heads * (query + value) / 2


def _delta_net(c: Mapping[str, Any]) -> tuple[int, int]:
    """Return parameters and state of a gated delta net (arXiv 2412.06464)."""
    heads, size = c["linear_num_value_heads"], c["linear_value_head_dim"]
    key, value = c["linear_num_key_heads"] * c["linear_key_head_dim"], heads * size
    kernel, mixed = c["linear_conv_kernel_dim"], 2 * key + value
    own = c["hidden_size"] * (mixed + value + 2 * heads + value) + mixed * kernel + 2 * heads + size
    return own, mixed * (kernel - 1) + value * c["linear_key_head_dim"]


def _mamba(c: Mapping[str, Any]) -> tuple[int, int]:
    """Return parameters and state of Mamba (arXiv 2312.00752) with Jamba's three norms."""
    hidden, size, kernel = c["hidden_size"], c["mamba_d_state"], c["mamba_d_conv"]
    inner = c["mamba_expand"] * hidden
    rank = c.get("mamba_dt_rank", "auto")
    rank = ceil(hidden / 16) if rank == "auto" else rank
    own = 3 * hidden * inner + inner * (kernel + rank + 2 * size) + rank * inner + inner
    own += inner * size + inner + rank + 2 * size
    own += inner if c.get("mamba_conv_bias", True) else 0
    own += 2 * inner + hidden if c.get("mamba_proj_bias") else 0
    return own, inner * (kernel - 1) + inner * size


def _mamba2(c: Mapping[str, Any]) -> tuple[int, int]:
    """Return parameters and state of Mamba-2 (arXiv 2405.21060)."""
    hidden, heads, size = c["hidden_size"], c["mamba_num_heads"], c["ssm_state_size"]
    kernel, inner = c["conv_kernel"], heads * c["mamba_head_dim"]
    mixed = inner + 2 * c["n_groups"] * size
    own = hidden * (inner + mixed + heads) + mixed * kernel + 3 * heads + inner + inner * hidden
    own += mixed if c.get("use_conv_bias", True) else 0
    own += inner + mixed + heads + hidden if c.get("use_bias") else 0
    return own, mixed * (kernel - 1) + inner * size


_RECURRENT = {"linear": _delta_net, "mamba": _mamba, "mamba2": _mamba2}


def _matrices(c: Mapping[str, Any]) -> int:
    return 2 if c.get("ungated") else 3


def _experts_of(c: Mapping[str, Any]) -> int:
    names = ("num_experts", "num_local_experts", "n_routed_experts")
    return next((int(c[name]) for name in names if c.get(name)), 0)


def _moe(c: Mapping[str, Any]) -> tuple[int, int]:
    """Return all parameters of a layer's experts with their router, and those of a token."""
    hidden, experts = c["hidden_size"], _experts_of(c)
    size = c.get("moe_intermediate_size") or c["intermediate_size"]
    outer = c.get("moe_latent_size") or hidden
    one = _matrices(c) * outer * size + (2 * size + hidden if c.get("expert_bias") else 0)
    if "n_shared_experts" in c:  # as wide as so many, unless it has a size of its own
        inner = c.get("moe_shared_expert_intermediate_size") or c["n_shared_experts"] * size
    else:
        inner = c.get("shared_expert_intermediate_size", 0)
    if c["model_type"] == "llama4_text":
        inner = size
    around = experts * hidden + (experts if c.get("expert_bias") else 0)
    around += _matrices(c) * hidden * inner + (hidden if c.get("shared_gate") else 0)
    around += 2 * hidden * outer if c.get("moe_latent_size") else 0
    return around + experts * one, around + c["num_experts_per_tok"] * one


#: The least and the most of something.
Range = tuple[float, float]


@dataclass(frozen=True)
class Estimate:
    """What a run would cost; times only where a GPU is named and the model fits."""

    prompt_tokens: int  # of all requests
    answer_tokens: int  # of all requests, at most
    parameters: int
    weight_bytes: int
    kv_bytes_longest: int
    prefill_flops: float  # of all requests, no prefix shared
    fits: bool | None = None  # whether weights and the longest row fit in memory
    prefill_hours: Range | None = None  # of all GPUs together, from `BEST` to `WORST`
    decoding_hours: Range | None = None
    loading_hours: Range | None = None  # once for one copy
    gpu_hours: Range | None = None  # the sum


def estimate(
    shape: Shape,
    rows: Sequence[tuple[int, int]],
    gpu: Gpu | None,
    gpus: int = 1,
    samples: int = 1,
    batch: int = BATCH,
    usable: float = USABLE,
) -> Estimate:
    """Return the cost of `rows`, the tokens of each with its answer, and of the answer alone.

    Prefill is bound by arithmetic. Decoding is bound by memory: each token of an answer reads the
    weights, shared by the rows of a batch, and the row's own keys and values; a batch holds as many
    rows as fit beside the weights (Pope et al. 2022, arXiv 2211.05102, section 2). At best the
    samples of a row share one prefill.

    Args:
        shape: of the model.
        rows: see above.
        gpu: for time and memory; None to leave them out.
        gpus: that share one copy of the model.
        samples: answers to each row.
        batch: rows answered at once, at most.
        usable: share of the memory for weights, keys and values.
    """
    longest = shape.kv_bytes(max(length for length, _ in rows))
    flops = sum(shape.prefill_flops(length - answer) for length, answer in rows)
    cost = Estimate(
        prompt_tokens=samples * sum(length - answer for length, answer in rows),
        answer_tokens=samples * sum(answer for _, answer in rows),
        parameters=shape.parameters,
        weight_bytes=shape.weight_bytes,
        kv_bytes_longest=longest,
        prefill_flops=samples * flops,
    )
    if gpu is None:
        return cost
    free = usable * gpu.memory * gpus - shape.weight_bytes
    if free < longest:
        return replace(cost, fits=False)
    read = 0.0
    for length, answer in rows:
        own = shape.kv_bytes(length)
        together = min(batch, free // own) if own else batch
        read += samples * answer * (shape.weight_bytes / together + own)

    def hours(speed: Speed, prefills: int) -> list[float]:
        kept = speed.parallel ** log2(gpus)
        seconds = (
            flops / gpu.flops / speed.prefill / kept * prefills,
            read / gpu.bandwidth / speed.decoding / kept,
            gpus * (speed.start + shape.weight_bytes / speed.loading),
        )
        return [each / 3600 for each in (*seconds, sum(seconds))]

    prefill, decoding, loading, total = zip(hours(BEST, 1), hours(WORST, samples), strict=True)
    return replace(
        cost,
        fits=True,
        prefill_hours=prefill,
        decoding_hours=decoding,
        loading_hours=loading,
        gpu_hours=total,
    )
