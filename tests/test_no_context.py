"""Questions without documents, and the 18 configurations of which the paper kept 13."""

from pathlib import Path

from ruler_data import TASKS
from ruler_data.parquet import read_rows
from ruler_data.suites import packaged
from ruler_data.tasks import Fwe, Niah, Vt
from tests.builds import run
from tests.commands import one_line
from tests.conftest import Cli
from tests.proof.audit_rows import audit_rows
from tests.rows import make

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


def test_rows_are_as_long_as_they_are_and_verified_as_that(tmp_path: Path, cli: Cli) -> None:
    options = ("--tokenizer", "mistral-v0.2", "--sources-kind", "sample", "--suite", "no_context")
    done = run(*options, "--lengths", 4096, "--rows", 6, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    rows = list(read_rows(tmp_path / "out/qa_1_no_context_4096/test-00000-of-00001.parquet"))
    assert all(row.length < 200 for row in rows)
    assert cli("verify", tmp_path / "out").returncode == 0
    many = run(*options, "--lengths", 4096, "--rows", 400, "--out", tmp_path / "more")
    assert "qa_1_no_context: squad has 320 questions," in one_line(many, 2)


def test_an_auditor_finds_a_document_where_there_is_to_be_none() -> None:
    task = packaged()["no_context"].tasks["qa_1_no_context"]
    row = make("mistral", "qa_1_no_context", 0)
    from dataclasses import replace

    spoiled = replace(row, context=row.context + "Document 1:\nThe answer.\n\n")
    assert audit_rows("x", task, 4096, [row]).findings == []
    assert any(
        "a document, in a task without" in one
        for one in audit_rows("x", task, 4096, [spoiled]).findings
    )


def test_the_eighteen_are_the_thirteen_and_the_five_that_the_figure_names() -> None:
    tasks = packaged()["paper18"].tasks
    assert len(tasks) == 18 and TASKS.items() <= tasks.items()
    own = {name: task.params for name, task in tasks.items() if name not in TASKS}
    assert own == {
        "niah_single_words": Niah("essays", value_type="words"),
        "niah_multivalue_2": Niah("essays", values=2),
        "niah_multiquery_2": Niah("essays", keys=2, queries=2),
        "vt_chains_2_hops_2": Vt(chains=2, hops=2),
        "fwe_steep_3_5": Fwe(alpha=3.5),
    }


def test_rows_of_a_suite_hold_for_the_thirteen_that_it_includes(tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(
        "name: small\nabout: Few rows.\nlengths: [1024]\nrows: 7\ninclude: [vt, fwe]\n",
        encoding="utf-8",
    )
    done = run(
        "--tokenizer", "mistral-v0.2", "--sources-kind", "sample", "--suite", file,
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for task in ("vt", "fwe"):
        rows = list(read_rows(tmp_path / f"out/{task}_1024/test-00000-of-00001.parquet"))
        assert [row.index for row in rows] == list(range(7))
        assert rows[3] == make("mistral-v0.2", task, 3, 1024)
