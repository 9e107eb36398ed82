"""Engines: requests in, predictions out. One small interface, one module per engine.

An engine's heavy library is imported only by its module, when it first generates.
"""

from importlib import import_module

from ruler_data.tokenizers import PromptTokenizer
from ruler_eval.running.config import EvalConfig
from ruler_eval.running.engines.interface import Engine, Request
from ruler_eval.running.models import Model


def prepare(
    config: EvalConfig, model: Model, tokenizer: PromptTokenizer | None, longest: int
) -> Engine:
    """Return the engine that the options name, ready to load; nothing heavy has happened yet."""
    module = import_module(f"ruler_eval.running.engines.{config.engine}")
    engine: Engine = module.prepare(config, model, tokenizer, longest)
    return engine


__all__ = ["Engine", "Request", "prepare"]
