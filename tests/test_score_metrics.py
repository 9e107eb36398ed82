"""Scores of single rows, against upstream's arithmetic written a second time."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_eval.metrics import any_of, clean, recall
from ruler_report.stats.effective_length import mean_percent

#: Letters whose case mappings change lengths, separators of several kinds, and what hides.
NASTY = st.text("aAbB12 -.,\n\t\x00\x1b\x1c\x85\xa0\u0130\u0131ß\u017fΣς\u200b'\"<&=", max_size=12)
ROWS = st.lists(
    st.tuples(
        NASTY, st.lists(st.text("aAbB12ßİ ", min_size=1, max_size=3), min_size=1, max_size=5)
    ),
    min_size=1,
    max_size=12,
)


def all_by_hand(predictions: list[str], references: list[list[str]]) -> float:
    """Mean over rows of the share of references found, in percent, to two digits."""
    total = 0.0
    for prediction, wanted in zip(predictions, references, strict=True):
        found = 0.0
        for reference in wanted:
            if prediction.lower().find(reference.lower()) != -1:
                found = found + 1.0
        total = total + found / len(wanted)
    return round(total / len(predictions) * 100, 2)


def part_by_hand(predictions: list[str], references: list[list[str]]) -> float:
    """Share of rows with any reference found, in percent, to two digits."""
    right = 0.0
    for prediction, wanted in zip(predictions, references, strict=True):
        if any(prediction.lower().count(reference.lower()) for reference in wanted):
            right = right + 1.0
    return round(right / len(predictions) * 100, 2)


def cleaned_by_hand(text: str) -> str:
    return "".join("\n" if ord(c) < 32 else c for c in text.strip()).strip()


def ours(one: Callable[[str, list[str]], float], texts: list[str], want: list[list[str]]) -> float:
    return round(mean_percent([one(p, r) for p, r in zip(texts, want, strict=True)]), 2)


@pytest.mark.parametrize(("metric", "oracle"), [(recall, all_by_hand), (any_of, part_by_hand)])
@given(rows=ROWS)
def test_scores_are_upstreams_to_the_last_digit(
    metric: Callable[[str, list[str]], float],
    oracle: Callable[[list[str], list[list[str]]], float],
    rows: list[tuple[str, list[str]]],
) -> None:
    texts = [clean(prediction) for prediction, _ in rows]
    wanted = [list(outputs) for _, outputs in rows]
    assert ours(metric, texts, wanted) == oracle(texts, wanted)


@given(text=st.text())
def test_predictions_are_cleaned_as_upstream_cleans_them(text: str) -> None:
    assert clean(text) == cleaned_by_hand(text)
    assert clean(text) == re.sub("[\x00-\x1f]", "\n", text.strip()).strip()
