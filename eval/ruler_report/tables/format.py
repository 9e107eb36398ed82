"""Figures in words, the same in every form of a report.

Differences by task and length as rows of a table, in the terminal and in reports alike.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from ruler_report.stats.comparison import CANNOT_TELL, Comparison, Difference
from ruler_report.stats.contamination import NO_SIGN, Contamination, Gap
from ruler_report.stats.score_table import Effective, Figure


def span_words(figure: Figure) -> str:
    """Return a mean with its interval.

    >>> span_words(Figure(81.25, 79.04, 83.2, 6500, 6500))
    '81.2 [79.0, 83.2]'
    """
    return f"{figure.value:.1f} [{figure.low:.1f}, {figure.high:.1f}]"


def signed_words(value: float) -> str:
    """Return a difference in percent points; one that rounds to nothing has no sign.

    >>> signed_words(1.26), signed_words(-0.04)
    ('+1.3', '0.0')
    """
    return f"{value:+.1f}" if f"{abs(value):.1f}" != "0.0" else "0.0"


def difference_words(one: Difference | Gap) -> str:
    """Return a difference, or a gap, with its interval.

    >>> difference_words(Difference(-7.25, -8.0, -6.5, 0.0001, 500))
    '-7.2 [-8.0, -6.5]'
    """
    return f"{signed_words(one.value)} [{one.low:+.1f}, {one.high:+.1f}]"


def length_words(length: int | None, longest: int | None = None) -> str:
    """Return a length in tokens as it is written in tables.

    Args:
        length: in tokens; None or 0 for none.
        longest: that was measured, if a length equal to it stands for all beyond.

    >>> length_words(131072), length_words(1000), length_words(None), length_words(4096, 4096)
    ('128K', '1,000', 'none', '≥4K')
    """
    if not length:
        return "none"
    text = f"{length // 1024}K" if length % 1024 == 0 else f"{length:,}"
    return f"≥{text}" if length == longest else text


def shares_words(effective: Effective, longest: int) -> str:
    """Return the uncertainty of an effective length: how often each length is it.

    >>> shares_words(Effective(85.6, 32768, {16384: 0.031, 32768: 0.969}), 65536)
    '32K in 97 %, 16K in 3 %'
    """
    shares = sorted(effective.shares.items(), key=lambda item: -item[1])
    return ", ".join(
        f"{length_words(length, longest)} in {percent_words(share)}" for length, share in shares
    )


def percent_words(share: float) -> str:
    """Return a share in percent, whole, but never a 0 or 100 that it is not.

    >>> percent_words(0.031), percent_words(0.0004), percent_words(0.9996)
    ('3 %', '<1 %', '>99 %')
    """
    if 0 < share < 0.01:
        return "<1 %"
    return ">99 %" if 0.99 < share < 1 else f"{100 * share:.0f} %"


def p_words(p: float) -> str:
    """Return a p-value.

    >>> p_words(0.0001), p_words(0.0342)
    ('0.0001', '0.034')
    """
    return f"{p:.4f}" if p < 0.001 else f"{p:.3f}"


#: Verdicts of cells that may well be chance; all others get a star.
UNMARKED = (CANNOT_TELL, NO_SIGN)


def difference_rows(
    found: Comparison | Contamination,
    words: Callable[[Difference | Gap], str],
    mean: str,
    names: Mapping[str, str] | None = None,
) -> Iterator[tuple[str, ...]]:
    """Yield a row for each task, and last one for their mean.

    A row is its name, a cell a length, the mean over lengths, its corrected p-value, its verdict.

    Args:
        found: what was compared.
        words: what a cell says of a difference, beside its star.
        mean: name of the last row.
        names: what to call a verdict, where not by its own name.
    """

    def row(name: str, cells: Sequence[Difference | Gap], last: Difference | Gap) -> list[str]:
        marked = [words(one) + ("" if one.verdict in UNMARKED else " *") for one in cells]
        verdict = (names or {}).get(last.verdict, last.verdict)
        return [name, *marked, difference_words(last), p_words(last.adjusted), verdict]

    for task in found.tasks:
        cells = [found.cells[task, length] for length in found.lengths]
        yield tuple(row(task, cells, found.by_task[task]))
    by_length = [found.by_length[length] for length in found.lengths]
    yield tuple(row(mean, by_length, found.overall))
