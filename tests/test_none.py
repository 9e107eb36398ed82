"""Questions that may have no answer: what counts, what fails how, and that guessing earns half."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from ruler_data import Row
from ruler_data.parquet import read_rows
from ruler_data.suites import load_suite, packaged
from ruler_data.tasks import Niah, PartType, Task
from ruler_eval.scoring.labels import ABSENT, CONTEXT, FORM, REFUSAL, failure_of
from ruler_eval.scoring.loading import load_scores
from ruler_eval.scoring.metrics import score_row
from ruler_report.columns import MEAN
from ruler_report.conclusion import conclude
from tests.builds import run
from tests.commands import one_line, succeeded
from tests.conftest import Cli
from tests.proof.audit_rows import audit_rows
from tests.rows import make
from tests.runs import golden, make_run, scored_run

TABLE = load_suite("no_needle").tasks
THERE, NOT_THERE = TABLE["niah_there"], TABLE["niah_not_there"]
ASKED = "What is the special magic number for dull-moon? If not mentioned, answer: none."


def row(outputs: tuple[str, ...], context: str) -> Row:
    return Row(0, "niah_there", context, ASKED, " It is", outputs, 128, 4096, ())


IS_THERE = row(("1234567",), "number for dull-moon is: 1234567. For full-moon is: 7654321.")
IS_NOT = row(("none",), "number for full-moon is: 7654321.")


@pytest.mark.parametrize(
    ("said", "there", "absent"),
    [
        ("1234567", 1, 0),
        ("none.", 0, 1),
        ("none, or 1234567", 0, 1),
        ("1234567, or none", 1, 0),
        ("7654321, so none for dull-moon", 0, 0),
        ("nonetheless 1234567", 1, 0),
        ("non-none", 0, 0),
        ("There is no such number.", 0, 0),
        ("", 0, 0),
    ],
)
def test_what_an_answer_claims_first_counts(said: str, there: float, absent: float) -> None:
    assert score_row(IS_THERE, THERE, said) == there
    assert score_row(IS_NOT, NOT_THERE, said) == absent


@pytest.mark.parametrize("value_type", get_args(PartType))
def test_a_value_of_every_type_before_none_is_a_claim(value_type: PartType) -> None:
    value = {"numbers": "7654321", "words": "odd-hat",
             "uuids": "0a1b2c3d-0000-4000-8000-0123456789ab"}[value_type]  # fmt: skip
    task = replace(NOT_THERE, params=Niah("essays", value_type=value_type, none="true"))
    asked = row(("none",), f"for full-moon is: {value}.")
    assert score_row(asked, task, f"{value}, or none") == 0
    assert score_row(asked, task, "for dull-moon there is none") == 1


def test_a_key_of_the_question_that_looks_like_a_value_is_no_claim() -> None:
    asked = replace(IS_NOT, question=ASKED.replace("dull-moon", "2345678"))
    assert score_row(asked, NOT_THERE, "for 2345678 there is none") == 1


@pytest.mark.parametrize(
    ("asked", "task", "said", "failure"),
    [
        (IS_THERE, THERE, "none. It is not mentioned.", REFUSAL),
        (IS_THERE, THERE, "7654321", CONTEXT),
        (IS_NOT, NOT_THERE, "7654321", CONTEXT),
        (IS_NOT, NOT_THERE, "1111111, or none", ABSENT),
        (IS_NOT, NOT_THERE, "There is no such number.", FORM),
    ],
)
def test_false_claims_are_told_apart(asked: Row, task: Task, said: str, failure: str) -> None:
    assert failure_of(asked, task, said, 0.0) == failure


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory, cli: Cli) -> Path:
    folder = tmp_path_factory.mktemp("none") / "data"
    options = ("--lengths", "1024", "--rows", 10, "--sources", "sample", "--out", folder)
    succeeded(cli("build", "--suite", "no_needle", *options))
    return folder


GUESSES: dict[str, Callable[[str, Row], str]] = {
    "always none": lambda _c, row: f" none ({row.index})",
    "both, a value first": lambda _c, row: f" {row.outputs[0].replace('none', '1234567')}, or none",
}


@pytest.mark.parametrize("how", GUESSES)
def test_guessing_whether_there_is_one_earns_half(how: str, build: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", build, GUESSES[how])
    conclusion = conclude([load_scores(run, str(build))])
    assert conclusion.value(MEAN, 0) == 50.0
    says_none = how == "always none"
    assert conclusion.value(("niah_there", 1024), 0) == 100.0 * (not says_none)
    assert conclusion.value(("niah_not_there", 1024), 0) == 100.0 * says_none


def test_golden_answers_score_100(build: Path, tmp_path: Path) -> None:
    run = scored_run(tmp_path / "run", build, golden)
    mean = conclude([load_scores(run, str(build))]).estimate(MEAN, 0)
    assert mean and mean.value == 100.0 and mean.low is not None and mean.low < 100


PAIRS = {"qa_1_no_context": "qa_1", "qa_2_no_context": "qa_2"}


def test_the_questions_are_those_of_the_task_with_documents_and_nothing_more() -> None:
    for task, asked in PAIRS.items():
        for index in range(8):
            alone, usual = make("mistral", task, index), make("mistral", asked, index)
            assert alone.outputs == usual.outputs and alone.evidence == ()
            question = usual.question.rpartition("Question: ")[2]
            assert alone.prompt == (
                "Answer the question. Only give me the answer and do not output any other words."
                f"\n\nQuestion: {question} Answer:"
            )
            assert alone == make("mistral", task, index, length=16384)


@pytest.mark.slow
def test_rows_are_as_long_as_they_are_and_verified_as_that(tmp_path: Path, cli: Cli) -> None:
    options = ("--tokenizer", "mistral-v0.2", "--sources", "sample", "--suite", "no_context")
    succeeded(run(*options, "--lengths", 4096, "--rows", 6, "--out", tmp_path / "out"))
    rows = list(read_rows(tmp_path / "out/qa_1_no_context_4096/test-00000-of-00001.parquet"))
    assert all(row.length < 200 for row in rows)
    assert cli("verify", tmp_path / "out").returncode == 0
    command = (*options, "--tasks", "qa_1_no_context", "--lengths", 4096)
    many = run(*command, "--rows", 321, "--out", tmp_path / "more")
    assert "qa_1_no_context: squad has 320 questions," in one_line(many, 2)
    succeeded(run(*command, "--rows", 320, "--out", tmp_path / "all"))


def test_an_auditor_finds_a_document_where_there_is_to_be_none() -> None:
    task = packaged()["no_context"].tasks["qa_1_no_context"]
    row = make("mistral", "qa_1_no_context", 0)
    spoiled = replace(row, context=row.context + "Document 1:\nThe answer.\n\n")
    assert "a document, in a task without" in str(audit_rows(task, 4096, [spoiled]))
