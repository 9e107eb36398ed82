"""The picture of a card: how full each config is, and at which depth its evidence lies.

Drawn from the manifest and from the rows of each task's shortest config. The same rows give the
same bytes with the same version of Pillow, which the file names.
"""

import io
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont, PngImagePlugin, __version__

from ruler_data.manifest import Manifest
from ruler_data.names import config_name, parse_config, short_length
from ruler_data.parquet import read_groups

#: Name of the file in the dataset, and what it says about its writer.
PICTURE = "fill-and-depth.png"
WRITER = f"Pillow {__version__}"

#: Parts into which the depth of a context is divided.
BINS = 20
#: Fill that is drawn lightest, and share of the spans in one part that is drawn darkest.
EMPTY, CROWDED = 0.9, 0.15
#: Pixels: scale of everything, widths of names, fill cells and depth cells, height of a line.
SCALE, NAMES, CELL, PART, LINE = 2, 190, 62, 18, 24
Colour = tuple[int, ...]
_LIGHT, _DARK, _INK, _PAPER = (222, 235, 247), (8, 81, 156), (30, 30, 30), (255, 255, 255)


def draw_figure(manifest: Manifest, locate: Callable[[str], Path]) -> bytes:
    """Return the picture as PNG: the least fill of each config, depth of evidence."""
    lengths: dict[str, list[int]] = {}
    for name in manifest.configs:
        task, length = parse_config(name)
        lengths.setdefault(task, []).append(length)
    columns = sorted({length for own in lengths.values() for length in own})
    left = NAMES + CELL * len(columns) + 40
    size = left + PART * BINS + 20, LINE * (len(lengths) + 4)
    image = Image.new("RGB", (size[0] * SCALE, size[1] * SCALE), _PAPER)
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(13 * SCALE)

    def write(x: float, y: float, text: str, colour: Colour = _INK, at: str = "lm") -> None:
        draw.text((x * SCALE, y * SCALE), text, fill=colour, font=font, anchor=at)

    def cell(x: float, y: float, width: float, shade: float) -> None:
        corner = (x + width - 1) * SCALE - 1, (y + LINE - 1) * SCALE - 1
        draw.rectangle((x * SCALE, y * SCALE, *corner), fill=_shade(shade))

    write(NAMES, LINE * 0.5, "Least fill (%)")
    write(left, LINE * 0.5, "Depth of the evidence in the context (share of spans)")
    for n, length in enumerate(columns):
        write(NAMES + CELL * (n + 0.5), LINE * 1.5, short_length(length), at="mm")
    for place, text, anchor in ((0, "0 %", "lm"), (0.5, "50 %", "mm"), (1, "100 %", "rm")):
        write(left + PART * BINS * place, LINE * 1.5, text, at=anchor)
    for row, (task, own) in enumerate(lengths.items()):
        y = LINE * (row + 2)
        write(8, y + LINE / 2, task)
        for n, length in enumerate(columns):
            if info := manifest.configs.get(config_name(task, length)):
                shade = (info.fill_min - EMPTY) / (1 - EMPTY)
                cell(NAMES + CELL * n, y, CELL, shade)
                colour = _PAPER if shade > 0.5 else _INK
                middle = NAMES + CELL * (n + 0.5)
                write(middle, y + LINE / 2, f"{100 * info.fill_min:.1f}", colour, "mm")
        counts = _depths(locate(manifest.configs[config_name(task, min(own))].file))
        if not counts.any():
            write(left, y + LINE / 2, "no spans: the evidence is the whole text, or left out")
            continue
        for n, share in enumerate(counts / counts.sum()):
            cell(left + PART * n, y, PART, share / CROWDED)
    legend = f"Darker: fuller (from {100 * EMPTY:.0f} %), more spans (up to {100 * CROWDED:.0f} %)."
    write(8, LINE * (len(lengths) + 3), f"{legend} Depth: at each task's shortest length.")
    note, file = PngImagePlugin.PngInfo(), io.BytesIO()
    note.add_text("Software", WRITER)
    image.quantize(64, dither=Image.Dither.NONE).save(file, "PNG", optimize=True, pnginfo=note)
    return file.getvalue()


def _depths(path: Path) -> NDArray[np.int64]:
    """Return how many evidence spans of a config's rows have their middle in each part."""
    counts = np.zeros(BINS, dtype=np.int64)
    with closing(read_groups(path)) as groups:
        for group in groups:
            spans = group["evidence"].combine_chunks()
            sides = [spans.flatten().field(side) for side in ("start", "end")]
            if any(part.null_count for part in (group["context"], spans, spans.flatten(), *sides)):
                msg = "a context or a span is missing"
                raise ValueError(msg)
            sizes = pc.utf8_length(group["context"]).to_numpy()[pc.list_parent_indices(spans)]
            start, end = (side.to_numpy().astype(np.float64) for side in sides)
            middles = (start + end) / 2 / np.maximum(sizes, 1)
            counts += np.histogram(middles, BINS, (0, 1))[0]
    return counts


def _shade(value: float) -> Colour:
    """Return the colour of a value in [0, 1]; others are cut to it."""
    part = min(max(value, 0.0), 1.0)
    return tuple(round(a + (b - a) * part) for a, b in zip(_LIGHT, _DARK, strict=True))
