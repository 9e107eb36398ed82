"""What a build checks of each row: each damage to a row is named, with its values and alone."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from ruler_builders.checks.solvers import row_findings
from ruler_data.row import Row, Span
from ruler_data.suites import packaged
from ruler_data.tasks import Task
from tests.rows import make

LENGTH = 2048
Edit = Callable[[Row], Row]
TASKS: dict[str, Task] = {
    name: task for suite in packaged().values() for name, task in suite.tasks.items()
}


def found(task: str, edit: Edit) -> list[str]:
    """Return the findings of the first row of a task after an edit, without its own values."""
    row = make("mistral", task, 0, LENGTH)
    edited = edit(row)
    # An edit of the text that moves the haystack's end is not what is looked for.
    if edited.context != row.context and edited.haystack:
        start, end = edited.haystack
        end += len(edited.context) - len(row.context)
        edited = replace(edited, haystack=Span(start, end))
    return [*row_findings(TASKS[task], LENGTH, 0, edited)]


def first(row: Row, number: int = 0) -> str:
    """Return the text of one piece of evidence."""
    span = row.evidence[number]
    return row.context[span.start : span.end]


def changed(**values: object) -> Edit:
    return lambda row: replace(row, **values)  # type: ignore[arg-type]


def spans(*edges: tuple[int, int]) -> Edit:
    return changed(evidence=tuple(Span(*one) for one in edges))


def appended(text: Callable[[Row], str]) -> Edit:
    """Add a text to the end of the haystack, behind all evidence."""

    def edit(row: Row) -> Row:
        assert row.haystack
        end = row.haystack.end
        return replace(row, context=row.context[:end] + text(row) + row.context[end:])

    return edit


OUTSIDE = "an evidence span is outside the context"
COLUMNS: dict[str, tuple[Edit, list[str]]] = {
    "nothing": (lambda row: row, []),
    "index": (changed(index=5), ["row 0 of the file has index 5"]),
    "task": (changed(task="cwe"), ["task is 'cwe'"]),
    "budget": (changed(max_new_tokens=31), ["max_new_tokens is 31, the task's is 30"]),
    "a smaller budget": (changed(max_new_tokens=29), ["max_new_tokens is 29, the task's is 30"]),
    "full": (changed(length=LENGTH), []),
    "too long": (
        changed(length=LENGTH + 1),
        ["length 2049 is over 2048, the config's without its reserve"],
    ),
    "no answer": (
        changed(outputs=()),
        ["a gold answer is empty",
         "column outputs does not contain 'AHDSM', which the prompt gives",
         "evidence holds 5 spans, not 0"],
    ),
    "an empty answer": (
        lambda row: replace(row, outputs=(*row.outputs, "")),
        ["a gold answer is empty",
         "column outputs contains '', which the prompt does not support"],
    ),
    "an answer twice": (
        lambda row: replace(row, outputs=(*row.outputs, row.outputs[1])),
        ["column outputs contains 'PCDHI' twice"],
    ),
    "an answer too many": (
        lambda row: replace(row, outputs=(*row.outputs, "ZZZZZ")),
        ["column outputs contains 'ZZZZZ', which the prompt does not support"],
    ),
    "no evidence": (spans(), ["evidence holds 0 spans, not 5"]),
    "evidence out of order": (
        lambda row: replace(row, evidence=(row.evidence[1], row.evidence[0], *row.evidence[2:])),
        ["evidence spans are not in order",
         "evidence holds 'VAR PCDHI = VAR LXAYT' for 'VAR LXAYT = 17957'"],
    ),
    "evidence too short": (
        lambda row: replace(
            row, evidence=(*row.evidence[:4], row.evidence[4]._replace(end=row.evidence[4].end - 1))
        ),
        ["evidence holds 'VAR KXOSU = VAR AHDS' for 'VAR KXOSU = VAR AHDSM'"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", COLUMNS)
def test_a_wrong_column_is_named_with_its_value(damage: str) -> None:
    edit, findings = COLUMNS[damage]
    assert found("vt", edit) == findings


@pytest.mark.parametrize(
    ("past", "outside", "empty"),
    [((-1, 1), True, True), ((0, 1), False, False), ((4, 3), True, True), ((3, 3), False, True)],
)
def test_spans_lie_in_the_context_and_only_a_haystack_may_be_empty(
    past: tuple[int, int], outside: bool, empty: bool
) -> None:
    assert (OUTSIDE in found("vt", spans(past))) == empty
    of_haystack = found("vt", changed(haystack=Span(*past)))
    assert ("the haystack is outside the context" in of_haystack) == outside
    assert of_haystack[-1].startswith(f"column haystack is {Span(*past)}, the prompt's is Span(")


def test_spans_end_where_the_context_ends() -> None:
    size = len(make("mistral", "vt", 0, LENGTH).context)
    for end in (size, size + 1):
        assert (OUTSIDE in found("vt", spans((0, end)))) == (end > size)
        of_haystack = found("vt", changed(haystack=Span(0, end)))
        assert ("the haystack is outside the context" in of_haystack) == (end > size)


def repeated(row: Row) -> str:
    return f"\n{first(row)}"


def asked(before: str, after: str) -> Edit:
    """Change the question."""

    def edit(row: Row) -> Row:
        assert before in row.question
        return replace(row, question=row.question.replace(before, after))

    return edit


def line(text: str) -> Edit:
    return appended(lambda row: f"\n{text}")


def no(answer: str) -> str:
    return f"column outputs contains {answer!r}, which the prompt does not support"


def more(answer: str) -> str:
    return f"column outputs does not contain {answer!r}, which the prompt gives"


def held(spans: int, expected: int) -> str:
    return f"evidence holds {spans} spans, not {expected}"


NEEDLE = "One of the special magic numbers for"
GAPS = "not numbered from 1 without gaps"
NO_EDGE = "a line is no edge, or occurs twice"
#: An edit of a task's first row, and all that is then wrong with it.
PROMPTS: list[tuple[str, Edit, list[str]]] = [
    ("niah_single_1", appended(repeated), ["a value occurs twice", held(1, 2)]),
    ("niah_single_1", line(f"{NEEDLE} juvenile-rust is: 7654321."), [more("7654321"), held(1, 2)]),
    ("niah_single_1", line(f"{NEEDLE} juvenile-dust is: 7654321."), []),
    ("niah_single_1", asked("juvenile-rust", "x-y"),
     ["no needle for x-y", no("1152471"), held(1, 0)]),
    ("niah_single_1", asked("What is", "Who is"),
     ["the question asks for no key", no("1152471"), held(1, 0)]),
    ("niah_multivalue",
     lambda row: replace(row, context=row.context.replace(row.outputs[0], row.outputs[1])),
     ["a value occurs twice", no("3425652")]),
    ("niah_ordinal_4", asked("third", "fifth"),
     ["4 values, so none is the fifth", no("8687196")]),
    ("niah_ordinal_4", asked("third", "fourth"), [more("4126254")]),
    ("niah_not_there", line(f"{NEEDLE} entertaining-vegetable is: 7654321."),
     [more("7654321"), held(0, 1)]),
    ("niah_not_there", asked("answer: none.", "say so."),
     ["no needle for entertaining-vegetable", no("none")]),
    ("niah_pages_single", changed(length=LENGTH - 1),
     ["length 2047 is not 2048, which its residue asks for"]),
    ("vt", line("VAR LXAYT = 11111"), ["LXAYT is assigned twice", no("AHDSM"), held(5, 6)]),
    ("vt", line("VAR QQQQQ = VAR WWWWW"),
     ["QQQQQ takes its value from WWWWW before it has one", no("AHDSM")]),
    ("vt", line("VAR QQQQQ = 17957"), [more("QQQQQ")]),
    ("vt", line("VAR QQQQQ = 17958"), []),
    ("vt", asked("value", "number"), ["the question names no value", no("AHDSM")]),
    ("vt", changed(haystack=None), []),
    ("vt_scrambled_4", line("VAR QQQQQ = VAR WWWWW"),
     ["QQQQQ takes its value from WWWWW before it has one", no("DYSNI")]),
    ("graph_parents", appended(repeated), [NO_EDGE, no("DEAGD"), held(6, 0)]),
    ("graph_parents", line("x"), [NO_EDGE, no("DEAGD"), held(6, 0)]),
    ("graph_parents", asked("Find", "Name"),
     ["the question asks for no node", no("DEAGD"), held(6, 0)]),
    ("graph_parents", line("QQQQQ -> FWSPI"), [more("QQQQQ"), held(6, 7)]),
    ("graph_parents", lambda row: replace(row, outputs=row.outputs[1:]), [more("RJWWY")]),
    ("graph_within_2", asked("within 2", "within 1"),
     [no("BSMHC"), "evidence holds 'XYJQG -> KQGFA' for 'ONNTV -> ZWSKN'"]),
    ("graph_within_2", asked("within 2", "within 3"),
     [more("CAQKP"), "evidence holds 'ONNTV -> RFPLL' for 'BSMHC -> FWJHP'"]),
    ("cwe", lambda row: replace(row, context=row.context.replace(" 7. ", " 8. ")),
     [f"the list is {GAPS}", no("aback")]),
    ("cwe", asked("10", "11"), ["topic occurs as often as hellish", more("hellish")]),
    ("cwe", asked("10", "9"), ["ritual occurs as often as ham", no("ritual")]),
    ("cwe_count_16", appended(lambda row: " 9999. residence"),
     [f"the list is {GAPS}", no("6"), held(6, 7)]),
    ("fwe", asked("three", "four"), [more("omknmj")]),
    ("fwe", asked("three", "many"), [no("iyxrxm")]),
    ("qa_1", line("\nDocument 99:\nx"), [f"the documents are {GAPS}", no("8,051")]),
    ("qa_1", spans(), ["0 gold documents", no("8,051"), "no evidence"]),
    ("qa_1", lambda row: replace(row, evidence=(Span(0, 4), *row.evidence)),
     ["2 gold documents", no("8,051")]),
    ("qa_1", spans((0, 4)), ["gold document 0 occurs 0 times, evidence 1", no("8,051")]),
    ("qa_1", changed(outputs=("9,999",)), [no("9,999")]),
    ("qa_1", changed(outputs=("8,051", "9,9")), [no("9,9")]),
    ("qa_2", lambda row: replace(row, evidence=row.evidence[1:]),
     ["1 gold documents", no("a skating rink")]),
    ("qa_2", changed(outputs=("A Skating Rink",)), []),
    ("qa_2", changed(outputs=("yes",)), []),
    ("qa_2", changed(outputs=("no",)), []),
    ("qa_2", changed(outputs=("yes", "no")), [no("yes")]),
    ("qa_1_no_context", spans((0, 3)), [held(1, 0)]),
    ("qa_1_no_context",
     lambda row: replace(row, context=f"Document 1:\nx\n\n{row.context}", haystack=None),
     ["a document, in a task without documents", no("8,051")]),
    ("mk_niah_basic", appended(lambda row: first(row)),
     ["2 texts for green-weekender, or one occurs twice", held(1, 2)]),
    ("mk_niah_basic", asked("green-weekender", "x-y"),
     ["0 texts for x-y, or one occurs twice", no("1064480055"), held(1, 0)]),
    ("mk_niah_medium", changed(outputs=("E",)), [no("E")]),
    ("mv_niah_medium", asked("2nd", "4th"),
     [more("What do we call molten rock once it has reached the surface? A. Basalt B. Ash "
           "C. Granite D. Lava")]),
    ("qa_basic", changed(outputs=("7815192",)), [more("7815191")]),
    ("qa_basic", spans(), [held(0, 1)]),
    ("qa_medium", changed(outputs=("Two hours",)), []),
    ("qa_medium", changed(outputs=("the",)), ["'the' stands in another document"]),
    ("qa_medium", changed(outputs=("zzzz",)), [no("zzzz")]),
    ("qa_medium", lambda row: replace(row, evidence=row.evidence[1:]),
     ["1 gold documents", no("two hours and fifty-one minutes")]),
    ("qa_medium", changed(outputs=("yes",)), []),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(PROMPTS)))
def test_what_a_prompt_does_not_support_is_named(number: int) -> None:
    task, edit, findings = PROMPTS[number]
    assert found(task, edit) == findings


def document(number: int) -> str:
    return f"\n\nDocument {number}:\n"


def test_documents_that_stand_out_by_their_number_are_named() -> None:
    row = make("mistral", "qa_1", 0, LENGTH)
    size = row.context.count("Document ")
    body = row.context.partition(document(1))[2].partition("\n\n")[0]
    twice = document(size + 1) + body
    assert found("qa_1", appended(lambda _: twice)) == []
    thrice = twice + document(size + 2) + body
    assert found("qa_1", appended(lambda _: thrice)) == [
        "documents occur 1 to 3 times",
        no("8,051"),
    ]
    gold = document(size + 1) + first(row)
    assert found("qa_1", appended(lambda _: gold)) == [
        "gold document 0 occurs 2 times, evidence 1", no("8,051"),
    ]  # fmt: skip
