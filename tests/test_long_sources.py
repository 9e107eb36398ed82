"""Rows longer than their source: neither count nor form tells gold from distractor."""

import re
from collections import Counter
from math import sqrt
from pathlib import Path

import pytest

from ruler_builders.pipeline.fit import make_rows
from ruler_data import TASKS, Row
from tests.proof.audit_rows import audit_rows
from tests.rows import counted, target


def built(
    task: str, length: int, rows: int, tokenizer: str, shared: Path
) -> list[tuple[Row, set[str]]]:
    """Return rows of the real sources that the audit accepts, and what runs out in each."""
    sources, tokens = counted(tokenizer, shared / "sources"), target(tokenizer, length)
    notes: list[set[str]] = [set() for _ in range(rows)]
    packed = [next(make_rows(TASKS[task], sources, [n], tokens, notes[n])) for n in range(rows)]
    made = [row.unpack() for row in packed]
    audit = audit_rows(task, TASKS[task], length, made)
    assert audit.findings == []
    return list(zip(made, notes, strict=True))


def documents_of(row: Row) -> Counter[str]:
    text = row.context.partition("following are given documents.\n\n")[2]
    return Counter(part.strip() for part in re.split(r"(?:^|\n\n)Document [0-9]+:\n", text)[1:])


def gold_of(row: Row) -> set[str]:
    return {row.context[span.start : span.end].strip() for span in row.evidence}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "length", "rows"), [("qa_1", 262_144, 60), ("qa_1", 1_048_576, 12),
                                 ("qa_2", 1_048_576, 12)],
)  # fmt: skip
def test_gold_documents_repeat_as_often_as_all_others(
    task: str, length: int, rows: int, llama3: str, shared: Path
) -> None:
    more, expected, spread = 0, 0.0, 0.0
    for row, exhausted in built(task, length, rows, llama3, shared):
        assert ["the gold ones too, repeat" in note for note in exhausted] == [True]
        counts = documents_of(row)
        often = max(counts.values())
        assert set(counts.values()) == {often - 1, often} and often > 1
        share = sum(count == often for count in counts.values()) / len(counts)
        for text in gold_of(row):
            more += counts[text] == often
            expected, spread = expected + share, spread + share * (1 - share)
    # Whether gold is in the last, incomplete round is as likely as for any document.
    assert abs(more - expected) <= 4 * sqrt(spread)


@pytest.mark.slow
@pytest.mark.parametrize("length", [262_144, 1_048_576])
def test_a_list_that_needs_more_than_the_single_words_has_compounds_alone(
    length: int, llama3: str, shared: Path
) -> None:
    for row, exhausted in built("cwe", length, 2, llama3, shared):
        counts = Counter(row.context.rpartition("most often.\n")[2].split()[1::2])
        assert all("-" in word for word in counts)
        assert sorted(set(counts.values())) == [3, 30]
        assert {word for word, count in counts.items() if count == 30} == set(row.outputs)
        assert ["single words run out" in note for note in exhausted] == [True]


def test_up_to_131072_tokens_no_source_of_ruler_runs_out(llama3: str, shared: Path) -> None:
    for task in ("cwe", "qa_1", "qa_2"):
        [(row, exhausted)] = built(task, 131_072, 1, llama3, shared)
        assert not exhausted
        if task == "cwe":  # singles, as the common words: one in a hundred has a hyphen
            words = set(row.context.rpartition("most often.\n")[2].split()[1::2])
            assert sum("-" in word for word in words) < 0.02 * len(words)
        else:
            assert set(documents_of(row).values()) == {1}
