"""KV-cache compression with kvpress and Hugging Face `generate`, as a function for engine `python`.

    PYTHONPATH=docs/recipes ruler-eval run --data dist/llama3 --model MODEL_FOLDER \
        --engine python --option function=kvpress_generate:generate \
        --option model=MODEL_FOLDER --option press=SnapKVPress --option ratio=0.5 --out runs/snapkv

The press compresses the whole prompt, the question included. `--model` gives the run its tokenizer
and context window, `--option model` is what this function loads.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import kvpress
import torch
from transformers import AutoModelForCausalLM, GenerationConfig

import ruler_eval


@cache
def load(model: str) -> Any:  # noqa: ANN401 - a class of transformers
    """Return the model, loaded once."""
    loaded = AutoModelForCausalLM.from_pretrained(
        model, dtype=torch.bfloat16 if torch.cuda.is_available() else torch.float32
    )
    # The model's own settings may be penalties and suppressed tokens, which change scores.
    ends = loaded.generation_config.eos_token_id
    loaded.generation_config = GenerationConfig(eos_token_id=ends, do_sample=False)
    return loaded.to("cuda" if torch.cuda.is_available() else "cpu").eval()


def generate(
    requests: Sequence[ruler_eval.Request],
    model: str,
    press: str = "SnapKVPress",
    ratio: float = 0.5,
) -> Iterator[ruler_eval.Generation]:
    """Answer greedily, with the share `ratio` of the prompt's keys and values removed."""
    network = load(model)
    ends = network.generation_config.eos_token_id
    stops = {ends} if isinstance(ends, int) else set(ends or ())
    tokenizer = tokenizer_of(model)
    for request in requests:
        ids = torch.tensor(request.ids.astype("int64"), device=network.device)[None]
        with torch.inference_mode(), getattr(kvpress, press)(compression_ratio=ratio)(network):
            output = network.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=request.max_tokens,
                min_new_tokens=1,
                pad_token_id=next(iter(stops), 0),
            )
        answer = output[0, len(request.ids) :].tolist()
        stopped = answer[-1] in stops
        text = tokenizer.decode(answer[: len(answer) - stopped])
        finish = "stop" if stopped else "length"
        yield ruler_eval.Generation(
            text, finish_reason=finish, tokens=len(answer), prompt_tokens=len(request.ids)
        )


@cache
def tokenizer_of(model: str) -> Any:  # noqa: ANN401
    """Return the tokenizer, which decodes as the other engines do."""
    from ruler_data.tokenizers import load_tokenizer

    return load_tokenizer(model)
