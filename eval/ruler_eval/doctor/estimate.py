"""Estimate the cost of a run on a named GPU: prefill, memory of keys and values, hours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ruler_eval.data import Size

#: Share of the peak that long prefills reach in practice; an assumption, not a measurement.
UTILIZATION = 0.4
#: Share of a GPU's memory that weights, keys and values may take.
USABLE = 0.9
#: Rows answered at once, at most.
BATCH = 128


@dataclass(frozen=True)
class Gpu:
    """One GPU.

    Attributes:
        flops: dense bf16 operations a second.
        bandwidth: bytes a second from its memory.
        memory: bytes.
    """

    flops: float
    bandwidth: float
    memory: float


def _gpu(teraflops: float, gigabytes_a_second: float, gigabytes: float) -> Gpu:
    return Gpu(teraflops * 1e12, gigabytes_a_second * 1e9, gigabytes * 1e9)


#: Dense bf16 throughput (data sheets often print twice that, with sparsity), memory bandwidth and
#: memory, from the data sheets of NVIDIA (A10, A100 80GB SXM, L4, L40S, H100 SXM, H200 SXM, B200 in
#: HGX, "Ada" architecture white paper for the RTX 4090) and AMD (MI300X).
GPUS = {
    "a10": _gpu(125, 600, 24),
    "l4": _gpu(121, 300, 24),
    "rtx4090": _gpu(165.2, 1008, 24),
    "l40s": _gpu(362, 864, 48),
    "a100": _gpu(312, 2039, 80),
    "h100": _gpu(989, 3350, 80),
    "h200": _gpu(989, 4800, 141),
    "b200": _gpu(2250, 8000, 180),
    "mi300x": _gpu(1307, 5300, 192),
}


#: Bytes of a number in bf16.
BF16 = 2


@dataclass(frozen=True)
class Shape:
    """A decoder with grouped-query attention and gated MLPs, dense or of experts.

    Attributes:
        parameters: all of them.
        active: those that a token passes through, without the input embedding, a lookup.
        windows: for each layer the tokens that it attends to; None for all.
        width: query heads times their size.
        kv_width: key-value heads times their size.
    """

    parameters: int
    active: int
    windows: tuple[int | None, ...]
    width: int
    kv_width: int

    @property
    def kv_bytes(self) -> int:
        """Bytes that a token's keys and values take in bf16: 2 · layers · kv_width · 2.

        Layers with a sliding window are counted in full, as engines reserve memory for them.
        """
        return 2 * len(self.windows) * self.kv_width * BF16

    def prefill_flops(self, tokens: int) -> float:
        """Return the operations of a forward pass over a prompt.

        2 for each active parameter and token, and causal attention: each token looks at half of
        the others on average, with 4 operations (scores and sum) for each and each unit of width
        (Kaplan et al. 2020, arXiv 2001.08361, Table 1).
        """
        linear = 2.0 * self.active * tokens
        seen = (min(tokens / 2, window or tokens) for window in self.windows)
        return linear + sum(4.0 * self.width * tokens * each for each in seen)


def shape_of(config: Mapping[str, Any]) -> Shape | None:
    """Return the shape that a config describes; None for architectures that are not supported.

    Args:
        config: the part that describes the language model.
    """
    try:
        hidden, layers, heads = (
            int(config[name])
            for name in ("hidden_size", "num_hidden_layers", "num_attention_heads")
        )
        vocabulary, inner = int(config["vocab_size"]), int(config["intermediate_size"])
    except (KeyError, TypeError, ValueError):
        return None
    if "kv_lora_rank" in config:  # multi-head latent attention is computed differently
        return None
    head = int(config.get("head_dim") or hidden // heads)
    width, kv_width = heads * head, int(config.get("num_key_value_heads") or heads) * head
    attention = 2 * hidden * width + 2 * hidden * kv_width
    experts, used, expert, shared = _experts(config, inner)
    embedding = vocabulary * hidden
    tied = bool(config.get("tie_word_embeddings"))
    each = 3 * hidden * expert
    body = layers * (attention + shared * hidden * 3)
    return Shape(
        parameters=body + layers * experts * each + embedding * (1 if tied else 2),
        active=body + layers * used * each + embedding,
        windows=_windows(config, layers),
        width=width,
        kv_width=kv_width,
    )


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
    window, kinds = config.get("sliding_window"), config.get("layer_types")
    if not isinstance(kinds, list):
        used = window if config.get("use_sliding_window", True) else None
        return (used,) * layers
    return tuple(None if kind == "full_attention" else window for kind in kinds)


@dataclass(frozen=True)
class Estimate:
    """What a run would cost.

    Attributes:
        prompt_tokens: of all rows.
        answer_tokens: of all rows, at most.
        parameters: of the model.
        weight_bytes: of the model in bf16.
        kv_bytes_a_token: of keys and values.
        kv_bytes_longest: of the longest row.
        prefill_flops: of all rows, no prefix shared.
        gpu_hours: of all GPUs together; None where no GPU is named.
        fits: whether weights and the longest row fit in memory; None likewise.
    """

    prompt_tokens: int
    answer_tokens: int
    parameters: int
    weight_bytes: int
    kv_bytes_a_token: int
    kv_bytes_longest: int
    prefill_flops: float
    gpu_hours: float | None
    fits: bool | None


def estimate(shape: Shape, rows: Sequence[Size], gpu: Gpu | None, gpus: int = 1) -> Estimate:
    """Return the cost of rows.

    Prefill is bound by arithmetic: operations / (peak · 0.4). Decoding is bound by memory: each
    token of an answer reads the weights, shared by the rows of a batch, and the row's own keys and
    values; a batch holds as many rows as fit beside the weights, 128 at most (Pope et al. 2022,
    arXiv 2211.05102, section 2).

    Args:
        shape: of the model.
        rows: their sizes in this run.
        gpu: for time and memory; None to leave them out.
        gpus: that share one copy of the model.
    """
    weights = shape.parameters * BF16
    longest = max(row.length for row in rows)
    flops = sum(shape.prefill_flops(row.length - row.max_new_tokens) for row in rows)
    hours = fits = None
    if gpu is not None:
        free = USABLE * gpu.memory * gpus - weights
        fits = free >= longest * shape.kv_bytes
        reads = (
            row.max_new_tokens * _bytes_per_token(shape, row.length, weights, free) for row in rows
        )
        seconds = flops / (gpu.flops * UTILIZATION) + sum(reads) / gpu.bandwidth
        hours = seconds / 3600  # of all GPUs together
    return Estimate(
        prompt_tokens=sum(row.length - row.max_new_tokens for row in rows),
        answer_tokens=sum(row.max_new_tokens for row in rows),
        parameters=shape.parameters,
        weight_bytes=weights,
        kv_bytes_a_token=shape.kv_bytes,
        kv_bytes_longest=longest * shape.kv_bytes,
        prefill_flops=flops,
        gpu_hours=hours,
        fits=fits,
    )


def _bytes_per_token(shape: Shape, tokens: int, weights: int, free: float) -> float:
    """Return the bytes read per token of an answer."""
    own = tokens * shape.kv_bytes
    batch = min(BATCH, max(1.0, free // own))
    return weights / batch + own
