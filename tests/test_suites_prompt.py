"""Parameters that the paper varies or leaves open: each shows in the prompt, and only where set."""

import re
from collections import Counter
from pathlib import Path

import pytest

from ruler_data import Row, UsageError
from ruler_data.suites import load_suite, packaged
from ruler_report.stats.scores import configs_of
from ruler_report.stats.sweeps import spreads_of
from tests.proof.audit_rows import audit_rows
from tests.results import config_result, results_of
from tests.rows import make

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


WRONG = {
    "cwe_x: {family: cwe, common: 30}": "common: 30: Input should be less than or equal to 20",
    "cwe_x: {family: cwe, ask: count}": "ask: a question about a count has no example; add",
    "fwe_x: {family: fwe, top: 11}": "top: 11: Input should be less than or equal to 10",
    "vt_x: {family: vt, letters: 3, alphabet: 4, chains: 8}": "alphabet: 64 names are too few for",
    "niah_x: {family: niah, haystack: noise, value_type: uuids, value_length: 9}": "has one length",
    "niah_x: {family: niah, haystack: noise, value_length: 3}": "too few numbers of 3 digits",
    "niah_x: {family: niah, haystack: noise, ordinal: true}": "ordinal: needs 2 to 16 values",
    "cwe_x: {family: cwe, ask: count, example: false, common_repeats: 6}": "common: 10 words have",
    "niah_x: {family: niah, haystack: noise, wording: split, values: 4, ordinal: true}": "a needle",
    "niah_x: {family: niah, haystack: noise, wording: associated, keys: 49}": "at most 48 keys",
    "graph_x: {family: graph}": "ask: is missing",
    "graph_x: {family: graph, ask: parents, steps: 2}": "steps: parents are one step away",
    "graph_x: {family: graph, ask: within, steps: 6}": "steps: 126 nodes are in the answer",
    "vt_x: {family: vt, same_questions_as: cwe}": "'cwe' is not a task of the family vt",
    "vt_x: {family: vt, same_questions_as: vt_x}": "'vt_x' has another task's questions itself",
}  # fmt: skip


@pytest.mark.parametrize("task", WRONG)
def test_parameters_that_do_not_go_together_are_refused_with_the_reason(
    task: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"name: mine\nabout: Mine.\ntasks:\n  {task}\n", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        load_suite(str(path))
    assert WRONG[task] in str(caught.value) and "mine.yaml: tasks." in str(caught.value)


def scored(columns: dict[str, list[float]]) -> object:
    results = results_of({f"{task}_4096": scores for task, scores in columns.items()})
    for name, one in results.configs.items():
        base = None if name == "niah_a_4096" else "niah_a"
        results.configs[name] = config_result(one.scores, same_questions_as=base)
    return configs_of(results)


def test_the_spread_over_prompts_is_of_means_and_its_p_value_tells_chance_from_more() -> None:
    right, half = [1.0] * 40, [1.0, 0.0] * 20
    [spread] = spreads_of(scored({"niah_a": right, "niah_b": half, "niah_c": right}))  # type: ignore[arg-type]
    assert (spread.tasks[0], spread.points, spread.rows) == ("niah_b", 50.0, 40)
    assert spread.p_value < 0.001
    [even] = spreads_of(scored({"niah_a": half, "niah_b": half[::-1]}))  # type: ignore[arg-type]
    assert even.points == 0.0 and even.p_value == 1.0
