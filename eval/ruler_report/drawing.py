"""How pictures are drawn: panels of lines, dots and cells; no other module imports matplotlib.

A page shows each panel of a picture as an image of its own, so that panels wrap on a narrow screen.
Files hold all panels in one image: PNG for Markdown, PDF for a paper, as wide as a column.
"""

import base64
import io
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ruler_report.means import Point
from ruler_report.typesetting import shortened

Axes = Any  # matplotlib's; it is imported only where a picture is drawn
#: Draws a panel of a picture.
Panel = Callable[[Axes], None]
#: `page`: an image for each panel, and PNG. `paper`: PDF for LaTeX.
Medium = Literal["page", "paper"]

INK, GRID = "#1a1c1f", "#c9cacb"
#: Of series, in order. Contrast with white is at least 3. Two differ by at least 10 (CIEDE2000),
#: also as seen with protanopia, deuteranopia or tritanopia.
COLOURS = (
    "#2d87ff", "#e10f3c", "#1ea596", "#690f00", "#695a0f", "#6969b4",
    "#872d3c", "#1e4b69", "#0f1e87", "#4b0f2d", "#0f00f0", "#878769",
)  # fmt: skip
MARKERS = "osD^vPX*<>ph"
#: Width in inches of the files: of a page's images, and of a column of a paper.
WIDTHS: dict[Medium, float] = {"page": 9.6, "paper": 3.25}
#: In inches: a column of a paper that has room for a caption below. LaTeX never places taller ones.
TALLEST = 6.5
_STYLE = Path(__file__).parent / "page.mplstyle"
_SMALL: Any = {
    "font.size": 6, "axes.titlesize": 6, "lines.linewidth": 0.9, "lines.markersize": 2.6
}  # fmt: skip
#: From blue to yellow; and from brown over white to blue-green, which colour-blind readers tell
#: apart.
_SHADES = ("#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725")
_TWO_SIDED = ("#8c510a", "#d8b365", "#f6f6f4", "#5ab4ac", "#01665e")
#: What a report says that has no pictures for want of matplotlib.
NO_PICTURES = "no pictures: they need matplotlib (pip install -e '.[report]' in the checkout)"


@dataclass(frozen=True)
class Picture:
    """A picture with a text alternative.

    Attributes:
        title: stands above it on a page, never in it.
        alt: what it shows, in words.
        panels: for a page: width in pixels and data URI of each panel.
        files: by ending, all panels in one image.
    """

    name: str
    title: str
    alt: str
    panels: tuple[tuple[int, str], ...]
    files: dict[str, bytes]


@dataclass(frozen=True)
class Drawing:
    """A picture that is not yet drawn.

    Attributes:
        panels: functions that draw each on axes; their order is that of reading.
        size: of a panel in inches, on a page.
        series: names of the series in a key, in the order of their colours; none for no key.
    """

    name: str
    title: str
    alt: str
    panels: Sequence[Panel]
    size: tuple[float, float] = (2.3, 1.75)
    series: Sequence[str] = ()


@dataclass(frozen=True)
class Lines:
    """A panel: lines with their intervals, each labelled with its number at its end.

    Attributes:
        lines: the points of each line by their place on the x axis, in rising order.
        ticks: labels by place.
        threshold: a height at which a dashed line stands.
    """

    title: str
    lines: Sequence[Mapping[float, Point]]
    ticks: Mapping[float, str]
    threshold: float | None = None
    top: float = 100

    def __call__(self, axes: Axes) -> None:
        """Draw it."""
        places, count = [*self.ticks], len(self.lines)
        span = (places[-1] - places[0]) or 1.0
        axes.set_title(self.title)
        axes.grid(axis="y")
        if self.threshold is not None:
            axes.axhline(self.threshold, color=INK, linewidth=0.7, linestyle=(0, (4, 3)))
        for number, line in enumerate(self.lines):
            # Shifted a little, so that intervals of different lines do not overlap.
            shift = (number - (count - 1) / 2) * min(0.015, 0.09 / count) * span
            xs, points, look = [place + shift for place in line], line.values(), stroke(number)
            ends = [point.low for point in points], [point.high for point in points]
            axes.vlines(xs, *ends, color=look["color"], linewidth=0.8, alpha=0.5)
            axes.plot(xs, [point.value for point in points], **look)
        axes.set_xticks(places, self.ticks.values())
        axes.set_xlim(places[0] - 0.08 * span, places[-1] + 0.08 * span)
        if self.top == 100:
            axes.set_yticks(range(0, 101, 25))
        axes.set_ylim(-0.04 * self.top, 1.04 * self.top)
        if count > 1:
            self._number_ends(axes)

    def _number_ends(self, axes: Axes) -> None:
        ends = {n: [*line.values()][-1].value for n, line in enumerate(self.lines) if line}
        points = axes.get_window_extent().height / axes.figure.dpi * 72
        for number, y in spread_labels(ends, 1.08 * self.top * 6.5 / points).items():
            axes.annotate(
                str(number + 1),
                (1, y),
                (3, 0),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                va="center",
                fontsize="small",
                fontweight="bold",
                annotation_clip=False,
            )


@dataclass(frozen=True)
class Dots:
    """A panel: a row of dots for each name, one dot for each series, with their intervals."""

    rows: Mapping[str, Sequence[Point | None]]

    def __call__(self, axes: Axes) -> None:
        """Draw it."""
        for place, points in enumerate(self.rows.values()):
            values = [point.value for point in points if point]
            axes.hlines(place, min(values), max(values), color=GRID, linewidth=3)
            for number, point in enumerate(points):
                if point is None:
                    continue
                y = place + 0.7 * ((number + 0.5) / len(points) - 0.5)
                look = stroke(number)
                axes.hlines(y, point.low, point.high, color=look["color"], linewidth=0.9, alpha=0.6)
                axes.plot(point.value, y, **{**look, "markersize": 4.2}, alpha=0.9)
        axes.set_yticks(range(len(self.rows)), [*self.rows])
        axes.set_ylim(len(self.rows) - 0.5, -0.5)
        axes.set_xlim(-2, 102)
        axes.grid(axis="x")


@dataclass(frozen=True)
class Heat:
    """A panel: a table with its headings as coloured cells; NaN is an empty one.

    White is the middle of the limits if the first is below 0.
    """

    title: str
    values: npt.NDArray[np.float64]
    rows: Sequence[str]
    columns: Sequence[str]
    texts: Sequence[Sequence[str]] | None = None
    limits: tuple[float, float] = (0.0, 100.0)

    def __call__(self, axes: Axes) -> None:
        """Draw it."""
        low, high = self.limits
        colours = shades(two_sided=low < 0)
        look = {"cmap": colours, "edgecolors": "face", "linewidth": 0.2}
        axes.pcolormesh(self.values, vmin=low, vmax=high, **look)
        axes.invert_yaxis()
        fills = colours(np.clip((self.values - low) / (high - low), 0, 1))
        for (row, column), value in np.ndenumerate(self.values):
            if np.isnan(value):
                continue
            axes.text(
                column + 0.5,
                row + 0.5,
                self.texts[row][column] if self.texts else f"{value:.0f}",
                ha="center",
                va="center",
                fontsize="small",
                in_layout=False,  # it is inside the cells; measuring it takes most of the time
                color=ink_on(fills[row, column]),
            )
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        axes.set_title(self.title)
        rotation = 90 if sum(map(len, self.columns)) > 7 * len(self.columns) else 0
        axes.set_xticks(np.arange(len(self.columns)) + 0.5, self.columns, rotation=rotation)
        axes.set_yticks(np.arange(len(self.rows)) + 0.5, self.rows)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches at which every cell and heading can be read."""
        names = max(map(len, self.rows), default=0)
        heads = max(map(len, self.columns), default=0)
        upright = 0.075 * heads if heads > 7 else 0.2
        return 0.35 + 0.068 * names + 0.38 * len(self.columns), 0.3 + upright + 0.2 * len(self.rows)


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def render(drawing: Drawing, medium: Medium) -> Picture:
    """Return the picture of a drawing."""
    from matplotlib import rc_context

    panels = []
    salt: Any = {"svg.hashsalt": drawing.name}  # matplotlib types each setting by its name
    with rc_context({**salt, "svg.fonttype": "none"}, _STYLE):
        for panel in drawing.panels if medium == "page" else ():
            figure, _ = _draw_panels([panel], *drawing.size, columns=1)
            image = base64.b64encode(_image(figure, "svg")).decode()
            width = round(1.35 * 72 * drawing.size[0])
            panels.append((width, f"data:image/svg+xml;base64,{image}"))
    kind, small = ("png", {}) if medium == "page" else ("pdf", _SMALL)
    with rc_context(small, _STYLE):
        fixed = None if medium == "page" else WIDTHS[medium]
        files = {kind: _image(_whole(drawing, medium), kind, fixed)}
    return Picture(drawing.name, drawing.title, drawing.alt, tuple(panels), files)


def _whole(drawing: Drawing, medium: Medium) -> Any:  # noqa: ANN401 - a figure of matplotlib
    """Return a figure of all panels with its key."""
    from matplotlib.layout_engine import TightLayoutEngine
    from matplotlib.lines import Line2D

    page, count = medium == "page", len(drawing.panels)
    width, (panel_width, panel_height) = WIDTHS[medium], drawing.size
    scale, tallest, letter = (1.0, inf, 0.075) if page else (0.72, TALLEST, 0.06)
    columns = min(count, max(1, int(width / (panel_width * scale * 0.95))))
    columns += count * panel_height * scale > tallest * columns
    if page:
        width = min(width, columns * panel_width)
    shrunk = min(1.0, max(scale, width / (columns * panel_width)))
    height = min(tallest, -(-count // columns) * panel_height * shrunk)
    figure, axes = _draw_panels(drawing.panels, width, height, columns)
    # `figure.tight_layout` would leave an engine behind, for which saving draws all once more.
    TightLayoutEngine(pad=0.3, w_pad=0.6, h_pad=0.8).execute(figure)
    thin_ticks(axes)
    keys = [
        f"{number} {shortened(name if page else name.rpartition('/')[2])}"
        for number, name in enumerate(drawing.series, 1)
    ]
    if keys:
        figure.legend(
            [Line2D([], [], **stroke(number)) for number in range(len(keys))],
            keys,
            loc="upper center",
            bbox_to_anchor=(0.5, 0.0),
            ncols=max(1, int(width / (0.6 + max(map(len, keys)) * letter))),
            handlelength=3,
            columnspacing=1,
        )
    return figure


def _draw_panels(
    panels: Sequence[Panel], width: float, height: float, columns: int
) -> tuple[Any, list[Axes]]:
    """Return a figure with panels on a grid, and its axes; empty places are hidden."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)  # it keeps what measures text; others make it anew for each label
    rows = -(-len(panels) // columns)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel, place in zip(panels, axes, strict=False):
        panel(place)
    for place in axes[len(panels) :]:
        place.axis("off")
    thin_ticks(axes)
    return figure, axes


def _image(figure: Any, kind: str, width: float | None = None) -> bytes:  # noqa: ANN401
    """Return an image, cut to what is drawn; with a width in inches only above and below."""
    from matplotlib.transforms import Bbox
    from PIL import Image

    box = figure.get_tightbbox().padded(0.03)  # savefig would draw all once more to find it
    if width:
        box = Bbox([[0, box.y0 + 0.01], [width, box.y1 - 0.01]])
    names = {"svg": ("Date", "Creator"), "pdf": ("CreationDate", "Creator", "Producer")}
    file = io.BytesIO()
    figure.savefig(
        file,
        format=kind,
        dpi=120,
        bbox_inches=box,
        metadata=dict.fromkeys(names.get(kind, ("Software",))),
    )
    if kind == "png":  # 128 colours are enough, in a third of the bytes
        with Image.open(file) as image:
            image.convert("RGB").quantize(128).save(file := io.BytesIO(), "png", optimize=True)
    return file.getvalue()


def thin_ticks(axes: Sequence[Axes]) -> None:
    """Leave out every second label of an x axis, from its end, until none touch."""
    for place in axes:
        labels = [label for label in place.get_xticklabels() if label.get_text()]
        upright = bool(labels) and labels[0].get_rotation() == 90
        while len(labels) > 2 and not upright and not _apart(labels):
            for label in labels[-2::-2]:
                label.set_visible(False)
            labels = labels[::-2][::-1]


def _apart(labels: Sequence[Any]) -> bool:
    """Whether labels have a space of a third of their height between them."""
    boxes = [label.get_window_extent() for label in labels]
    return all(a.x1 + a.height / 3 < b.x0 or a.y0 > b.y1 for a, b in itertools.pairwise(boxes))


def spread_labels(ends: Mapping[int, float], gap: float) -> dict[int, float]:
    """Return the heights of labels, moved as little as possible so that they are a gap apart.

    Each height less its rank in gaps must not fall: this is isotonic regression.

    >>> spread_labels({0: 50.0, 1: 52.0, 2: 90.0}, gap=6.0)
    {0: 48.0, 1: 54.0, 2: 90.0}
    """
    from scipy.optimize import isotonic_regression  # half a second

    order = sorted(ends, key=lambda number: ends[number])
    fitted = isotonic_regression([ends[n] - gap * rank for rank, n in enumerate(order)]).x
    return {n: float(fitted[rank] + gap * rank) for rank, n in enumerate(order)}


def stroke(number: int) -> dict[str, Any]:
    """Return how the line of a series looks; colour and marker together differ for 12."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": "-",
        "markeredgewidth": 0,
    }


def shades(*, two_sided: bool) -> Any:  # noqa: ANN401 - a colour map of matplotlib
    """Return the colours of a heat map; two-sided ones are white in the middle."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("shades", _TWO_SIDED if two_sided else _SHADES)


def ink_on(colour: Sequence[float]) -> str:
    """Return black or white, whichever has the greater contrast with a colour: at least 4.58.

    By the relative luminance of WCAG 2.2; the contrasts are equal at the luminance 0.179.

    >>> ink_on((1, 1, 1)), ink_on((0, 0, 0.5))
    ('#000000', '#ffffff')
    """
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour[:3]]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#000000" if luminance > 0.179 else "#ffffff"
