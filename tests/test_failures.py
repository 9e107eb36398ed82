"""How rows failed: each kind is told from real rows and answers that fail in just that way."""

import re
from dataclasses import replace
from functools import cache
from typing import Literal

import pytest

from ruler_builders.pipeline.fit import make_row
from ruler_data import TASKS, Row
from ruler_data.tasks import Niah
from ruler_eval.metrics import clean, score_row
from ruler_report.exact import exact_scores
from ruler_report.failures import MEANINGS, PARAMETRIC, failure_of
from ruler_report.results_file import BINS, ConfigResult
from ruler_report.scoring import evidence_of
from tests.labelled_answers import RIGHT, labelled_answers
from tests.rows import counted, make, target


@cache
def row(task: str) -> Row:
    return make("mistral", task, 3)


def test_labels_and_exact_scores_are_right_on_answers_of_known_label() -> None:
    wrong, labels = [], set()
    every = list(labelled_answers())
    for one, task, label, text in every:
        said = clean(text)
        score = score_row(one, task, said)
        exact, _ = exact_scores(one, task, said, score)
        assert exact <= score
        found = failure_of(one, task, said, score, None) or RIGHT
        labels.add(found)
        if found != label or (label == RIGHT and exact < 1 and task.metric == "all"):
            wrong.append(f"{task.name}: {found}, not {label}, exact {exact}: {text}")
    assert labels == {RIGHT, *MEANINGS} - {PARAMETRIC} and len(every) > 2500
    assert len(wrong) <= 0.01 * len(every), "\n".join(wrong)


@pytest.mark.parametrize("wording", ["paraphrased", "split"])
def test_other_wordings_of_needles_are_needles_all_the_same(
    wording: Literal["paraphrased", "split"],
) -> None:
    params = Niah("essays", keys=4, wording=wording)
    task = replace(TASKS["niah_multikey_1"], name="niah_other", params=params)
    made = make_row(task, counted("mistral"), 3, target("mistral", 4096)).unpack()
    values = set(re.findall(r"\b\d{7}\b", made.context)) - set(made.outputs)
    assert len(values) == 3
    assert {failure_of(made, task, value, 0.0, None) for value in values} == {
        "wrong, from the context"
    }


def test_the_answer_without_context_marks_parametric_knowledge() -> None:
    task = TASKS["qa_1"]
    found = failure_of(row("qa_1"), task, "Zanzibar.", 0.0, "zanzibar")
    assert found == "as without context"
    assert failure_of(row("qa_1"), task, "Zanzibar.", 0.0, "Madrid") == "not in the context"


@pytest.mark.parametrize(
    ("said", "label"),
    [
        ("18 May 1756", None),
        ("It was on 18 May 1756.", None),
        ("18 May 1756, and not 1763", "more than the gold answers"),
        ("18 May 1756 or 1666", None),  # no year of the context
        ("1756-05-18", "right, in another form"),
        ("18. Mai 1756", "right, in another form"),
        ("May 18", "incomplete"),
        ("1763", "wrong, from the context"),
        ("1815", "not in the context"),
        ("I could not find the year of that war.", "refusal"),
    ],
)
def test_a_date_is_read_in_every_form_and_looked_up_in_the_context(
    said: str, label: str | None
) -> None:
    text = "Document 1:\nWar was declared on 18 May 1756 in London. It ended in 1763."
    asked = "Question: When was the war declared?"
    one = Row(0, "qa_1", text, asked, " Answer:", ("18 May 1756",), 32, 4096, ())
    score = score_row(one, TASKS["qa_1"], said)
    assert failure_of(one, TASKS["qa_1"], said, score, None) == label


@pytest.mark.parametrize("longer", ["{}8", "4{}", "{}{}"])
def test_a_longer_value_around_the_gold_one_is_more_than_the_gold_answers(longer: str) -> None:
    one, task = row("niah_single_1"), TASKS["niah_single_1"]
    said = longer.format(*one.outputs * 2)
    assert score_row(one, task, said) == 1 and exact_scores(one, task, said, 1.0)[0] == 0
    assert failure_of(one, task, said, 1.0, None) == "more than the gold answers"


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
