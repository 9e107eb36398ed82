"""Depth: uniform where there is room for it, tested there, and told where there is none."""

import random
from collections.abc import Callable

import numpy as np
import pytest

from ruler_builders.rows.randomness import depth
from ruler_builders.rows.row_template import slots, spread
from ruler_data import Row, Span
from ruler_data.suites import packaged
from ruler_data.tasks import TASKS, Task, Vt, task_of
from tests.proof.depth_uniformity import Depths
from tests.rows import make

HEAD = "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n"
LINE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."


def row_of(index: int, places: list[int], lines: int) -> Row:
    """Return a row of noise with assignments before the lines of these numbers."""
    text, spans = HEAD, []
    for number in range(lines + 1):
        for _ in range(places.count(number)):
            spans.append(Span(len(text), len(text) + 20))
            text += "VAR ABCDE = VAR FGHIJ \n"
        text += f"{LINE}\n" if number < lines else ""
    return Row(index, "vt", text, "", "", ("x",), 30, 1, tuple(spans))


def rows_of(hops: int, lines: int, rows: int, draw: Callable[[], float]) -> list[Row]:
    """Return rows whose chain stands at depths drawn, kept apart as the generator does."""
    found = []
    for index in range(rows):
        wanted = slots(sorted(draw() for _ in range(hops + 1)), 20 * np.arange(1, lines + 1))
        found.append(row_of(index, spread(wanted, lines), lines))
    return found


def stratified(hops: int) -> Callable[[], float]:
    """Return the depths of rows as a build draws them, one by one."""
    return (
        depth(1, "vt", row, f"line {line}") for row in range(700) for line in range(hops + 1)
    ).__next__


def verdict(task: Task, rows: list[Row]) -> tuple[str, list[str]]:
    depths = Depths(task)
    for row in rows:
        depths.add(row)
    return depths.verdict()


@pytest.mark.parametrize("lines", [66, 72, 80])
def test_a_chain_that_takes_most_places_cannot_be_even_and_is_not_held_to_it(lines: int) -> None:
    rows = rows_of(64, lines, 700, stratified(64))
    said, wrong = verdict(task_of("vt_long", Vt(hops=64), "x"), rows)
    assert said.startswith("not tested: 65 pieces apart in about ") and not wrong


@pytest.mark.parametrize(("hops", "lines"), [(4, 11), (12, 22), (12, 60), (64, 110)])
def test_depths_that_lean_to_one_side_are_still_found(hops: int, lines: int) -> None:
    source = random.Random(hops)
    rows = rows_of(hops, lines, 300, lambda: source.random() ** 3)
    _, wrong = verdict(task_of("vt_long", Vt(hops=hops), "x"), rows)
    assert wrong[-1].startswith("gold depth is not uniform: KS ")


def test_a_crowded_row_is_left_out_and_the_others_are_tested() -> None:
    task = task_of("vt_long", Vt(hops=4), "x")
    crowded, source = row_of(0, [0, 1, 2, 3, 4], 5), random.Random(1)
    lean = [crowded, *rows_of(4, 60, 300, lambda: source.random() ** 3)]
    even = [crowded, *rows_of(4, 60, 300, stratified(4))]
    assert verdict(task, lean)[1][-1].startswith("gold depth is not uniform: KS ")
    said, wrong = verdict(task, even)
    assert "; rows not tested: 5 pieces apart in about " in said and said.endswith(" places: 1")
    assert not wrong


@pytest.mark.parametrize("task", [name for name in TASKS if name not in ("cwe", "fwe")])
def test_every_one_of_the_thirteen_is_tested_from_1024_tokens_on(task: str) -> None:
    said, wrong = verdict(TASKS[task], [make("mistral", task, i, 1024) for i in range(12)])
    assert said.startswith("KS ") and not wrong


def test_a_suites_needles_all_count_as_pieces_that_stand_apart() -> None:
    tasks = packaged()["sweep_keys"].tasks
    few, many = (
        verdict(tasks[f"niah_keys_{keys}"], [make("mistral", f"niah_keys_{keys}", 0, 2048)])
        for keys in (8, 64)
    )
    assert few[0].startswith("KS ") and many[0].startswith("not tested: 64 pieces apart in about ")


def test_a_needle_between_long_sentences_may_stand_as_far_off_as_they_are_long() -> None:
    """Sentences of 300 characters in 4,000: a stratum of ten rows is 400."""
    task, sentence = TASKS["niah_single_2"], "word " * 59 + "end. "
    head = (
        "A special magic number is hidden within the following text. Make sure to memorize it. "
        "I will quiz you about the number afterwards.\n"
    )
    question = "What is the special magic number for a mentioned in the provided text?"

    def row(index: int, place: int) -> Row:
        needle, texts = "One of them is: 1. ", [sentence] * 13
        before = head + "".join(texts[:place])
        context = f"{before}{needle}{''.join(texts[place:])}"
        spans = (Span(len(before), len(before) + len(needle) - 1),)
        return Row(index, task.name, context, question, "", ("1",), 128, 1, spans)

    def even(rows: int) -> list[float]:
        return [depth(1, task.name, index, "needle") for index in range(rows)]

    totals = len(sentence) * np.arange(1, 14)
    places = [int(place) for place in slots(even(500), totals)]
    assert verdict(task, [row(*one) for one in enumerate(places)])[1] == []
    crowded = [row(index, place // 2) for index, place in enumerate(places)]
    assert verdict(task, crowded)[1]
