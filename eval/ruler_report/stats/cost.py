"""What runs cost beside what they score: calls, tokens and seconds of a row, by the journals."""

from collections.abc import Mapping
from statistics import fmean

from ruler_report.format import format_number
from ruler_report.results_file import Cost, Results
from ruler_report.table import Table


def cost_of(results: Results) -> Cost:
    """Return the cost of all answers of a run; zeros if its journals do not tell."""
    costs = [one.cost for one in results.configs.values() if one.cost]
    return Cost(*(sum(getattr(one, field) for one in costs) for field in Cost.__annotations__))


def cost_table(runs: Mapping[str, Results]) -> Table:
    """Return score beside cost of labelled runs; those whose journals do not tell are left out."""
    rows = []
    for label, results in runs.items():
        cost = cost_of(results)
        known = [[x for x in one.headline_scores if x is not None]
                 for one in results.configs.values()]  # fmt: skip
        means = [100 * fmean(scores) for scores in known if scores]
        if cost.rows:
            rows.append((
                label,
                format_number(fmean(means) if means else None, 1),
                f"{cost.calls / cost.rows:.1f}",
                f"{cost.tokens / cost.rows:,.0f}",
                f"{cost.seconds / cost.rows:.2f}",
                f"{cost.tokens / cost.seconds:,.0f}" if cost.seconds else "",
                f"{cost.seconds:,.0f}",
            ))  # fmt: skip
    head = ("model", "score", "calls", "tokens", "seconds", "tokens/s", "seconds of all rows")
    caption = (
        "Score beside cost, by the journals: mean score of all configs in percent; calls, tokens "
        "(read and generated) and seconds of a row; tokens a second of one request, also where "
        "several ran at the same time"
    )
    return Table("cost", caption, head, tuple(rows))
