"""From frozen rows to answers and official scores.

    import ruler_eval

    run = ruler_eval.run("dist/llama3", generate=my_function, out="runs/mine", rows=50)
    run.to_records()                                    # one dict per row
    table = ruler_eval.score("runs/mine", "dist/llama3")  # pandas: a line for each row

Intervals, exact scores, comparisons and reports are in `ruler_report`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ruler_eval.commands import check, check_engine, repeat, run, status

if TYPE_CHECKING:
    from ruler_eval.running.engine import Request
    from ruler_eval.running.python import Generation
    from ruler_eval.running.status import Run
    from ruler_eval.scoring.loading import score

__all__ = [
    "Generation",
    "Request",
    "Run",
    "check",
    "check_engine",
    "repeat",
    "run",
    "score",
    "status",
]


#: Names whose modules need numpy and pydantic; these are loaded when they are first used.
_LATER = {
    "Generation": "running.python",
    "Request": "running.engine",
    "Run": "running.status",
    "score": "scoring.loading",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - one of these
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
