"""Build and verify RULER as frozen, tokenizer-specific datasets.

    import ruler_builders

    manifest = ruler_builders.build(tokenizer="llama3", lengths=[4096], out="dist/llama3")
    verdict = ruler_builders.verify("dist/llama3")

Each function is a command of `ruler-data`; `ruler_builders.commands` has all of them.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ruler_builders.commands import build, export, identify, verify

__all__ = ["build", "export", "identify", "verify"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of the functions
    """Load the commands when one is used: the program must catch Ctrl-C before."""
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from ruler_builders import commands

    return getattr(commands, name)


def __dir__() -> list[str]:
    return sorted(__all__)
