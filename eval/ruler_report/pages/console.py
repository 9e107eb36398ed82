"""Figures and comparisons as tables for the terminal."""

from rich.table import Table

from ruler_report.results import Results
from ruler_report.stats.comparison import CANNOT_TELL, Comparison
from ruler_report.stats.contamination import CONTAMINATED, NO_SIGN, Contamination
from ruler_report.stats.effective_length import OVERALL, OWN
from ruler_report.stats.score_table import Figure
from ruler_report.stats.summary import Summary
from ruler_report.tables.escape import visible
from ruler_report.tables.format import (
    difference_rows,
    difference_words,
    length_words,
    p_words,
    shares_words,
    signed_words,
    span_words,
)

#: What a verdict says, and does not.
MEANINGS = {
    CONTAMINATED: "public rows are easier for it than fresh ones, as if it had seen them",
    NO_SIGN: "if public rows are easier for it, then by less than {margin:g} points",
    CANNOT_TELL: "a gap of {margin:g} points is neither shown nor ruled out; more rows would tell",
}


def summary_table(results: Results, summary: Summary) -> Table:
    """Return scores by task and length, in percent, with the interval of every mean over tasks."""
    table = Table("task", *(f"{length:,}" for length in summary.lengths), box=None)
    for task, cells in summary.cells.items():
        table.add_row(task, *_cells(cells, summary, spans=False))
    for category, cells in summary.categories.items():
        table.add_row(category, *_cells(cells, summary, spans=True), style="dim")
    if len(summary.tasks) > 1:
        row = _cells(summary.overall, summary, spans=True)
        table.add_row(f"mean of {len(summary.tasks)} tasks", *row, style="bold")
    effective = summary.effective.get(OVERALL) or summary.effective.get(OWN)
    if effective:
        longest = summary.lengths[-1]
        table.caption = (
            f"effective length {length_words(effective.length, longest)} (mean of at least "
            f"{effective.threshold:.1f}); of resamples, {shares_words(effective, longest)}"
        )
    return table


def _cells(cells: dict[int, Figure], summary: Summary, *, spans: bool) -> list[str]:
    found = [cells.get(length) for length in summary.lengths]
    return ["" if cell is None else span_words(cell) if spans else f"{cell.value:.2f}"
            for cell in found]  # fmt: skip


def comparison_table(comparison: Comparison) -> Table:
    """Return differences by task and length, in percent points, second run less first."""
    caption = "percent points, second run less first; * told apart at 5 %"
    return _differences(comparison, "better", caption)


def contamination_table(found: Contamination) -> Table:
    """Return gaps by task and length, in percent points, public rows less fresh ones."""
    caption = (
        "percent points, mean on public rows less mean on fresh ones; * greater than by chance"
    )
    return _differences(found, "verdict", caption)


def _differences(found: Comparison | Contamination, verdict: str, caption: str) -> Table:
    heads = [f"{length:,}" for length in found.lengths]
    table = Table("task", *heads, "mean", "p (Holm)", verdict, box=None, caption=caption)
    *tasks, mean = difference_rows(found, lambda one: signed_words(one.value), "mean")
    for row in tasks:
        table.add_row(*row)
    table.add_row(*mean, style="bold")
    return table


def verdict_line(comparison: Comparison, first: str, second: str) -> str:
    """Return in one line which run is better, if that can be told."""
    one = comparison.overall
    found = f"{difference_words(one)} points, p = {p_words(one.p)}"
    if one.verdict == CANNOT_TELL:
        return f"{second} less {first}: {found}: cannot tell them apart"
    return f"{second} less {first}: {found}: {second if one.value > 0 else first} is better"


def contamination_line(found: Contamination, model: str) -> str:
    """Return in one line what the gap tells, and what it does not."""
    one = found.overall
    said = (
        f"{visible(model)} on {one.public:,} public rows less {one.fresh:,} fresh ones: "
        f"{difference_words(one)} points, p = {p_words(one.p)}"
    )
    return f"{said}: {one.verdict}; {MEANINGS[one.verdict].format(margin=found.margin)}"
