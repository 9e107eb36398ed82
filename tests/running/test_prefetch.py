"""Prompts rendered ahead: in order, no more than wanted, errors in their place."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from ruler_eval.runner import prefetch


def counting(seen: list[int], end: int, *, fails: bool = False) -> Iterator[int]:
    for number in range(end):
        seen.append(number)
        yield number
    if fails:
        msg = "the source failed"
        raise ValueError(msg)


@pytest.mark.parametrize(("depth", "length"), [(1, 20), (4, 0), (50, 20)])
def test_every_item_comes_once_and_in_order(depth: int, length: int) -> None:
    assert list(prefetch(counting([], length), depth)) == list(range(length))


def test_an_error_is_raised_after_the_items_before_it() -> None:
    found: list[int] = []
    with pytest.raises(ValueError, match="the source failed"):
        found.extend(prefetch(counting([], 3, fails=True), 4))
    items = prefetch(counting([], 3, fails=True), 4)
    assert [next(items), next(items), next(items)] == [0, 1, 2]
    with pytest.raises(ValueError, match="the source failed"):
        next(items)


def test_a_reader_that_stops_has_no_more_than_the_depth_made_ahead() -> None:
    seen: list[int] = []
    with closing(prefetch(counting(seen, 1000), 4)) as items:
        assert [next(items), next(items)] == [0, 1]
    made = len(seen)
    assert made <= 6
    assert len(seen) == made  # the thread has ended
