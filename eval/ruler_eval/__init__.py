"""From frozen rows to predictions and scores.

    import ruler_eval

    run = ruler_eval.run("dist/llama3", generate=my_function, out="runs/mine", rows=50)
    run.to_records()                                    # one dict per row
    print(ruler_eval.score("runs/mine", "dist/llama3"))

A name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ruler_eval.api import Run, run
    from ruler_eval.engines.interface import Request
    from ruler_eval.engines.python import Generation
    from ruler_eval.scoring import Scores, score

__all__ = ["Generation", "Request", "Run", "Scores", "run", "score"]

#: The module of each name.
_HOMES = {
    "Generation": "engines.python",
    "Request": "engines.interface",
    "Run": "api",
    "Scores": "scoring",
    "run": "api",
    "score": "scoring",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
