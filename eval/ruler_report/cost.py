"""What runs cost beside what they score: calls, tokens and seconds of a row, by the journals."""

from collections.abc import Mapping
from statistics import fmean

from ruler_report.format import format_number, format_share
from ruler_report.results_file import Cost, Results
from ruler_report.table import Table


def cost_of(results: Results) -> Cost:
    """Return the cost of all answers of a run; zeros if its journals do not tell."""
    costs = [one.cost for one in results.configs.values() if one.cost]
    return Cost(*(sum(getattr(one, field) for one in costs) for field in Cost.__annotations__))


def cost_table(runs: Mapping[str, Results]) -> Table:
    """Return scores of labelled runs beside what their answers cost, as far as journals tell."""
    rows = []
    for label, results in runs.items():
        configs, cost = [*results.configs.values()], cost_of(results)
        means = []
        for name in ("official", "exact"):
            columns = [[x for x in one.scores_of(name) if x is not None] for one in configs]
            means.append([fmean(column) for column in columns] if all(columns) else [])
        shares = (
            format_share(sum(len(getattr(one, name)) for one in configs) / max(results.scored, 1))
            for name in ("truncated", "empty")
        )
        rows.append((
            label,
            *(format_number(100 * fmean(mean) if mean else None, 1) for mean in means),
            *shares,
            f"{cost.calls / cost.rows:.1f}" if cost.rows else "",
            f"{cost.tokens / cost.rows:,.0f}" if cost.rows else "",
            f"{cost.seconds / cost.rows:.2f}" if cost.rows else "",
            f"{cost.tokens / cost.seconds:,.0f}" if cost.seconds else "",
        ))  # fmt: skip
    head = (
        "model",
        "score",
        "exact",
        "cut off",
        "empty",
        "calls",
        "tokens",
        "seconds",
        "tokens per second",
    )
    caption = (
        "Mean official and exact score of all configs, in percent; answers cut off and empty; by "
        "the journals, calls, tokens (read and generated) and seconds of a row, and tokens a "
        "second of one request, also where several ran at the same time"
    )
    return Table("cost", caption, head, tuple(rows))
