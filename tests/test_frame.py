"""The frame: which rows are in question, and what its array says of them."""

import numpy as np
import pytest

from ruler_report.frame import Digests, Floats, columns_of, frame_of
from ruler_report.resampling import resample

CELLS = [(task, length) for task in ("vt", "cwe") for length in (4096, 8192)]
CATEGORY_OF = {"vt": "tracing", "cwe": "aggregation"}


def questions(*indexes: int) -> dict[tuple[str, int], Digests]:
    """Return questions of every cell; of a task they are the same at all lengths."""
    return {
        (task, length): np.array(indexes, dtype=np.uint64) + np.uint64(len(task) * 10**6)
        for task, length in CELLS
    }


@pytest.mark.parametrize(
    ("runs", "options", "rows"),
    [
        ([range(9), range(9)], {}, [9, 9]),
        ([range(9), range(4)], {}, [4, 4]),  # the first four for both
        ([range(9), (2, 5, 7)], {}, [3, 3]),  # chosen rows are chosen for both
        ([range(9), range(5, 12)], {}, [9, 7]),
        ([range(9), range(20, 24)], {}, [9, 4]),  # another seed
        ([range(9), range(9)], {"rows": 2}, [2, 2]),
        ([range(9), range(4)], {"baseline": 0}, [9, 9]),
        ([range(4), range(9)], {"baseline": 0}, [4, 4]),
    ],
)
def test_a_cell_has_the_rows_of_all_runs_but_no_more_than_one_that_has_only_some(
    runs: list[range], options: dict[str, int], rows: list[int]
) -> None:
    frame = frame_of([questions(*run) for run in runs], **options)  # type: ignore[arg-type]
    assert [len(line["vt", 4096].questions) for line in frame.lines] == rows


def test_a_cell_that_a_run_lacks_is_in_no_difference() -> None:
    every, fewer = questions(*range(9)), questions(*range(9))
    del fewer["cwe", 8192]
    frame = frame_of([every, fewer])
    assert ("cwe", 8192) not in frame.cells
    assert (frame.tasks, frame.lengths) == (("vt",), (4096, 8192))
    assert ("cwe", 8192) in frame.alone(0).cells


def test_draws_of_a_run_stay_beside_others_and_gaps_of_equal_answers_are_narrow() -> None:
    rng = np.random.Generator(np.random.PCG64(1))
    asked = questions(*range(40))
    first: dict[tuple[str, int], Floats] = {
        cell: (rng.random(40) < 0.5).astype(float) for cell in CELLS
    }
    second = {cell: 1 - scores for cell, scores in first.items()}
    alone, both = (
        resample(frame, [first, second][: len(frame.lines)], columns_of(frame, CATEGORY_OF))
        for frame in (frame_of([asked]), frame_of([asked, asked]))
    )
    assert str(alone.estimate((None, None), 0)) == str(both.estimate((None, None), 0))
    np.testing.assert_allclose(alone.low[:, 0], both.low[:, 0], rtol=1e-5)
    same = resample(frame_of([asked, asked]), [first, first], both.columns)
    gap, apart = same.gap((None, None), 0, 1), both.gap((None, None), 0, 1)
    assert gap.low is not None
    assert apart.low is not None
    assert gap.value == 0
    assert -5 < gap.low < 0
    assert apart.low < gap.low


def test_unanswered_rows_are_0_and_1_and_only_what_holds_in_both_is_shown() -> None:
    asked = questions(*range(40))
    right = {cell: np.ones(40) for cell in CELLS}
    wrong = {cell: np.zeros(40) for cell in CELLS}
    open_half = {cell: np.where(np.arange(40) < 20, 0.0, np.nan) for cell in CELLS}
    open_all = {cell: np.full(40, np.nan) for cell in CELLS}
    frame = frame_of([asked] * 4)
    means = resample(frame, [right, wrong, open_half, open_all], columns_of(frame, CATEGORY_OF))
    place = means.place[None, None]
    assert means.better[place, 1, 0]
    assert means.better[place, 2, 0]
    assert not means.better[place, 1, 2]
    assert not means.better[place, :, 3].any()
    assert not means.better[place, 3].any()
    half, none = (means.estimate((None, None), run) for run in (2, 3))
    assert half is not None
    assert none is not None
    assert (half.value, half.scored, half.asked) == (0.0, 80, 160)
    assert half.high is not None
    assert half.high > 50
    assert str(none) == "[0.0, 100.0]"
    assert means.ranks([0, 1, 2]) == {0: (1, 1), 1: (2, 3), 2: (2, 3)}


def test_one_row_has_no_interval_and_few_have_no_rank() -> None:
    for rows, ranked in ((1, False), (7, False), (8, True)):
        asked = questions(*range(rows))
        frame = frame_of([asked, asked])
        scores = [{cell: np.full(rows, value) for cell in CELLS} for value in (0.0, 1.0)]
        means = resample(frame, scores, columns_of(frame, CATEGORY_OF))
        estimate = means.estimate((None, None), 1)
        assert estimate is not None
        assert (estimate.low is None) == (rows == 1)
        assert bool(means.ranks([0, 1])) == means.better.any() == ranked


@pytest.mark.parametrize("rows", [4, 8])
def test_draws_vary_as_the_mean_of_so_many_questions(rows: int) -> None:
    asked = {("vt", 4096): np.arange(rows, dtype=np.uint64)}
    scores: list[dict[tuple[str, int], Floats]] = [{("vt", 4096): np.tile([0.0, 1.0], rows // 2)}]
    means = resample(frame_of([asked]), scores, columns_of(frame_of([asked]), CATEGORY_OF))
    assert means.low[0, 0].std() == pytest.approx(0.5 / np.sqrt(rows - 1), rel=0.05)


def test_a_difference_from_a_run_that_lacks_rows_is_as_wide_as_they_might_have_varied() -> None:
    asked = {("vt", 4096): np.arange(40, dtype=np.uint64)}
    whole: Floats = np.tile([0.0, 1.0], 20)
    scores = [{("vt", 4096): half} for half in (np.where(np.arange(40) < 20, whole, np.nan), whole)]
    frame = frame_of([asked, asked])
    means = resample(frame, scores, columns_of(frame, CATEGORY_OF))
    gaps = [means.gap((None, None), *pair) for pair in ((0, 1), (1, 0))]
    assert gaps[0].low is not None and gaps[0].low < -30  # -25, were all of them right
    assert gaps[1].high is not None and gaps[1].high > 30


def test_runs_that_change_places_change_signs_and_no_digit_or_verdict() -> None:
    rng = np.random.Generator(np.random.PCG64(3))
    asked = questions(*range(12))
    runs = [
        {cell: (rng.random(12) < chance).astype(float) for cell in CELLS}
        for chance in (0.2, 0.5, 0.9, 0.95)
    ]
    runs[1] = {cell: scores[::-1] for cell, scores in runs[0].items()}  # the same mean
    frame = frame_of([asked] * 4)
    here, there = (
        resample(frame, scores, columns_of(frame, CATEGORY_OF)) for scores in (runs, runs[::-1])
    )
    assert here.better.any() and not here.better[:, 2, 3].all()
    assert np.array_equal(here.better, there.better[:, ::-1, ::-1])
    for name in here.columns:
        for first, second in ((0, 1), (1, 2), (3, 0), (2, 3)):
            gap = here.gap(name, first, second)
            assert gap == here.gap(name, second, first).negated
            other = there.gap(name, 3 - first, 3 - second)  # sums of rows differ in the last digit
            assert (gap.verdict, str(gap)) == (other.verdict, str(other))


@pytest.mark.parametrize("runs", [12, pytest.param(200, marks=pytest.mark.slow)])
def test_runs_that_are_clearly_apart_have_a_rank_each(runs: int) -> None:
    rows = 40 * runs
    asked = {("vt", 4096): np.arange(rows, dtype=np.uint64)}
    frame = frame_of([asked] * runs)
    scores = [
        {("vt", 4096): (np.arange(rows) < 40 * (runs - run)).astype(float)} for run in range(runs)
    ]
    means = resample(frame, scores, columns_of(frame, CATEGORY_OF, cells=False))
    assert means.ranks(range(runs)) == {run: (run + 1, run + 1) for run in range(runs)}


def test_among_runs_that_are_equally_good_a_better_one_is_shown_once_in_twenty_times() -> None:
    asked, found = {("vt", 4096): np.arange(60, dtype=np.uint64)}, 0
    frame = frame_of([asked] * 8)
    for simulation in range(40):
        rng = np.random.default_rng(simulation)
        scores = [{("vt", 4096): (rng.random(60) < 0.5).astype(float)} for _ in range(8)]
        found += bool(resample(frame, scores, columns_of(frame, CATEGORY_OF)).better.any())
    assert found <= 5
