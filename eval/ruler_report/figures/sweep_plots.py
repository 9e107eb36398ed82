"""Pictures of what a suite varies: the paper's Figures 2 and 3 for a run of a sweep.

What a suite varies, in words and tables; study_plots.py draws it.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ruler_report.figures.style import COLOURS, INK, MARKERS, Picture, canvas, heat
from ruler_report.results import Param
from ruler_report.stats.score_table import Figure
from ruler_report.stats.sweeps import Axis, Study
from ruler_report.tables.escape import visible
from ruler_report.tables.format import length_words
from ruler_report.tables.tables import Scored, Table, spans

#: Values that are further apart than this, largest by smallest, are drawn by their logarithm.
WIDE = 8
#: Characters of a name on an axis; longer ones are slanted, and cut at twice as many.
SHORT = 10


def study_pictures(run: Scored, prefix: str) -> Iterator[Picture]:
    """Yield a picture for each study that is a line or a grid."""
    for study in run.summary.studies:
        name = f"{prefix}study-{study.family}"
        if study.shape == "line":
            yield line_picture(run, study, name)
        elif study.shape == "grid":
            yield grid_picture(run, study, name)


def line_picture(run: Scored, study: Study, name: str) -> Picture:
    """Draw scores against what varies, a line for each length."""
    (axis,) = study.axes
    places, lengths = places_of(axis.values), run.summary.lengths
    with canvas(5.2, 3.3) as (axes, finish):
        said = []
        for number, length in enumerate(lengths):
            cells = [run.summary.cells[point.task].get(length) for point in study.points]
            shift = (number - (len(lengths) - 1) / 2) * 0.012 * (places[-1] - places[0])
            _line(axes, number, length_words(length), [place + shift for place in places], cells,
                  axis.values)  # fmt: skip
            said.append(f"{length_words(length)} {_told(axis, cells)}")
        names = [shortened(value_words(value)) for value in axis.values]
        slant = {"rotation": 30, "ha": "right"} if max(map(len, names)) > SHORT else {}
        axes.set_xticks(places, names, **slant)
        axes.set_xlabel(axis_words(axis))
        axes.set_ylabel("score in percent")
        axes.set_ylim(-2, 104)
        axes.grid(axis="y")
        axes.legend(title="length in tokens", loc="lower center", bbox_to_anchor=(0.5, 1.0),
                    ncols=6, fontsize=9, title_fontsize=9, columnspacing=1)  # fmt: skip
        title = title_of(study)
        alt = f"{title}, in percent, by length: {'; '.join(said)}."
        return finish(name, title, alt)


def _line(
    axes: Any,  # noqa: ANN401 - matplotlib is imported only where a picture is drawn
    number: int,
    label: str,
    places: Sequence[float],
    cells: Sequence[Figure | None],
    values: Sequence[Param],
) -> None:
    colour = COLOURS[number % len(COLOURS)]
    there = [(place, cell) for place, cell in zip(places, cells, strict=True) if cell]
    if not there:
        return
    reach = [[max(0.0, cell.value - cell.low) for _, cell in there],
             [max(0.0, cell.high - cell.value) for _, cell in there]]  # fmt: skip
    axes.errorbar([place for place, _ in there], [cell.value for _, cell in there], reach,
                  fmt=MARKERS[number % len(MARKERS)], color=colour, markersize=4.5, label=label,
                  elinewidth=1, alpha=0.9)  # fmt: skip
    points = list(zip(places, cells, values, strict=True))
    for (x, one, before), (y, other, after) in pairwise(points):
        if one and other and not isinstance(before, str) and not isinstance(after, str):
            axes.plot([x, y], [one.value, other.value], color=colour, linewidth=1.5)


def grid_picture(run: Scored, study: Study, name: str) -> Picture:
    """Draw scores of all pairs: against each other at one length, else a column for each length."""
    lengths, (first, second) = run.summary.lengths, study.axes
    cells = [[run.summary.cells[point.task].get(length) for length in lengths]
             for point in study.points]  # fmt: skip
    rows = [" / ".join(map(value_words, point.values)) for point in study.points]
    columns, below = [length_words(length) for length in lengths], "length in tokens"
    beside = f"{axis_words(first)} / {axis_words(second)}"
    if len(lengths) == 1:
        wide = len(second.values)
        cells = [[row[0] for row in cells[at : at + wide]] for at in range(0, len(cells), wide)]
        rows, columns = (list(map(value_words, axis.values)) for axis in study.axes)
        beside, below = axis_words(first), axis_words(second)
    values = np.array([[cell.value if cell else np.nan for cell in row] for row in cells])
    notes = [[f"{cell.low:.0f}-{cell.high:.0f}" if cell else "" for cell in row] for row in cells]
    with canvas(1.0 + 0.75 * len(columns), 0.9 + 0.42 * len(rows)) as (axes, finish):
        heat(axes, values, notes)
        axes.set_xticks(range(len(columns)), columns)
        axes.set_yticks(range(len(rows)), rows)
        axes.set_xlabel(below)
        axes.set_ylabel(beside)
        if len(lengths) > 1:
            for edge in range(len(second.values), len(rows), len(second.values)):
                axes.axhline(edge - 0.5, color=INK, linewidth=1)
        said = "; ".join(
            f"{row} {', '.join(f'{value:.0f}' for value in line)}"
            for row, line in zip(rows, values, strict=True)
        )
        alt = f"{title_of(study)}, in percent; columns are {', '.join(columns)}: {said}."
        return finish(name, title_of(study), alt)


def shortened(name: str) -> str:
    """Return a name that has room on an axis.

    >>> shortened("prose, code, legal, tables")
    'prose, code, legal,…'
    """
    return name if len(name) <= 2 * SHORT else f"{name[: 2 * SHORT - 1]}…"


def places_of(values: Sequence[Param]) -> list[float]:
    """Return where values stand on an axis: numbers to scale, words behind them one by one.

    >>> places_of([2, 4, 12]), places_of([1, 2, 8, "full"])
    ([2.0, 4.0, 12.0], [0.0, 1.0, 3.0, 4.5])
    """
    numbers = [float(value) for value in values if not isinstance(value, str)]
    if numbers and min(numbers) > 0 and max(numbers) >= WIDE * min(numbers):
        numbers = [math.log2(number) for number in numbers]
    step = (numbers[-1] - numbers[0]) / (len(numbers) - 1) if len(numbers) > 1 else 1.0
    start, behind = (numbers[-1] if numbers else -1.0), len(values) - len(numbers)
    return [*numbers, *(start + step * place for place in range(1, behind + 1))]


def _told(axis: Axis, cells: Sequence[Figure | None]) -> str:
    return ", ".join(
        f"{cell.value:.1f} at {value_words(value)}"
        for value, cell in zip(axis.values, cells, strict=True)
        if cell
    )


#: What a parameter is called; others go by their own names.
NAMES = {
    "key_type": "type of key",
    "value_type": "type of value",
    "keys": "keys in the haystack",
    "values": "values of the key",
    "queries": "keys asked",
    "hops": "hops",
    "chains": "chains",
    "alpha": "exponent of the words' frequencies",
    "lookalikes": "needles that look alike",
    "none": "needle",
    "domains": "domains of the haystack",
}
#: What a value is called; others go by their own names.
VALUES = {"possible": "there", "true": "not there", "no": "there, none not allowed"}


def study_tables(run: Scored) -> Iterator[Table]:
    """Yield a table for each study: its tasks by what they vary, with their scores."""
    lengths = run.summary.lengths
    for study in run.summary.studies:
        head = (*map(axis_words, study.axes), "task", *map(length_words, lengths))
        rows = tuple(
            (*map(value_words, point.values), point.task,
             *spans(run.summary.cells[point.task], lengths))
            for point in study.points
        )  # fmt: skip
        caption = f"{title_of(study)}: score in percent by length in tokens, with 95 % intervals"
        yield Table(f"study-{study.family}", caption, head, rows)
    claims = claims_table(run)
    if claims:
        yield claims


def claims_table(run: Scored) -> Table | None:
    """Return false claims where a question may have no answer; None where none may."""
    claims, lengths = run.summary.claims, run.summary.lengths
    if claims is None:
        return None
    kinds = (("is there; says none", claims.false_none),
             ("is not there; names a value", claims.hallucinated))  # fmt: skip
    rows = [
        (task, what, *(f"{found[length]:.1f}" if length in found else "" for length in lengths))
        for what, tasks in kinds
        for task, found in tasks.items()
    ]
    balanced = (f"{claims.balanced[length]:.1f}" if length in claims.balanced else ""
                for length in lengths)  # fmt: skip
    rows.append(("balanced score", "mean of there and not there", *balanced))
    caption = (
        "False claims in percent of the rows, by length in tokens; and the balanced score, of "
        "which always or never saying none earns 50 at the best"
    )
    head = ("task", "needle; false claim", *map(length_words, lengths))
    return Table("claims", caption, head, tuple(rows), (len(rows) - 1,))


def title_of(study: Study) -> str:
    """Return what a study is called."""
    return f"{study.family}: score by {' and '.join(map(axis_words, study.axes))}"


def axis_words(axis: Axis) -> str:
    """Return what an axis is called; parameters of equal values share it."""
    return ", ".join(NAMES.get(name, visible(name.replace("_", " "))) for name in axis.names)


def value_words(value: Param) -> str:
    """Return a value as it is written on an axis.

    >>> value_words(2.0), value_words("uuids"), value_words(True)
    ('2', 'uuids', 'yes')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, int | float) else VALUES.get(value, visible(value))
