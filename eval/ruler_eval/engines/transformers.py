"""Hugging Face transformers, row by row: slow, and the reference for every other engine."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ruler_data.tokenizers import PromptTokenizer
from ruler_eval.engines.interface import (
    GREEDY,
    Request,
    installed_versions,
    published_options,
    read_options,
)
from ruler_eval.eval_config import EvalConfig
from ruler_eval.models import Model
from ruler_eval.schema import Prediction


@dataclass(frozen=True)
class TransformersOptions:
    """Options of the engine.

    Attributes:
        dtype: of weights and activations.
        device: where to compute; by default the first GPU, or the CPU where there is none.
        attn_implementation: `sdpa`, `flash_attention_2`, `eager`; the library's default where None.
        hf_overrides: values that replace those of the model's config, e.g. of RoPE for YaRN.
        trust_remote_code: whether to run code that comes with the model.
    """

    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"
    device: str | None = None
    attn_implementation: str | None = None
    hf_overrides: Mapping[str, Any] = field(default_factory=dict)
    trust_remote_code: bool = False


@dataclass(frozen=True)
class TransformersEngine:
    """One model, one row at a time: no padding that could change an answer."""

    config: EvalConfig
    options: TransformersOptions
    model: Model
    tokenizer: PromptTokenizer | None
    versions: dict[str, str]
    renders_prompts: bool = False

    @property
    def info(self) -> dict[str, Any]:
        """Versions, dtype and options."""
        return {
            **self.versions,
            "dtype": self.options.dtype,
            "options": published_options(self.config.options),
        }

    @property
    def sampling(self) -> dict[str, Any]:
        """Greedy decoding."""
        return dict(GREEDY)

    @property
    def window(self) -> int | None:
        """Tokens that the model's positions reach."""
        return self.model.window

    def generate(self, requests: Iterator[Request | None]) -> Iterator[Prediction]:
        """Yield a prediction for each row, in order."""
        import torch

        model, stops = self._load()
        tokenizer = self.tokenizer or self.model.tokenizer()
        thinking = self.config.protocol == "thinking"
        for request in filter(None, requests):
            started = time.monotonic()
            ids = torch.tensor([request.ids], device=model.device)
            try:
                with torch.inference_mode():
                    output = model.generate(
                        ids,
                        attention_mask=torch.ones_like(ids),
                        max_new_tokens=request.max_tokens,
                        min_new_tokens=GREEDY["min_tokens"],
                    )
            except torch.OutOfMemoryError as error:
                torch.cuda.empty_cache()
                yield request.unscored(f"out of memory: {str(error).splitlines()[0]}")
                continue
            generated = output[0, len(request.ids) :].tolist()
            stopped = generated[-1] in stops
            text = tokenizer.decode(generated[:-1] if stopped else generated, special=thinking)
            seconds = time.monotonic() - started
            finish = "stop" if stopped else "length"
            yield request.answered(text, finish, len(generated), seconds)

    def _load(self) -> tuple[Any, frozenset[int]]:
        """Return the model and the tokens that end an answer."""
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig, logging

        logging.disable_progress_bar()
        source, options = self.model.source, self.options
        origin = {
            "revision": self.model.hub_revision or "main",
            "trust_remote_code": options.trust_remote_code,
        }
        config = AutoConfig.from_pretrained(source, **options.hf_overrides, **origin)
        model = AutoModelForCausalLM.from_pretrained(
            source,
            config=config,
            dtype=getattr(torch, options.dtype),
            attn_implementation=options.attn_implementation,
            use_safetensors=True,  # nothing is unpickled
            **origin,
        )
        device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
        model.to(device).eval()
        ends = model.generation_config.eos_token_id
        stops = [ends] if isinstance(ends, int) else list(ends or [])
        # A fresh config: the model's own may set sampling and penalties.
        model.generation_config = GenerationConfig(
            do_sample=False, eos_token_id=stops or None, pad_token_id=stops[0] if stops else 0
        )
        return model, frozenset(stops)


def prepare(
    config: EvalConfig, model: Model, tokenizer: PromptTokenizer | None, _longest: int
) -> TransformersEngine:
    """Return the engine, not loaded.

    Raises:
        UsageError: transformers is not installed, or an option is not known.
    """
    versions = installed_versions("transformers", "transformers", "torch")
    options = read_options("transformers", TransformersOptions, config.options)
    return TransformersEngine(config, options, model, tokenizer, versions)
