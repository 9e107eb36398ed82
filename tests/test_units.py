"""Units: chosen by size, never over the room."""

from itertools import combinations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from ruler_builders.rows.packing import choose
from ruler_builders.rows.segments import SLACK, SPARE, count_segments
from tests.rows import counted

COSTS = st.lists(st.integers(1, 90), min_size=1, max_size=120)


@given(costs=COSTS, room=st.integers(0, 4000))
def test_the_chosen_units_never_cost_more_than_the_room(costs: list[int], room: int) -> None:
    chosen = choose(np.array(costs), room).tolist()
    assert sum(costs[i] for i in chosen) <= room
    assert chosen == sorted(set(chosen))


@given(costs=COSTS, room=st.integers(0, 4000))
def test_no_unit_that_would_still_fit_is_left_among_the_next_ones(
    costs: list[int], room: int
) -> None:
    chosen = choose(np.array(costs), room).tolist()
    free = room - sum(costs[i] for i in chosen)
    first = next((i for i in range(len(costs)) if i not in chosen), len(costs))
    rest = [i for i in range(first, min(first + SPARE, len(costs))) if i not in chosen]
    assert free <= SLACK or all(costs[i] > free for i in rest)


@given(st.lists(st.integers(40, 60), min_size=80, max_size=80), st.integers(1200, 1500))
def test_units_of_uneven_cost_use_up_the_room(costs: list[int], room: int) -> None:
    chosen = choose(np.array(costs), room).tolist()
    free = room - sum(costs[i] for i in chosen)
    pairs = combinations(range(len(costs)), 2)
    could_gain = any(
        0 < costs[j] - costs[i] <= free for i, j in pairs if i in chosen and j not in chosen
    )
    assert free <= SLACK or not could_gain


@given(st.lists(st.integers(76, 92), min_size=120, max_size=120), st.integers(3_700, 4_000))
def test_long_lines_of_similar_cost_leave_less_than_a_hundredth_free(
    costs: list[int], room: int
) -> None:
    spread = sorted(costs[:32])
    assume(sum(spread[16:]) - sum(spread[:16]) > 60)  # lines that are all equal cannot fill it
    chosen = choose(np.array(costs), room).tolist()
    assert 0 <= room - sum(costs[i] for i in chosen) <= room // 93
    assert chosen == sorted(set(chosen))


def test_costs_of_places_count_as_well() -> None:
    assert choose(np.array([5, 5, 5, 5]), 21, np.array([1, 1, 2, 9])).tolist() == [0, 1, 2]


def test_units_counted_alone_add_up_to_the_whole(llama3: str) -> None:
    tokenizer = counted(llama3).tokenizer
    sentences = ["The grass is green.", "I don't know (yet)!", '"So?" she said.', "It cost $3.50."]
    costs = count_segments(tokenizer, [" " + one for one in sentences], ".", " The")
    text = "Begin. " + " ".join(sentences) + " The end."
    assert tokenizer.count([text])[0] == tokenizer.count(["Begin. The end."])[0] + sum(costs)
