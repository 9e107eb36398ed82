"""Rows: the same questions everywhere, gold spread over depth, answers unique."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruler_builders.pipeline.fit import make_row, make_rows, need
from ruler_builders.rows.randomness import depth, permutation, rng
from ruler_builders.sources import Library
from ruler_builders.tasks import fwe
from ruler_builders.tasks.cwe import _distinct_sounding
from ruler_data import TASKS, Row, UsageError
from ruler_data.suites import packaged
from ruler_data.tasks import Cwe, Fwe
from tests.proof.audit_rows import audit_rows
from tests.rows import counted, make, rows_of, target


@pytest.mark.parametrize("task", TASKS)
def test_a_row_is_the_same_alone_and_among_others(task: str) -> None:
    others = make_rows(TASKS[task], counted("mistral"), (9, 0, 3), target("mistral", 2048))
    assert [*others][2].unpack() == make("mistral", task, 3, 2048)


@pytest.mark.parametrize("task", TASKS)
def test_parts_of_a_context_are_told_apart(task: str) -> None:
    row = make("mistral", task, 3, 2048)
    instruction, example, haystack, closing = row.parts
    assert "".join(row.parts) == row.context and closing in ("\n", "\n\n")
    assert instruction.strip() and instruction not in haystack
    if task in ("vt", "cwe"):  # the instruction stands before the example and behind it
        assert example.endswith(instruction)
        assert example.count(" Answer: ") == 1 and "Question: " in example
    else:
        assert example == ""
    assert replace(row, haystack=None).parts == ("", "", row.context, "")


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_the_audit_finds_real_rows_clean(task: str, shared: Path, llama3: str) -> None:
    rows = [make(llama3, task, index, 4096, shared / "sources") for index in range(20)]
    assert audit_rows(TASKS[task], 4096, rows) == []


@pytest.mark.parametrize("rows", [10, 50, 100, 500])
def test_depths_of_any_usual_number_of_rows_are_stratified(rows: int) -> None:
    strata = sorted(int(depth(42, "vt", index, "line") * rows) for index in range(rows))
    assert strata == list(range(rows))


@given(seed=st.integers(0), start=st.integers(0, 10_000), size=st.integers(20, 400))
@settings(max_examples=20)
def test_depths_of_any_run_of_rows_are_even(seed: int, start: int, size: int) -> None:
    found = [depth(seed, "task", index, "part") for index in range(start, start + size)]
    assert all(0 <= one < 1 for one in found)
    assert uniformity(found) < 4 / size**0.5


def uniformity(depths: list[float]) -> float:
    """Return the Kolmogorov-Smirnov distance of depths from the uniform distribution on [0, 1].

    >>> uniformity([0.25, 0.75])
    0.25
    """
    ordered, size = sorted(depths), len(depths)
    return max(max((i + 1) / size - depth, depth - i / size) for i, depth in enumerate(ordered))


def depths_of(row: Row) -> Iterator[float]:
    """Yield where each gold piece stands in the haystack without them, from 0 to 1."""
    assert row.haystack
    start, end = row.haystack
    free = end - start - sum(span.end - span.start for span in row.evidence)
    for span in row.evidence:
        yield (span.start - start) / free
        start += span.end - span.start


@pytest.mark.parametrize("task", [name for name in TASKS if name not in ("cwe", "fwe")])
def test_gold_depths_of_any_usual_number_of_rows_are_uniform(task: str) -> None:
    rows = rows_of(task, 100)
    for size in (10, 50, 100):
        depths = [depth for row in rows[:size] for depth in depths_of(row)]
        # A stratum for each row, and what the lines, sentences or documents of a haystack leave.
        assert uniformity(depths) < 1 / size + 0.05


def test_questions_come_once_before_any_comes_again() -> None:
    asked = [make("mistral", "qa_1", index, 1024).question for index in range(320)]
    assert len(set(asked)) == 320
    assert make("mistral", "qa_1", 320, 1024).question == asked[0]


def test_questions_are_sampled_over_the_whole_source(shared: Path) -> None:
    corpus, _ = Library(shared / "sources", "real").corpus("squad")
    order = permutation(rng(42, "qa_1", 0, "questions"), len(corpus.questions))
    golds = [corpus.questions[number].gold[0] for number in order[:500]]
    # Upstream's first 500 questions rest on fewer than 100 paragraphs of four articles.
    assert len(set(golds)) > 350


def test_keys_and_values_of_a_haystack_of_needles_are_all_different() -> None:
    for task in ("niah_multikey_2", "niah_multikey_3"):
        lines = make("mistral", task, 0, 65_536).context.split("\n")[1:-1]
        keys = [line.split(" for ")[1].split(" is: ")[0] for line in lines]
        values = [line.split(" is: ")[1] for line in lines]
        assert len(lines) > 500
        assert len(set(keys)) == len(keys) and len(set(values)) == len(values)


def test_words_of_a_long_list_do_not_repeat_before_the_source_is_used_up() -> None:
    row = make("mistral", "cwe", 0, 524_288)
    body = row.context.rpartition("appear most often.\n")[2]
    counts = Counter(part.split(" ")[0] for part in body.strip().split(". ")[1:])
    assert Counter(counts.values()) == {30: 10, 3: len(counts) - 10}


def test_gold_pieces_of_one_row_stand_independently_of_each_other() -> None:
    parts = [f"needle {number}" for number in range(4)]
    rows = [[depth(42, "niah_multivalue", i, part) for part in parts] for i in range(500)]
    layouts = {tuple(int(one * 10) for one in row) for row in rows}
    orders = Counter(tuple(sorted(range(4), key=row.__getitem__)) for row in rows)
    assert len(layouts) > 450
    assert len(orders) == 24 and max(orders.values()) < 50


def test_hotpotqa_rows_hold_all_their_distractors(shared: Path, llama3: str) -> None:
    corpus, _ = Library(shared / "sources", "real").corpus("hotpotqa")
    questions = {question.text: question for question in corpus.questions}
    for index in range(30):
        row = make(llama3, "qa_2", index, 4096, shared / "sources")
        question = questions[row.question.rpartition("Question: ")[2]]
        assert all(corpus.documents[number] in row.context for number in question.near)


def test_squad_rows_take_paragraphs_of_the_same_article_first(shared: Path, llama3: str) -> None:
    corpus, _ = Library(shared / "sources", "real").corpus("squad")
    questions = {question.text: question for question in corpus.questions}
    mixed = 0
    for index in range(60):
        row = make(llama3, "qa_1", index, 4096, shared / "sources")
        question = questions[row.question.rpartition("Question: ")[2]]
        near = sum(corpus.documents[number] in row.context for number in question.near)
        others = row.context.count("Document ") - near - 1
        mixed += others > 0 and near < len(question.near)
    assert mixed < 15, "only a last distractor may be chosen by size instead"


def test_evidence_is_empty_where_the_whole_text_counts_or_what_is_asked_is_left_out() -> None:
    tasks = {name: task for suite in packaged().values() for name, task in suite.tasks.items()}
    without = {name for name in tasks if not make("mistral", name, 0).evidence}
    named = {name for name in tasks if re.match("fwe|niah_not_there|qa_[12]_no_context", name)}
    assert without == named and len(named) > 5


def test_a_golden_paragraph_that_ends_in_a_space_is_found(shared: Path, llama3: str) -> None:
    corpus, _ = Library(shared / "sources", "real").corpus("squad")
    order = permutation(rng(42, "qa_1", 0, "questions"), len(corpus.questions))
    golds = [corpus.documents[corpus.questions[number].gold[0]] for number in order]
    index = next(i for i, gold in enumerate(golds) if gold.endswith(" "))
    row = make(llama3, "qa_1", index, 4096, shared / "sources")
    assert audit_rows(TASKS["qa_1"], 4096, [replace(row, index=0)]) == []
    assert golds[index].startswith(row.context[row.evidence[0].start : row.evidence[0].end])


def said_of(task: str, edit: Callable[[str], str]) -> list[str]:
    """What the audit says of a row whose context is edited behind its evidence."""
    row = make("mistral", task, 0)
    edited = replace(row, context=edit(row.context))
    return audit_rows(TASKS[task], 4096, [edited])


def test_a_golden_name_that_the_example_assigns_is_seen() -> None:
    golden = make("mistral", "vt", 0).outputs[2]
    findings = said_of("vt", lambda text: text.replace("\n\n", f"\n\nVAR {golden} = 11111\n", 1))
    assert any("evidence" in one for one in findings)


def shown(row: Row) -> list[str]:
    """Return the words of a text, the noise among them."""
    return row.context.rpartition("coded words. ")[2].split()


@pytest.mark.parametrize("length", [1024, 8192])
def test_every_word_may_stand_anywhere(length: int) -> None:
    places, alike, expected, variance = [], 0.0, 0.0, 0.0
    for index in range(30):
        words = shown(make("mistral", "fwe", index, length))
        places += [at / len(words) for at, word in enumerate(words) if word != fwe.NOISE]
        coded = [word for word in words if word != fwe.NOISE]
        # Of two words that follow one another, how often both are the same.
        share = sum(n * (n - 1) for n in Counter(coded).values()) / len(coded) / (len(coded) - 1)
        alike += sum(one == other for one, other in pairwise(coded))
        expected += share * (len(coded) - 1)
        variance += share * (1 - share) * (len(coded) - 1)
    assert abs(alike - expected) < 5 * variance**0.5
    assert abs(np.mean(places) - 0.5) < 5 / (12 * len(places)) ** 0.5


@pytest.mark.parametrize("alpha", [1.1, 2.0, 3.5])
def test_a_text_is_the_longest_that_fits(alpha: float) -> None:
    template = fwe.draw("fwe", Fwe(alpha=alpha), counted("mistral"), 0, 4096, 3900)
    smallest = template.fill(0).cost
    found = {room: template.fill(room).cost for room in range(smallest, smallest + 300)}
    assert len({*found.values()}) > 30
    for room, cost in found.items():
        assert cost == max(other for other in found.values() if other <= room)


@pytest.mark.parametrize("length", [16, 300, 4096])
def test_the_least_length_that_is_reported_can_be_built(length: int, tiny: Path) -> None:
    sources = counted(str(tiny))
    least = max(need(TASKS["fwe"], sources, i, target(str(tiny), length)) for i in range(8))
    for index in range(8):
        row = make_row(TASKS["fwe"], sources, index, target(str(tiny), least))
        assert row.length <= least < 400


@pytest.mark.parametrize("vocabulary", [6, 20])
def test_a_vocabulary_that_a_suite_sets_is_that_of_every_length(vocabulary: int) -> None:
    task = replace(TASKS["fwe"], params=Fwe(alpha=1.5, vocabulary=vocabulary))
    for length in (2048, 8192):
        row = make_row(task, counted("mistral"), 1, target("mistral", length)).unpack()
        assert len({*shown(row)}) == vocabulary


@pytest.mark.parametrize("length", [1024, 1536, 2048])
def test_no_other_coded_word_is_as_frequent_as_a_golden_one(length: int) -> None:
    task = replace(TASKS["fwe"], params=Fwe(alpha=2.0, top=10))
    row = make_row(task, counted("mistral"), 1, target("mistral", length)).unpack()
    often = Counter(shown(row))
    del often["..."]
    least = min(often.pop(word) for word in row.outputs)
    assert least > max(often.values())


def test_a_vocabulary_that_leaves_a_third_of_the_length_empty_is_refused() -> None:
    params = Cwe(vocabulary=90, common_repeats=8, other_repeats=4)
    task = replace(TASKS["cwe"], params=params)
    with pytest.raises(UsageError, match=r"90 words fill .* tokens of a list") as caught:
        make_row(task, counted("mistral"), 1, target("mistral", 5120))
    used, room = map(int, re.findall(r"fill (\d+) of the (\d+)", str(caught.value))[0])
    assert 0.6 < used / room < 0.75


def test_a_list_has_as_many_words_as_its_vocabulary_the_common_ones_included() -> None:
    params = Cwe(vocabulary=90, common_repeats=8, other_repeats=4, example=False)
    task = replace(TASKS["cwe"], params=params)
    with pytest.raises(UsageError) as caught:
        make_row(task, counted("mistral"), 1, target("mistral", 5120))
    used, room = map(int, re.findall(r"fill (\d+) of the (\d+)", str(caught.value))[0])
    filled = target("mistral", 5120 - room + used)  # has room for all of them, and no more
    row = make_row(task, counted("mistral"), 1, filled).unpack()
    assert len({*row.context.rpartition("most often.\n")[2].split()[1::2]}) == 90


def test_no_golden_word_of_a_list_contains_another() -> None:
    words = ["art", "party", "map", "mapped", "tree"]
    assert _distinct_sounding(words, np.arange(5), 3)[0] == [0, 2, 4]
    assert _distinct_sounding(words[::-1], np.arange(5), 3)[0] == [0, 1, 3]  # tree mapped party


def built(
    task: str, length: int, rows: int, tokenizer: str, shared: Path
) -> list[tuple[Row, set[str]]]:
    """Return rows of the real sources that the audit accepts, and what runs out in each."""
    sources, tokens = counted(tokenizer, shared / "sources"), target(tokenizer, length)
    notes: list[set[str]] = [set() for _ in range(rows)]
    packed = [next(make_rows(TASKS[task], sources, [n], tokens, notes[n])) for n in range(rows)]
    made = [row.unpack() for row in packed]
    assert audit_rows(TASKS[task], length, made) == []
    return list(zip(made, notes, strict=True))


def documents_of(row: Row) -> Counter[str]:
    text = row.context.partition("following are given documents.\n\n")[2]
    return Counter(part.strip() for part in re.split(r"(?:^|\n\n)Document [0-9]+:\n", text)[1:])


def gold_of(row: Row) -> set[str]:
    return {row.context[span.start : span.end].strip() for span in row.evidence}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "length", "rows"), [("qa_1", 262_144, 60), ("qa_2", 1_048_576, 12)],
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
def test_a_long_list_has_compounds_alone(llama3: str, shared: Path) -> None:
    for row, exhausted in built("cwe", 262_144, 2, llama3, shared):
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
