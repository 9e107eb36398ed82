"""Conclusions from scores: comparisons, reports and publications, as functions that are commands.

Imports of what a function needs are in its body.
"""

from ruler_report.commands import compare, publish, report
from ruler_report.scored import score

__all__ = ["compare", "publish", "report", "score"]
