"""fwe: words of one list, each row's own, scattered over the text."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from ruler_builders.pipeline.fit import make_row, need
from ruler_builders.tasks import fwe
from ruler_data import TASKS, Row
from ruler_data.tasks import Fwe
from tests.rows import counted, make, target


def shown(row: Row) -> list[str]:
    """Return the words of a text, the noise among them."""
    return row.context.rpartition("coded words. ")[2].split()


@pytest.mark.parametrize("length", [1024, 8192])
def test_every_word_may_stand_anywhere(length: int) -> None:
    places, alike, expected, variance = [], 0.0, 0.0, 0.0
    for index in range(30):
        words = shown(make("mistral", "fwe", index, length))
        places += [at / len(words) for at, word in enumerate(words) if word != fwe.NOISE]
        coded = [word for word in words if word != fwe.NOISE]
        # Of two words that follow one another, how often both are the same.
        share = sum(n * (n - 1) for n in Counter(coded).values()) / len(coded) / (len(coded) - 1)
        alike += sum(one == other for one, other in pairwise(coded))
        expected += share * (len(coded) - 1)
        variance += share * (1 - share) * (len(coded) - 1)
    assert abs(alike - expected) < 5 * variance**0.5
    assert abs(np.mean(places) - 0.5) < 5 / (12 * len(places)) ** 0.5


@pytest.mark.parametrize("alpha", [1.1, 2.0, 3.5])
def test_a_text_is_the_longest_that_fits(alpha: float) -> None:
    template = fwe.draw("fwe", Fwe(alpha=alpha), counted("mistral"), 0, 4096, 3900)
    smallest = template.fill(0).cost
    found = {room: template.fill(room).cost for room in range(smallest, smallest + 300)}
    assert len({*found.values()}) > 30
    for room, cost in found.items():
        assert cost == max(other for other in found.values() if other <= room)


@pytest.mark.parametrize("length", [16, 300, 4096])
def test_the_least_length_that_is_reported_can_be_built(length: int, tiny: Path) -> None:
    sources = counted(str(tiny))
    least = max(need(TASKS["fwe"], sources, i, target(str(tiny), length)) for i in range(8))
    for index in range(8):
        row = make_row(TASKS["fwe"], sources, index, target(str(tiny), least))
        assert row.length <= least < 400


@pytest.mark.parametrize("vocabulary", [6, 20])
def test_a_vocabulary_that_a_suite_sets_is_that_of_every_length(vocabulary: int) -> None:
    task = replace(TASKS["fwe"], params=Fwe(alpha=1.5, vocabulary=vocabulary))
    for length in (2048, 8192):
        row = make_row(task, counted("mistral"), 1, target("mistral", length)).unpack()
        assert len({*shown(row)}) == vocabulary
    assert Fwe(vocabulary=4).impossible.startswith("vocabulary: 4 words are too few")
