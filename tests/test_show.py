"""What `ruler-data` prints of rows, releases, procedures and verdicts: the whole text."""

import re
from dataclasses import replace

import pytest
from rich.console import Console

from ruler_builders.rebuild import Verdict
from ruler_builders.show import FoundRows, ProcedurePage, ShownRow, highlight, procedures
from ruler_data.index import FindResult, Sibling
from ruler_data.manifest import TokenizerInfo
from ruler_data.procedures import procedures as known_procedures
from ruler_data.row import Row, Span
from tests.test_golden import compare


def printed(value: object) -> str:
    """Return what a terminal of 80 columns without colours shows."""
    console = Console(width=80, color_system=None, legacy_windows=False)
    with console.capture() as capture:
        console.print(value, crop=False)
    return re.sub(r" +$", "", capture.get(), flags=re.MULTILINE)


def test_the_page_of_each_procedure_and_their_table_are_golden() -> None:
    pages = [str(ProcedurePage(procedure)) for procedure in known_procedures().values()]
    compare("procedures.txt", "\n\n\n".join([printed(procedures()), *pages]) + "\n")


#: Letters of a context, its evidence, and the runs of letters that are shown of it.
EXCERPTS: list[tuple[str, list[tuple[int, int]], str]] = [
    ("a" * 480, [], "a480"),
    ("a" * 481, [], "a320 [1] a160"),
    ("a" * 1_700, [], "a320 [1,220] a160"),
    ("a" * 1_000 + "b" * 10 + "a" * 1_000, [(1_000, 1_010)],
     "a320 [520] a160 b10 a160 [680] a160"),
    ("a" * 481 + "b" * 10 + "a" * 322, [(481, 491)], "a320 [1] a160 b10 a160 [2] a160"),
    ("a" * 480 + "b" * 10 + "a" * 320, [(480, 490)], "a480 b10 a320"),
    ("b" * 10 + "a" * 700 + "b" * 10, [(0, 10), (710, 720)], "b10 a310 [230] a160 b10"),
    ("a" * 1_000 + "ba" * 13 + "a" * 987, [(1_000 + 2 * n, 1_001 + 2 * n) for n in range(13)],
     "a320 [520] a160 " + "b1 a1 " * 12 + "b1 a158 [670] a160"),
    ("a" * 1_000 + ("b" + "a" * 400) * 13, [(1_000 + 401 * n, 1_001 + 401 * n) for n in range(13)],
     "a320 [520] a160 b1 a160 [80] " + "a160 b1 a160 [80] " * 10 + "a160 b1 a160 [481] a160"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(EXCERPTS)))
def test_a_context_is_shown_at_its_ends_and_around_its_evidence(number: int) -> None:
    context, edges, expected = EXCERPTS[number]
    spans = tuple(Span(start, end) for start, end in edges)
    row = Row(0, "vt", context, "?", "", ("x",), 30, 40, spans)
    shown = highlight(row)
    found = re.sub(r" \[\.\.\. ([0-9,]+) characters \.\.\.\] ", r" [\1] ", shown.plain)
    found = re.sub(r"a+|b+", lambda run: f"{run[0][0]}{len(run[0])} ", found)
    assert found.replace("  ", " ").rstrip() == expected
    marked = [shown.plain[s.start : s.end] for s in shown.spans if s.style == "bold yellow"]
    assert "".join(marked) == "".join(letter for letter in shown.plain if letter == "b")
    assert highlight(row, full=True).plain == context


def test_a_row_is_shown_with_its_facts_and_parts() -> None:
    row = Row(
        7,
        "vt",
        "Some text\n" * 30,
        "What?\x07",
        " Answer:",
        ("one", "two\x1b"),
        30,
        4_090,
        (Span(0, 4),),
    )
    compare("row.txt", printed(ShownRow("vt_4096", row)))


INFO = TokenizerInfo("llama3", "org/llama", "main", {"tokenizer.json": "0" * 64}, 17, 0, "x")
RELEASE = Sibling(
    "org/ruler", "v1.0.0", "c" * 40, "llama3", "f" * 64, configs=("vt_8192", "cwe_8192")
)
LOAD = '  load_dataset("org/ruler", "vt_8192", split="test", revision="v1.0.0")'
RUN = "  ruler-eval run --data org/ruler --revision v1.0.0 --model"
BUILD = "ruler-data build --tokenizer llama3"
FOUND: list[tuple[FindResult, str | None, list[str]]] = [
    (FindResult("/my model", INFO, RELEASE, BUILD), "org/ruler",
     [f"tokenizer of /my model: {INFO.fingerprint}", f"org/ruler v1.0.0, commit {'c' * 40}",
      LOAD, f"{RUN} '/my model' --out runs/llama3"]),
    (FindResult("llama3", replace(INFO, identity="e" * 64), RELEASE, BUILD), "org/ruler",
     [f"tokenizer of llama3: {'e' * 64}", f"org/ruler v1.0.0, commit {'c' * 40}",
      LOAD, f"{RUN} MODEL --out runs/llama3"]),
    (FindResult("llama3.1", None, replace(RELEASE, configs=(), reserve=16_384), BUILD), "org/ruler",
     ["tokenizer of llama3.1: not available; the index lists the model",
      f"org/ruler v1.0.0, commit {'c' * 40}, 16,384 tokens kept free",
      LOAD.replace("8192", "4096"), f"{RUN} MODEL --protocol thinking --out runs/llama3"]),
    (FindResult("gpt-5", None, RELEASE, BUILD, "no public tokenizer"), "org/ruler",
     ["gpt-5: no public tokenizer", f"org/ruler v1.0.0, commit {'c' * 40}", LOAD,
      f"{RUN} gpt-5 --protocol chat --option api=chat --tokenizer llama3 --base-url ADDRESS "
      "--out runs/llama3"]),
    (FindResult("m", INFO, None, BUILD), "org/ruler",
     [f"tokenizer of m: {INFO.fingerprint}", "org/ruler: no rows for it; build them:",
      f"  {BUILD}"]),
    (FindResult("m", INFO, None, BUILD), None,
     [f"tokenizer of m: {INFO.fingerprint}",
      "no repo to look in (--in org/ruler); build them:", f"  {BUILD}"]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(FOUND)))
def test_what_find_says_is_what_loads_runs_or_builds_the_rows(number: int) -> None:
    result, repo, lines = FOUND[number]
    assert str(FoundRows(result, repo)).split("\n") == lines
    record = FoundRows(result, repo).to_record()
    assert [record["build"], record["model"]] == [BUILD, result.model]
    assert [record["load"], record["run"]] == [line.strip() for line in lines[2:]] or not record[
        "release"
    ]
    assert (record["release"] or {}).get("tag") == (result.release and "v1.0.0")
    assert record["fingerprint"] == (result.tokenizer and lines[0].partition(": ")[2])


VERDICTS: list[tuple[Verdict, int, str, list[str], list[str]]] = [
    (Verdict("out", stated=("a", "b"), configs=1, rows=2, made=2), 0, "", [],
     ["stated by the folder: a", "stated by the folder: b",
      "out: proved; 1 config, 2 rows, 2 made again"]),
    (Verdict("out", ("x: missing",), {"vt_4096": "no"}, ("a",), 2, 1, 0), 1,
     "out: verification failed: 1 finding", ["not proved: vt_4096: no"], ["x: missing"]),
    (Verdict("out", ("x", "y\n")), 1, "out: verification failed: 2 findings", [],
     ["x", "y\\n"]),
    (Verdict("out", (), {"a": "no", "b": "never", "c": "no"}, (), 3, 9, 6), 3,
     "out: nothing wrong found, but not all proved",
     ["not proved: a, c: no", "not proved: b: never"],
     ["out: not all proved; 3 configs, 9 rows, 6 made again"]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(VERDICTS)))
def test_a_verdict_says_all_that_was_found_or_what_is_stated(number: int) -> None:
    verdict, status, failure, notes, lines = VERDICTS[number]
    assert (verdict.exit_status, verdict.failure) == (status, failure)
    assert [*verdict.notes] == notes
    assert printed(verdict).splitlines() == lines
    record = verdict.to_record()
    assert (record["exit_status"], record["made"]) == (status, verdict.made)
