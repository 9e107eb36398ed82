"""Pictures of a report: what they show is what the words beside them say."""

import base64
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ruler_data import TASKS
from ruler_eval.scoring.scores import Scores
from ruler_report import pictures
from ruler_report.conclusion import Conclusion, conclude
from ruler_report.lines import depth_grid, lines_of
from ruler_report.pictures import BLACK_FROM, COLOURS, Picture, stroke
from tests.results import coin, results_of

LENGTHS = (4096, 8192, 16384)


def run_of(name: str, chance: float = 0.7, **changes: Any) -> Scores:  # noqa: ANN401
    scores = {f"{task}_{length}": coin(f"{name}{task}{length}", chance, 12)
              for task in ("vt", "niah_single_1") for length in LENGTHS}  # fmt: skip
    return results_of(scores, model=name, **changes)


def several(number: int) -> Conclusion:
    return conclude([run_of(f"org/a-long-name-{n:02d}-instruct") for n in range(number)])


def drawn(conclusion: Conclusion) -> list[Picture]:
    """Return all pictures of a report."""
    found = [pictures.lengths_picture(conclusion), pictures.depths_picture(conclusion)]
    found += [pictures.depth_picture(conclusion, run) for run in conclusion.order]
    return [picture for picture in found if picture]


def words_in(picture: Picture) -> list[str]:
    """Return the texts in a picture of a page."""
    document = ET.fromstring(base64.b64decode(picture.uri.partition(",")[2]))
    return ["".join(text.itertext()) for text in document.iterfind(".//{*}text")]


@pytest.mark.parametrize("number", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 12))])
def test_no_axis_is_without_a_title_and_every_run_can_be_read(number: int) -> None:
    conclusion = several(number)
    names = pictures.short_names(conclusion)
    lengths, depths, *by_run = drawn(conclusion)
    assert {"length, tokens", "mean of 2 tasks, %"} <= {*words_in(lengths)}
    key = {"official", "exact"} if number == 1 else {*names}
    assert key <= {*words_in(lengths)}
    assert {"depth of the needle, %", *names} <= {*words_in(depths)}
    assert len(by_run) == number
    for picture in by_run:
        assert {"depth of the needle, %", "length, tokens", "4K"} <= {*words_in(picture)}
    again = pictures.lengths_picture(conclusion)
    assert lengths == again  # the same every time
    mean = f"{conclusion.value((None, 4096), conclusion.order[0]):.1f} at 4K"
    assert mean in lengths.alt and lengths.png.startswith(b"\x89PNG")


def test_one_length_has_no_picture_by_length() -> None:
    assert pictures.lengths_picture(conclude([results_of({"vt_4096": [1.0, 0.0] * 4})])) is None


def test_many_runs_have_a_picture_each_and_none_in_common() -> None:
    conclusion = several(13)
    assert pictures.lengths_picture(conclusion) is None
    assert pictures.depths_picture(conclusion) is None


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


@pytest.mark.parametrize(("rows", "bins"), [(80, 10), (79, 5), (40, 5), (39, 2), (16, 2), (3, 2)])
def test_bins_of_depth_are_as_fine_as_the_length_with_the_fewest_rows_allows(
    rows: int, bins: int
) -> None:
    numbers = {4096: 500, 8192: rows}
    lines = pd.DataFrame(
        {
            "length": [length for length, number in numbers.items() for _ in range(number)],
            "depth": [[place / number] for number in numbers.values() for place in range(number)],
            "shown": [[True] for number in numbers.values() for _ in range(number)],
        }
    )
    assert depth_grid(lines, [*numbers]).shape == (bins, 2)


def test_names_of_models_are_not_read_as_formulas() -> None:
    conclusion = conclude([run_of("a $\\frac{$ b <&> \x1b[31m"), run_of("b")])
    for picture in drawn(conclusion):
        assert "\x1b" not in picture.alt and picture.png.startswith(b"\x89PNG")


def _luminance(colour: Sequence[float]) -> float:
    """Return the relative luminance of sRGB, as WCAG 2.2 defines it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def test_text_and_lines_have_the_contrast_that_readers_need() -> None:
    from matplotlib import colormaps

    for percent in range(101):
        colour = colormaps["viridis"](percent / 100)
        ink = (0.0,) * 3 if percent >= BLACK_FROM else (1.0,) * 3
        low, high = sorted((_luminance(colour[:3]), _luminance(ink)))
        assert (high + 0.05) / (low + 0.05) >= 4.5
    for text in COLOURS:
        bright = _luminance([int(text[place : place + 2], 16) / 255 for place in (1, 3, 5)])
        assert 1.05 / (bright + 0.05) >= 3, text
    assert len({tuple(map(str, stroke(number).values())) for number in range(12)}) == 12


def test_files_for_a_paper_are_as_wide_as_a_column_with_embedded_fonts() -> None:
    picture = pictures.lengths_picture(several(2))
    assert picture is not None
    pdf = picture.pdf
    assert b"/FontFile2" in pdf and b"/Type3" not in pdf
    (box,) = re.findall(rb"/MediaBox \[ ?([\d. ]+?) ?\]", pdf)
    assert abs(float(box.split()[2]) - 72 * 3.25) < 1


def test_a_number_stands_in_its_cell_in_an_ink_that_can_be_read() -> None:
    from matplotlib.figure import Figure

    values = np.array([[10.0, 49.4, np.nan], [100.0, 99.5, 61.0]])
    heat = pictures._Heat(values, ["a", "b"], ["1K", "2K", "4K"], "across", "up")
    axes = Figure().add_subplot()
    heat.draw(axes)
    texts = {text.get_position(): (text.get_text(), text.get_color()) for text in axes.texts}
    assert texts == {
        (column + 0.5, row + 0.5): (f"{values[row, column]:.0f}", ink)
        for row, column, ink in (
            (0, 0, "white"),
            (0, 1, "black"),
            (1, 0, "black"),
            (1, 1, "black"),
            (1, 2, "black"),
        )
    }
    assert [*axes.get_xticks()] == [0.5, 1.5, 2.5] and [*axes.get_yticks()] == [0.5, 1.5]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1K", "2K", "4K"]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a", "b"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("across", "up")
    assert axes.get_ylim() == (2.0, 0.0)  # the first row is on top


def test_a_line_has_its_points_its_intervals_and_the_other_score() -> None:
    from matplotlib.figure import Figure

    conclusion = conclude([run_of("org/one")])
    axes = Figure().add_subplot()
    pictures._Lines(conclusion).draw(axes)
    official, exact = axes.lines
    estimates = [conclusion.estimate((None, length), 0) for length in LENGTHS]
    assert np.array_equal(official.get_xdata(), [12, 13, 14])
    assert np.array_equal(official.get_ydata(), [mean.value for mean in estimates if mean])
    beside = [conclusion.value_beside((None, length), 0) or 0.0 for length in LENGTHS]
    assert np.array_equal(exact.get_ydata(), beside) and exact.get_linestyle() == ":"
    spans = [
        np.sort(np.asarray(path.vertices)[:, 1])
        for bars in axes.collections
        for path in bars.get_paths()
    ]
    assert np.array_equal(spans, [[mean.low or 0, mean.high or 0] for mean in estimates if mean])
    assert axes.get_ylim() == (-4, 104) and [*axes.get_yticks()] == [0, 25, 50, 75, 100]


def test_one_row_has_a_point_without_an_interval() -> None:
    scores = {f"vt_{length}": [1.0] for length in LENGTHS}
    picture = pictures.lengths_picture(conclude([results_of(scores)]))
    assert picture is not None and "100.0 at 4K" in picture.alt


def test_the_title_of_a_picture_says_what_is_dotted_and_dashed() -> None:
    few = pictures._Lines(several(2))
    assert few.title == "Score by length; dotted: exact score"
    assert pictures._Lines(several(12)).title == "Score by length"
    scores = {f"{task}_{length}": [1.0] * 3 for task in TASKS for length in LENGTHS}
    whole = conclude([results_of(scores)])
    assert pictures._Lines(whole).title == "Score by length; dotted: exact score; dashed: 85.6"
    other = results_of(scores, protocol="base")
    assert "dashed" not in pictures._Lines(conclude([results_of(scores), other], force=True)).title
