"""Pictures of a report: what they show is what the words beside them say."""

import base64
import random
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from ruler_data.errors import UsageError
from ruler_eval.scoring.results import Depth, Scores
from ruler_report.drawing import (
    COLOURS,
    Dots,
    Drawing,
    Lines,
    Picture,
    ink_on,
    render,
    shades,
    spread_labels,
    stroke,
    thin_ticks,
)
from ruler_report.lineup import lineup
from ruler_report.means import Point
from ruler_report.pictures import (
    against,
    depth_picture,
    differences_picture,
    lengths_picture,
    place_of,
    retrieval_by_depth,
    tasks_picture,
)
from ruler_report.summary import ScoredRun, summarize
from tests.results import coin, results_of

LENGTHS = (4096, 8192, 16384, 32768)


def scored(results: Scores, label: str = "org/model") -> ScoredRun:
    return ScoredRun(label, results, summarize(results))


def cells(level: float) -> dict[int, Point]:
    return {n: Point(level - k, level - k - 3, level - k + 3) for k, n in enumerate(LENGTHS)}


def by_length(runs: int) -> Drawing:
    labels = [f"org/model-with-a-long-name-{number:02d}-instruct" for number in range(runs)]
    means = [cells(90 - 3 * number) for number in range(runs)]
    drawing = lengths_picture(labels, means, {"vt": means, "cwe": means}, 85.6)
    assert drawing
    return drawing


def texts(picture: Picture) -> str:
    """Return all text in the panels of a page."""
    documents = (base64.b64decode(uri.partition(",")[2]) for _, uri in picture.panels)
    return " ".join(" ".join(ET.fromstring(document).itertext()) for document in documents)


@pytest.mark.slow
@pytest.mark.parametrize("runs", [1, 25])
def test_every_run_can_be_read_in_a_picture_of_one_or_of_25(runs: int) -> None:
    drawing = by_length(runs)
    picture = render(drawing, "page")
    assert picture == render(drawing, "page")  # the same every time
    words = texts(picture)
    assert all(f"{90 - 3 * number:.1f} at 4K" in drawing.alt for number in range(runs))
    if runs == 1:
        assert len(picture.panels) == 3 and "with 95 % intervals" in drawing.title
    else:
        assert len(picture.panels) == 1 and "intervals" not in drawing.title
        assert words.count("instruct") == runs


def test_a_row_is_one_observation_in_the_picture_of_depth() -> None:
    """Ten rows with 30 pieces each do not drown 190 rows with one."""
    results = results_of({"niah_single_1_4096": [1.0] * 190, "cwe_4096": [0.0] * 10})
    one = results.configs["niah_single_1_4096"]
    results.configs["niah_single_1_4096"] = replace(
        one, family="niah", depth=Depth((19,) * 10, (19,) * 9 + (0,), (19,) * 10)
    )
    many = results_of({"niah_multivalue_4096": [0.0] * 10}).configs["niah_multivalue_4096"]
    results.configs["niah_multivalue_4096"] = replace(
        many, family="niah", depth=Depth((30,) * 10, (0,) * 10, (10,) * 10)
    )
    grid = retrieval_by_depth(results, [4096])
    assert grid.shape == (10, 1)
    assert grid[:9] == pytest.approx(100 * 19 / 20) and grid[9] == 0
    drawing = depth_picture(["m"], [4096], [grid])
    assert drawing and "m: lowest 0 at depth 90-100 % and 4K" in drawing.alt
    assert depth_picture(["m"], [4096], [retrieval_by_depth(results_of({}), [4096])]) is None


def test_names_of_models_are_not_read_as_formulas() -> None:
    drawing = tasks_picture(["a $\\frac{$ b <&> \x1b[31m", "b"], {"vt": [cells(50)[4096]] * 2})
    assert drawing and isinstance(drawing.panels[0], Dots)
    assert "\x1b" not in drawing.alt and render(drawing, "page").files["png"].startswith(b"\x89PNG")
    pictured = differences_picture("b", ["$\\frac{$ <&>"], [], [], np.zeros((1, 1, 1)), np.zeros(1))
    assert pictured and "$\\frac{$ <&>" in texts(render(pictured, "page"))


def test_steps_and_parameters_of_tasks_are_numbers_too() -> None:
    names = [f"org/model-7b-step-{step}" for step in (3000, 1000)]
    runs = [
        scored(results_of({"vt_4096": coin(name, 0.8, 30)}, model=name), name) for name in names
    ]
    assert [place_of(run, "step") for run in runs] == [3000, 1000]
    field = lineup([run.results for run in runs])
    drawing = against(field, runs, "step", None)
    assert drawing and drawing.alt.index("at 1000") < drawing.alt.index("at 3000")
    sweep = results_of({"vt_hops_2_4096": [1.0, 1.0], "vt_hops_4_4096": [1.0, 0.0]})
    for name, config in sweep.configs.items():
        sweep.configs[name] = replace(config, params={"hops": int(name.split("_")[2])})
    with pytest.raises(UsageError, match="runs differ in step"):
        against(field, runs, "ratio", None)
    drawing = against(lineup([sweep]), [scored(sweep)], "hops", None)
    assert drawing and "100.0 at 2.0, 50.0 at 4.0" in drawing.alt


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
        Lines("vt", [{}], ticks)(axes)
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
    picture = render(by_length(2), "paper")
    pdf = picture.files["pdf"]
    assert set(picture.files) == {"pdf"} and not picture.panels
    assert b"/FontFile2" in pdf and b"/Type3" not in pdf
    (box,) = re.findall(rb"/MediaBox \[ ?([\d. ]+?) ?\]", pdf)
    assert abs(float(box.split()[2]) - 72 * 3.25) < 1
