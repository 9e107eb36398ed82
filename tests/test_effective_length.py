"""Effective lengths beside a computation by cases: which lengths no interval excludes."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_data import TASKS
from ruler_report.conclusion import conclude
from ruler_report.effective_length import EffectiveLength, effective_length, possible_lengths
from ruler_report.means import Estimate
from ruler_report.tables import effective_lengths
from tests.results import coin, results_of

LENGTHS = (4096, 8192, 16384, 32768)
MEANS = st.lists(
    st.tuples(st.integers(0, 9), st.none() | st.integers(0, 4), st.integers(0, 4)),
    min_size=1, max_size=4,
)  # fmt: skip


@given(MEANS, st.integers(0, 10))
def test_a_length_is_possible_where_some_true_means_within_the_intervals_give_it(
    means: list[tuple[int, int | None, int]], bar: int
) -> None:
    """Whole numbers within the intervals are tried, each with each."""
    estimates = {}
    ranges = []
    for length, (value, below, above) in zip(LENGTHS, means, strict=False):
        if below is None:  # there is no interval, so that anything may be true
            estimates[length] = Estimate(value, None, None)
            ranges.append(range(-1, 12))
        else:
            estimates[length] = Estimate(value, value - below, value + above)
            ranges.append(range(value - below, value + above + 1))
    found = set()
    for true in product(*ranges):
        found.add(effective_length(dict(zip(estimates, true, strict=True)), bar) or 0)
    assert sorted(possible_lengths(estimates, bar)) == sorted(found)


@pytest.mark.parametrize(
    ("reach", "text"),
    [
        (EffectiveLength(85.6, 8192, (8192,), 16384), "8K"),
        (EffectiveLength(85.6, 16384, (16384,), 16384), "≥16K"),
        (EffectiveLength(85.6, 8192, (4096, 8192, 16384), 16384), "8K (4K, 8K or ≥16K)"),
        (EffectiveLength(85.6, None, (0,), 16384), "none"),
        (EffectiveLength(85.6, None, (0, 4096), 16384), "none (none or 4K)"),
    ],
)
def test_an_effective_length_says_what_is_not_excluded(reach: EffectiveLength, text: str) -> None:
    assert str(reach) == text


def test_both_effective_lengths_follow_from_the_means_of_a_run() -> None:
    """The paper has one threshold; the own is 85 % of the score at 4,096 tokens."""
    chances = {4096: 0.95, 8192: 0.86, 16384: 0.75}
    scores = {
        f"{task}_{length}": coin(f"{task}{length}", chance, 40)
        for task in TASKS
        for length, chance in chances.items()
    }
    conclusion = conclude([results_of(scores)])
    means = {length: conclusion.value((None, length), 0) or 0.0 for length in chances}
    paper, own = conclusion.paper_length(0), conclusion.own_length(0)
    assert paper is not None and own is not None
    assert paper.threshold == 85.6 and own.threshold == pytest.approx(0.85 * means[4096])
    assert paper.length == max(length for length, mean in means.items() if mean >= 85.6)
    assert own.length == max(n for n, mean in means.items() if mean >= own.threshold)
    assert paper.longest == own.longest == 16384 and own.is_own and not paper.is_own
    assert {*paper.possible} <= {0, *LENGTHS} and paper.length in paper.possible
    assert own.length in own.possible and 0 not in own.possible


def test_the_effective_length_of_the_own_score_stands_below_that_of_the_paper() -> None:
    chances = {4096: 0.9, 8192: 0.8, 16384: 0.0}
    scores = {
        f"{task}_{length}": [float(place < 10 * chance) for place in range(10)]
        for task in TASKS
        for length, chance in chances.items()
    }
    table = effective_lengths(conclude([results_of(scores)]))
    assert [line[:4] for line in table.rows] == [
        ("org/model-7b", "the paper's", "85.6", "4K"),
        ("org/model-7b", "85 % of its own score at 4K", "76.5", "8K"),
    ]


def test_a_model_that_falls_at_once_has_its_shortest_length_as_its_own() -> None:
    falls = {4096: 1.0, 8192: 0.0, 16384: 0.0}
    conclusion = conclude([results_of({f"vt_{n}": [score] * 20 for n, score in falls.items()})])
    own = conclusion.own_length(0)
    assert own is not None and (own.length, own.possible) == (4096, (4096,))
    assert conclusion.paper_length(0) is None
    alone = conclude([results_of({"vt_4096": [1.0] * 20})])
    assert alone.own_length(0) is None
