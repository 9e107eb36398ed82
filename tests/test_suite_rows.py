"""Rows of every task of every suite: what their prompts hold, and what they ask."""

import re
from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_builders.checks.prompt_parser import needle_sentences
from ruler_builders.prompts import NEEDLES
from ruler_builders.sources.packaged import associations
from ruler_data import Row
from ruler_data.suites import packaged
from ruler_data.tasks import Task
from tests.proof.audit_rows import audit_rows
from tests.proof.task_parameters import between, lines_between
from tests.rows import make, rows_of

ALL = {task.name: task for suite in packaged().values() for task in suite.tasks.values()}
HARD = packaged()["hard"].tasks
NEEDLE = re.compile(r"One of the special magic numbers for (\S+) is: (\d{7})\.")


@pytest.mark.parametrize("task", ALL.values(), ids=ALL)
def test_rows_pass_the_audit(task: Task) -> None:
    assert audit_rows(task, 4096, rows_of(task.name)) == []


def asked(row: Row) -> tuple[object, ...]:
    """Return what a row asks, and the texts that its answer rests on."""
    held = Counter(row.context[span.start : span.end] for span in row.evidence)
    return row.question, row.answer_prefix, row.outputs, held


@pytest.mark.parametrize("task", ALL)
def test_every_length_and_tokenizer_asks_the_same(task: str) -> None:
    first = asked(make("mistral", task, 3))
    assert asked(make("mistral-v0.2", task, 3)) == first
    assert asked(make("mistral", task, 3, 8192)) == first


def test_an_audit_finds_a_split_needle_that_lost_its_second_half() -> None:
    row = rows_of("niah_split")[0]
    spoilt = replace(row, context=row.context.replace("What is filed under", "What is"))
    assert any(": no needle for" in one for one in audit_rows(ALL["niah_split"], 4096, [spoilt]))


def of(prefix: str) -> list[str]:
    return [name for name in HARD if name.startswith(prefix)]


def test_every_kind_of_question_has_three_rungs_of_free_texts_and_an_exact_headline() -> None:
    kinds = Counter("_".join(name.split("_")[:2]) for name in HARD if "graph" not in name)
    assert set(kinds.values()) == {3} and len(kinds) == 7 and len(HARD) == 24
    assert {task.headline for task in HARD.values()} == {"exact"}
    assert {source for task in HARD.values() for source in task.sources} == {
        "words", "associations",
        *(f"domain_{name}" for name in ("prose", "code", "legal", "technical", "tables")),
    }  # fmt: skip


@pytest.mark.parametrize("task", of("vt"))
def test_scrambled_chains_are_in_no_order(task: str) -> None:
    before = []
    for row in rows_of(task):
        lines = re.findall(r"^VAR (\w{5}) = (?:VAR )?(\w{5}) ?$", row.context, re.MULTILINE)
        place = {name: number for number, (name, _) in enumerate(lines)}
        before += [place[name] < place[source] for name, source in lines if source in place]
    assert 0.4 < sum(before) / len(before) < 0.6


def test_the_halves_of_a_needle_stand_independently() -> None:
    gaps = []
    for row in rows_of("niah_split", 12):
        first, second = row.evidence
        gaps.append((second.start - first.end) / len(row.context))
    assert min(gaps) < 0.25 < 0.4 < max(gaps)


@pytest.mark.parametrize("task", of("niah_lookalikes"))
def test_lookalike_keys_are_a_grid_of_words_and_their_values_a_grid_of_digits(task: str) -> None:
    size = int(task.rpartition("_")[2])
    for row in rows_of(task):
        known = dict(NEEDLE.findall(row.context))
        asked = re.findall(r"[a-z]+-[a-z-]+", row.question)
        assert row.outputs == tuple(known[key] for key in asked) and len(asked) == 4
        firsts, lasts = (Counter(key.partition("-")[part] for key in known) for part in (0, 2))
        assert len(known) == size == len(firsts) * len(lasts)
        for half in (slice(0, 3), slice(3, 7)):
            assert len(set(Counter(value[half] for value in known.values()).values())) == 1


@pytest.mark.parametrize("task", of("niah_associated"))
def test_a_described_thing_shares_no_word_with_the_question(task: str) -> None:
    for row in rows_of(task):
        [span] = row.evidence
        needle = set(re.findall("[a-z]+", row.context[span.start : span.end].lower()))
        asked = set(re.findall("[a-z]+", row.question.lower()))
        assert needle & asked <= {"the"}
        description = re.search("for the (.+) mentioned", row.question)
        assert description and any(
            thing.lower() in needle for thing in associations()[description[1]]
        )


def test_no_thing_fits_two_descriptions_or_contains_one_of_their_words() -> None:
    known = associations()
    assert len(known) == 48 and all(len(set(things)) == 3 for things in known.values())
    assert all(not set(a) & set(b) for a, b in combinations(known.values(), 2))
    for description, things in known.items():
        words = {word for word in description.split() if len(word) > 3}
        assert not any(word in thing.lower() for word in words for thing in things)


WORDS = st.sampled_from(["hat", "red-cloth", "8090293", "e8a0fa1c-2f0e-4f6a-9b9b-0a6f2d3c4b5a"])
FORMS = st.sampled_from(
    [(wording, form) for wording, forms in NEEDLES.items() for form in forms if wording != "split"]
)
FILLER = st.sampled_from(["The grass is green.", "A text of one needle: no.", "", " "])


@given(st.lists(st.tuples(FORMS, WORDS, WORDS, FILLER), max_size=6), st.booleans())
def test_needles_of_one_wording_or_of_several_are_found_with_the_lines_between_them(
    drawn: list[tuple[tuple[str, str], str, str, str]], one: bool
) -> None:
    lines, expected = list[str](), list[tuple[str, str, str, str, str]]()
    for form, key, value, filler in drawn:
        wording, text = drawn[0][0] if one else form
        kind = "numbers" if "{kind}" in text else "number" if "{one}" in text else ""
        sentence = text.format(kind=kind, one=kind, key=key, value=value)
        expected.append((sentence, kind, key, value, wording))
        lines += [filler, sentence]
    text = "\n".join(lines)
    found = needle_sentences(text)
    texts = [(text[slice(*one.spans[0])], *one[:4]) for one in found]
    assert sorted(texts) == sorted(expected)
    keys = {key for *_, key, _value, _wording in expected[:2]}
    assert needle_sentences(text, keys) == [one for one in found if one.key in keys]
    assert lines_between(between(text, found), "") == [one for one in lines[::2] if one.strip()]


PROMPTS = [*packaged()["prompt"].tasks]


def held(row: Row) -> list[tuple[str, float]]:
    """Return the values in the order of the text, each with its relative depth in the haystack."""
    start = row.context.rindex("\n", 0, row.evidence[0].start) + 1
    spans = [(row.context[span.start : span.end], span.start - start) for span in row.evidence]
    room = len(row.context) - start
    return [
        (next(value for value in row.outputs if value in text), place / room)
        for text, place in spans
    ]


@pytest.mark.parametrize("task", PROMPTS[1:])
def test_another_prompt_has_the_same_keys_values_and_depths(task: str) -> None:
    for index in range(6):
        usual, other = make("mistral", PROMPTS[0], index), make("mistral", task, index)
        assert usual.outputs == other.outputs and usual.answer_prefix == other.answer_prefix
        assert usual.question == (other.question or other.context.partition("\n\n")[0])
        for (value, depth), (same, near) in zip(held(usual), held(other), strict=True):
            assert value == same and abs(depth - near) < 0.05
        assert usual.context != other.context or usual.question != other.question


def test_a_question_before_the_text_is_part_of_the_context() -> None:
    question = make("mistral", "niah_prompt", 3).question
    before, around = (make("mistral", f"niah_prompt_{place}", 3) for place in ("before", "around"))
    assert before.question == "" and before.prompt.count(question) == 1
    assert around.question == question and around.prompt.count(question) == 2
    assert before.context.startswith(f"{question}\n\nSome special magic numbers are hidden")
    assert around.context.startswith(f"{question}\n\nSome special magic numbers are hidden")
