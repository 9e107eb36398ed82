"""Build and verify RULER as frozen, tokenizer-specific datasets.

    import ruler_builders

    manifest = ruler_builders.build(tokenizer="llama3", lengths=[4096], out="dist/llama3")
    verdict = ruler_builders.verify("dist/llama3")

The functions are the commands of `ruler-data`.
"""

from typing import TYPE_CHECKING

from ruler_builders.commands import build, verify
from ruler_data.lazy import lazy

if TYPE_CHECKING:
    from ruler_builders.exchange.export import export
    from ruler_builders.exchange.identify import Identity, identify
    from ruler_builders.exchange.imports import Imported, import_rows
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
        "proof": ("Verdict",),
        "exchange.export": ("export",),
        "exchange.identify": ("Identity", "identify"),
        "exchange.imports": ("Imported", "import_rows"),
    },
)
