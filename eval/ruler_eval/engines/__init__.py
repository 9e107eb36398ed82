"""Engines: what turns prompts into answers. One small interface, one module for each.

A heavy library is imported by the one module that knows it, when it is first asked for an answer.
"""

from importlib import import_module

from ruler_eval.engines.interface import Engine, EngineConfig, Request

#: Where each engine is made: a function `prepare(setup)` of this module.
ENGINES = {
    "vllm": "ruler_eval.engines.vllm",
    "transformers": "ruler_eval.engines.transformers",
    "openai": "ruler_eval.engines.openai",
    "ray": "ruler_eval.engines.ray",
    "oracle": "ruler_eval.engines.oracle",
}


def prepare(name: str, setup: EngineConfig) -> Engine:
    """Return an engine that is ready to load; nothing heavy has happened yet.

    Raises:
        UsageError: its library is not installed, or does not know an option.
    """
    engine: Engine = import_module(ENGINES[name]).prepare(setup)
    return engine


__all__ = ["ENGINES", "Engine", "EngineConfig", "Request", "prepare"]
