"""Tokenizers: one interface for all libraries, and a registry of known names."""

from ruler_data.tokenizers.protocol import Measure, PromptTokenizer
from ruler_data.tokenizers.registry import REGISTRY, load_tokenizer

__all__ = ["REGISTRY", "Measure", "PromptTokenizer", "load_tokenizer"]
