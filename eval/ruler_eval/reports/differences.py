"""Differences by task and length as rows of a table, in the terminal and in reports alike."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from ruler_eval.figures.compare import Comparison
from ruler_eval.figures.contamination import Contamination
from ruler_eval.figures.gaps import NO_SIGN, Gap
from ruler_eval.figures.verdicts import CANNOT_TELL, Difference
from ruler_eval.reports.words import difference_words, p_words

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
