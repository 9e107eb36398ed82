"""What lines say beside scores, counted again by hand: cost, failures and depth."""

import math
from statistics import fmean
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruler_report.lines import cost_of, depth_grid, failures_of
from ruler_report.tables import _plain

LINE = st.fixed_dictionaries({
    "task": st.sampled_from(["vt", "cwe"]), "length": st.sampled_from([4096, 8192]),
    "label": st.sampled_from([None, "empty", "refusal"]),
    "truncated": st.booleans(), "empty": st.booleans(),
    "prompt_tokens": st.integers(1, 9999), "answer_tokens": st.integers(1, 99),
    "seconds": st.floats(0.1, 9), "cost": st.none() | st.floats(0.01, 9),
})  # fmt: skip


@settings(max_examples=15)
@given(st.lists(LINE, min_size=1, max_size=20))
def test_costs_and_failures_are_counted_by_hand(lines: list[dict[str, Any]]) -> None:
    frame = pd.DataFrame(lines).astype({"cost": float})
    cost = cost_of(frame)
    assert cost.lines == len(lines)
    assert cost.truncated == pytest.approx(fmean(line["truncated"] for line in lines))
    assert cost.empty == pytest.approx(fmean(line["empty"] for line in lines))
    tokens = fmean(line["prompt_tokens"] + line["answer_tokens"] for line in lines)
    seconds = fmean(line["seconds"] for line in lines)
    assert cost.tokens == pytest.approx(tokens) and cost.seconds == pytest.approx(seconds)
    assert cost.speed == pytest.approx(tokens / seconds)
    stated = [line["cost"] for line in lines if line["cost"] is not None]
    assert cost.money == pytest.approx(sum(stated)) if stated else math.isnan(cost.money)
    counts = failures_of(frame)
    for task, length, label in {(line["task"], line["length"], line["label"]) for line in lines}:
        if label is not None:
            number = sum(
                (line["task"], line["length"], line["label"]) == (task, length, label)
                for line in lines
            )
            assert counts.loc[(task, length), label] == number
    assert counts.to_numpy().sum() == sum(line["label"] is not None for line in lines)


@settings(max_examples=20)
@given(st.lists(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=2), max_size=60))
def test_depths_are_in_bins_with_eight_rows_each_where_that_can_be(
    rows: list[list[tuple[float, bool]]],
) -> None:
    frame = pd.DataFrame({
        "length": [4096] * len(rows),
        "depth": [[depth for depth, _ in row] or None for row in rows],
        "shown": [[shown for _, shown in row] or None for row in rows],
    })  # fmt: skip
    grid = depth_grid(frame, [4096])
    kept = [row for row in rows if row]
    if not kept:
        assert grid.empty
        return
    for bins in (10, 5, 2):
        weights = [0.0] * bins
        right = [0.0] * bins
        for row in kept:
            for depth, shown in row:
                place = min(bins - 1, int(depth * bins))
                weights[place] += 1 / len(row)
                right[place] += shown / len(row)
        filled = [weight for weight in weights if weight]
        if min(filled) >= 8 or bins == 2:
            break
    assert len(grid) == bins
    for place, weight in enumerate(weights):
        expected = 100 * right[place] / weight if weight else math.nan
        assert grid.iloc[place, 0] == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (0, "0"),
        (False, "False"),
        ([1, None, ["a", "b"]], "1, , a, b"),
        ({"a": 1, "b": [2, 3]}, "a=1, b=2, 3"),
        ("\x1b[31m", "\\x1b[31m"),
        ("x" * 300, "x" * 200),
    ],
)
def test_a_fact_is_one_line(value: object, text: str) -> None:
    assert _plain(value) == text
