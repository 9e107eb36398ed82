"""Randomness: draws by the thousand are as fair as those one by one."""

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_builders.rows.randomness import distinct, permutation, rng, subset

#: Times that each outcome is expected, and how far the sum of squares may be off: chi-square with
#: d degrees of freedom has mean d and variance 2d.
TIMES, SIGMAS = 400, 4.0


def is_fair(found: list[tuple[int, ...]], outcomes: list[tuple[int, ...]]) -> bool:
    counts = Counter(found)
    assert set(counts) <= set(outcomes)
    expected = len(found) / len(outcomes)
    distance = sum((counts[one] - expected) ** 2 / expected for one in outcomes)
    freedom = len(outcomes) - 1
    return distance < freedom + SIGMAS * math.sqrt(2 * freedom)


@given(st.integers(1, 60), st.data())
def test_numbers_that_differ_begin_alike_however_many_are_asked_for(
    bound: int, data: st.DataObject
) -> None:
    few, many = sorted(data.draw(st.tuples(st.integers(0, bound), st.integers(0, bound))))
    first, second = (distinct(rng(1, "t", bound, "x"), bound, n).tolist() for n in (few, many))
    assert first == second[:few]
    assert len(set(second)) == many and set(second) <= set(range(bound))


@given(st.integers(0, 2000), st.data())
def test_a_subset_has_the_size_that_is_asked_for(size: int, data: st.DataObject) -> None:
    chosen = data.draw(st.integers(0, size))
    found = subset(rng(1, "t", size, "x"), size, chosen).tolist()
    assert len(found) == chosen and found == sorted(set(found)) and set(found) <= set(range(size))


@pytest.mark.parametrize(("size", "chosen"), [(5, 2), (6, 5), (7, 3)])
def test_every_subset_is_as_likely_as_another(size: int, chosen: int) -> None:
    outcomes = list(combinations(range(size), chosen))
    source = rng(1, "t", size, "subset")
    draws = [subset(source, size, chosen) for _ in range(TIMES * len(outcomes))]
    assert is_fair([tuple(one.tolist()) for one in draws], outcomes)


def test_every_place_of_a_long_text_is_as_likely_as_another() -> None:
    size, chosen, times = 3000, 1100, 400
    source = rng(1, "t", 0, "long")
    often = np.zeros(size)
    for _ in range(times):
        often[subset(source, size, chosen)] += 1
    share = chosen / size
    distance = ((often - times * share) ** 2).sum() / (times * share * (1 - share))
    assert abs(distance - size) < SIGMAS * (2 * size) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("size", [3, 30_000, 150_000])
def test_of_neighbours_in_an_order_either_is_as_often_the_greater(size: int) -> None:
    draws = 600_000 // size
    source = rng(1, "t", size, "neighbours")
    rising = sum(np.count_nonzero(np.diff(permutation(source, size)) > 0) for _ in range(draws))
    # An order of n has (n - 1) / 2 rises in the mean, with variance (n + 1) / 12.
    assert abs(rising - draws * (size - 1) / 2) < SIGMAS * math.sqrt(draws * (size + 1) / 12)
