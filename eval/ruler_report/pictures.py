"""The pictures of a report: scores by length, retrieval by depth; the one home of matplotlib.

Each is one panel, in three forms: SVG inside a page, PNG beside Markdown, and PDF as wide as a
column of a paper. Up to `FEW` runs have lines for the other score, too; more than `MANY` runs have
no common picture.
"""

import base64
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ruler_data.names import counted
from ruler_report.conclusion import Conclusion
from ruler_report.names import SHORT, shortened
from ruler_report.typesetting import format_length, format_number

Axes = Any  # matplotlib's; it is imported only where a picture is drawn

#: Runs whose lines can be told apart beside lines of the other score, and without them.
FEW, MANY = 6, 12
#: Of series, in order. Contrast with white is at least 3. Two differ by at least 10 (CIEDE2000),
#: also as seen with protanopia, deuteranopia or tritanopia.
COLOURS = (
    "#2d87ff", "#e10f3c", "#1ea596", "#690f00", "#695a0f", "#6969b4",
    "#872d3c", "#1e4b69", "#0f1e87", "#4b0f2d", "#0f00f0", "#878769",
)  # fmt: skip
MARKERS = "osD^vPX*<>ph"
#: Percentage from which on black is easier to read than white on the colours of cells.
BLACK_FROM = 44
#: Pixels of an inch on a page.
PIXELS = 97
#: In inches: a column of a paper, and one that has room for a caption below.
COLUMN_WIDTH, TALLEST = 3.25, 6.5
#: What a report says that has no pictures for want of matplotlib.
NO_PICTURES = "no pictures: they need matplotlib (pip install 'ruler-data[report]')"

_STYLE = Path(__file__).parent / "page.mplstyle"
_SMALL: Any = {
    "font.size": 6, "axes.titlesize": 6, "lines.linewidth": 0.9, "lines.markersize": 2.6
}  # fmt: skip
#: What files say of the day and the program that wrote them.
_LEFT_OUT = {
    "svg": ("Date", "Creator"),
    "png": ("Software",),
    "pdf": ("CreationDate", "Creator", "Producer"),
}
_ACROSS = "length, tokens"
_DEPTH = "depth of the needle, %"
_RETRIEVAL = "retrieval (niah): needles that answers name, in percent, by depth"


@dataclass(frozen=True)
class Picture:
    """A picture with a text alternative.

    Attributes:
        title: stands above it on a page, never in it.
        alt: what it shows, in words.
        width: on a page, in pixels.
        uri: for a page, as SVG.
    """

    name: str
    title: str
    alt: str
    width: int
    uri: str
    png: bytes
    pdf: bytes


class _Size(NamedTuple):
    """Width and height in inches, on a page."""

    width: float
    height: float


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def short_names(conclusion: Conclusion) -> list[str]:
    """Return the names of the runs by their place, short and told apart."""
    return shortened(conclusion.names, SHORT)


def lengths_picture(conclusion: Conclusion) -> Picture | None:
    """Return the mean of all tasks by length; None for one length or many runs."""
    if len(conclusion.frame.lengths) < 2 or len(conclusion.order) > MANY:
        return None
    lines = _Lines(conclusion)
    alt = f"Score by length, {lines.up}: {_means_in_words(conclusion)}."
    return _picture("lengths", lines.title, alt, lines.draw, lines.size)


class _Lines:
    """The mean of all tasks by the logarithm of the length: a line for each run."""

    def __init__(self, conclusion: Conclusion) -> None:
        self._conclusion = conclusion
        self._lengths = conclusion.frame.lengths
        names = short_names(conclusion)
        self._names = [names[run] for run in conclusion.order]
        self._threshold = _threshold(conclusion)
        self.up = f"mean of {counted(len(conclusion.frame.tasks), 'task')}, %"

    @property
    def title(self) -> str:
        """What stands above the picture."""
        title = "Score by length"
        if len(self._names) <= FEW:
            title += f"; dotted: {self._conclusion.beside_name} score"
        if self._threshold is not None:
            title += f"; dashed: {self._threshold:g}"
        return title

    @property
    def _columns(self) -> int:
        """Number of names side by side in the key."""
        return max(1, int(4.3 / (0.6 + 0.065 * max(map(len, self._names)))))

    @property
    def size(self) -> _Size:
        """The size with room for the key."""
        lines = math.ceil(len(self._names) / self._columns)
        return _Size(4.3, 2.45 + 0.16 * lines)

    def draw(self, axes: Axes) -> None:
        """Draw it."""
        axes.set_xlabel(_ACROSS)
        axes.set_ylabel(self.up)
        axes.grid(axis="y")
        places = [math.log2(length) for length in self._lengths]
        step = 1 + len(places) // 10
        axes.set_xticks(places[::step], [*map(format_length, self._lengths)][::step])
        axes.set_yticks(range(0, 101, 25))
        axes.set_ylim(-4, 104)
        if self._threshold is not None:
            axes.axhline(self._threshold, color="black", linewidth=0.7, linestyle=(0, (4, 3)))
        for number in range(len(self._names)):
            self._draw_run(axes, number)
        if len(self._names) == 1:
            axes.legend()
        else:
            handles, names = axes.get_legend_handles_labels()
            axes.figure.legend(handles, names, loc="outside lower left", ncols=self._columns)

    def _draw_run(self, axes: Axes, number: int) -> None:
        """Draw the line of a run with its intervals, and that of the other score."""
        conclusion = self._conclusion
        run = conclusion.order[number]
        count = len(self._names)
        # Shifted a little, so that intervals of different lines do not overlap.
        shift = (number - (count - 1) / 2) * min(0.03, 0.2 / count)
        look = stroke(number)
        points = []
        values_beside: dict[float, float | None] = {}
        for length in self._lengths:
            estimate = conclusion.estimate((None, length), run)
            place = math.log2(length)
            if estimate is None:
                continue
            points.append((place + shift, estimate.value, estimate.low, estimate.high))
            values_beside[place] = conclusion.value_beside((None, length), run)
        for place, value, low, high in points:
            ends = (value if low is None else low, value if high is None else high)
            axes.vlines(place, *ends, color=look["color"], linewidth=0.8, alpha=0.5)
        name = self._names[number]
        name_beside = "_"  # no name in the key
        if count == 1:
            name = conclusion.score_name
            name_beside = conclusion.beside_name
        places = [point[0] for point in points]
        axes.plot(places, [point[1] for point in points], label=name, **look)
        if count <= FEW:
            dotted = {**look, "linestyle": ":", "markerfacecolor": "white", "markeredgewidth": 0.7}
            axes.plot([*values_beside], [*values_beside.values()], label=name_beside, **dotted)


def stroke(number: int) -> dict[str, Any]:
    """Return how the line of a series looks; colour and marker together differ for 12."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": "-",
        "markeredgewidth": 0,
    }


def _threshold(conclusion: Conclusion) -> float | None:
    """Return the paper's threshold if it is that of all runs."""
    reaches = [conclusion.paper_length(run) for run in conclusion.order]
    thresholds = {reach.threshold for reach in reaches if reach}
    if len(thresholds) != 1:
        return None
    return thresholds.pop()


def _means_in_words(conclusion: Conclusion) -> str:
    names = short_names(conclusion)
    texts = []
    for run in conclusion.order:
        numbers = []
        for length in conclusion.frame.lengths:
            value = format_number(conclusion.value((None, length), run), 1)
            numbers.append(f"{value} at {format_length(length)}")
        texts.append(f"{names[run]} {', '.join(numbers)}")
    return "; ".join(texts)


def depth_picture(conclusion: Conclusion, run: int) -> Picture | None:
    """Return retrieval by depth and length in a run; None without such a task."""
    grid = conclusion.depth(run)
    if not grid.size:
        return None
    values = grid.to_numpy(dtype=float)
    heat = _Heat(values, depth_labels(len(values)), [*map(format_length, grid)], _ACROSS, _DEPTH)
    row, column = divmod(int(np.nanargmin(values)), values.shape[1])
    lowest = f"lowest {values[row, column]:.0f} at depth {heat.rows[row]} %, {heat.columns[column]}"
    name = "depth"
    title = f"{_RETRIEVAL} and length"
    if len(conclusion.runs) > 1:
        name += f"-{run + 1}"
        title = f"{short_names(conclusion)[run]}: {title}"
    else:
        title = title.capitalize()
    return _picture(name, title, f"{title}; {lowest}.", heat.draw, heat.size)


def depths_picture(conclusion: Conclusion) -> Picture | None:
    """Return retrieval by depth over all lengths, a row for each run; None for many runs."""
    grids = [conclusion.depth(run) for run in conclusion.order]
    bins = max(map(len, grids))
    if not bins or len(grids) > MANY:
        return None
    values = np.full((len(grids), bins), math.nan)
    for row, grid in zip(values, grids, strict=True):
        if len(grid) == bins:  # a run with too few rows has fewer bins
            row[:] = grid.mean(axis=1)
    names = short_names(conclusion)
    rows = [names[run] for run in conclusion.order]
    heat = _Heat(values, rows, depth_labels(bins), _DEPTH)
    title = _RETRIEVAL.capitalize()
    return _picture("depths", title, f"{title}; the numbers stand in it.", heat.draw, heat.size)


def depth_labels(bins: int) -> list[str]:
    """Return the names of equal bins of depth.

    >>> depth_labels(2)
    ['0-50', '50-100']
    """
    return [f"{100 * row // bins}-{100 * (row + 1) // bins}" for row in range(bins)]


@dataclass(frozen=True)
class _Heat:
    """A table of percentages with its headings as coloured cells; NaN is an empty one."""

    values: "np.ndarray[Any, np.dtype[np.float64]]"
    rows: Sequence[str]
    columns: Sequence[str]
    across: str
    up: str = ""

    @property
    def size(self) -> _Size:
        """The size at which every cell and heading can be read."""
        names = max(map(len, self.rows))
        heads = max(map(len, self.columns))
        width = 0.7 + 0.068 * names + max(0.38, 0.075 * heads) * len(self.columns)
        return _Size(width, 0.7 + 0.2 * len(self.rows))

    def draw(self, axes: Axes) -> None:
        """Draw it."""
        axes.pcolormesh(self.values, cmap="viridis", vmin=0, vmax=100)
        axes.invert_yaxis()
        for (row, column), value in np.ndenumerate(self.values):
            if np.isnan(value):
                continue
            ink = "black"
            if value < BLACK_FROM:
                ink = "white"
            centre = column + 0.5, row + 0.5
            look = {"ha": "center", "va": "center", "fontsize": "small", "color": ink}
            axes.text(*centre, f"{value:.0f}", in_layout=False, **look)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        axes.set_xlabel(self.across)
        axes.set_ylabel(self.up)
        axes.set_xticks(np.arange(len(self.columns)) + 0.5, self.columns)
        axes.set_yticks(np.arange(len(self.rows)) + 0.5, self.rows)


def _picture(name: str, title: str, alt: str, draw: Callable[[Axes], None], size: _Size) -> Picture:
    """Return a picture in its three forms."""
    from matplotlib import rc_context

    settings: Any = {"svg.hashsalt": name, "svg.fonttype": "none"}
    with rc_context(settings, _STYLE):
        svg = base64.b64encode(_image(draw, size, "svg")).decode()
        png = _image(draw, size, "png")
    height = size.height * COLUMN_WIDTH / size.width
    with rc_context(_SMALL, _STYLE):
        pdf = _image(draw, _Size(COLUMN_WIDTH, min(height, TALLEST)), "pdf")
    width = round(PIXELS * size.width)
    return Picture(name, title, alt, width, f"data:image/svg+xml;base64,{svg}", png, pdf)


def _image(draw: Callable[[Axes], None], size: _Size, kind: str) -> bytes:
    """Return what is drawn as an image."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    draw(figure.subplots())
    file = io.BytesIO()
    metadata: Mapping[str, None] = dict.fromkeys(_LEFT_OUT[kind])
    figure.savefig(file, format=kind, dpi=150, metadata=metadata)
    return file.getvalue()
