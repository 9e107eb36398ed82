"""Pictures of a report: what they show is what the words beside them say."""

import random
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np

from ruler_report.figures.heatmaps import correlation_picture, depth_picture
from ruler_report.figures.model_plots import overall_picture, run_pictures
from ruler_report.pages.tables import correlations, depth_grid
from ruler_report.results import Depth, Results
from ruler_report.stats.correlation import clustered, correlation_study
from ruler_report.stats.depth import depth_tables
from ruler_report.stats.summary import ScoredRun, summarize
from tests.results import coin, results_of

LENGTHS = (4096, 8192, 16384, 32768)


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
    picture, table = correlation_picture(study), correlations(study)
    assert [row[0] for row in table.rows] == list(table.head[1:]) == list(study.tasks)
    assert all(row[place + 1] == "1.00" for place, row in enumerate(table.rows))
    texts = [text.text or "" for text in ET.fromstring(picture.svg).iter() if text.text]
    names = [text.partition("_")[0] for text in texts if text.startswith(("niah_t", "vt_t"))]
    axis = names[:18]
    assert len(names) == 36
    assert axis in (["niah"] * 9 + ["vt"] * 9, ["vt"] * 9 + ["niah"] * 9)


def test_several_runs_are_correlated_over_all_their_lengths() -> None:
    one, other = scored(eighteen()), scored(eighteen(), "org/other")
    study = correlation_study([one, other])
    alone = correlation_study([one])
    assert study and alone and study.points == 2 * alone.points
    assert correlation_study([scored(results_of({"vt_4096": [1.0]})), one]) is None


def test_correlations_are_numpy_s_and_a_constant_task_breaks_nothing() -> None:
    rng = random.Random("vectors")
    vectors = np.array([[rng.random() for _ in range(6)] for _ in range(4)] + [[0.5] * 6])
    matrix, order, _ = clustered(vectors)
    assert sorted(order) == list(range(5))
    assert np.allclose(matrix[:4, :4], np.corrcoef(vectors[:4]))
    assert np.isnan(matrix[4]).all()


def test_fewer_than_18_tasks_have_no_correlation_study() -> None:
    assert correlation_study([scored(results_of({"vt_4096": [1.0, 0.0]}))]) is None


def test_the_words_of_a_depth_map_name_its_worst_cell() -> None:
    results = results_of({"vt_4096": coin("d", 0.5, 20), "vt_8192": coin("e", 0.5, 20)})
    depth = Depth((10,) * 10, (9, 9, 9, 2, 9, 9, 9, 9, 9, 9), (7,) * 10)
    configs = {**results.configs, "vt_8192": replace(results.configs["vt_8192"], depth=depth)}
    full = {
        **configs,
        "vt_4096": replace(configs["vt_4096"], depth=Depth((5,) * 10, (5,) * 10, (5,) * 10)),
    }
    (table,) = depth_tables(scored(replace(results, configs=full)))
    picture = depth_picture(table, "")
    assert picture.name == "depth-vt"
    assert "lowest 20 at depth 30 to 40 percent and 8K" in picture.alt
    assert "n=7" in picture.svg


def test_pictures_are_the_same_every_time_and_well_formed() -> None:
    run = scored(results_of({f"vt_{length}": coin(f"{length}", 0.7, 30) for length in LENGTHS}))
    (first,), (second,) = overall_picture([run]), overall_picture([run])
    assert first == second
    ET.fromstring(first.svg)
    ET.fromstring(first.standalone)


def test_names_of_models_are_not_read_as_formulas() -> None:
    run = scored(results_of({"vt_4096": [1.0, 0.0]}), "a $\\frac{$ b <&> \x1b[31m")
    (picture,) = overall_picture([run])
    assert "$\\frac{$" in "".join(ET.fromstring(picture.svg).itertext())
    assert "\x1b" not in picture.svg


def test_a_grid_of_depths_shows_each_depth_with_its_own_rows() -> None:
    scores = [float(index % 11 != 4) for index in range(55)]
    scores[15] = 1.0  # the second row of depth 4 of 0 to 10
    results = results_of({"niah_depth_4096": scores, "niah_depth_8192": [1.0] * 55})
    for name, one in results.configs.items():
        results.configs[name] = replace(one, params={"depths": 11})
    (depths,) = depth_tables(scored(results))
    picture = depth_picture(depths, "")
    assert "lowest 20 at depth 40 percent and 4K" in picture.alt
    assert picture.svg.count(">n=5</text>") == 22
    table = depth_grid(depths)
    assert [row[0] for row in table.rows] == [str(10 * place) for place in range(11)]
    assert table.rows[4] == ("40", "20.0 (n=5)", "100.0 (n=5)")


def test_one_length_is_a_row_of_dots_with_their_intervals() -> None:
    results = results_of({"vt_4096": coin("a", 0.5, 50), "cwe_4096": coin("b", 0.9, 50)})
    run = scored(results)
    names = {picture.name: picture for picture in run_pictures(run, "")}
    picture = names["multi-hop-tracing"]
    assert "at 4K tokens" in picture.svg
    assert f">{run.summary.cells['vt'][4096].value:.1f}</text>" in picture.svg
