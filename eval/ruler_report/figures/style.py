"""The style of the pictures in a report; no other module imports matplotlib.

Colours are readable on white and on black. Text and axes are drawn in INK and grids in GRID. In SVG
both become the page's own colours, so one picture serves light and dark pages; in PNG they are
black and grey on white.
"""

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ruler_data.errors import UsageError
from ruler_report.format import format_length, visible
from ruler_report.stats.intervals import Floats

Axes = Any  # matplotlib's; it is imported only where a picture is drawn

INK, GRID = "#010203", "#c9cacb"
COLOURS = ("#3a7fc2", "#c86f1a", "#2c9468", "#b8498a", "#8468cf", "#8a7a1f", "#c4433f", "#4a8796")
MARKERS = "osD^vPX*"
_STYLE: Any = {  # matplotlib types each setting by its name
    "text.parse_math": False,  # names of models may contain dollar signs
    "svg.fonttype": "none",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
}
#: matplotlib's `viridis` from blue to yellow, without its darkest end.
_SHADES = ("#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725")


@dataclass(frozen=True)
class Picture:
    """A picture as SVG and PNG, with a text alternative."""

    name: str
    title: str
    alt: str
    svg: str
    png: bytes

    @property
    def standalone(self) -> str:
        """The SVG as a standalone document: black on a transparent background."""
        body = self.svg.replace("currentColor", INK).replace("var(--rule)", GRID)
        return f'<?xml version="1.0" encoding="utf-8"?>\n{body}\n'


Finish = Callable[[str, str, str], Picture]


@contextmanager
def canvas(width: float, height: float) -> Iterator[tuple[Axes, Finish]]:
    """Yield axes to draw on, and a function from name, title and text alternative to the picture.

    Args:
        width: in inches; a page shows an inch as at most 108 px.
        height: likewise.

    Raises:
        UsageError: matplotlib is not installed.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        msg = "pictures need matplotlib: pip install 'ruler-data[report]', or give --no-pictures"
        raise UsageError(msg) from error

    def finish(name: str, title: str, alt: str) -> Picture:
        with rc_context({"svg.hashsalt": name}):
            svg, png = io.StringIO(), io.BytesIO()
            figure.savefig(
                svg,
                format="svg",
                transparent=True,
                bbox_inches="tight",
                metadata={"Date": None, "Creator": None},
            )
            figure.savefig(
                png,
                format="png",
                dpi=160,
                bbox_inches="tight",
                facecolor="white",
                metadata={"Software": None},
            )
        return Picture(name, title, alt, inline(svg.getvalue(), name), png.getvalue())

    with rc_context(_STYLE):
        figure = Figure(figsize=(width, height))
        yield figure.subplots(), finish


def heat(axes: Axes, values: Floats, notes: Sequence[Sequence[str]], top: float = 100) -> None:
    """Draw a table as coloured cells, each with its value and below it a note."""
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("shades", _SHADES)
    rows, columns = values.shape
    edges = np.arange(columns + 1) - 0.5, np.arange(rows + 1) - 0.5
    axes.pcolormesh(*edges, values, cmap=shades, vmin=0, vmax=top, edgecolors="face", linewidth=0.2)
    axes.invert_yaxis()
    for (row, column), value in np.ndenumerate(values):
        if np.isnan(value):
            continue
        ink = "#ffffff" if value < 0.45 * top else "#000000"
        text = f"{value:.0f}" if top == 100 else f"{value:.2f}"
        note = notes[row][column] if notes else ""
        axes.text(
            column, row, text, ha="center", va="bottom" if note else "center", fontsize=8, color=ink
        )
        if note:
            axes.text(column, row, note, ha="center", va="top", fontsize=6, color=ink)
    axes.spines[:].set_visible(False)


def length_ticks(axes: Axes, lengths: Sequence[int], places: Sequence[float]) -> None:
    """Label the x axis with lengths at these places."""
    axes.set_xticks(places, [format_length(length) for length in lengths])
    axes.set_xlabel("length in tokens")


def legend_below(axes: Axes) -> None:
    """Put the legend below the axes, in two columns."""
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, fontsize=9)


def shown_name(text: str) -> str:
    """Return a model's name as a legend shows it."""
    name = visible(text)
    return name if len(name) <= 40 else f"{name[:19]}…{name[-20:]}"


def slug(text: str) -> str:
    """Return a text as part of a file name."""
    return text.replace(" ", "-").replace("_", "-")


def inline(svg: str, name: str) -> str:
    """Return an SVG document as an element of a page, in the page's own colours.

    Ids get the picture's name as a prefix, since those of two pictures would clash on one page.
    """
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r'(\bid="|href="#|url\(#)', lambda match: f"{match[1]}{name}-", body)
    body = re.sub(r"font-family: [^;\"]+;? ?", "", body)
    body = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", body, count=1)
    body = re.sub(r'(<svg[^>]*?) width="([\d.]+)pt"', _max_width, body, count=1)
    return body.replace(INK, "currentColor").replace(GRID, "var(--rule)").strip()


def _max_width(match: re.Match[str]) -> str:
    """Let a picture scale with the page, up to 1.5 times its size."""
    return f'{match[1]} style="max-width: {1.5 * float(match[2]):.0f}px; font-family: sans-serif"'
