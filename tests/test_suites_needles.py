"""Needles of suites: reworded, in two places, among their likes, or not there at all."""

import re
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_builders.checks.prompt_parser import needle_sentences
from ruler_builders.prompts import NEEDLES
from ruler_data import Row
from ruler_data.suites import packaged
from tests.proof.audit_rows import audit_rows
from tests.proof.task_parameters import between, lines_between
from tests.rows import make, rows_of

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
SWEEPS = (
    "prompt",
    "sweep_common",
    "sweep_top",
    "sweep_example",
    "sweep_names",
    "sweep_value_length",
)


def listed(text: str) -> list[str]:
    return re.findall(r"[0-9]+\. ([a-z-]+)", text)


@pytest.mark.parametrize("suite", SWEEPS)
def test_rows_of_every_task_pass_the_audit(suite: str) -> None:
    for name, task in packaged()[suite].tasks.items():
        rows = [make("mistral", name, index) for index in range(4)]
        assert audit_rows(f"{name}_4096", task, 4096, rows).findings == []


@pytest.mark.parametrize("common", [2, 5, 15])
def test_a_question_about_n_common_words_says_n_and_its_example_answers_with_n(common: int) -> None:
    row = make("mistral", f"cwe_common_{common}", 1)
    assert row.question == f"Question: What are the {common} most common words in the above list?"
    assert row.answer_prefix.startswith(f" Answer: The top {common} words that appear most")
    head, _, rest = row.context.partition(row.question + row.answer_prefix)
    assert len(listed(rest.partition("\nBelow")[0])) == common
    ranked = Counter(listed(rest.partition("\nBelow")[2])).most_common(common + 1)
    assert {word for word, _ in ranked[:common]} == set(row.outputs)
    assert [count for _, count in ranked[-2:]] == [20, 3]
    assert set(row.outputs).isdisjoint(listed(head))


@pytest.mark.parametrize("family", ["vt", "cwe"])
def test_without_its_example_a_prompt_asks_the_same_and_shows_nothing_before(family: str) -> None:
    with_one, without = (make("mistral", task, 2) for task in (family, f"{family}_example_none"))
    assert with_one.question == without.question and with_one.outputs == without.outputs
    instruction = without.context.partition("\n")[0]
    assert (with_one.context.count(instruction), without.context.count(instruction)) == (2, 1)
    assert without.context.startswith(instruction)
    assert " Answer: " in with_one.context.rpartition(instruction)[0]
    assert " Answer: " not in without.context


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


def test_needles_in_other_formats_are_records_of_the_same_key_and_value() -> None:
    plain, record, code = (
        make("mistral", f"niah_prompt{end}", 0) for end in ("", "_json", "_assignment")
    )
    texts = [[row.context[s.start : s.end] for s in row.evidence] for row in (plain, record, code)]
    for one, two, three in zip(*texts, strict=True):
        key, value = re.fullmatch(
            r"One of the special magic numbers for (\S+) is: (\d+)\.", one
        ).groups()  # type: ignore[union-attr]
        assert two == f'{{"special magic number": {{"key": "{key}", "value": "{value}"}}}}'
        assert three == f'special_magic_numbers["{key}"] = "{value}"'
