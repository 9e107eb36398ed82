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
    """How well hardware is used: assumptions, but for the prefill of `BEST`.

    That share one H200 reached (benchmarks/results/gpu.md). With `WORST`, one row at a time, the
    range covers a public report of Mistral 7B on eight A100, 500 rows a task, 4,096 to 131,072
    tokens: 4 to 120 minutes (NVIDIA/RULER issue 7).
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
    "a10": Gpu(125e12, 600e9, 24e9),
    "l4": Gpu(121e12, 300e9, 24e9),
    "rtx4090": Gpu(165.2e12, 1008e9, 24e9),
    "l40s": Gpu(362e12, 864e9, 48e9),
    "a100": Gpu(312e12, 2039e9, 80e9),
    "h100": Gpu(989e12, 3350e9, 80e9),
    "h200": Gpu(989e12, 4800e9, 141e9),
    "b200": Gpu(2250e12, 8000e9, 180e9),
    "mi300x": Gpu(1307e12, 5300e9, 192e9),
}

_QWEN = {"use_sliding_window": False}
_QWEN_MOE = {**_QWEN, "decoder_sparse_step": 1, "mlp_only_layers": ()}
_MLA = {"first_k_dense_replace": 0}
#: Architectures, by `model_type` of the language model: what they do that their config does not
#: say, and what configs leave out.
TYPES: Mapping[str, Mapping[str, Any]] = {
    "llama": {},
    "mistral": {},
    "phi3": {},
    "mixtral": {},
    "qwen2": {**_QWEN, "qkv_bias": True},
    "qwen3": {**_QWEN, "qk_norm": True},
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
    "nemotron_h": {"norms": 1, "matrices": 2},
    "deepseek_v2": _MLA,
    "deepseek_v3": _MLA,
    "kimi_k2": _MLA,
}  # fmt: skip


class Layer(NamedTuple):
    """One layer, or a part of it: its parameters, and what it keeps of a row."""

    parameters: int
    active: int  # those that a token passes through
    kv: int = 0  # numbers kept for a token
    width: float = 0  # a token that sees another costs 4 operations for each unit
    state: int = 0  # numbers of a state that does not grow with the prompt
    window: int | None = None  # tokens that it attends to; None for all
    heads: int = 1  # that `kv` is of; a GPU holds at least one of them


@dataclass(frozen=True)
class Shape:
    """A decoder."""

    layers: tuple[Layer, ...]
    parameters: int
    head: int  # parameters that the last token of a prompt and each token of an answer passes
    weight_bytes: int  # of all weights, as they are stored
    kv_item: int  # bytes of one number in the KV cache

    @property
    def active(self) -> int:
        """Parameters that a token of an answer passes, without the input embedding, a lookup."""
        return sum(layer.active for layer in self.layers) + self.head

    def kv_bytes(self, tokens: int, gpus: int = 1) -> int:
        """Return the bytes kept of a row: of keys and values no more than windows, and states.

        Of more `gpus` than there are heads several keep the same one.
        """
        return sum(
            layer.kv * gpus // min(gpus, layer.heads) * min(tokens, layer.window or tokens)
            * self.kv_item + BF16 * layer.state
            for layer in self.layers
        )  # fmt: skip

    def prefill_flops(self, tokens: int) -> float:
        """Return the operations of a forward pass over a prompt.

        2 for each active parameter and token; 4 (scores and sum) for each pair of tokens and unit
        of width, where each token sees those before it (Kaplan et al. 2020, arXiv 2001.08361,
        Table 1). Recurrences are left out; their projections are not.
        """
        flops = 2.0 * self.head
        for layer in self.layers:
            span = min(tokens, layer.window or tokens)
            flops += 2.0 * layer.active * tokens + 4.0 * layer.width * span * (tokens - span / 2)
        return flops


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
    unknown_size = "quantization_config" in config and not checkpoint_bytes
    if known is None or "quantization" in options or unknown_size:
        return None
    c = {**known, **{name: value for name, value in config.items() if value is not None}}
    try:
        head, hidden = c["vocab_size"] * c["hidden_size"], c["hidden_size"]
        layers = tuple(_layer(c, *kind) for kind in _kinds(c))
    except (LookupError, TypeError, ValueError, ZeroDivisionError, AttributeError):
        return None
    copies = 1 if c.get("tie_word_embeddings") else 2
    parameters = sum(layer.parameters for layer in layers) + copies * head + hidden
    kv_item = 1 if "8" in str(options.get("kv_cache_dtype")) else BF16
    return Shape(layers, parameters, head + hidden, checkpoint_bytes or BF16 * parameters, kv_item)


#: Mixer and feed-forward part of the layers of Nemotron-H: letters of older configs, and names.
_NEMOTRON_H = {
    **dict.fromkeys(("M", "mamba", "linear_attention"), ("mamba2", "")),
    **dict.fromkeys(("*", "attention", "full_attention"), ("full", "")),
    **dict.fromkeys(("-", "mlp"), ("", "mlp")),
    **dict.fromkeys(("E", "moe"), ("", "moe")),
}


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
    for period, first, other in (
        ("attn_layer_period", c.get("attn_layer_offset"), "mamba"),
        ("full_attention_interval", -1, "linear"),
        ("no_rope_layer_interval", -1, "chunked"),
        ("sliding_window_pattern", -1, "sliding"),
    ):
        if period in c:
            return "full" if layer % c[period] == first % c[period] else other
    slides = c.get("sliding_window") and c.get("use_sliding_window", True)
    return "sliding" if slides and layer >= c.get("max_window_layers", 0) else "full"


def _feed_forward(c: Mapping[str, Any], layer: int) -> str:
    dense = not _experts(c) or layer in c.get("mlp_only_layers", ())
    if dense or layer not in c.get("moe_layers", (layer,)):
        return "mlp"
    for period, first in (
        ("expert_layer_period", c.get("expert_layer_offset")),
        ("interleave_moe_layer_step", -1),
        ("decoder_sparse_step", -1),
    ):
        if period in c and "moe_layers" not in c:
            return "moe" if layer % c[period] == first % c[period] else "mlp"
    return "moe" if layer >= c.get("first_k_dense_replace", 0) else "mlp"


def _layer(c: Mapping[str, Any], mixer: str, feed_forward: str) -> Layer:
    windows = {"sliding": c.get("sliding_window"), "chunked": c.get("attention_chunk_size")}
    norms = c.get("norms", 2) * c["hidden_size"]
    mixed = _MIXERS[mixer](c) if mixer else Layer(0, 0)
    fed = Layer(0, 0)
    if feed_forward:
        size = c.get("intermediate_size_mlp") or c["intermediate_size"]
        one = _mlp(c, c["hidden_size"], size, c.get("mlp_bias"))
        fed = _moe(c) if feed_forward == "moe" else Layer(one, one)
    all_, active = mixed.parameters + fed.parameters, mixed.active + fed.active
    return mixed._replace(parameters=all_ + norms, active=active + norms, window=windows.get(mixer))


def _linear(inputs: int, outputs: int, bias: object = False) -> int:
    """Return the parameters of a linear map."""
    return (inputs + bool(bias)) * outputs


def _mlp(c: Mapping[str, Any], outer: int, inner: int, bias: object = False) -> int:
    """Return the parameters of an MLP, which has a gate where it has three matrices."""
    entering = int(c.get("matrices", 3)) - 1
    return entering * _linear(outer, inner, bias) + _linear(inner, outer, bias)


def _experts(c: Mapping[str, Any]) -> int:
    names = ("num_experts", "num_local_experts", "n_routed_experts")
    return next((int(c[name]) for name in names if c.get(name)), 0)


def _moe(c: Mapping[str, Any]) -> Layer:
    """Return a router with its experts, those that each token passes included."""
    hidden, experts, bias = c["hidden_size"], _experts(c), c.get("expert_bias")
    size = c.get("moe_intermediate_size") or c["intermediate_size"]
    shared = c.get("shared_expert_intermediate_size", 0)
    if "n_shared_experts" in c:  # as wide as so many, unless it has a size of its own
        shared = c.get("moe_shared_expert_intermediate_size") or c["n_shared_experts"] * size
    if c["model_type"] == "llama4_text":
        shared = size
    around = _linear(hidden, experts, bias) + _mlp(c, hidden, shared)
    around += hidden if c.get("shared_gate") else 0
    if latent := c.get("moe_latent_size"):
        around += 2 * hidden * latent
    one = _mlp(c, latent or hidden, size, bias)
    return Layer(around + experts * one, around + c["num_experts_per_tok"] * one)


def _attention(c: Mapping[str, Any]) -> Layer:
    """Return grouped-query attention, or multi-head latent attention."""
    if "kv_lora_rank" in c:
        return _latent_attention(c)
    hidden, heads, bias = c["hidden_size"], c["num_attention_heads"], c.get("attention_bias")
    head = c.get("head_dim") or hidden // heads
    kv_heads = c.get("num_key_value_heads", heads)
    q, kv = heads * head, 2 * kv_heads * head
    own = _linear(
        hidden, (2 * q if c.get("gated_attention") else q) + kv, bias or c.get("qkv_bias")
    )
    own += _linear(q, hidden, bias)
    own += (2 * head if c.get("qk_norm") else 0) + (heads if c.get("sinks") else 0)
    return Layer(own, own, kv, q, heads=kv_heads)


def _latent_attention(c: Mapping[str, Any]) -> Layer:
    """Return multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, table 1)."""
    hidden, heads, rank = c["hidden_size"], c["num_attention_heads"], c["kv_lora_rank"]
    rope, value, low = c["qk_rope_head_dim"], c["v_head_dim"], c.get("q_lora_rank")
    query, bias = c["qk_nope_head_dim"] + rope, c.get("attention_bias")
    own = _linear(hidden, low, bias) + low + low * heads * query if low else hidden * heads * query
    own += _linear(hidden, rank + rope, bias) + rank + rank * heads * (query - rope + value)
    own += _linear(heads * value, hidden, bias)
    return Layer(own, own, rank + rope, heads * (query + value) / 2)


def _delta_net(c: Mapping[str, Any]) -> Layer:
    """Return a gated delta net (arXiv 2412.06464)."""
    heads, size = c["linear_num_value_heads"], c["linear_value_head_dim"]
    key, value = c["linear_num_key_heads"] * c["linear_key_head_dim"], heads * size
    kernel, mixed = c["linear_conv_kernel_dim"], 2 * key + value
    own = c["hidden_size"] * (mixed + 2 * value + 2 * heads) + mixed * kernel + 2 * heads + size
    return Layer(own, own, state=mixed * (kernel - 1) + value * c["linear_key_head_dim"])


def _mamba(c: Mapping[str, Any]) -> Layer:
    """Return Mamba (arXiv 2312.00752) with Jamba's three norms."""
    hidden, size, kernel = c["hidden_size"], c["mamba_d_state"], c["mamba_d_conv"]
    inner, rank = c["mamba_expand"] * hidden, c.get("mamba_dt_rank", "auto")
    rank, bias = ceil(hidden / 16) if rank == "auto" else rank, c.get("mamba_proj_bias")
    own = _linear(hidden, 2 * inner, bias) + _linear(inner, hidden, bias)
    own += _linear(kernel, inner, c.get("mamba_conv_bias", True)) + inner * (rank + 2 * size)
    own += _linear(rank, inner, bias=True) + inner * size + inner + rank + 2 * size
    return Layer(own, own, state=inner * (kernel - 1) + inner * size)


def _mamba2(c: Mapping[str, Any]) -> Layer:
    """Return Mamba-2 (arXiv 2405.21060)."""
    hidden, heads, size = c["hidden_size"], c["mamba_num_heads"], c["ssm_state_size"]
    kernel, inner, bias = c["conv_kernel"], heads * c["mamba_head_dim"], c.get("use_bias")
    mixed = inner + 2 * c["n_groups"] * size
    own = _linear(hidden, inner + mixed + heads, bias) + _linear(inner, hidden, bias)
    own += _linear(kernel, mixed, c.get("use_conv_bias", True)) + 3 * heads + inner
    return Layer(own, own, state=mixed * (kernel - 1) + inner * size)


_MIXERS = {
    **dict.fromkeys(("full", "sliding", "chunked"), _attention),
    **{"linear": _delta_net, "mamba": _mamba, "mamba2": _mamba2},
}


#: The least and the most of something.
Range = tuple[float, float]


@dataclass(frozen=True)
class Estimate:
    """What a run would cost; times only where a GPU is named and the model fits."""

    prompt_tokens: int  # of all requests
    answer_tokens: int  # of all requests, at most
    parameters: int
    weight_bytes: int
    kv_bytes_longest: int  # on all GPUs of a copy together
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

    A copy of the model is on `gpus` of `gpu`; without one there is neither time nor memory. It
    answers `samples` of each row, at most `batch` rows at once, and weights, keys and values may
    take a share of `usable` of the memory.
    """
    flops = sum(shape.prefill_flops(length - answer) for length, answer in rows)
    cost = Estimate(
        prompt_tokens=samples * sum(length - answer for length, answer in rows),
        answer_tokens=samples * sum(answer for _, answer in rows),
        parameters=shape.parameters,
        weight_bytes=shape.weight_bytes,
        kv_bytes_longest=shape.kv_bytes(max(length for length, _ in rows), gpus),
        prefill_flops=samples * flops,
    )
    if gpu is None:
        return cost
    free = usable * gpu.memory * gpus - shape.weight_bytes
    if free < cost.kv_bytes_longest:
        return replace(cost, fits=False)
    read = 0.0
    for length, answer in rows:
        own = shape.kv_bytes(length, gpus)
        together = min(batch, free // own) if own else batch
        read += samples * answer * (shape.weight_bytes / together + own)

    def hours(speed: Speed, prefills: int) -> list[float]:
        efficiency = speed.parallel ** log2(gpus)
        seconds = (
            flops / gpu.flops / speed.prefill / efficiency * prefills,
            read / gpu.bandwidth / speed.decoding / efficiency,
            gpus * (speed.start + shape.weight_bytes / speed.loading),
        )
        return [each / 3600 for each in (*seconds, sum(seconds))]

    ranges = zip(hours(BEST, 1), hours(WORST, samples), strict=True)
    names = ("prefill_hours", "decoding_hours", "loading_hours", "gpu_hours")
    hours_by_name: Any = dict(zip(names, ranges, strict=True))
    return replace(cost, fits=True, **hours_by_name)
