"""Score answers, then report and compare runs: statistics, figures and pages.

>>> import ruler_report
>>> sorted(ruler_report.__all__)
['Comparison', 'Report', 'Results', 'compare', 'contamination', 'read_results', 'report']
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ruler_report.api import (
        Comparison,
        Report,
        Results,
        compare,
        contamination,
        read_results,
        report,
    )

__all__ = [
    "Comparison", "Report", "Results", "compare", "contamination", "read_results", "report",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Load the API when it is first used, so that importing this package stays fast."""
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module("ruler_report.api"), name)
