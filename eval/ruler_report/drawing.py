"""How pictures are drawn: panels of lines and cells; no other module imports matplotlib.

A page shows each panel of a picture as an image of its own, so that panels wrap on a narrow screen.
Files hold all panels in one image: PNG for Markdown, PDF for a paper, as wide as a column.
"""

import base64
import io
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Axes = Any  # matplotlib's; it is imported only where a picture is drawn
#: Draws a panel of a picture.
Panel = Callable[[Axes], None]

INK, GRID = "#1a1c1f", "#c9cacb"
#: Of series, in order. Contrast with white is at least 3. Two differ by at least 10 (CIEDE2000),
#: also as seen with protanopia, deuteranopia or tritanopia.
COLOURS = (
    "#2d87ff", "#e10f3c", "#1ea596", "#690f00", "#695a0f", "#6969b4",
    "#872d3c", "#1e4b69", "#0f1e87", "#4b0f2d", "#0f00f0", "#878769",
)  # fmt: skip
MARKERS = "osD^vPX*<>ph"
#: Width in inches of the images of a page, and of a column of a paper.
PAGE_WIDTH, COLUMN_WIDTH = 9.6, 3.25
#: Pixels of an inch of a panel on a page, so that text has one size in all of them.
PIXELS = 97
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
NO_PICTURES = "no pictures: they need matplotlib (pip install 'ruler-data[report]')"


class Point(NamedTuple):
    """A mean with its interval, in percent; without one its ends are the mean."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Picture:
    """A picture with a text alternative.

    Attributes:
        title: stands above it on a page, never in it.
        alt: what it shows, in words.
        panels: for a page: width in pixels and data URI of each panel.
        series: names of the series in a key, in the order of their colours.
        png: all panels in one image; `pdf` likewise, as wide as a column of a paper.
    """

    name: str
    title: str
    alt: str
    panels: tuple[tuple[int, str], ...]
    series: tuple[str, ...]
    png: bytes
    pdf: bytes


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
    size: tuple[float, float] = (2.3, 1.9)
    series: Sequence[str] = ()


@dataclass(frozen=True)
class Lines:
    """A panel: lines with their intervals, each labelled with its number at its end.

    Attributes:
        lines: the points of each line by their place on the x axis, in rising order.
        ticks: labels by place.
        across: title of the x axis; `up` of the y axis.
        threshold: a height at which a dashed line stands.
        beside: lines of other scores of the same runs, dotted and without intervals.
        key: names of a line and of the line beside it, where there is one of each.
    """

    title: str
    lines: Sequence[Mapping[float, Point]]
    ticks: Mapping[float, str]
    across: str
    up: str = "score, %"
    threshold: float | None = None
    top: float = 100
    beside: Sequence[Mapping[float, float]] = ()
    key: tuple[str, str] | None = None

    def __call__(self, axes: Axes) -> None:
        """Draw it."""
        places = [*self.ticks]
        span = (places[-1] - places[0]) or 1.0
        axes.set_title(self.title)
        axes.set_xlabel(self.across)
        axes.set_ylabel(self.up)
        axes.grid(axis="y")
        if self.threshold is not None:
            axes.axhline(self.threshold, color=INK, linewidth=0.7, linestyle=(0, (4, 3)))
        self._draw_lines(axes, span)
        axes.set_xticks(places, self.ticks.values())
        axes.set_xlim(places[0] - 0.08 * span, places[-1] + 0.08 * span)
        if self.top == 100:
            axes.set_yticks(range(0, 101, 25))
        axes.set_ylim(-0.04 * self.top, 1.04 * self.top)
        if len(self.lines) > 1:
            self._number_ends(axes)
        if self.key:
            axes.legend(loc="best", handlelength=2.4)

    def _draw_lines(self, axes: Axes, span: float) -> None:
        count = len(self.lines)
        for number, line in enumerate(self.lines):
            # Shifted a little, so that intervals of different lines do not overlap.
            shift = (number - (count - 1) / 2) * min(0.015, 0.09 / count) * span
            xs = [place + shift for place in line]
            points = line.values()
            look = stroke(number)
            lows = [point.low for point in points]
            highs = [point.high for point in points]
            axes.vlines(xs, lows, highs, color=look["color"], linewidth=0.8, alpha=0.5)
            label = self.key[0] if self.key else None
            axes.plot(xs, [point.value for point in points], label=label, **look)
        for number, values in enumerate(self.beside):
            look = {**stroke(number), "linestyle": ":", "markerfacecolor": "white"}
            look["markeredgewidth"] = 0.7
            label = self.key[1] if self.key else None
            axes.plot([*values], [*values.values()], label=label, **look)

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
class Heat:
    """A panel: a table with its headings as coloured cells; NaN is an empty one.

    White is the middle of the limits if the first is below 0.
    """

    title: str
    values: npt.NDArray[np.float64]
    rows: Sequence[str]
    columns: Sequence[str]
    across: str
    up: str = ""
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
        axes.set_xlabel(self.across)
        axes.set_ylabel(self.up)
        rotation = 90 if self._heads_stand else 0
        axes.set_xticks(np.arange(len(self.columns)) + 0.5, self.columns, rotation=rotation)
        axes.set_yticks(np.arange(len(self.rows)) + 0.5, self.rows)

    @property
    def _heads_stand(self) -> bool:
        return sum(map(len, self.columns)) > 7 * len(self.columns)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches at which every cell and heading can be read."""
        names = max(map(len, self.rows), default=0)
        heads = max(map(len, self.columns), default=0)
        upright = 0.075 * heads if self._heads_stand else 0.2
        width = 0.55 + 0.068 * names + 0.38 * len(self.columns)
        return width, 0.5 + upright + 0.2 * len(self.rows)


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def render(drawing: Drawing) -> Picture:
    """Return the picture of a drawing."""
    from matplotlib import rc_context

    panels = []
    settings: Any = {"svg.hashsalt": drawing.name, "svg.fonttype": "none"}
    with rc_context(settings, _STYLE):
        for panel in drawing.panels:
            figure, _ = _draw_panels([panel], *drawing.size, columns=1)
            image = base64.b64encode(_image(figure, "svg")).decode()
            width = round(PIXELS * _box(figure).width)
            panels.append((width, f"data:image/svg+xml;base64,{image}"))
        png = _image(_on_page(drawing), "png")
    with rc_context(_SMALL, _STYLE):
        pdf = _image(_in_column(drawing), "pdf", COLUMN_WIDTH)
    return Picture(
        name=drawing.name,
        title=drawing.title,
        alt=drawing.alt,
        panels=tuple(panels),
        series=tuple(drawing.series),
        png=png,
        pdf=pdf,
    )


def _on_page(drawing: Drawing) -> Any:  # noqa: ANN401 - a figure of matplotlib
    """Return a figure of all panels with its key, for a page."""
    panel_width, panel_height = drawing.size
    columns = min(len(drawing.panels), max(1, int(PAGE_WIDTH / (panel_width * 0.95))))
    width = min(PAGE_WIDTH, columns * panel_width)
    shrunk = min(1.0, width / (columns * panel_width))
    height = -(-len(drawing.panels) // columns) * panel_height * shrunk
    return _whole(drawing, (width, height), columns, letter=0.075, names=drawing.series)


def _in_column(drawing: Drawing) -> Any:  # noqa: ANN401 - a figure of matplotlib
    """Return a figure of all panels with its key, as wide as a column of a paper."""
    scale = 0.72
    panel_width, panel_height = drawing.size
    count = len(drawing.panels)
    columns = min(count, max(1, int(COLUMN_WIDTH / (panel_width * scale * 0.95))))
    if count * panel_height * scale > TALLEST * columns:
        columns += 1
    shrunk = min(1.0, max(scale, COLUMN_WIDTH / (columns * panel_width)))
    height = min(TALLEST, -(-count // columns) * panel_height * shrunk)
    names = [name.rpartition("/")[2] for name in drawing.series]
    return _whole(drawing, (COLUMN_WIDTH, height), columns, letter=0.06, names=names)


def _whole(
    drawing: Drawing,
    size: tuple[float, float],
    columns: int,
    *,
    letter: float,
    names: Sequence[str],
) -> Any:  # noqa: ANN401 - a figure of matplotlib
    """Return a figure of all panels with its key; a letter of it has so many inches."""
    from matplotlib.layout_engine import TightLayoutEngine
    from matplotlib.lines import Line2D

    figure, axes = _draw_panels(drawing.panels, *size, columns)
    # `figure.tight_layout` would leave an engine behind, for which saving draws all once more.
    TightLayoutEngine(pad=0.3, w_pad=0.6, h_pad=0.8).execute(figure)
    thin_ticks(axes)
    keys = [f"{number} {name}" for number, name in enumerate(names, 1)]
    if keys:
        figure.legend(
            [Line2D([], [], **stroke(number)) for number in range(len(keys))],
            keys,
            loc="upper center",
            bbox_to_anchor=(0.5, 0.0),
            ncols=max(1, int(size[0] / (0.6 + max(map(len, keys)) * letter))),
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

    box = _box(figure)  # savefig would draw all once more to find it
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
    if kind != "png":
        return file.getvalue()
    small = io.BytesIO()
    with Image.open(file) as image:  # 128 colours are enough, in a third of the bytes
        image.convert("RGB").quantize(128).save(small, "png", optimize=True)
    return small.getvalue()


def _box(figure: Any) -> Any:  # noqa: ANN401 - of matplotlib
    """Return what is drawn with a margin, in inches."""
    return figure.get_tightbbox().padded(0.03)


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
    if luminance > 0.179:
        return "#000000"
    return "#ffffff"
