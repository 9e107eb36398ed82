"""Hugging Face models where decoding is slow: prompts one by one, their answers together.

    PYTHONPATH=docs/recipes ruler-eval run --data dist/llama3 --model MODEL_FOLDER \
        --engine python --option function=batched_generate:generate --option batch=8 \
        --option model=MODEL_FOLDER --option dtype=float32 --out runs/batched

A step of decoding reads all weights, for one answer or for eight. A prompt is read without padding,
and from where it differs from the one before if that is past its middle: attention behind a prefix
needs a mask. Four prompts of 1,000 tokens on a CPU took 0.59 of the time with 600 tokens shared,
0.78 with 256, but 1.04 with 64 and 1.09 with 16; a GPU was not measured. While answers are decoded,
the keys and values of shorter prompts are padded on the left, where a mask hides them.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from inspect import signature
from typing import Any

import torch
from torch.nn.functional import pad
from transformers import AttentionInterface, AttentionMaskInterface, AutoModelForCausalLM
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

import ruler_eval
from ruler_data.tokenizers import load_tokenizer


@cache
def load(model: str, dtype: str) -> tuple[Any, Any]:
    """Return the model and its tokenizer, loaded once."""
    AttentionInterface.register("grouped", grouped)
    AttentionMaskInterface.register("grouped", sdpa_mask)
    network = AutoModelForCausalLM.from_pretrained(
        model, dtype=getattr(torch, dtype), attn_implementation="grouped"
    )
    return network.to("cuda" if torch.cuda.is_available() else "cpu").eval(), load_tokenizer(model)


def generate(
    requests: Sequence[ruler_eval.Request], model: str, dtype: str = "bfloat16"
) -> Iterator[ruler_eval.Generation]:
    """Answer greedily."""
    network, tokenizer = load(model, dtype)
    ends = network.generation_config.eos_token_id
    stops = [ends] if isinstance(ends, int) else list(ends or ())
    with torch.inference_mode():
        answers = decode(network, requests, stops)
    for request, answer in zip(requests, answers, strict=True):
        stopped = answer[-1] in stops
        text = tokenizer.decode(answer[: len(answer) - stopped])
        finish = "stop" if stopped else "length"
        yield ruler_eval.Generation(
            text, finish_reason=finish, tokens=len(answer), prompt_tokens=len(request.ids)
        )


def decode(
    network: Any,  # noqa: ANN401 - a class of transformers
    requests: Sequence[ruler_eval.Request],
    stops: Sequence[int],
) -> list[list[int]]:
    """Return the tokens of each answer, with the one that ends it."""
    # Since version 5.24 of transformers, which warns of the older name.
    is_new = "cache" in signature(network.forward).parameters
    held = "cache" if is_new else "past_key_values"
    prompts = [request.ids.tolist() for request in requests]
    limits = [request.max_tokens for request in requests]
    answers: list[list[int]] = []
    caches: list[DynamicCache] = []
    for place, ids in enumerate(prompts):
        shared = common(prompts[place - 1], ids[:-1]) if place else 0
        shared *= 2 * shared >= len(ids)
        cached = DynamicCache([cut(layer, shared) for layer in caches[-1]] if shared else None)
        new = torch.tensor([ids[shared:]], device=network.device)
        logits = network(new, **{held: cached}, logits_to_keep=1).logits[:, -1]
        logits[:, stops] = -torch.inf  # an answer has at least one token, as in other engines
        answers.append(logits.argmax(-1).tolist())
        caches.append(cached)
    lengths = torch.tensor([len(ids) for ids in prompts], device=network.device)
    longest = int(lengths.max())
    seen = torch.arange(longest, device=network.device) >= longest - lengths[:, None]
    layers = [Padded(prompt, longest, max(limits)) for prompt in zip(*caches, strict=True)]
    caches.clear()
    going = list(range(len(prompts)))
    while True:
        goes = [
            answers[place][-1] not in stops and len(answers[place]) < limits[place]
            for place in going
        ]
        if not any(goes):
            return answers
        if not all(goes):
            kept = torch.tensor(goes, device=network.device).nonzero()[:, 0]
            for layer in layers:
                layer.buffers = [buffer[kept] for buffer in layer.buffers]
            seen, going = seen[kept], [going[place] for place in kept.tolist()]
        seen = torch.cat([seen, seen.new_ones(len(going), 1)], dim=1)
        logits = network(
            torch.tensor([[answers[place][-1]] for place in going], device=network.device),
            attention_mask=seen,
            position_ids=seen.sum(1, keepdim=True) - 1,
            **{held: Cache(layers=layers)},
        ).logits[:, -1]
        for place, token in zip(going, logits.argmax(-1).tolist(), strict=True):
            answers[place].append(token)


def common(first: Sequence[int], second: Sequence[int]) -> int:
    """Return with how many equal tokens two prompts begin."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(first), len(second)))


def cut(layer: Sequence[Any], tokens: int) -> tuple[Any, Any]:
    """Return keys and values of the first tokens."""
    return layer[0][..., :tokens, :], layer[1][..., :tokens, :]


class Padded(DynamicLayer):
    """Keys and values of several prompts, with padding on their left and room on their right."""

    def __init__(self, prompts: Sequence[Any], longest: int, room: int) -> None:
        super().__init__()
        self.tokens, self.is_initialized = longest, True
        self.buffers = [
            torch.cat([pad(one, (0, 0, longest - one.shape[-2], room)) for one in ones])
            for ones in list(zip(*prompts, strict=True))[:2]
        ]

    def update(self, *new: Any, **_others: Any) -> tuple[torch.Tensor, torch.Tensor]:  # noqa: ANN401
        """Add a token to each, and return all keys and values."""
        for buffer, one in zip(self.buffers, new, strict=False):
            buffer[..., self.tokens, :] = one[..., 0, :]
        self.tokens += 1
        keys, values = (buffer[..., : self.tokens, :] for buffer in self.buffers)
        return keys, values

    def get_seq_length(self) -> int:
        """Return the number of tokens so far, with the padding."""
        return self.tokens


def grouped(
    module: Any,  # noqa: ANN401
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    **others: Any,  # noqa: ANN401
) -> tuple[torch.Tensor, None]:
    """Attend from one token each, without a copy of the keys for every head that shares them."""
    rows, heads, tokens, size = query.shape
    if tokens > 1 or attention_mask is None:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **others
        )
    scores = query.view(rows, key.shape[1], -1, size) @ key.transpose(2, 3) * scaling
    weights = scores.masked_fill(~attention_mask, -torch.inf).softmax(-1)
    return (weights @ value).view(rows, 1, heads, size), None
