"""From frozen rows to predictions and scores.

    import ruler_eval

    run = ruler_eval.run("dist/llama3", generate=my_function, out="runs/mine", rows=50)
    run.to_records()                                    # one dict per row
    print(ruler_eval.score("runs/mine", "dist/llama3"))

A name is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from ruler_data.lazy import lazy

if TYPE_CHECKING:
    from ruler_eval.api import Run, run
    from ruler_eval.engines.interface import Request
    from ruler_eval.engines.python import Generation
    from ruler_eval.run_status import Status, status
    from ruler_eval.scoring import Scores, score

__all__ = ["Generation", "Request", "Run", "Scores", "Status", "run", "score", "status"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "api": ("Run", "run"),
        "engines.interface": ("Request",),
        "engines.python": ("Generation",),
        "scoring": ("Scores", "score"),
        "run_status": ("Status", "status"),
    },
)
