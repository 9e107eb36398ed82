"""Build and verify RULER as frozen, tokenizer-specific datasets.

    import ruler_builders

    manifest = ruler_builders.build(tokenizer="llama3", lengths=[4096], out="dist/llama3")
    report = ruler_builders.verify("dist/llama3")

Names are loaded when they are first used, so importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ruler_builders.api import build
    from ruler_builders.audit.verify import AuditReport, verify

__all__ = ["AuditReport", "build", "verify"]

_MODULES = {"AuditReport": "audit.verify", "build": "api", "verify": "audit.verify"}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    if name not in _MODULES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
