"""Build and verify RULER as frozen, tokenizer-specific datasets.

    import ruler_builders

    manifest = ruler_builders.build(tokenizer="llama3", lengths=[4096], out="dist/llama3")
    verdict = ruler_builders.verify("dist/llama3")

Each function is a command of `ruler-data`; `ruler_builders.commands` has all of them.
"""

from typing import TYPE_CHECKING

from ruler_builders.commands import build, export, identify, import_rows, verify
from ruler_data.lazy import lazy

if TYPE_CHECKING:
    from ruler_builders.exchange.identify import Identity
    from ruler_builders.exchange.imports import Imported
    from ruler_builders.proof import Verdict

__all__ = [
    "Identity",
    "Imported",
    "Verdict",
    "build",
    "export",
    "identify",
    "import_rows",
    "verify",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "exchange.identify": ("Identity",),
        "exchange.imports": ("Imported",),
        "proof": ("Verdict",),
    },
)
