"""The frame and its array: which rows are in question, and what their draws show."""

from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from ruler_report import resampling
from ruler_report.columns import MEAN, columns_of
from ruler_report.frame import CellRows, Frame, frame_of, rectangle, rows_of
from ruler_report.means import Means
from ruler_report.resampling import DRAWS, Array
from tests.results import results_of

Floats = npt.NDArray[np.float64]
CELLS = [(task, length) for task in ("vt", "cwe") for length in (4096, 8192)]
CATEGORY_OF = {"vt": "tracing", "cwe": "aggregation"}


def rows(scores: Floats, first: int = 0) -> CellRows:
    """Return the rows of a cell with these scores; questions are counted from `first`."""
    questions = np.arange(first, first + len(scores), dtype=np.uint64)
    return CellRows(np.arange(len(scores)), questions, scores, scores)


def run(scores: dict[tuple[str, int], Floats], first: int = 0) -> dict[tuple[str, int], CellRows]:
    """Return a run; of a task the questions are the same at all lengths."""
    return {cell: rows(of_cell, first + 10**6 * len(cell[0])) for cell, of_cell in scores.items()}


def equal(value: float, count: int) -> dict[tuple[str, int], CellRows]:
    return run({cell: np.full(count, float(value)) for cell in CELLS})


def means_of(*runs: dict[tuple[str, int], CellRows]) -> Means:
    frame = frame_of(runs, {}, partial=False)
    return Means(Array(frame, "official"), columns_of(frame, CATEGORY_OF), range(len(runs)))


def frame(*runs: dict[tuple[str, int], CellRows]) -> Frame:
    return frame_of(runs, {}, partial=False)


def test_a_cell_has_the_first_rows_that_all_runs_have() -> None:
    assert {*frame(equal(1, 10), equal(1, 8)).rows.values()} == {8}


def test_an_incomplete_cell_is_in_no_mean() -> None:
    holes = equal(1, 9)
    holes["cwe", 8192].official[3] = np.nan
    found = frame(equal(1, 9), holes)
    assert found.lengths == (4096,) and found.tasks == ("vt", "cwe")
    assert found.left_out == (("vt", 8192), ("cwe", 8192)) and found.ranked == (0, 1)


def test_a_run_that_lacks_later_rows_is_shown_at_the_first_ones_that_it_has() -> None:
    longer = equal(1, 9)
    for of_cell in longer.values():
        of_cell.official[8] = np.nan
    array = means_of(equal(0, 8), longer).array
    assert array.frame.ranked == (0,) and {*array.frame.rows.values()} == {8}
    assert array.values.tolist() == [[0.0] * 4, [100.0] * 4]


def test_a_run_that_would_halve_the_frame_is_named_and_has_no_rank_in_any_order() -> None:
    small = {("vt", 4096): rows(np.ones(9))}
    for place, runs in enumerate(
        ([small, equal(1, 9), equal(1, 9)], [equal(1, 9), small, equal(1, 9)])
    ):
        found = frame(*runs)
        assert found.unranked == {
            place: "complete in 1 of the 4 tasks at a length that the others share"
        }
        assert len(found.cells) == 4


def test_a_run_with_half_of_the_frame_has_a_rank() -> None:
    half = {cell: rows(np.ones(9)) for cell in CELLS if cell[1] == 4096}
    found = frame(half, equal(1, 9), equal(1, 9))
    assert found.ranked == (0, 1, 2) and found.lengths == (4096,)


def test_two_runs_without_a_common_cell_have_no_frame() -> None:
    first = {("vt", 4096): rows(np.ones(9))}
    found = frame(first, {("vt", 8192): rows(np.ones(9))})
    assert not found.cells and not found.ranked


def test_chosen_rows_have_no_rank() -> None:
    chosen = equal(1, 4)
    first = chosen["vt", 4096]
    index = np.array([1, 3, 5, 7])
    chosen["vt", 4096] = CellRows(index, first.questions, first.official, first.exact)
    found = frame(equal(1, 9), chosen)
    assert found.unranked == {1: "its rows are not the first ones of each config but chosen"}
    assert {*found.rows.values()} == {9}


def test_partial_runs_are_shown_and_have_no_rank() -> None:
    holes = equal(1, 9)
    holes["cwe", 8192].official[3] = np.nan
    found = frame_of([equal(1, 9), holes], {}, partial=True)
    assert found.ranked == (0,) and "1 unanswered rows count as wrong" in found.unranked[1]
    assert len(found.cells) == 4


def test_means_are_over_the_same_tasks_at_every_length() -> None:
    cells = [("vt", 4096), ("cwe", 4096), ("vt", 8192), ("cwe", 8192), ("vt", 16384)]
    assert rectangle(cells) == (("vt", "cwe"), (4096, 8192))
    assert rectangle([*cells[::2], ("cwe", 99)]) == (("vt",), (4096, 8192, 16384))


def test_the_samples_of_a_row_are_averaged_and_one_unanswered_sample_leaves_it_open() -> None:
    scores = results_of({"vt_4096": [1.0, 0.5, None]})
    table = scores.table
    twice = table.set_column(3, "sample", [[1] * 3]).cast(table.schema)
    second = twice.set_column(5, "official", [[0.0, 0.5, 1.0]]).cast(table.schema)
    found = rows_of(pa.concat_tables([table, second]))["vt", 4096]
    assert found.official[:2].tolist() == [0.5, 0.5] and np.isnan(found.official[2])
    assert (found.planned, found.answered) == (3, 2)


def test_draws_of_a_run_stay_beside_others_and_gaps_of_equal_answers_are_narrow() -> None:
    rng = np.random.default_rng(1)
    first = run({cell: (rng.random(40) < 0.5).astype(float) for cell in CELLS})
    second = run({cell: 1 - of_cell.official for cell, of_cell in first.items()})
    alone, both = means_of(first), means_of(first, second)
    assert str(alone.estimate(MEAN, 0)) == str(both.estimate(MEAN, 0))
    assert np.array_equal(alone.array.draws[0], both.array.draws[0])
    near = run({cell: of_cell.official.copy() for cell, of_cell in first.items()})
    near["vt", 4096].official[:2] = 1 - near["vt", 4096].official[:2]
    gap = means_of(first, near).difference(MEAN, 1, 0)
    mean = alone.estimate(MEAN, 0)
    assert mean is not None and None not in (gap.low, gap.high, mean.low, mean.high)
    assert (gap.high or 0) - (gap.low or 0) < ((mean.high or 0) - (mean.low or 0)) / 2


def test_lengths_of_one_question_are_one_observation() -> None:
    half = np.tile([0.0, 1.0], 20)
    four = run({("vt", 4096 << place): half for place in range(4)})
    one = run({("vt", 4096): half})
    widths = [means_of(runs).array.draws[0].mean(axis=0).std() for runs in (one, four)]
    assert widths[0] == pytest.approx(widths[1], rel=0.01)
    means = means_of(four)
    assert means.array.questions(means.columns[MEAN], 0) == pytest.approx(40)


@pytest.mark.parametrize("count", [4, 8])
def test_draws_vary_as_the_mean_of_so_many_questions(count: int) -> None:
    means = means_of(run({("vt", 4096): np.tile([0.0, 1.0], count // 2)}))
    assert means.array.draws[0, 0].std() == pytest.approx(0.5 / np.sqrt(count - 1), rel=0.05)


def test_rows_that_are_all_alike_have_the_end_of_clopper_and_pearson() -> None:
    mean = means_of(run({("vt", 4096): np.ones(20)})).estimate(MEAN, 0)
    assert mean is not None and mean.high == 100
    end = 100 * 0.025 ** (1 / 20)
    assert mean.low is not None and mean.low <= end
    none = means_of(run({("vt", 4096): np.zeros(20)})).estimate(MEAN, 0)
    assert none is not None and none.low == 0
    assert none.high is not None and 100 - end <= none.high < 50


def test_a_category_with_the_name_of_a_task_gives_way_to_the_task() -> None:
    cells = run({("vt", 4096): np.ones(9), ("cwe", 4096): np.zeros(9)})
    columns = columns_of(frame(cells), {"vt": "cwe", "cwe": "cwe"})
    assert (columns["cwe", None].tasks, columns["cwe", 4096].tasks) == (("cwe",), ("cwe",))
    assert columns[MEAN].tasks == ("vt", "cwe")


def test_one_row_has_no_interval_and_few_have_no_test() -> None:
    for count, is_shown in ((1, False), (7, False), (8, True)):
        means = means_of(equal(0.0, count), equal(1.0, count))
        mean = means.estimate(MEAN, 1)
        assert mean is not None and (mean.low is None) == (count == 1)
        assert means.shown([MEAN], [(1, 0)])[MEAN, 1, 0] == is_shown


def test_the_smallest_cell_of_a_mean_decides_whether_it_can_be_tested() -> None:
    means = means_of(run({("vt", 4096): np.ones(20), ("vt", 8192): np.ones(7)}))
    assert means.array.fewest(means.columns[MEAN]) == 7
    assert means.array.fewest(means.columns["vt", 4096]) == 20


def test_each_bound_of_a_difference_errs_in_5_percent() -> None:
    right, kept = np.random.default_rng(5).random((2, 900)) < [[0.9], [0.95]]
    gaps = 100.0 * ((right & kept).astype(float) - right)
    pair = [run({("vt", 4096): scores.astype(float)}) for scores in (right, right & kept)]
    low, high = means_of(*pair).bounds(MEAN, 1, 0)
    reach = NormalDist().inv_cdf(0.95) * gaps.std() / 900**0.5
    assert low < gaps.mean() < high
    assert high - low == pytest.approx(2 * reach, rel=0.08)


def test_runs_that_change_places_change_signs_and_no_digit_or_verdict() -> None:
    rng = np.random.default_rng(3)
    scores = [
        {cell: (rng.random(12) < chance).astype(float) for cell in CELLS}
        for chance in (0.2, 0.5, 0.9, 0.95)
    ]
    scores[1] = {cell: of_cell[::-1] for cell, of_cell in scores[0].items()}  # the same mean
    runs = [run(of_run) for of_run in scores]
    here, there = means_of(*runs), means_of(*runs[::-1])
    names, pairs = [*here.columns], [(b, a) for a in range(4) for b in range(a + 1, 4)]
    shown = here.shown(names, pairs)
    shown_there = there.shown(names, [(3 - a, 3 - b) for b, a in pairs])
    tests = [*shown]
    mirrored = [(name, 3 - a, 3 - b) for name, b, a in tests]
    assert any(shown.values()) and not all(shown.values())
    for (name, b, a), other in zip(tests, mirrored, strict=True):
        assert shown[name, b, a] == shown_there[other]
        assert here.difference(name, b, a) == here.difference(name, a, b).negated
        assert str(here.difference(name, b, a)) == str(there.difference(name, 3 - b, 3 - a))


def test_a_family_does_not_depend_on_the_other() -> None:
    """A difference of the mean is shown or not whatever cells are tested besides."""
    rng = np.random.default_rng(9)
    chances = (0.6, 0.75)
    runs = [
        run({cell: (rng.random(60) < chance).astype(float) for cell in CELLS}) for chance in chances
    ]
    means = means_of(*runs)
    everything = means.shown([*means.columns], [(1, 0)])
    assert means.shown([MEAN], [(1, 0)])[MEAN, 1, 0]
    assert sum(everything.values()) <= sum(
        means.shown([name], [(1, 0)])[name, 1, 0] for name in means.columns
    )


@pytest.mark.slow
def test_equal_runs_are_told_apart_once_in_twenty_times() -> None:
    wrong = 0
    for simulation in range(60):
        rng = np.random.default_rng(simulation)
        runs = [
            run({cell: (rng.random(40) < 0.5).astype(float) for cell in CELLS}) for _ in range(5)
        ]
        pairs = [(b, a) for a in range(5) for b in range(a + 1, 5)]
        wrong += any(means_of(*runs).shown([MEAN], pairs).values())
    assert wrong <= 8  # of a binomial with 60 tries at 5 % in all but 0.4 %


def test_weights_are_those_of_the_question_whoever_was_asked() -> None:
    assert DRAWS == 2000
    scores = np.tile([0.0, 1.0, 1.0], 4)
    first, second = run({("vt", 4096): scores}), run({("vt", 4096): scores}, first=500)
    draws = means_of(first, first, second).array.draws[:, 0]
    assert np.array_equal(draws[0], draws[1]) and abs(np.corrcoef(draws[0], draws[2])[0, 1]) < 0.1


def test_draws_are_the_same_to_the_bit_in_whatever_order_a_processor_adds() -> None:
    rng = np.random.default_rng(2)
    scores = rng.integers(0, 11, size=(3, 500)) / 10
    questions = rng.integers(2**63, size=500, dtype=np.uint64)
    order = rng.permutation(500)
    other = resampling._draws_of_means(scores[:, order], questions[order])
    assert np.array_equal(resampling._draws_of_means(scores, questions), other)


def test_a_run_without_a_rank_keeps_its_own_reason_and_takes_none_from_others() -> None:
    small = {("vt", 4096): rows(np.ones(9))}
    found = frame_of([equal(1, 9), small, equal(1, 9)], {1: "refused"}, partial=False)
    assert found.unranked == {1: "refused"} and found.ranked == (0, 2)
    barred = {0: "refused", 1: "claimed"}
    two = frame_of([equal(1, 9), equal(1, 9), small], barred, partial=False)
    assert two.unranked == barred and two.ranked == (2,) and two.cells == (("vt", 4096),)
    late = equal(1, 9)
    late["vt", 4096].index[:] = np.arange(3, 12)
    holes = equal(1, 9)
    holes["vt", 4096].official[2] = np.nan
    found = frame_of([equal(1, 9), equal(1, 9), late, holes], {2: "refused"}, partial=True)
    assert found.unranked[2] == "refused" and "1 " in found.unranked[3]


def test_the_variance_of_a_difference_is_that_of_the_draws_themselves() -> None:
    draws = np.random.default_rng(1).normal(size=(4, DRAWS)).astype(np.float32)
    draws[1] = draws[0] + 0.1 * draws[2]  # two runs that are much alike
    spread = resampling._spread(draws)
    for first in range(4):
        for second in range(4):
            expected = np.var(draws[first] - draws[second])
            assert spread[first, second] == pytest.approx(expected, abs=1e-4)
