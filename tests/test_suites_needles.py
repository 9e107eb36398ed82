"""Needles of suites: reworded, in two places, among their likes, or not there at all."""

import re
from dataclasses import replace

import pytest

from ruler_data import Row
from ruler_data.suites import packaged
from tests.proof.audit_rows import audit_rows
from tests.rows import rows_of

ROWS = 12


def findings(task: str, rows: list[Row]) -> list[str]:
    entry = next(s.tasks[task] for s in packaged().values() if task in s.tasks)
    return audit_rows(task, entry, 4096, rows).findings


def pairs_of(row: Row) -> list[tuple[str, str]]:
    """Read key and value of every needle in the wording of the benchmark."""
    lines = row.context.split("One of the special magic numbers for ")[1:]
    return [(key, value) for key, _, value in (x.split(".")[0].partition(" is: ") for x in lines)]


def asked(row: Row) -> str:
    return row.question.removeprefix("What is the special magic number for ").split(" ")[0]


def test_paraphrased_needles_hold_key_and_value_and_not_the_words_of_the_plain_needle() -> None:
    for row in rows_of("niah_paraphrased", ROWS):
        [span] = row.evidence
        text = row.context[span.start : span.end]
        assert asked(row) in text and row.outputs[0] in text
        assert "One of the special magic" not in row.context
        assert row.context.count(asked(row)) == row.context.count(row.outputs[0]) == 1
        assert len(re.findall(r"\b[0-9]{7}\b", row.context)) == 9


def test_only_the_alias_tells_which_second_half_belongs_to_a_split_needle() -> None:
    gaps = []
    for row in rows_of("niah_split", ROWS):
        pointers = dict(
            re.findall(r"for (\S+) is the one that is filed under (\S+)\.", row.context)
        )
        filed = dict(re.findall(r"What is filed under (\S+) is ([0-9]{7})\.", row.context))
        assert len(pointers) == len(filed) == 9 and set(pointers.values()) == set(filed)
        assert filed[pointers[asked(row)]] == row.outputs[0]
        first, second = row.evidence
        gaps.append((second.start - first.end) / len(row.context))
    assert min(gaps) < 0.25 < 0.4 < max(gaps)  # independent depths


@pytest.mark.parametrize(
    ("task", "needles"),
    [("niah_lookalikes", 9), ("niah_there_lookalikes", 5), ("niah_not_there_lookalikes", 5)],
)
def test_lookalikes_share_halves_with_the_key_asked_for(task: str, needles: int) -> None:
    for row in rows_of(task, ROWS):
        pairs, key = pairs_of(row), asked(row)
        assert len(dict(pairs)) == len({value for _, value in pairs}) == needles
        assert dict(pairs).get(key, "none") == row.outputs[0]
        for half in (0, 1):  # each half of the key is in another key, too
            assert any(other.split("-")[half] == key.split("-")[half] for other, _ in pairs
                       if other != key)  # fmt: skip


def test_where_the_needle_has_another_key_the_answer_is_none_and_the_question_says_so() -> None:
    for row in rows_of("niah_not_there", ROWS):
        assert row.outputs == ("none",) and row.evidence == ()
        assert row.question.endswith("If the provided text does not mention it, answer: none.")
        [(key, _)] = pairs_of(row)
        assert key != asked(row)


def test_an_auditor_finds_a_split_needle_that_lost_its_second_half() -> None:
    rows = rows_of("niah_split", ROWS)
    assert findings("niah_split", rows) == []
    rows[5] = replace(rows[5], context=rows[5].context.replace("What is filed under", "What is"))
    assert any("/5: no needle for" in one for one in findings("niah_split", rows))
