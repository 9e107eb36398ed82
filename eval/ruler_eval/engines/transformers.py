"""Hugging Face transformers, row by row: slow, and what everything else is compared with."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ruler_eval.engines.interface import GREEDY, EngineConfig, Request, installed, published, take
from ruler_eval.schema import Prediction


@dataclass(frozen=True)
class TransformersOptions:
    """What the engine can be told.

    Attributes:
        dtype: of weights and activations.
        device: where to compute; the first GPU, or the CPU where there is none.
        attn_implementation: `sdpa`, `flash_attention_2`, `eager`; the library's choice where None.
        hf_overrides: values of the model's config to replace, e.g. RoPE's for YaRN.
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

    setup: EngineConfig
    options: TransformersOptions
    versions: dict[str, str]
    renders: bool = False

    @property
    def info(self) -> dict[str, Any]:
        """Versions, dtype and options, for the record."""
        return {
            **self.versions,
            "dtype": self.options.dtype,
            "options": published(self.setup.options),
        }

    @property
    def sampling(self) -> dict[str, Any]:
        """Greedy decoding."""
        return dict(GREEDY)

    @property
    def window(self) -> int | None:
        """Tokens that the model's positions reach."""
        return self.setup.model.window

    def answer(self, asks: Iterator[Request | None]) -> Iterator[Prediction]:
        """Yield an answer for each row, in order."""
        import torch

        model, stops = self._load()
        tokenizer = self.setup.tokenizer or self.setup.model.tokenizer()
        thinking = self.setup.asking.protocol.name == "thinking"
        for ask in filter(None, asks):
            begun = time.monotonic()
            ids = torch.tensor([ask.ids], device=model.device)
            try:
                with torch.inference_mode():
                    whole = model.generate(
                        ids,
                        attention_mask=torch.ones_like(ids),
                        max_new_tokens=ask.max_tokens,
                        min_new_tokens=GREEDY["min_tokens"],
                    )
            except torch.OutOfMemoryError as error:
                torch.cuda.empty_cache()
                yield ask.unscored(f"out of memory: {str(error).splitlines()[0]}")
                continue
            said = whole[0, len(ask.ids) :].tolist()
            stopped = said[-1] in stops
            text = tokenizer.decode(said[:-1] if stopped else said, special=thinking)
            seconds = time.monotonic() - begun
            yield ask.answered(text, "stop" if stopped else "length", len(said), seconds)

    def _load(self) -> tuple[Any, frozenset[int]]:
        """Return the model and the tokens that end an answer."""
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig, logging

        logging.disable_progress_bar()
        source, options = self.setup.model.source, self.options
        place = {
            "revision": self.setup.model.hub_revision or "main",
            "trust_remote_code": options.trust_remote_code,
        }
        config = AutoConfig.from_pretrained(source, **options.hf_overrides, **place)
        model = AutoModelForCausalLM.from_pretrained(
            source,
            config=config,
            dtype=getattr(torch, options.dtype),
            attn_implementation=options.attn_implementation,
            use_safetensors=True,  # nothing is unpickled
            **place,
        )
        device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
        model.to(device).eval()
        ends = model.generation_config.eos_token_id
        stops = [ends] if isinstance(ends, int) else list(ends or [])
        # A fresh config: models bring sampling and penalties along that are not greedy.
        model.generation_config = GenerationConfig(
            do_sample=False, eos_token_id=stops or None, pad_token_id=stops[0] if stops else 0
        )
        return model, frozenset(stops)


def prepare(setup: EngineConfig) -> TransformersEngine:
    """Return the engine, not loaded.

    Raises:
        UsageError: transformers is not installed, or an option is not known.
    """
    versions = installed("transformers", "transformers", "torch")
    return TransformersEngine(
        setup, take("transformers", TransformersOptions, setup.options), versions
    )
