"""Tokenizers: one interface for all libraries, and a registry of known names."""

from ruler_data.tokenizers.protocol import Measure, PromptTokenizer, Tokenizer
from ruler_data.tokenizers.registry import REGISTRY, load_tokenizer

__all__ = ["REGISTRY", "Measure", "PromptTokenizer", "Tokenizer", "load_tokenizer"]
