"""How rows failed: each kind is told from real rows and answers that fail in just that way."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Literal

import pytest

from ruler_builders.pipeline.fit import make_row
from ruler_data import TASKS, Row
from ruler_data.suites import packaged
from ruler_data.tasks import Niah
from ruler_eval.metrics import clean, score_row
from ruler_report.failures import MEANINGS, failure_of
from ruler_report.results_file import BINS, ConfigResult
from ruler_report.scoring import evidence_of
from tests.rows import counted, make, target
from tests.wrong_answers import wrong_answers

NEEDLE = re.compile(r"One of the special magic \w+ for ([\w-]+) is: ([\w-]+)\.")


@cache
def row(task: str) -> Row:
    return make("mistral", task, 3)


def needles(one: Row) -> list[str]:
    return [str(match[2]) for match in NEEDLE.finditer(one.context)]


def near(one: Row) -> str:
    values = needles(one)
    return values[values.index(one.outputs[0]) - 2]


def far(one: Row) -> str:
    values = needles(one)
    return values[(values.index(one.outputs[0]) + len(values) // 2) % len(values)]


def other_needle(one: Row) -> str:
    return next(value for value in needles(one) if value not in one.outputs)


def example_answer(one: Row) -> str:
    example = one.context[: one.context.index(one.context[:40], 40)]
    return example.rpartition(":")[2].strip()


def rare_words(one: Row) -> str:
    words = re.findall(r"[a-z]{4,}", one.context.rpartition("ones that appear most often.")[2])
    return " ".join([word for word in dict.fromkeys(words) if word not in one.outputs][:10])


def other_code(one: Row) -> str:
    words = re.findall(r"\b[a-z]{6}\b", one.context.partition("coded words. ")[2])
    return str(next(word for word in words if word not in one.outputs))


def other_document(one: Row) -> str:
    gold = one.evidence[0]
    start = one.context.index("Document 1:\n") + 12
    text = one.context[start : start + 30] if gold.start > start + 60 else one.context[-40:-4]
    return text.strip().split("\n")[-1]


def gold_part(one: Row) -> str:
    span = one.evidence[0]
    return one.context[span.start : span.start + 25]


CASES: list[tuple[str, Callable[[Row], str], str]] = [
    ("vt", lambda r: "", "empty"),
    ("qa_1", lambda r: "I'm sorry, the documents do not say.", "refusal"),
    ("niah_single_1", lambda r: "The number is not mentioned in the text.", "refusal"),
    ("niah_multikey_1", other_needle, "wrong needle"),
    ("niah_multikey_2", near, "wrong needle, nearby"),
    ("niah_multikey_2", far, "wrong needle"),
    ("niah_multikey_3", lambda r: r.outputs[0][:20], "answer cut short"),
    ("niah_single_3", lambda r: r.context[500:600], "copied from the context"),
    ("niah_multivalue", lambda r: ", ".join(r.outputs[:2] * 2), "incomplete set"),
    ("niah_multiquery", lambda r: r.outputs[0], "incomplete set"),
    ("niah_single_2", lambda r: "1234", "not in the context"),
    ("vt", example_answer, "copied from the example"),
    ("vt", lambda r: " ".join(r.outputs[:3]), "incomplete set"),
    ("vt", lambda r: "QQQQQ ZZZZZ", "not in the context"),
    ("cwe", example_answer, "copied from the example"),
    ("cwe", rare_words, "miscounted"),
    ("cwe", lambda r: " ".join(r.outputs[:7]), "incomplete set"),
    ("cwe", lambda r: "very, much, unlikely, vocables, hereabouts", "not in the context"),
    ("fwe", lambda r: f"{r.outputs[0]}, {other_code(r)}", "miscounted"),
    ("fwe", lambda r: r.outputs[0], "incomplete set"),
    ("fwe", lambda r: "zzzzzz, qqqqqq, xxxxxx", "not in the context"),
    ("qa_1", lambda r: "Zanzibar in 1911", "not in the context"),
    ("qa_1", gold_part, "wrong part of the gold document"),
    ("qa_2", other_document, "from another document"),
]


@pytest.mark.parametrize(("task", "say", "kind"), CASES, ids=[f"{c[0]}-{c[2]}" for c in CASES])
def test_a_failure_is_told_from_the_answer(task: str, say: Callable[[Row], str], kind: str) -> None:
    one = row(task)
    said = say(one)
    score = score_row(one, TASKS[task], said)
    assert score < 1
    assert failure_of(one, TASKS[task], said, score, None) == kind
    assert kind in MEANINGS


@pytest.mark.parametrize("wording", ["paraphrased", "split"])
def test_other_wordings_of_needles_are_needles_all_the_same(
    wording: Literal["paraphrased", "split"],
) -> None:
    params = Niah("essays", keys=4, wording=wording)
    task = replace(TASKS["niah_multikey_1"], name="niah_other", params=params)
    made = make_row(task, counted("mistral"), 3, target("mistral", 4096)).unpack()
    values = set(re.findall(r"\b\d{7}\b", made.context)) - set(made.outputs)
    assert len(values) == 3
    assert {failure_of(made, task, value, 0.0, None) for value in values} == {"wrong needle"}


def test_the_answer_without_context_marks_parametric_knowledge() -> None:
    task = TASKS["qa_1"]
    found = failure_of(row("qa_1"), task, "Zanzibar.", 0.0, "zanzibar")
    assert found == "as without context"
    assert failure_of(row("qa_1"), task, "Zanzibar.", 0.0, "Madrid") == "not in the context"


@pytest.mark.parametrize("task", ["niah_multivalue", "vt", "cwe", "qa_1"])
def test_evidence_is_shown_where_its_answer_is_named(task: str) -> None:
    one = row(task)
    every = list(evidence_of(one, TASKS[task], " ".join(one.outputs), 1.0))
    assert len(every) == len(one.evidence) and all(shown for _, shown in every)
    assert not any(shown for _, shown in evidence_of(one, TASKS[task], "", 0.0))
    assert all(0 <= cell < BINS for cell, _ in every)


def test_one_named_variable_shows_one_line_of_the_chain() -> None:
    one = row("vt")
    shown = [shown for _, shown in evidence_of(one, TASKS["vt"], one.outputs[2], 0.2)]
    assert shown == [False, False, True, False, False]


def test_depth_begins_behind_the_example() -> None:
    one = row("cwe")
    cells = [cell for cell, _ in evidence_of(one, TASKS["cwe"], "", 0.0)]
    assert set(cells) == set(range(BINS))


def test_every_field_of_a_result_is_documented() -> None:
    assert ConfigResult.__doc__
    missing = [name for name in ConfigResult.__dataclass_fields__
               if f"{name}:" not in ConfigResult.__doc__]  # fmt: skip
    assert missing == []


@pytest.mark.parametrize("half", [0, 1], ids=["development", "held-out"])
def test_kinds_are_right_on_wrong_answers_of_known_cause(half: int) -> None:
    tasks = {name: one for suite in packaged().values() for name, one in suite.tasks.items()}
    wrong: list[str] = []
    count, causes = 0, set[str]()
    for name in (*TASKS, "niah_w_w", "vt_chains_4"):
        one, task = make("mistral", name, 1, 2048), tasks[name]
        for cause, kinds, answer in wrong_answers(one, task, half):
            said = clean(answer)
            kind = failure_of(one, task, said, score_row(one, task, said), None)
            count, causes = count + 1, causes | {cause}
            if kind not in kinds:
                wrong.append(f"{name}: {cause}: {kind}: {answer}")
    assert len(causes) >= 20 and count > 300
    assert len(wrong) <= 0.05 * count, wrong
