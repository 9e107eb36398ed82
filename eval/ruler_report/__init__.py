"""Statistics, comparisons and reports of runs, as functions that are also commands.

Comparisons and reports print as tables. Imports of what a function needs are in its body.
"""

from ruler_report.commands import (
    compare,
    gate,
    leaderboard,
    publish,
    read_results,
    report,
    results,
)

__all__ = [
    "compare",
    "gate",
    "leaderboard",
    "publish",
    "read_results",
    "report",
    "results",
]
