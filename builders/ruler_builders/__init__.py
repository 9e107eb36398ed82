"""Build and verify RULER as frozen, tokenizer-specific datasets.

    import ruler_builders

    manifest = ruler_builders.build(tokenizer="llama3", lengths=[4096], out="dist/llama3")
    verdict = ruler_builders.verify("dist/llama3")

Each function is a command of `ruler-data`; `ruler_builders.commands` has all of them.
"""

from ruler_builders.commands import build, export, identify, import_rows, verify

__all__ = ["build", "export", "identify", "import_rows", "verify"]
