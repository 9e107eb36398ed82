"""Needles of suites: reworded, in two places, among their likes, or not there at all."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruler_builders.checks.audit_rows import audit_rows
from ruler_builders.rows.haystacks import draw_distinct
from ruler_builders.tasks.niah import near_miss
from ruler_data import Row
from ruler_data.suites import packaged
from ruler_data.tasks import PartType
from tests.conftest import Cli
from tests.rows import counted, make

ROWS = 12


def rows_of(task: str) -> list[Row]:
    return [make("mistral", task, index) for index in range(ROWS)]


def findings(task: str, rows: list[Row]) -> list[str]:
    entry = next(s.tasks[task] for s in packaged().values() if task in s.tasks)
    return audit_rows(task, entry, 4096, rows).findings


@settings(deadline=None)
@given(seed=st.integers(0, 10_000), kind=st.sampled_from(["words", "numbers", "uuids"]))
def test_a_near_miss_differs_in_one_digit_or_one_word_and_is_new(seed: int, kind: PartType) -> None:
    made = counted("mistral")
    taken: set[str] = set()
    part = draw_distinct(random.Random(seed), kind, made, taken)
    near = near_miss(random.Random(seed + 1), part, kind, made, taken)
    assert near != part and near in taken
    if kind == "words":
        assert near.startswith(part.split("-")[0] + "-") or near.endswith(part.split("-", 1)[1])
    else:
        assert len(near) == len(part)
        assert sum(a != b for a, b in zip(near, part, strict=True)) == 1


def test_a_paraphrase_holds_key_and_value_and_not_the_words_of_the_plain_needle() -> None:
    for row in rows_of("niah_paraphrased"):
        [span] = row.evidence
        said = row.context[span.start : span.end]
        key = row.question.removeprefix("What is the special magic number for ").split(" ")[0]
        assert key in said and row.outputs[0] in said
        assert "One of the special magic" not in row.context
        assert row.context.count(key) == row.context.count(row.outputs[0]) == 1


def test_a_split_needle_stands_in_two_places_far_apart_and_both_are_needed() -> None:
    for row in rows_of("niah_split"):
        first, second = row.evidence
        gap = (second.start - first.end) / len(row.context)
        assert 0.35 < gap < 0.65
        said = {row.context[span.start : span.end] for span in row.evidence}
        pointer = next(text for text in said if "is the one that is filed under" in text)
        [filed] = said - {pointer}
        alias = pointer.rstrip(".").split(" ")[-1]
        assert filed == f"What is filed under {alias} is {row.outputs[0]}."
        assert row.outputs[0] not in pointer


@pytest.mark.parametrize(
    ("task", "likes"),
    [("niah_lookalikes", 8), ("niah_there_lookalikes", 4), ("niah_not_there_lookalikes", 4)],
)
def test_lookalikes_have_other_keys_and_other_values(task: str, likes: int) -> None:
    for row in rows_of(task):
        lines = row.context.split("One of the special magic numbers for ")[1:]
        pairs = [line.partition(".")[0].split(" is: ") for line in lines]
        key = row.question.removeprefix("What is the special magic number for ").split(" ")[0]
        there = row.outputs != ("none",)
        assert len(pairs) == likes + there
        assert [value for other, value in pairs if other == key] == list(row.outputs) * there
        assert len({value for _, value in pairs}) == len(pairs)


def test_where_no_needle_is_there_the_answer_is_none_and_the_question_says_so() -> None:
    for row in rows_of("niah_not_there"):
        assert row.outputs == ("none",) and row.evidence == ()
        assert row.question.endswith("If the provided text does not mention it, answer: none.")
        assert "special magic numbers for" not in row.context


def test_an_auditor_finds_a_lookalike_that_became_the_asked_key() -> None:
    rows = rows_of("niah_not_there_lookalikes")
    assert findings("niah_not_there_lookalikes", rows) == []
    key = rows[3].question.removeprefix("What is the special magic number for ").split(" ")[0]
    head, found, tail = rows[3].context.partition("One of the special magic numbers for ")
    rows[3] = replace(rows[3], context=head + found + key + tail[tail.index(" is: ") :])
    assert any("/3: column outputs" in one for one in findings("niah_not_there_lookalikes", rows))


def test_an_auditor_finds_a_split_needle_that_lost_its_second_half() -> None:
    rows = rows_of("niah_split")
    assert findings("niah_split", rows) == []
    rows[5] = replace(rows[5], context=rows[5].context.replace("What is filed under", "What is"))
    assert any("/5: no needle for" in one for one in findings("niah_split", rows))


@pytest.mark.parametrize("suite", ["adversarial", "no_needle"])
def test_the_suite_is_built_and_verified(suite: str, tmp_path: Path, cli: Cli) -> None:
    options = ("--suite", suite, "--lengths", 2048, "--rows", 4, "--sources-kind", "sample")
    built = cli("build", *options, "--out", tmp_path / "out")
    assert built.returncode == 0, built.stderr
    verified = cli("verify", tmp_path / "out", "--rebuild", 4)
    assert verified.returncode == 0, verified.stdout + verified.stderr
