"""`ruler-data verify` on forged rows: every hash is right, and only the audit can find the fault.

Answers that the prompt does not bear out, evidence that points elsewhere, prompts with two answers.
"""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from ruler_data import TASKS, Row, Span
from tests.conftest import Cli
from tests.tampering import Change, at, copy_of, forge_all, insert, rows_of, unfound

NIAH = [task for task in TASKS if task.startswith("niah")]
SEVERAL = ["niah_multivalue", "niah_multiquery", "vt", "cwe", "fwe"]
WITH_EVIDENCE = [task for task in TASKS if task != "fwe"]


def test_rows_that_are_written_again_unchanged_stay_clean(
    sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    """The control of all forgeries: the repairs leave nothing to find."""
    copy = copy_of(sample_build, tmp_path)
    forge_all(copy, {f"{task}_4096": lambda rows: rows for task in TASKS})
    done = cli("verify", copy, "--rows", 0)
    assert done.returncode == 0, done.stdout


def respell(row: Row) -> Row:
    answer = row.outputs[-1]
    wrong = answer[:-1] + ("1" if answer[-1] == "0" else "0")
    return replace(row, outputs=(*row.outputs[:-1], wrong))


def test_a_changed_golden_answer_is_named(sample_build: Path, tmp_path: Path, cli: Cli) -> None:
    edits = {}
    for task in TASKS:
        answer = rows_of(sample_build, f"{task}_4096")[2].outputs[-1]
        edits[task] = (
            at(2, respell),
            f"2: column outputs (contains|does not contain) '{re.escape(answer[:-1])}.'",
        )
    assert unfound(edits, sample_build, tmp_path, cli) == {}


def leave_out(row: Row) -> Row:
    return replace(row, outputs=row.outputs[:-1])


def repeat_one(row: Row) -> Row:
    return replace(row, outputs=(*row.outputs, row.outputs[0]))


def add_one(row: Row) -> Row:
    return replace(row, outputs=(*row.outputs, "xyzzy"))


@pytest.mark.parametrize("change", [leave_out, repeat_one, add_one])
def test_a_golden_answer_too_few_or_too_many_is_named(
    change: Change, sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    edits = {task: (at(3, change), "3: ") for task in SEVERAL}
    assert unfound(edits, sample_build, tmp_path, cli) == {}


@pytest.mark.parametrize("outputs", [(), ("",), ("yes",)])
def test_a_squad_answer_that_no_document_holds_is_named(
    outputs: tuple[str, ...], sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    """SQuAD asks for a span of the document; yes and no are HotpotQA's."""
    edits = {"qa_1": (at(1, lambda row: replace(row, outputs=outputs)), "1: ")}
    assert unfound(edits, sample_build, tmp_path, cli) == {}


def shift(row: Row) -> Row:
    spans = tuple(Span(span.start + 1, span.end + 1) for span in row.evidence)
    return replace(row, evidence=spans)


def lengthen(row: Row) -> Row:
    last = row.evidence[-1]
    return replace(row, evidence=(*row.evidence[:-1], Span(last.start, last.end + 1)))


def empty(row: Row) -> Row:
    return replace(row, evidence=())


def leave(row: Row) -> Row:
    return replace(row, evidence=(Span(len(row.context) - 3, len(row.context) + 1),))


def go_below_zero(row: Row) -> Row:
    return replace(row, evidence=(Span(-4, -1), *row.evidence[1:]))


def turn_round(row: Row) -> Row:
    return replace(row, evidence=row.evidence[::-1])


@pytest.mark.parametrize("change", [shift, lengthen, empty])
def test_evidence_that_does_not_hold_its_text_is_named(
    change: Change, sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    edits = {task: (at(4, change), "4: ") for task in WITH_EVIDENCE}
    assert unfound(edits, sample_build, tmp_path, cli) == {}


@pytest.mark.parametrize("change", [leave, go_below_zero])
def test_evidence_outside_the_context_is_named(
    change: Change, sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    edits = {task: (at(0, change), "0: an evidence span is outside") for task in TASKS}
    assert unfound(edits, sample_build, tmp_path, cli) == {}


def test_evidence_out_of_order_is_named(sample_build: Path, tmp_path: Path, cli: Cli) -> None:
    several = ["niah_multivalue", "niah_multiquery", "vt", "cwe", "qa_2"]
    edits = {task: (at(5, turn_round), "5: evidence spans are not in order") for task in several}
    assert unfound(edits, sample_build, tmp_path, cli) == {}


def needle_again(value: str) -> Change:
    """Return the change that hides the first gold needle again, with another value."""

    def change(row: Row) -> Row:
        first = row.evidence[0]
        needle = row.context[first.start : first.end]
        again = f"{needle.rpartition(' is: ')[0]} is: {value}."
        joint = row.context[first.end]
        return insert(row, first.end, f"{joint if joint.isspace() else ' '}{again}")

    return change


def test_a_needle_hidden_again_with_another_value_is_named(
    sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    edits = {task: (at(2, needle_again("7654321")), "2: .*'7654321'") for task in NIAH}
    assert unfound(edits, sample_build, tmp_path, cli) == {}


def chain_of_its_own(row: Row) -> Row:
    value = row.question.split()[-5]
    return insert(row, len(row.context) - 1, f"\nVAR ZZZZZ = {value}")


def assigned_twice(row: Row) -> Row:
    return insert(row, len(row.context) - 1, f"\nVAR {row.outputs[0]} = 1")


def eleventh_word(row: Row) -> Row:
    """Let a word that is not asked for stand in the list as often as those that are."""
    words = re.findall(r"(\d+)\. (\S+)", row.context.rpartition("most often.\n")[2])
    counts = Counter(word for _, word in words)
    other = next(word for word in counts if word not in row.outputs)
    missing = counts[row.outputs[0]] - counts[other]
    more = (f" {len(words) + 1 + i}. {other}" for i in range(missing))
    return insert(row, len(row.context) - 1, "".join(more))


def fourth_word(row: Row) -> Row:
    counts = Counter(re.findall(r"\b[a-z]{6}\b", row.context.partition("coded words. ")[2]))
    third = min(counts[word] for word in row.outputs)
    other = next(word for word in counts if word not in row.outputs)
    return insert(row, len(row.context) - 1, f" {other}" * (third - counts[other]))


def gold_document_again(row: Row) -> Row:
    gold = row.context[row.evidence[0].start : row.evidence[0].end]
    number = row.context.count("Document ")
    return insert(row, len(row.context) - 2, f"\n\nDocument {number + 1}:\n{gold}")


@pytest.mark.parametrize(
    ("vt", "words"), [(chain_of_its_own, "'ZZZZZ'"), (assigned_twice, "twice")]
)
def test_a_prompt_with_more_than_one_answer_is_named(
    vt: Change, words: str, sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    edits = {
        "vt": (at(1, vt), f"1: .*{words}"),
        "cwe": (at(1, eleventh_word), r"1: \w.* occurs as often as "),
        "fwe": (at(1, fourth_word), r"1: \w.* occurs as often as "),
        "qa_1": (at(1, gold_document_again), "1: gold document 0 occurs 2 times"),
        "qa_2": (at(1, gold_document_again), "1: gold document 0 occurs 2 times"),
    }
    assert unfound(edits, sample_build, tmp_path, cli) == {}
