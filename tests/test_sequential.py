"""The test behind `run --until-decided`: valid at every look, exact at the end, and cheap."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_eval.running.sequential import ALPHA, interval_of, log_capital, order_of, side_of

SCORES = st.sampled_from([0.0, 0.2, 0.5, 1.0])
POPULATIONS = st.lists(st.lists(SCORES, min_size=3, max_size=3), min_size=1, max_size=2)


@given(tasks=POPULATIONS, more=st.floats(0, 0.3))
def test_capital_over_all_orders_is_at_most_one(tasks: list[list[float]], more: float) -> None:
    mean = float(np.mean(tasks)) + more  # every mean that is not below the true one is a true bound
    orders = itertools.product(*(itertools.permutations(task) for task in tasks))
    found = [np.exp(log_capital(np.array(order).T, mean, 3)) for order in orders]
    assert (np.mean(found, axis=0) <= 1 + 1e-9).all()


@given(tasks=POPULATIONS)
def test_a_larger_mean_never_has_more_capital_against_it(tasks: list[list[float]]) -> None:
    scores = np.array(tasks).T
    paths = [log_capital(scores, mean, 5) for mean in np.linspace(0.01, 1, 12)]
    for smaller, larger in itertools.pairwise(paths):
        assert (larger <= smaller + 1e-9).all()


@given(tasks=POPULATIONS, spare=st.integers(0, 4), missing=st.booleans())
def test_bounds_end_at_the_mean(tasks: list[list[float]], spare: int, missing: bool) -> None:
    low = np.array(tasks).T
    high = low.copy()
    if missing:
        low[1, 0], high[1, 0] = 0.0, 1.0
    rows = len(low) + spare
    bounds = interval_of(low, high, rows, ALPHA)
    assert 0 <= bounds[0] <= low.mean() + 1e-6 and high.mean() - 1e-6 <= bounds[1] <= 1
    if not spare:
        assert bounds == pytest.approx((low.mean(), high.mean()))


def frozen(mean: float, seed: int, rows: int = 500) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.random((rows, 13)) < mean).astype(float)


@pytest.mark.parametrize(
    ("mean", "side", "most"),
    [(0.97, "above", 20), (0.91, "above", 100), (0.8, "below", 120), (0.65, "below", 12)],
)
def test_far_from_the_threshold_few_rows_decide(mean: float, side: str, most: int) -> None:
    for seed in range(5):
        scores = frozen(mean, seed)[:most]
        assert side_of(scores, scores, 0.856, 500, ALPHA / 6) == side


def test_tasks_that_differ_cost_nothing() -> None:
    rng = np.random.default_rng(1)
    chances = np.array([1.0] * 8 + [0.98] * 2 + [0.1, 0.05, 0.02])  # a mean of .78
    apart = (rng.random((500, 13)) < chances).astype(float)
    alike = rng.permuted(apart.ravel()).reshape(apart.shape)

    def needed(scores: np.ndarray) -> int:
        return int((log_capital(scores, 0.75, 500) > math.log(1 / ALPHA)).argmax())

    assert 2 * needed(apart) < needed(alike)


def test_rows_without_an_answer_decide_nothing() -> None:
    none, every = np.zeros((400, 13)), np.ones((400, 13))
    assert side_of(none, every, 0.856, 500, ALPHA) is None
    assert interval_of(none, every, 500, ALPHA) == (0, 1)
    assert interval_of(none[:0], every[:0], 500, ALPHA) == (0, 1)


def test_the_order_of_rows_is_a_permutation_that_the_task_names() -> None:
    order = order_of("vt", 500)
    assert sorted(order) == list(range(500)) and order != order_of("cwe", 500)
    # Depth strata follow the index: in any aligned block of ten they are covered evenly.
    blocks = [index // 50 for index in order[:100]]
    assert len(set(blocks)) == 10
    assert [each for each in order if each < 100] == [
        each for each in order_of("vt", 1000) if each < 100
    ]  # more rows leave the order of the others
