"""From frozen rows to predictions and scores.

    import ruler_eval

    run = ruler_eval.run("dist/llama3", generate=my_function, out="runs/mine", rows=50)
    run.to_records()                                    # one dict per row
    print(ruler_eval.score("runs/mine", "dist/llama3"))

A name is loaded when it is first used; `__init__.pyi` has their types. Scores are those of
`ruler_report`, which also reads what other tools predicted.
"""

from ruler_data.lazy import lazy

__all__ = ["Generation", "Request", "Run", "Scores", "run", "score", "status"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "engines.interface": ("Request",),
        "engines.python": ("Generation",),
        "run_status": ("Run", "status"),
        "runner": ("run",),
    },
    {"ruler_report.results_file": ("Scores",), "ruler_report.scoring": ("score",)},
)
