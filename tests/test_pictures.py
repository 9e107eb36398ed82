"""Pictures of a report: what they show is what the words beside them say."""

import base64
import random
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from ruler_eval.scoring.scores import Scores
from ruler_report import pictures
from ruler_report.conclusion import Conclusion, conclude
from ruler_report.drawing import (
    COLOURS,
    Drawing,
    Heat,
    Lines,
    Picture,
    ink_on,
    render,
    shades,
    spread_labels,
    stroke,
    thin_ticks,
)
from ruler_report.lines import depth_grid, lines_of
from tests.results import coin, results_of

LENGTHS = (4096, 8192, 16384)


def run_of(name: str, chance: float = 0.7, **changes: Any) -> Scores:  # noqa: ANN401
    scores = {f"{task}_{length}": coin(f"{name}{task}{length}", chance, 12)
              for task in ("vt", "niah_single_1") for length in LENGTHS}  # fmt: skip
    return results_of(scores, model=name, **changes)


def several(number: int) -> Conclusion:
    return conclude([run_of(f"org/a-long-name-{n:02d}-instruct") for n in range(number)])


def drawings(conclusion: Conclusion) -> list[Drawing]:
    """Return all pictures of a report."""
    made = [pictures.lengths_picture, pictures.tasks_picture, pictures.depth_picture,
            pictures.depth_by_run, pictures.differences_picture]  # fmt: skip
    return [drawing for make in made if (drawing := make(conclusion))]


def texts(picture: Picture) -> str:
    """Return all text in the panels of a page."""
    documents = (base64.b64decode(uri.partition(",")[2]) for _, uri in picture.panels)
    return " ".join(" ".join(ET.fromstring(document).itertext()) for document in documents)


@pytest.mark.parametrize("number", [1, 2, pytest.param(25, marks=pytest.mark.slow)])
def test_no_axis_is_without_a_title_and_every_run_can_be_read(number: int) -> None:
    conclusion = several(number)
    for drawing in drawings(conclusion):
        for panel in drawing.panels:
            assert isinstance(panel, Lines | Heat) and panel.across
            names = isinstance(panel, Heat) and {*panel.rows} & {*pictures.short_names(conclusion)}
            is_of_tasks = isinstance(panel, Heat) and panel.rows[-1:] == ["mean"]
            assert panel.up or names or is_of_tasks, drawing.name
    picture = pictures.lengths_picture(conclusion)
    assert picture is not None
    shown = render(picture)
    assert shown == render(picture)  # the same every time
    mean = f"{conclusion.value((None, 4096), conclusion.order[0]):.1f} at 4K"
    assert mean in shown.alt and shown.png.startswith(b"\x89PNG")
    if number > 12:
        assert texts(shown).count("instruct") == number
    else:
        assert "mean of 2 tasks, %" in texts(shown) and "length, tokens" in texts(shown)


def test_a_row_is_one_observation_in_the_picture_of_depth() -> None:
    """Ten rows with 30 pieces each do not drown 190 rows with one."""
    run = results_of({"niah_single_1_4096": [1.0] * 190, "niah_multivalue_4096": [0.0] * 10})
    cells = {(task, 4096): np.arange(190) for task in ("niah_single_1", "niah_multivalue")}
    lines = lines_of(run.table, cells)
    many = lines["task"] == "niah_multivalue"
    lines.loc[many, "depth"] = lines.loc[many, "depth"].map(lambda depth: list(depth) * 30)
    lines.loc[many, "shown"] = lines.loc[many, "shown"].map(lambda shown: list(shown) * 30)
    grid = depth_grid(lines, [4096])
    assert grid.shape == (10, 1) and np.allclose(grid, 95)
    assert depth_grid(lines[:0], [4096]).empty


def test_names_of_models_are_not_read_as_formulas() -> None:
    conclusion = conclude([run_of("a $\\frac{$ b <&> \x1b[31m"), run_of("b")])
    for drawing in drawings(conclusion):
        assert "\x1b" not in drawing.alt and render(drawing).png.startswith(b"\x89PNG")


def test_labels_never_overlap() -> None:
    from matplotlib.figure import Figure

    rng = random.Random("ends")
    for _ in range(200):
        ends = {number: rng.uniform(0, 100) for number in range(rng.randint(1, 12))}
        placed = sorted(spread_labels(ends, 6.0).values())
        assert all(b - a >= 6.0 - 1e-9 for a, b in pairwise(placed))
        assert abs(np.mean(placed) - np.mean([*ends.values()])) < 1e-6
    ticks = {float(place): f"{4 * 2**place}K" for place in range(6)}
    for width in (0.6, 0.9, 1.2, 2.3):
        axes = Figure(figsize=(width, 1)).subplots()
        Lines("vt", [{}], ticks, "length, tokens")(axes)
        thin_ticks([axes])
        boxes = [
            label.get_window_extent() for label in axes.get_xticklabels() if label.get_visible()
        ]
        assert len(boxes) >= 2
        assert all(a.x1 < b.x0 for a, b in pairwise(boxes))


def _luminance(colour: Sequence[float]) -> float:
    """Return the relative luminance of sRGB, as WCAG 2.2 defines it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def test_text_and_lines_have_the_contrast_that_readers_need() -> None:
    for two_sided in (False, True):
        for share in np.linspace(0, 1, 101):
            colour = shades(two_sided=two_sided)(float(share))
            ink = (0.0,) * 3 if ink_on(colour) == "#000000" else (1.0,) * 3
            low, high = sorted((_luminance(colour[:3]), _luminance(ink)))
            assert (high + 0.05) / (low + 0.05) >= 4.5
    for text in COLOURS:
        bright = _luminance([int(text[place : place + 2], 16) / 255 for place in (1, 3, 5)])
        assert 1.05 / (bright + 0.05) >= 3, text
    assert len({tuple(map(str, stroke(number).values())) for number in range(12)}) == 12


def test_files_for_a_paper_are_as_wide_as_a_column_with_embedded_fonts() -> None:
    drawing = pictures.lengths_picture(several(2))
    assert drawing is not None
    pdf = render(drawing).pdf
    assert b"/FontFile2" in pdf and b"/Type3" not in pdf
    (box,) = re.findall(rb"/MediaBox \[ ?([\d. ]+?) ?\]", pdf)
    assert abs(float(box.split()[2]) - 72 * 3.25) < 1
