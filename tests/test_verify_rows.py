"""`ruler-data verify` on forged rows and columns: order, copies, figures, depths."""

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest

from ruler_data import Row, Span
from tests.conftest import Cli
from tests.tampering import (
    Edit,
    at,
    copy_of,
    forge,
    must_find,
)

DEEP = 120


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory, cli: Cli) -> Path:
    """Rows enough that their depths can be tested."""
    folder = tmp_path_factory.mktemp("deep") / "build"
    options = ("--rows", DEEP, "--lengths", 2048, "--tasks", "qa_1,niah_single_1")
    done = cli("build", *options, "--sources-kind", "sample", "--out", folder)
    assert done.returncode == 0, done.stderr
    return folder


def swap(rows: list[Row]) -> list[Row]:
    return [rows[1], rows[0], *rows[2:]]


def repeat_renumbered(rows: list[Row]) -> list[Row]:
    return [*rows, replace(rows[1], index=len(rows))]


EDITS: dict[str, tuple[Edit, list[str]]] = {
    "rows changed places": (swap, ["row 0 of the file has index 1", "row 1 of the file has"]),
    "rows in reverse": (lambda rows: rows[::-1], ["row 0 of the file has index 5"]),
    "a row left out": (lambda rows: rows[:2] + rows[3:], ["row 2 of the file has index 3"]),
    "a row twice": (lambda rows: [*rows, rows[1]], ["row 6 of the file", "same prompt as row 1"]),
    "a row under two numbers": (repeat_renumbered, ["fwe_4096/6: same prompt as row 1"]),
    "a row of another task": (
        at(2, lambda row: replace(row, task="vt")),
        ["fwe_4096/2: task is 'vt'"],
    ),
    "room for the answer": (
        at(2, lambda row: replace(row, max_new_tokens=49)),
        ["fwe_4096/2: max_new_tokens is 49", "50"],
    ),
    "over the length": (
        at(2, lambda row: replace(row, length=4097)),
        ["fwe_4096/2: length 4097", "4096"],
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_rows_in_disorder_are_named(
    edit: str, sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(sample_build, tmp_path)
    act, words = EDITS[edit]
    forge(copy, "fwe_4096", act)
    found = must_find(cli("verify", copy, "--rows", 0), *words)
    assert all(line.startswith("fwe_4096/") for line in found)


def gold_document_at(place: int) -> Callable[[Row], Row]:
    """Return the change that moves a row's golden document among the others."""

    def change(row: Row) -> Row:
        head, opening, rest = row.context.partition("given documents.\n\n")
        texts = re.split(r"(?:^|\n\n)Document \d+:\n", rest.removesuffix("\n\n"))[1:]
        gold = row.context[row.evidence[0].start : row.evidence[0].end]
        texts.remove(gold)
        texts.insert(place % (len(texts) + 1), gold)
        body = [f"Document {number}:\n{text}" for number, text in enumerate(texts, 1)]
        context = head + opening + "\n\n".join(body) + "\n\n"
        assert len(context) == len(row.context)
        start = context.index(f":\n{gold}\n") + 2
        return replace(row, context=context, evidence=(Span(start, start + len(gold)),))

    return change


def needle_at(place: int) -> Callable[[Row], Row]:
    """Return the change that moves a row's needle to a line of the haystack."""

    def change(row: Row) -> Row:
        head, opening, rest = row.context.partition("afterwards.\n")
        needle = row.context[row.evidence[0].start : row.evidence[0].end]
        lines = rest.split("\n")[:-1]
        lines.remove(needle)
        lines.insert(place % (len(lines) + 1), needle)
        starts = accumulate((len(line) + 1 for line in lines), initial=len(head + opening))
        start = next(start for start, line in zip(starts, lines, strict=False) if line == needle)
        context = head + opening + "\n".join(lines) + "\n"
        return replace(row, context=context, evidence=(Span(start, start + len(needle)),))

    return change


@pytest.mark.parametrize("place", [0, 3, -1])
@pytest.mark.parametrize(
    ("task", "move"), [("qa_1", gold_document_at), ("niah_single_1", needle_at)]
)
def test_gold_at_one_place_in_every_row_is_noticed(
    task: str,
    move: Callable[[int], Callable[[Row], Row]],
    place: int,
    deep: Path,
    tmp_path: Path,
    cli: Cli,
) -> None:
    """As upstream has it: document 23 of 25, in every row."""
    copy = copy_of(deep, tmp_path)
    forge(copy, f"{task}_2048", lambda rows: [move(place)(row) for row in rows])
    words = (f"{task}_2048: gold depth is not uniform", f"over {DEEP} pieces")
    must_find(cli("verify", copy, "--rows", 0), *words, "by the seed")
