"""What a run will read, write and hold: tokens by length, bytes of weights, keys and values.

Bytes of weights are those of the files; keys and values are counted for plain attention, full and
sliding, from the model's config, and of other layers not at all. Time is measured, not predicted:
a run prints rows a second from its first rows on.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ruler_data.names import short_length
from ruler_eval.models import is_recurrent
from ruler_eval.spending import Prices

#: Bytes of a number in the cache, in bf16.
BF16 = 2


@dataclass(frozen=True)
class Cost:
    """What a run costs at most: a model may end its answers before their budgets."""

    tokens: dict[int, tuple[int, int]]  # by length: prompt tokens, answer tokens
    prices: Prices | None = None
    weight_bytes: int | None = None  # of the model's files; None where they are not here
    cache_bytes: int | None = None  # of the longest row; None for other than plain attention

    @property
    def totals(self) -> tuple[int, int]:
        """Prompt and answer tokens of all lengths."""
        return sum(read for read, _ in self.tokens.values()), sum(
            written for _, written in self.tokens.values()
        )

    @property
    def money(self) -> float | None:
        """What all tokens cost; None without prices."""
        return None if self.prices is None else self.prices.of(*self.totals)

    def to_record(self) -> dict[str, Any]:
        """Return it as JSON values."""
        prompt, answer = self.totals
        by_length = {
            str(length): {"prompt_tokens": read, "answer_tokens": written}
            for length, (read, written) in self.tokens.items()
        }
        return {
            "prompt_tokens": prompt,
            "answer_tokens": answer,
            "money": self.money,
            "weight_bytes": self.weight_bytes,
            "cache_bytes": self.cache_bytes,
            "lengths": by_length,
        }

    @property
    def lines(self) -> list[str]:
        """All of it, a line for each length, the sum, and the bytes."""
        rows = [(short_length(length), tokens) for length, tokens in sorted(self.tokens.items())]
        rows += [("all lengths", self.totals)] if len(rows) > 1 else []
        lines = [
            f"{name}: reads {read:,} tokens, writes at most {written:,} tokens"
            + (f", costs at most {self.prices.of(read, written):,.2f}" if self.prices else "")
            for name, (read, written) in rows
        ]
        if self.weight_bytes is not None:
            lines.append(f"weights: {self.weight_bytes / 1e9:.2f} GB")
        if self.cache_bytes is not None:
            lines.append(
                f"keys and values of the longest row: {self.cache_bytes / 1e9:.3f} GB (bf16)"
            )
        return lines


def tokens_by_length(
    rows: Iterable[tuple[int, int, int]], extra: int, samples: int
) -> dict[int, tuple[int, int]]:
    """Return the tokens that rows read and write, by the length of their config.

    Args:
        rows: the length of each row's config, its own length, and its budget, in tokens.
        extra: tokens that each answer may take beyond that.
        samples: answers to each row.

    >>> tokens_by_length([(4096, 4000, 30), (4096, 4090, 30)], extra=0, samples=1)
    {4096: (8030, 60)}
    """
    tokens: dict[int, tuple[int, int]] = {}
    for config, length, budget in rows:
        read, written = tokens.get(config, (0, 0))
        tokens[config] = read + samples * (length - budget), written + samples * (budget + extra)
    return tokens


def cache_bytes(config: Mapping[str, Any], tokens: int) -> int | None:
    """Return the bytes of a row's keys and values in bf16; None for other than plain attention.

    Args:
        config: the part of a model's config that describes the language model.
        tokens: of the prompt with its answer.

    >>> cache_bytes({"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4}, 100)
    51200
    """
    layers, heads = config.get("num_hidden_layers"), config.get("num_attention_heads")
    if not (isinstance(layers, int) and isinstance(heads, int) and heads > 0):
        return None
    if is_recurrent(config) or "kv_lora_rank" in config:
        return None
    size = config.get("head_dim") or int(config.get("hidden_size") or 0) // heads
    width = 2 * BF16 * int(size) * int(config.get("num_key_value_heads") or heads)
    window = config.get("sliding_window")
    kinds = config.get("layer_types") or ["full_attention"] * layers
    if set(kinds) - {"full_attention", "sliding_attention"}:
        return None
    if config.get("layer_types") is None and window and config.get("use_sliding_window", True):
        return None  # which of the layers slide, the config does not say
    spans = {"full_attention": tokens, "sliding_attention": min(tokens, int(window or tokens))}
    return sum(width * spans[kind] for kind in kinds)
