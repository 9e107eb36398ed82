"""Floors: what answers score that never use the question, and that hard suites are at chance."""

import re
from collections import Counter
from dataclasses import replace
from math import sqrt
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_builders.pipeline.fit import make_rows
from ruler_data import TASKS, Row, floors
from ruler_data.floors import table
from ruler_data.manifest import Floor
from ruler_data.suites import packaged
from ruler_data.tasks import Cwe, Fwe, Niah, Ruler2, Task, Vt
from ruler_eval.scoring.metrics import SCORERS
from tests.proof.floors import LISTING, FloorMeter, blind_floor, score
from tests.rows import counted, make, target
from tests.tampering import manifest_of

ALL = {task.name: task for suite in packaged().values() for task in suite.tasks.values()}
ROWS = 100

#: Tasks that claim to be hard to answer without reading the key, and their needles.
HARD = {
    "niah_paraphrased": 9,
    "niah_lookalikes": 9,
    "niah_split": 9,
    "niah_split_lookalikes": 9,
    "niah_there_lookalikes": 5,
}


def measured(task: Task, rows: list[Row]) -> FloorMeter:
    meter = FloorMeter(task, len(rows))
    for place, row in enumerate(rows):
        meter.add(place, row)
    return meter


def real_rows(task: str, shared: Path, length: int = 2048) -> list[Row]:
    sources = counted("mistral", shared / "sources")
    made = make_rows(ALL[task], sources, range(ROWS), target("mistral", length))
    return [one.unpack() for one in made]


@pytest.mark.slow
@pytest.mark.parametrize("task", HARD)
def test_only_listing_beats_a_guess(task: str, shared: Path) -> None:
    means = measured(ALL[task], real_rows(task, shared)).means()
    assert means.pop(LISTING) == 1.0
    del means["all that there are"]
    means.pop("none", None)
    chance = 1 / HARD[task]
    error = sqrt(chance * (1 - chance) / ROWS)
    # A strategy far below chance would tell as much: what to rule out.
    assert {name: mean for name, mean in means.items() if abs(mean - chance) > 4 * error} == {}
    assert len(means) > 10


@pytest.mark.slow
@pytest.mark.parametrize("likes", ["", "_lookalikes"])
def test_guessing_earns_half_without_keys(likes: str, shared: Path) -> None:
    there, absent = f"niah_there{likes}", f"niah_not_there{likes}"
    rows = {name: real_rows(name, shared) for name in (there, absent)}
    means = {name: measured(ALL[name], rows[name]).means() for name in rows}
    for strategy in means[there]:
        assert (means[there][strategy] + means[absent][strategy]) / 2 <= 0.5, strategy
    needles = {name: Counter(row.context.count("One of the special") for row in rows[name])
               for name in rows}  # fmt: skip
    assert needles[there] == needles[absent]


def near(row: Row, place: int) -> str:
    """Return a plain needle whose value differs from the gold answer in one digit."""
    gold = row.outputs[0]
    digit = str((int(gold[place]) + 1 + row.index % 8) % 10)
    value = gold[:place] + digit + gold[place + 1 :]
    return f"One of the special magic numbers for other-key-{place} is: {value}."


def test_near_misses_of_the_gold_answer_give_it_away_to_the_majority() -> None:
    rows = []
    for row in (make("mistral", "niah_single_2", index, 1024) for index in range(4)):
        likes = " ".join(near(row, place) for place in range(1, 6))
        rows.append(replace(row, context=f"{row.context[:-1]} {likes}\n"))
    means = measured(TASKS["niah_single_2"], rows).means()
    assert means["majority"] == 1.0 and means["last"] == means["odd one out"] == 0.0


def test_a_sample_of_100_rows_is_spread_over_a_config() -> None:
    row = make("mistral", "niah_single_1", 0, 1024)
    outputs = [row.outputs if index < 250 else (f"x{index}",) for index in range(500)]
    rows = [replace(row, index=n, outputs=texts) for n, texts in enumerate(outputs)]
    floor = measured(TASKS["niah_single_1"], rows).floor()
    assert floor == Floor(0.5, "all that there are", 0.5, 100, 0.5, "common answers")


def test_a_build_records_floors_and_its_card_shows_them(sample_build: Path) -> None:
    configs = manifest_of(sample_build).configs
    assert all(info.floor and info.floor.rows == 100 for info in configs.values())
    single = configs["niah_single_1_4096"].floor
    assert single == Floor(1.0, "all that there are", 1.0, 100, 0.0, "any")
    card = (sample_build / "README.md").read_text(encoding="utf-8")
    assert re.search(r"^\| `niah_single_1` \| [\d.]+ %, 100 \|", card, re.MULTILINE)


def test_the_table_has_every_task_of_the_package_and_a_build_reads_it() -> None:
    assert table().keys() == ALL.keys()
    assert floors.floor("vt", 4096) == table()["vt"][4096]
    assert floors.floor("cwe", 10**7, "paper") == table()["cwe"][max(table()["cwe"])]
    assert floors.floor("vt", 4096, "a suite of mine") is None
    assert floors.blind_floor("vt", 8192) == 0.0
    assert floors.blind_floor("vt", 8192, suite="somebodys") is None
    for name, task in ALL.items():  # where a longer context has more candidates
        if isinstance(task.params, Cwe | Fwe | Ruler2):
            assert {4096, 16384, 131072} <= table()[name].keys(), name


def test_strategies_that_ignore_the_question_are_at_chance_in_the_suite_hard() -> None:
    for name, task in packaged()["hard"].tasks.items():
        match task.params:
            case Niah() as niah if niah.ordinal:
                continue
            case Niah() as niah:
                chance = niah.answers / (niah.keys * niah.values)
            case Vt():
                chance = 1 / 8
            case _:
                chance = 0.0 if "count" not in name else 1 / 12
        limit = chance + 4 * sqrt(chance * (1 - chance) / 100)
        assert table()[name][4096].score <= limit, name


@pytest.mark.parametrize(
    "task", ["vt", "niah_lookalikes", "fwe", "niah_ordinal_8", "graph_parents"]
)
def test_the_table_is_what_is_measured(task: str, shared: Path) -> None:
    rows = [one for one in real_rows(task, shared, 4096) if one.index < 100]
    assert measured(ALL[task], rows).floor() == table()[task][4096]


def test_answers_that_use_a_key_or_a_place_alone_are_at_chance_of_the_other() -> None:
    for name, task in ALL.items():
        if isinstance(task.params, Niah) and task.params.ordinal:
            chance = 1 / min(task.params.keys, task.params.values)
            assert chance <= table()[name][4096].score <= chance + 4 * sqrt(chance / ROWS), name
            assert table()[name][4096].blind == 0.0


WORDS = st.lists(
    st.sampled_from(["A.", "B", "which", "of", "the", "no", "Paris", "12"]), min_size=1
)


@given(st.lists(WORDS.map(" ".join), min_size=1, max_size=3), WORDS.map(" ".join))
def test_the_meter_scores_as_each_metric_does(outputs: list[str], answer: str) -> None:
    for metric, scorer in SCORERS.items():
        task = next(task for task in ALL.values() if task.metric == metric)
        if metric == "letter":
            outputs, answer = ["B"], "AB"[len(answer) % 2]
        text = f"\\boxed{{{answer}}}" if metric == "letter" else answer
        assert score(task, outputs, [answer]) == pytest.approx(scorer(text, outputs))


def test_what_many_rows_answer_is_the_blind_floor_and_a_value_of_one_row_is_not() -> None:
    row = replace(make("mistral", "qa_1", 0, 1024), question="Question: Is it so?")
    outputs = ["no"] * 30 + ["it"] * 10 + [f"value {n:02}" for n in range(60)]
    rows = [replace(row, outputs=(text,)) for text in outputs]
    assert blind_floor(TASKS["qa_1"], rows) == (0.4, "common answers")
    drawn = [replace(row, outputs=(f"{n * 7919:07}",)) for n in range(1, 101)]
    assert blind_floor(TASKS["niah_single_1"], drawn) == (0.0, "any")
