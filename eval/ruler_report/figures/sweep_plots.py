"""Pictures of what a suite varies: the paper's Figures 2 and 3 for any sweep."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ruler_report.figures.heatmaps import grid_picture
from ruler_report.figures.style import COLOURS, MARKERS, Axes, Picture, canvas
from ruler_report.format import format_length
from ruler_report.results import Param
from ruler_report.stats.score_table import Estimate
from ruler_report.stats.summary import ScoredRun
from ruler_report.stats.sweeps import Study, format_value

#: An axis is logarithmic if its largest value is at least this many times its smallest.
WIDE = 8
#: Characters of a name on an axis; longer ones are slanted, and shortened at twice as many.
SHORT = 10


def study_pictures(run: ScoredRun, prefix: str) -> Iterator[Picture]:
    """Yield a picture of each study that is a line or a grid."""
    draw = {"line": line_picture, "grid": grid_picture}
    for study in run.summary.studies:
        if study.shape in draw:
            yield draw[study.shape](run, study, f"{prefix}study-{study.family}")


def line_picture(run: ScoredRun, study: Study, name: str) -> Picture:
    """Draw scores against the parameter that varies, a line for each length."""
    (axis,), lengths = study.axes, run.summary.lengths
    places, labels = places_of(axis.values), [format_value(value) for value in axis.values]
    lines = {
        format_length(length): [run.summary.cells[point.task].get(length) for point in study.points]
        for length in lengths
    }
    with canvas(5.2, 3.3) as (axes, finish):
        for number, (label, cells) in enumerate(lines.items()):
            # Shifted a little, so that intervals of different lengths do not overlap.
            shift = (number - (len(lengths) - 1) / 2) * 0.012 * (places[-1] - places[0])
            _draw_line(axes, number, label, [place + shift for place in places], cells, axis.values)
        names = [shortened(text) for text in labels]
        slant = {"rotation": 30, "ha": "right"} if max(map(len, names)) > SHORT else {}
        axes.set_xticks(places, names, **slant)
        axes.set_xlabel(axis.label)
        axes.set_ylabel("score in percent")
        axes.set_ylim(-2, 104)
        axes.grid(axis="y")
        axes.legend(
            title="length in tokens",
            loc="lower center",
            bbox_to_anchor=(0.5, 1.0),
            ncols=6,
            fontsize=9,
            title_fontsize=9,
            columnspacing=1,
        )
        scores = (
            f"{label} "
            + ", ".join(
                f"{cell.value:.1f} at {value}"
                for value, cell in zip(labels, cells, strict=True)
                if cell
            )
            for label, cells in lines.items()
        )
        alt = f"{study.title}, in percent, by length: {'; '.join(scores)}."
        return finish(name, study.title, alt)


def _draw_line(
    axes: Axes,
    number: int,
    label: str,
    places: Sequence[float],
    cells: Sequence[Estimate | None],
    values: Sequence[Param],
) -> None:
    """Draw scores with their intervals; a line joins neighbours whose parameters are numbers."""
    colour = COLOURS[number % len(COLOURS)]
    points = [(place, cell) for place, cell in zip(places, cells, strict=True) if cell]
    if not points:
        return
    errors = [
        [max(0.0, cell.value - cell.low) for _, cell in points],
        [max(0.0, cell.high - cell.value) for _, cell in points],
    ]
    axes.errorbar(
        [place for place, _ in points],
        [cell.value for _, cell in points],
        errors,
        fmt=MARKERS[number % len(MARKERS)],
        color=colour,
        markersize=4.5,
        label=label,
        elinewidth=1,
        alpha=0.9,
    )
    for (x, one, before), (y, other, after) in pairwise(zip(places, cells, values, strict=True)):
        if one and other and not isinstance(before, str) and not isinstance(after, str):
            axes.plot([x, y], [one.value, other.value], color=colour, linewidth=1.5)


def shortened(name: str) -> str:
    """Return a name that fits on an axis.

    >>> shortened("prose, code, legal, tables")
    'prose, code, legal,…'
    """
    return name if len(name) <= 2 * SHORT else f"{name[: 2 * SHORT - 1]}…"


def places_of(values: Sequence[Param]) -> list[float]:
    """Return the places of values on an axis: numbers to scale, words after them at equal steps.

    >>> places_of([2, 4, 12]), places_of([1, 2, 8, "full"])
    ([2.0, 4.0, 12.0], [0.0, 1.0, 3.0, 4.5])
    """
    numbers = [float(value) for value in values if not isinstance(value, str)]
    if numbers and min(numbers) > 0 and max(numbers) >= WIDE * min(numbers):
        numbers = [math.log2(number) for number in numbers]
    step = (numbers[-1] - numbers[0]) / (len(numbers) - 1) if len(numbers) > 1 else 1.0
    last, words = (numbers[-1] if numbers else -1.0), len(values) - len(numbers)
    return [*numbers, *(last + step * place for place in range(1, words + 1))]
