"""Hugging Face transformers, row by row: slow, and the reference for every other engine."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from ruler_eval.running.answers import Answer
from ruler_eval.running.config import EvalConfig
from ruler_eval.running.engine import (
    Engine,
    Request,
    Setup,
    installed_versions,
    read_options,
)
from ruler_eval.running.models import Model
from ruler_eval.running.run_dir import FREE


@dataclass(frozen=True)
class TransformersOptions:
    """Options of the engine, by the library's names."""

    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"
    device: str | None = None  # by default the first GPU, or the CPU where there is none
    attn_implementation: str | None = None
    hf_overrides: Mapping[str, Any] = field(default_factory=dict)
    trust_remote_code: bool = False


def prepare(setup: Setup) -> Engine:
    """Return the engine, not loaded."""
    versions = installed_versions("transformers", "transformers", "torch")
    settings = setup.config.settings
    options = read_options("transformers", TransformersOptions, settings)
    deciding = {name: setting for name, setting in settings.items() if name not in FREE}
    return Engine(
        partial(_generate, options, setup),
        info={**versions, "dtype": options.dtype, "options": deciding},
        sampling=setup.config.sampling,
        window=setup.model.window,
    )


def _generate(
    options: TransformersOptions, setup: Setup, requests: Iterator[Request | None]
) -> Iterator[Answer]:
    """Answer one row at a time, in order: no padding that could change an answer."""
    import torch

    config = setup.config
    network, stops = _load(options, config, setup.model)
    device = network.device
    hardware = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    tokenizer = setup.tokenizer or setup.model.tokenizer()
    for request in filter(None, requests):
        start = time.monotonic()
        ids = torch.tensor(request.ids.astype("int64"), device=device)[None]
        if config.temperature:
            torch.manual_seed(request.seed)
        try:
            with torch.inference_mode():
                output = network.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    max_new_tokens=request.max_tokens,
                    min_new_tokens=config.sampling["min_tokens"],
                )
        except torch.OutOfMemoryError as error:
            torch.cuda.empty_cache()
            yield request.failed(f"out of memory: {str(error).splitlines()[0]}")
            continue
        generated = output[0, len(request.ids) :].tolist()
        number = len(generated)
        finish = "length"
        if generated[-1] in stops:
            finish = "stop"
            generated.pop()
        text = tokenizer.decode(generated, special=True)
        seconds = time.monotonic() - start
        yield request.answered(text, finish, number, seconds, hardware=hardware)


def _load(options: TransformersOptions, config: EvalConfig, model: Model) -> tuple[Any, set[int]]:
    """Return the network and the tokens that end an answer."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig, logging

    logging.disable_progress_bar()
    trust = options.trust_remote_code
    origin = {"revision": model.hub_revision or "main", "trust_remote_code": trust}
    network = AutoModelForCausalLM.from_pretrained(
        model.source,
        config=AutoConfig.from_pretrained(model.source, **options.hf_overrides, **origin),
        dtype=getattr(torch, options.dtype),
        attn_implementation=options.attn_implementation,
        use_safetensors=True,  # nothing is unpickled
        **origin,
    )
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    network.to(device).eval()
    stops = network.generation_config.eos_token_id or []
    if isinstance(stops, int):
        stops = [stops]
    sampling: dict[str, Any] = {}
    if config.temperature:
        sampling |= {"top_k": 0, "temperature": config.temperature}
    if config.top_p is not None:
        sampling["top_p"] = config.top_p
    # A fresh config: the model's own may set sampling and penalties.
    network.generation_config = GenerationConfig(
        eos_token_id=stops or None,
        pad_token_id=next(iter(stops), 0),
        do_sample=bool(config.temperature),
        **sampling,
    )
    return network, set(stops)
