"""Pictures of a report: what they show is what the words beside them say."""

import random
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from ruler_report.figures import curves, heatmaps
from ruler_report.figures.style import (
    COLOURS,
    DARK,
    Picture,
    ink_on,
    render,
    shades,
    stroke,
    thin_ticks,
)
from ruler_report.pages.report import build
from ruler_report.pages.tables import correlations, depth_grid
from ruler_report.results_file import Cost, Depth, Results
from ruler_report.stats.baseline import retention
from ruler_report.stats.comparison import compare
from ruler_report.stats.correlation import clustered, correlation_study
from ruler_report.stats.cost import cost_table
from ruler_report.stats.depth import depth_grids, shown_by_depth
from ruler_report.stats.summary import ScoredRun, summarize
from tests.results import coin, results_of

LENGTHS = (4096, 8192, 16384, 32768)


def with_cost(results: Results, seconds: float) -> Results:
    """Return results whose rows, two or more, took these seconds together."""
    for name, one in results.configs.items():
        results.configs[name] = replace(one, cost=Cost(2, 3, 8000, seconds))
    return results


def scored(results: Results, label: str = "org/model") -> ScoredRun:
    return ScoredRun(label, results, summarize(results))


def eighteen() -> Results:
    """Return a run of 18 tasks in two groups that fall with length in two ways."""
    scores = {}
    for number in range(18):
        family = "niah" if number % 2 else "vt"
        for place, length in enumerate(LENGTHS):
            chance = (0.9, 0.8, 0.4, 0.1) if number % 2 else (0.5, 0.9, 0.5, 0.9)
            name = f"{family}_t{number}_{length}"
            scores[name] = coin(name, chance[place], 200)
    return results_of(scores)


def test_tasks_that_fall_alike_stand_side_by_side() -> None:
    study = correlation_study([scored(eighteen())])
    assert study and study.points == len(LENGTHS) and len(study.branches) == 17
    picture, table = render(heatmaps.correlations(study), "page"), correlations(study)
    assert [row[0] for row in table.rows] == list(table.head[1:]) == list(study.tasks)
    assert all(row[place + 1] == "1.00" for place, row in enumerate(table.rows))
    texts = [text.text or "" for text in ET.fromstring(picture.panels[0]).iter() if text.text]
    names = [text.partition("_")[0] for text in texts if text.startswith(("niah_t", "vt_t"))]
    axis = names[:18]
    assert len(names) == 36
    assert axis in (["niah"] * 9 + ["vt"] * 9, ["vt"] * 9 + ["niah"] * 9)


def test_several_runs_are_correlated_over_all_their_lengths_if_there_are_18_tasks() -> None:
    one, other = scored(eighteen()), scored(eighteen(), "org/other")
    study, alone = correlation_study([one, other]), correlation_study([one])
    assert study and alone and study.points == 2 * alone.points
    few = scored(results_of({"vt_4096": [1.0, 0.0]}))
    assert correlation_study([few, one]) is None and correlation_study([few]) is None


def test_correlations_are_numpy_s_and_a_constant_task_breaks_nothing() -> None:
    rng = random.Random("vectors")
    points = [{**{task: rng.random() for task in "abcd"}, "constant": 0.5} for _ in range(6)]
    study = clustered(points)
    assert sorted(study.tasks) == sorted(points[0])
    vectors = [[point[task] for point in points] for task in study.tasks if task != "constant"]
    known = [task != "constant" for task in study.tasks]
    assert np.allclose(study.matrix[np.ix_(known, known)], np.corrcoef(vectors))
    assert np.isnan(study.matrix[np.invert(known)]).all()


def with_depth(name: str, depths: dict[int, Depth]) -> ScoredRun:
    results = results_of({f"vt_{length}": coin(f"{name}{length}", 0.5, 200) for length in depths})
    for length, depth in depths.items():
        config = results.configs[f"vt_{length}"]
        results.configs[f"vt_{length}"] = replace(config, depth=depth)
    return scored(results, name)


def test_depths_are_pooled_until_each_number_is_of_twenty_rows() -> None:
    few = Depth((5,) * 10, (5, 5, 5, 0, 5, 5, 5, 5, 5, 5), (5,) * 10)
    many = Depth((40,) * 10, (40, 40, 40, 8, 40, 40, 40, 40, 40, 40), (40,) * 10)
    run = with_depth("org/a", {4096: few, 8192: many})
    assert len(shown_by_depth(run, ["vt"], [4096])) == 2  # 25 rows each
    assert len(shown_by_depth(run, ["vt"], [8192])) == 10
    both = shown_by_depth(run, ["vt"], [4096, 8192])
    assert len(both) == 10 and both[3].scored == 45
    assert abs(both[3].value - 100 * 8 / 45) < 1e-9 and both[3].low < both[3].value < both[3].high
    (curve,), (image,) = curves.by_depth([run]), heatmaps.depth_maps([run])
    assert "multi-hop tracing, org/a: lowest 18 at depth 30 to 40" in curve.alt
    assert "org/a: lowest 80 at depth 0-50 and 4K" in image.alt


def test_pictures_are_the_same_every_time_and_well_formed() -> None:
    run = scored(results_of({f"vt_{length}": coin(f"{length}", 0.7, 30) for length in LENGTHS}))
    (drawing,) = curves.by_length([run])
    first, second = render(drawing, "page"), render(drawing, "page")
    assert first == second
    for panel in first.panels:
        ET.fromstring(panel)


def texts(picture: Picture) -> str:
    return " ".join("".join(ET.fromstring(panel).itertext()) for panel in picture.panels)


def test_every_task_has_a_panel_and_every_line_its_number() -> None:
    tasks = ("vt", "cwe", "fwe")
    names = [f"{task}_{length}" for task in tasks for length in LENGTHS]
    runs = [
        scored(results_of({n: coin(f"{k}{n}", 0.9 - k / 20, 30) for n in names}), f"org/m{k}")
        for k in range(12)
    ]
    (drawing,) = curves.by_length(runs)
    picture = render(drawing, "page")
    assert len(picture.panels) == 4  # the mean is the first
    for panel, title in zip(picture.panels, ("mean of 3 tasks", *tasks), strict=True):
        words = [text.strip() for text in ET.fromstring(panel).itertext()]
        assert title in words and {str(number) for number in range(1, 13)} <= set(words)


def test_a_caption_promises_intervals_only_where_they_are_drawn() -> None:
    run = scored(results_of({f"vt_{length}": [1.0, 0.0] for length in LENGTHS}))
    for many in (12, 13):
        (drawing,) = curves.by_length([run] * many)
        assert ("with 95 % intervals" in drawing.title) == (many <= curves.MANY)


def test_panels_of_runs_with_long_names_have_different_titles() -> None:
    names = [f"org/model-with-a-long-name-{number:02d}-instruct-8x22b" for number in range(4)]
    runs = [results_of({"vt_4096": [1.0, 0.0], "vt_8192": [1.0, 0.0]}, model=n) for n in names]
    report = build(runs, medium="page")
    for name in ("differences", "depth-length"):
        (picture,) = (one for one in report.pictures if one.name == name)
        titles = re.findall(r"(\d) org/model-wi…-instruct-8x22b", texts(picture))
        assert titles == [str(number + 1) for number in range(4)][-len(picture.panels) :]


def test_labels_at_the_ends_of_lines_never_overlap() -> None:
    rng = random.Random("ends")
    for _ in range(200):
        ends = {number: rng.uniform(0, 100) for number in range(rng.randint(1, 12))}
        placed = sorted(curves.apart(ends, 6.0).values())
        assert all(b - a >= 6.0 - 1e-9 for a, b in pairwise(placed))
        assert abs(np.mean(placed) - np.mean([*ends.values()])) < 1e-6


def test_names_of_models_are_not_read_as_formulas() -> None:
    runs = [scored(results_of({"vt_4096": [1.0, 0.0]}), name)
            for name in ("a $\\frac{$ b <&> \x1b[31m", "b")]  # fmt: skip
    comparison = compare(runs[1].results, runs[0].results)
    (drawing,) = heatmaps.differences("b", {runs[0].label: comparison})
    picture = render(drawing, "page")
    assert "$\\frac{$" in texts(picture) and "\x1b" not in picture.panels[0]
    assert picture.files["png"].startswith(b"\x89PNG")


def test_a_grid_of_depths_shows_each_depth_with_its_own_rows() -> None:
    scores = [float(index % 11 != 4) for index in range(55)]
    scores[15] = 1.0  # the second row of depth 4 of 0 to 10
    results = results_of({"niah_depth_4096": scores, "niah_depth_8192": [1.0] * 55})
    for name, one in results.configs.items():
        results.configs[name] = replace(one, params={"depths": 11})
    run = scored(results)
    (depths,) = depth_grids(run)
    drawing = heatmaps.depth_grid({"m": depths})
    assert "lowest 20 at depth 40 percent and 4K" in drawing.alt
    assert texts(render(drawing, "page")).count("100") >= 21
    table = depth_grid(depths)
    assert [row[0] for row in table.rows] == [str(10 * place) for place in range(11)]
    assert table.rows[4] == ("40", "20.0 (n=5)", "100.0 (n=5)")


def test_scores_against_steps_are_drawn_for_checkpoints_only() -> None:
    names = [f"org/model-7b-step-{step}" for step in (3000, 1000, 2000)]
    runs = [scored(results_of({"vt_4096": coin(name, 0.8, 30)}, model=name)) for name in names]
    assert [curves.step_of(run) for run in runs] == [3000, 1000, 2000]
    (drawing,) = curves.by_number(runs)
    places = [drawing.alt.index(f"at step {step}") for step in ("1,000", "2,000", "3,000")]
    assert places == sorted(places)
    other = scored(results_of({"vt_4096": [1.0]}, model="org/model-7b"))
    assert not list(curves.by_number([*runs, other])) and not list(curves.by_number([other]))


def test_scores_against_an_option_have_a_line_for_each_method_and_one_without_it() -> None:
    def of(chance: float, **options: object) -> ScoredRun:
        scores = {"vt_4096": coin(str(options), chance, 30)}
        return scored(with_cost(results_of(scores, engine_info={"arguments": options}), 9))

    presses = [of(1 - r / 2, compression_ratio=r, press=name)
               for name in ("snapkv", "knorm") for r in (0.25, 0.5, 0.75)]  # fmt: skip
    (drawing,) = curves.by_number([of(1.0), *presses])
    assert drawing.series == ["snapkv", "knorm"] and "by compression_ratio" in drawing.title
    assert drawing.title.endswith("dashed: org/model")
    assert drawing.alt.index("at 0.25") < drawing.alt.index("at 0.75")
    found = texts(render(drawing, "page"))
    assert "retained, in percent" in found
    assert "seconds a row" in found and "tokens a second" in found
    assert not list(curves.by_number([of(1.0), of(0.9, press="snapkv")]))


def test_a_picture_shows_the_retention_of_the_table_also_where_runs_have_other_lengths() -> None:
    def of(ratio: float, *lengths: int) -> ScoredRun:
        scores = {f"vt_{n}": coin(f"{ratio}", (1 - ratio) * 4096 / n, 40) for n in lengths}
        return scored(results_of(scores, engine_info={"arguments": {"ratio": ratio}}))

    full, *pressed = runs = [of(0.0, 4096, 8192), of(0.25, 4096), of(0.5, 4096)]
    (drawing,) = curves.by_number(runs, baseline=full)
    panels = [one for one in drawing.panels if isinstance(one, curves.Lines)]
    kept = next(one for one in panels if one.title == "retained, in percent")
    table = [retention(run.results, full.results)[None, None].value for run in pressed]
    assert [cell.value for cell in [*kept.lines[0].values()][1:]] == table
    assert kept.lines[0][0.0].value == 100
    other = scored(results_of({"vt_4096": [1.0, 0.0]}, engine_info={"arguments": {"press": "x"}}))
    (beside,) = curves.by_number([*runs, other], baseline=full)  # other has no ratio
    assert beside.alt == drawing.alt


def test_retention_and_means_of_a_picture_are_over_the_same_configs() -> None:
    def of(ratio: float, *tasks: str) -> ScoredRun:
        scores = {f"{t}_4096": coin(f"{ratio}{t}", (1 - ratio) * len(t) / 4, 40) for t in tasks}
        return scored(results_of(scores, engine_info={"arguments": {"ratio": ratio}}))

    full, *_ = runs = [of(0.0, "vt", "cwe"), of(0.25, "vt", "cwe"), of(0.5, "vt")]
    (drawing,) = curves.by_number(runs, baseline=full)
    mean, kept = (one for one in drawing.panels[:2] if isinstance(one, curves.Lines))
    assert mean.title == "mean of 1 task" and mean.threshold
    for ratio, cell in mean.lines[0].items():
        assert kept.lines[0][ratio].value == pytest.approx(100 * cell.value / mean.threshold)


def test_scores_stand_against_what_the_answers_cost() -> None:
    runs = [scored(with_cost(results_of({"vt_4096": [1.0, 0.0]}), seconds), f"m{seconds}")
            for seconds in (2, 8)]  # fmt: skip
    (drawing,) = curves.by_cost(runs)
    assert "m2 50.0 at 1.00 seconds a row" in drawing.alt
    assert "m8 50.0 at 1,000.00 tokens a second" in drawing.alt
    table = cost_table({run.label: run.results for run in runs})
    assert table.rows[1] == ("m8", "50.0", "", "50 %", "0 %", "1.5", "4,000", "4.00", "1,000")
    assert not list(curves.by_cost([scored(results_of({"vt_4096": [1.0]}))]))


def test_lines_are_dashed_beyond_the_length_that_a_model_was_trained_on() -> None:
    lengths = {f"vt_{length}": [1.0, 0.5] for length in (1024, 2048, 4096)}
    runs = [scored(replace(results_of(lengths), attributes=given), name)
            for name, given in (("a", {"train_length": 2048.0}), ("b", {}))]  # fmt: skip
    (drawing,) = curves.by_length(runs)
    assert drawing.title.endswith("dashed and hollow: longer than the model was trained on")
    (panel,) = drawing.panels
    assert isinstance(panel, curves.Lines) and panel.trained == [11.0, None]
    assert "trained" not in next(iter(curves.by_length([runs[1]]))).title
    (drawing,) = curves.by_attribute(
        [*runs, scored(replace(results_of(lengths), attributes={"train_length": 0.0}), "c")]
    )
    assert "a 75.0 at 2,048.00 train_length" in drawing.alt and "b " not in drawing.alt
    assert "c 75.0 at 0.00 train_length" in drawing.alt


def test_labels_of_an_axis_never_touch() -> None:
    from matplotlib.figure import Figure

    ticks = {float(place): f"{4 * 2**place}K" for place in range(6)}
    for width in (0.6, 0.9, 1.2, 2.3):
        axes = Figure(figsize=(width, 1)).subplots()
        curves.Lines("one", [{}], ticks)(axes)
        thin_ticks([axes])
        boxes = [label.get_window_extent() for label in axes.get_xticklabels()
                 if label.get_visible()]  # fmt: skip
        assert len(boxes) >= 2
        assert all(a.x1 < b.x0 for a, b in pairwise(boxes))


def _luminance(colour: Sequence[float]) -> float:
    """Return the relative luminance of sRGB, as WCAG 2.2 defines it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def test_text_on_cells_has_the_contrast_that_readers_need() -> None:
    for two_sided in (False, True):
        for share in np.linspace(0, 1, 101):
            colour = shades(two_sided=two_sided)(float(share))
            ink = (0.0,) * 3 if ink_on(colour) == "#000000" else (1.0,) * 3
            low, high = sorted((_luminance(colour[:3]), _luminance(ink)))
            assert (high + 0.05) / (low + 0.05) >= 4.5


def test_files_for_a_paper_are_as_wide_as_a_column_with_embedded_fonts() -> None:
    run = scored(results_of({f"vt_{length}": coin(f"{length}", 0.7, 30) for length in LENGTHS}))
    (drawing,) = curves.by_length([run])
    picture = render(drawing, "paper")
    pdf, svg = picture.files["pdf"], picture.files["svg"].decode()
    assert set(picture.files) == {"pdf", "svg"} and not picture.panels
    assert b"/FontFile2" in pdf and b"/Type3" not in pdf
    (box,) = re.findall(rb"/MediaBox \[ ?([\d. ]+?) ?\]", pdf)
    assert abs(float(box.split()[2]) - 72 * 3.25) < 1
    assert "<text" not in svg and drawing.title not in svg  # letters are outlines
    assert 'width="234pt"' in svg


@pytest.mark.parametrize(("colours", "ground"), [(COLOURS, "#ffffff"), (DARK, "#14171a")])
def test_series_stand_out_from_the_ground_and_48_differ(
    colours: tuple[str, ...], ground: str
) -> None:
    def light(colour: str) -> float:
        return _luminance([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])

    for colour in colours:
        dark, bright = sorted((light(ground), light(colour)))
        assert (bright + 0.05) / (dark + 0.05) >= 3, colour
    assert len(set(colours)) == 12
    assert len({tuple(map(str, stroke(number).values())) for number in range(48)}) == 48
