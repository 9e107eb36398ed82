"""Strict scores, statistics, comparisons and reports of runs; the commands are thin layers over it.

A run is given as its folder, as the path of its `results.json`, or as `Results`. Comparisons and
reports print as tables. Names are loaded when they are first used.
"""

from typing import TYPE_CHECKING

from ruler_data.lazy import lazy

if TYPE_CHECKING:
    from ruler_report.board import leaderboard
    from ruler_report.pages.report import Report
    from ruler_report.results import Results, read_results
    from ruler_report.stats.baseline import gate
    from ruler_report.stats.comparison import Comparison, compare
    from ruler_report.stats.contamination import contamination
    from ruler_report.write import report, score

__all__ = [
    "Comparison",
    "Report",
    "Results",
    "compare",
    "contamination",
    "gate",
    "leaderboard",
    "read_results",
    "report",
    "score",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "board": ("leaderboard",),
        "pages.report": ("Report",),
        "results": ("Results", "read_results"),
        "stats.baseline": ("gate",),
        "stats.comparison": ("Comparison", "compare"),
        "stats.contamination": ("contamination",),
        "write": ("report", "score"),
    },
)
