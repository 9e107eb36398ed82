"""Strict scores, statistics, comparisons and reports of runs; the commands are thin layers over it.

A run is given as its folder, as the path of its `results.json`, or as `Results`. Comparisons and
reports print as tables. Names are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ruler_report.pages.report import Report
    from ruler_report.results import Results, read_results
    from ruler_report.stats.comparison import Comparison, compare
    from ruler_report.stats.contamination import contamination
    from ruler_report.write import report, score

__all__ = [
    "Comparison",
    "Report",
    "Results",
    "compare",
    "contamination",
    "read_results",
    "report",
    "score",
]

_HOMES = {
    "Comparison": "stats.comparison",
    "Report": "pages.report",
    "Results": "results",
    "compare": "stats.comparison",
    "contamination": "stats.contamination",
    "read_results": "results",
    "report": "write",
    "score": "write",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
