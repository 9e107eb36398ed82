"""The HTTP library of the Hub's client: `httpx2` since its version 2, `httpx` before."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2 as http
else:
    http = import_module("httpx" if version("huggingface_hub").startswith("1.") else "httpx2")

__all__ = ["http"]
