"""Estimate the cost of a run on a named GPU: memory, prefill, decoding, loading, as a range."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log2
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

#: What configs of some model types leave out, as the defaults of transformers 5 have it.
DEFAULTS: Mapping[str, Mapping[str, int]] = {
    "gemma2": {"sliding_window_pattern": 2, "tie_word_embeddings": True},
    "cohere2": {"sliding_window_pattern": 4, "tie_word_embeddings": True},
    "gemma3_text": {
        "vocab_size": 262_208,
        "tie_word_embeddings": True,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "sliding_window_pattern": 6,
    },
}


class Shape(NamedTuple):
    """A decoder with grouped-query attention and gated MLPs, dense or of experts."""

    parameters: int
    active: int  # those that a token passes through, without the input embedding, a lookup
    #: For each layer the tokens that it attends to; None for all, 0 for layers without attention,
    #: whose state does not grow with the prompt.
    windows: tuple[int | None, ...]
    width: int  # query heads times their size
    kv_width: int  # key-value heads times their size
    weight_bytes: int  # of all weights, as they are stored
    kv_item: int = BF16  # bytes of one number in the KV cache

    def kv_bytes(self, tokens: int) -> int:
        """Return the bytes of a row's keys and values; a layer keeps no more than its window."""
        held = sum(tokens if window is None else min(tokens, window) for window in self.windows)
        return 2 * self.kv_width * self.kv_item * held

    def prefill_flops(self, tokens: int) -> float:
        """Return the operations of a forward pass over a prompt.

        2 for each active parameter and token, and causal attention: each token looks at half of
        the others on average, with 4 operations (scores and sum) for each and each unit of width
        (Kaplan et al. 2020, arXiv 2001.08361, Table 1).
        """
        seen = (tokens / 2 if each is None else min(tokens / 2, each) for each in self.windows)
        return 2.0 * self.active * tokens + sum(4.0 * self.width * tokens * each for each in seen)


def shape_of(
    config: Mapping[str, Any],
    checkpoint_bytes: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> Shape | None:
    """Return the shape that a config describes; None for architectures that are not supported.

    Args:
        config: the part that describes the language model.
        checkpoint_bytes: of the weights, where the checkpoint says so.
        options: of the engine: `quantization` and `kv_cache_dtype` of vLLM count.
    """
    config = {**DEFAULTS.get(str(config.get("model_type")), {}), **config}
    options = options or {}
    names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
    try:
        hidden, layers, heads, vocabulary = (int(config[name]) for name in names)
        inner = int(config["intermediate_size"])
    except (KeyError, TypeError, ValueError):
        return None
    if "kv_lora_rank" in config:  # multi-head latent attention is computed differently
        return None
    head = int(config.get("head_dim") or hidden // heads)
    width, kv_width = heads * head, int(config.get("num_key_value_heads") or heads) * head
    attention = 2 * hidden * width + 2 * hidden * kv_width
    experts, used, expert, shared = _experts(config, inner)
    embeddings = vocabulary * hidden * (1 if config.get("tie_word_embeddings") else 2)
    each = 3 * hidden * expert
    body = layers * (attention + shared * hidden * 3)
    quantization = config.get("quantization_config")
    if "quantization" in options:
        quantization = {"quant_method": options["quantization"]}
        checkpoint_bytes = None  # the engine quantizes while it loads
    bits = _bits(quantization) if isinstance(quantization, Mapping) else 16
    dense = 16 if experts > 1 and bits < 8 else bits  # such checkpoints quantize the experts only
    computed = (layers * experts * each * bits + body * dense + embeddings * 16) / 8
    return Shape(
        parameters=body + layers * experts * each + embeddings,
        active=body + layers * used * each + vocabulary * hidden,
        windows=_windows(config, layers),
        width=width,
        kv_width=kv_width,
        weight_bytes=checkpoint_bytes or int(computed),
        kv_item=1 if "8" in str(options.get("kv_cache_dtype")) else BF16,
    )


def _bits(quantization: Mapping[str, Any]) -> float:
    """Return the bits of a quantized weight; 32 of them, of nvfp4 16, share a scale of 8 bits."""
    method = str(quantization.get("quant_algo") or quantization.get("quant_method")).lower()
    if method == "nvfp4":
        return 4.5
    try:  # of compressed-tensors
        weights = next(iter(quantization["config_groups"].values()))["weights"]
        bits = weights["num_bits"]
    except (KeyError, TypeError, AttributeError, StopIteration):
        bits = quantization.get("bits") or quantization.get("w_bit")
    if not isinstance(bits, int):
        bits = 4 if quantization.get("load_in_4bit") or "4" in method else 8
    return bits + 0.25 if bits < 8 else bits


def _experts(config: Mapping[str, Any], inner: int) -> tuple[int, int, int, int]:
    """Return experts of a layer, how many a token uses, their size, and that of a shared one."""
    names = ("num_experts", "num_local_experts", "n_routed_experts")
    experts = next((int(config[name]) for name in names if config.get(name)), None)
    if experts is None:
        return 1, 1, inner, 0
    used = int(config.get("num_experts_per_tok") or 1)
    shared = int(config.get("shared_expert_intermediate_size") or 0)
    return experts, used, int(config.get("moe_intermediate_size") or inner), shared


def _windows(config: Mapping[str, Any], layers: int) -> tuple[int | None, ...]:
    """Return the window of each layer, from whichever way the config has to name the layers."""
    window = config.get("sliding_window") if config.get("use_sliding_window", True) else None
    names = ("layer_types", "layers_block_type", "hybrid_override_pattern")
    kinds = next((config[name] for name in names if config.get(name)), None)
    if isinstance(kinds, list | str):  # names of layers, or a letter for each
        # The first of these words in the name of a layer says what it is.
        words = {"sliding": window, "chunked": window, "linear": 0, "attention": None, "*": None}
        found = ([words[word] for word in words if word in str(kind)] for kind in kinds)
        return tuple(each[0] if each else 0 for each in found)
    # One layer in so many, from this one on, has full attention, and the others have this window.
    periods = (
        ("attn_layer_period", int(config.get("attn_layer_offset") or 0), 0),
        ("full_attention_interval", -1, 0),
        ("sliding_window_pattern", -1, window),
    )
    for name, first, others in periods:
        if isinstance(every := config.get(name), int) and every > 0:
            full = first % every
            return tuple(None if layer % every == full else others for layer in range(layers))
    return (window,) * layers


#: The least and the most of something.
Range = tuple[float, float]


@dataclass(frozen=True)
class Estimate:
    """What a run would cost; times are None where no GPU is named."""

    prompt_tokens: int  # of all requests
    answer_tokens: int  # of all requests, at most
    parameters: int
    weight_bytes: int
    kv_bytes_longest: int
    prefill_flops: float  # of all requests, no prefix shared
    prefill_hours: Range | None = None  # of all GPUs together, from `BEST` to `WORST`
    decoding_hours: Range | None = None
    loading_hours: Range | None = None  # once for one copy
    gpu_hours: Range | None = None  # the sum
    fits: bool | None = None  # whether weights and the longest row fit in memory


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
    read = 0.0
    for length, answer in rows:
        own = shape.kv_bytes(length)
        together = min(batch, max(1.0, free // own)) if own else batch
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
        prefill_hours=prefill,
        decoding_hours=decoding,
        loading_hours=loading,
        gpu_hours=total,
        fits=free >= longest,
    )
