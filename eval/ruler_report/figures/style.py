"""The style of the pictures in a report; no other module imports matplotlib.

A picture has panels. A page shows each panel as an SVG element of its own, so that panels wrap on a
narrow screen, in the page's own colours: `INK`, `GRID` and the colours of series become variables
of the page's style sheet, which has other ones for dark pages. Files hold all panels in one image:
PNG and SVG for Markdown, or PDF and SVG as wide as a column of a paper, with fonts embedded.
"""

import io
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import Any, Literal

from ruler_report.format import shortened
from ruler_report.stats.summary import ScoredRun

Axes = Any  # matplotlib's; it is imported only where a picture is drawn
#: Draws a panel of a picture.
Panel = Callable[[Axes], None]
#: `page`: an element of a page for each panel, and PNG. `paper`: files for LaTeX.
Medium = Literal["page", "paper"]

INK, GRID = "#010203", "#c9cacb"
#: Of series, in order. Contrast with white is at least 3. They were chosen so that two differ by at
#: least 10 (CIEDE2000), also as seen with protanopia, deuteranopia or tritanopia.
COLOURS = (
    "#2d87ff", "#e10f3c", "#1ea596", "#690f00", "#695a0f", "#6969b4",
    "#872d3c", "#1e4b69", "#0f1e87", "#4b0f2d", "#0f00f0", "#878769",
)  # fmt: skip
#: The same on a dark page.
DARK = (
    "#8778ff", "#c32d00", "#1ea5b4", "#a54b5a", "#b4a500", "#5a6987",
    "#b4784b", "#870fff", "#96ffe1", "#f0e1a5", "#f0ff1e", "#96c3c3",
)  # fmt: skip
MARKERS = "osD^vPX*<>ph"
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
#: Kinds of files of a picture.
FILES: dict[Medium, tuple[str, ...]] = {"page": ("png",), "paper": ("pdf", "svg")}
#: Width in inches of the files: of a page's images, and of a column of a paper.
WIDTHS: dict[Medium, float] = {"page": 9.6, "paper": 3.25}
#: In inches: a column of a paper that has room for a caption below. LaTeX never places taller ones.
TALLEST = 6.5
#: The settings of matplotlib, with `INK` and `GRID`; a paper has smaller ones.
_STYLE = Path(__file__).parent / "page.mplstyle"
_SMALL: Any = {
    "font.size": 6, "axes.titlesize": 6, "lines.linewidth": 0.9, "lines.markersize": 2.6
}  # fmt: skip
#: matplotlib's `viridis` from blue to yellow, without its darkest end; and from brown over white to
#: blue-green, which colour-blind readers tell apart.
_SHADES = ("#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725")
_TWO_SIDED = ("#8c510a", "#d8b365", "#f6f6f4", "#5ab4ac", "#01665e")


@dataclass(frozen=True)
class Picture:
    """A picture with a text alternative.

    Attributes:
        title: stands above it on a page, never in it.
        alt: what it shows, in words.
        panels: an SVG element for each panel, in the colours of a page; none in a paper.
        files: by ending, all panels in one image.
    """

    name: str
    title: str
    alt: str
    panels: tuple[str, ...]
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


#: What a report says that has no pictures for want of matplotlib.
NO_PICTURES = "no pictures: they need matplotlib (pip install '.[report]' in the checkout)"


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def render(drawing: Drawing, medium: Medium) -> Picture:
    """Return the picture of a drawing."""
    from matplotlib import rc_context

    page, elements = medium == "page", []
    salt: Any = {"svg.hashsalt": drawing.name}  # matplotlib types each setting by its name
    with rc_context({**salt, "svg.fonttype": "none"}, _STYLE):
        for number, panel in enumerate(drawing.panels if page else ()):
            figure, _ = _draw_panels([panel], *drawing.size, columns=1)
            name = f"{drawing.name}-{number}" if len(drawing.panels) > 1 else drawing.name
            elements.append(inline(_image(figure, "svg").decode(), name))
    with rc_context({**salt, "svg.fonttype": "path", **({} if page else _SMALL)}, _STYLE):
        figure = _whole(drawing, medium)
        width = None if page else WIDTHS[medium]
        files = {kind: _image(figure, kind, width) for kind in FILES[medium]}
    return Picture(drawing.name, drawing.title, drawing.alt, tuple(elements), files)


def _whole(drawing: Drawing, medium: Medium) -> Any:  # noqa: ANN401 - a figure of matplotlib
    """Return a figure of all panels with its key."""
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
    figure.tight_layout(pad=0.3, w_pad=0.6, h_pad=0.8)
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
    """Return a figure with panels on a grid, and its axes; those left over are hidden."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
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

    box: Any = "tight"
    if width:
        bounds = figure.get_tightbbox()
        box = Bbox([[0, bounds.y0 - 0.02], [width, bounds.y1 + 0.02]])
    names = {"svg": ("Date", "Creator"), "pdf": ("CreationDate", "Creator", "Producer")}
    file = io.BytesIO()
    figure.savefig(
        file,
        format=kind,
        dpi=120,
        bbox_inches=box,
        pad_inches=0.03,
        metadata=dict.fromkeys(names.get(kind, ("Software",))),
        transparent=kind == "svg",
    )
    if kind == "png":  # 128 colours are enough, in a third of the bytes
        with Image.open(file) as image:
            image.convert("RGB").quantize(128).save(file := io.BytesIO(), "png", optimize=True)
    return file.getvalue()


def thin_ticks(axes: Sequence[Axes]) -> None:
    """Leave out every second label of an x axis, from its end, until none touch."""
    for place in axes:
        labels = [label for label in place.get_xticklabels() if label.get_text()]
        while len(labels) > 2 and not _apart([label.get_window_extent() for label in labels]):
            for label in labels[-2::-2]:
                label.set_visible(False)
            labels = labels[::-2][::-1]


def _apart(boxes: Sequence[Any]) -> bool:
    """Whether boxes have a space of a third of their height between them."""
    return all(a.x1 + a.height / 3 < b.x0 or a.y0 > b.y1 for a, b in itertools.pairwise(boxes))


def stroke(number: int) -> dict[str, Any]:
    """Return how the line of a series looks; colour, marker and dashes together differ for 48."""
    turn = number // len(COLOURS)
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[(number + 5 * turn) % len(MARKERS)],
        "linestyle": DASHES[(number + turn) % len(DASHES)],
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


def names_of(runs: Sequence[ScoredRun]) -> list[str]:
    """Return the names of series; none for one run, which needs no key."""
    return [run.label for run in runs] if len(runs) > 1 else []


def slug(text: str) -> str:
    """Return a text as part of a file name."""
    return text.replace(" ", "-").replace("_", "-")


def inline(svg: str, name: str) -> str:
    """Return an SVG document as an element of a page, in the page's own colours.

    Ids get the picture's name as a prefix, since those of two pictures would clash on one page.
    """
    body = svg[svg.index("<svg") :]
    for pattern, new, most in (
        (r"(?s)<metadata>.*?</metadata>", "", 0),
        (r"<!--.*?-->\n?", "", 0),
        (r'<g id="[^"]*"', "<g", 0),
        (r' transform="rotate\(-0 [^"]*"', "", 0),
        (r"(\d+\.\d\d)\d+", r"\1", 0),
        (r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", 0),
        (r"font-family: [^;\"]+;? ?", "", 0),
        (r"\n\s*", "\n", 0),
        (r"font: ([\d.]+)px '[^\"]*?(?=[;\"])", r"font-size: \1px", 0),
        (r'(<svg[^>]*?) height="[^"]*"', r"\1", 1),
        (r'(<svg[^>]*?) width="([\d.]+)pt"', _max_width, 1),
    ):
        body = re.sub(pattern, new, body, count=most)
    for number, colour in enumerate(COLOURS):
        body = body.replace(colour, f"var(--s{number})")
    return body.replace(INK, "currentColor").replace(GRID, "var(--rule)").strip()


def _max_width(match: re.Match[str]) -> str:
    """Let a picture scale with the page, up to 1.8 times its size on a phone."""
    width = float(match[2])
    size = f"flex-basis: {1.35 * width:.0f}px; max-width: {1.8 * width:.0f}px"
    return f'{match[1]} style="{size}; font-family: sans-serif"'
