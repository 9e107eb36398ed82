"""The verdict on an engine, without one: rows by hand, and statistics beside those of SciPy."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_data import UsageError
from ruler_eval.engine_check import verdict
from ruler_eval.engine_check.check import EngineCheck, _rows_of, not_tested
from ruler_eval.engine_check.conditions import Asker, Seen, Shown
from ruler_eval.engine_check.verdict import (
    ANYWHERE,
    CONDITIONS,
    ONLY,
    Fault,
    Place,
    Sheet,
    first_look,
    places,
    second_look,
    second_questions,
    smallest,
    suspects,
)
from ruler_eval.running.answers import Answer
from ruler_eval.running.runner import RunJob

UNMET = Seen(rows=0, of=8, by="cached tokens", cached=0.0, together=4)


def test_the_block_that_is_named_counts_and_not_the_one_that_hits_show() -> None:
    asker = SimpleNamespace(block=512, tokens={("vt_4096", 0): 900}, seen=lambda _: UNMET)
    for block, said in ((None, "2 blocks of 512"), (600, "2 blocks of 600"), (16, "")):
        why = not_tested(cast(Asker, asker), block)["self-hit"]
        assert said in why and ("blocks of" in why) is bool(said)


def test_a_row_is_lost_on_some_conditions_if_half_of_them_lose_it_and_no_other_does() -> None:
    some = [[False, True, False, True], [True, True, False, True], [False, True, False, False],
            [False, False, False, False]]  # fmt: skip
    lost = np.array([[*row, *[False] * (len(CONDITIONS) - 4)] for row in some])
    sheet = Sheet(np.arange(4), lost, np.zeros_like(lost))
    assert sheet.lost_only([1, 3]).tolist() == [True, False, True, False]


def test_rows_of_the_shortest_length_are_asked_if_none_is_named() -> None:
    task = SimpleNamespace(is_exact=True)
    rows = dict.fromkeys(("niah_residues_8192", "niah_residues_4096"), 128)
    manifest = SimpleNamespace(table={"niah_residues": task})
    data = SimpleNamespace(rows=rows, manifest=manifest, source="dist/pages")
    job = cast(RunJob, SimpleNamespace(data=data))
    assert _rows_of(job, None) == (4096, ["niah_residues_4096"])
    assert _rows_of(job, 8192) == (8192, ["niah_residues_8192"])
    with pytest.raises(UsageError, match="of 1024 tokens; it has 4096, 8192"):
        _rows_of(job, 1024)


@pytest.mark.parametrize(
    ("residues", "said", "status"), [(119, "cannot tell with", 3), (120, "nothing found in", 0)]
)
def test_a_check_that_met_few_residues_cannot_tell(residues: int, said: str, status: int) -> None:
    met = Seen(rows=128, of=128, by="cached tokens", cached=0.5, together=8)
    found = EngineCheck(
        length=1024,
        rows=128,
        residues=residues,
        faults=(),
        smallest={"one residue of 128": 0.5},
        kinds={condition: {"right": 128} for condition in CONDITIONS},
        seen=dict.fromkeys(CONDITIONS, met),
        block=16,
        not_tested={},
        beginning=5,
    )
    assert str(found).startswith(f"{said} 128 rows of 1024 tokens, {residues} residues")
    assert found.exit_status == status


def test_a_hit_of_shared_rows_is_told_by_their_time_against_that_in_a_batch() -> None:
    seconds = {"cold": 1.0, "batched": 8.0, "self-hit": 0.1, "prefix-hit": 0.9, "shared": 2.0}
    asker = object.__new__(Asker)
    asker.together = Counter(batched=4, shared=4)
    asker.shown = {
        ("vt_4096", index): {
            condition: Shown(Answer("vt_4096", index, "x", first_seconds=taken), "right", 4000)
            for condition, taken in seconds.items()
        }
        for index in range(8)
    }
    rows = {condition: asker.seen(condition).rows for condition in seconds}
    assert rows == {"cold": 8, "batched": 8, "self-hit": 8, "prefix-hit": 0, "shared": 8}


def sheet_of(
    lost: Callable[[int, int], bool],
    changed: Callable[[int, int], bool] = lambda tokens, condition: False,
    rows: int = 128,
    first: int = 1000,
) -> Sheet:
    """Return one row for each residue of 128, lost or changed by tokens and condition."""
    tokens = np.arange(first, first + rows)
    columns = range(len(CONDITIONS))
    return Sheet(
        tokens,
        np.array([[lost(int(n), column) for column in columns] for n in tokens]),
        np.array([[changed(int(n), column) for column in columns] for n in tokens]),
    )


SOUND = sheet_of(lambda tokens, condition: False)


@pytest.mark.slow
@given(st.integers(1, 60), st.data())
def test_the_tests_are_those_of_scipy(rows: int, data: st.DataObject) -> None:
    from scipy import stats  # a second, for each process that would read it

    inside = data.draw(st.integers(0, rows))
    events = data.draw(st.integers(0, rows))
    hits = data.draw(st.integers(0, min(inside, events)))
    expected = stats.hypergeom(rows, inside, events).sf(hits - 1)
    assert verdict.fisher(rows, inside, events, hits) == pytest.approx(expected)
    if inside + events:
        heads = stats.binom(inside + events, 0.5).sf(inside - 1)
        assert verdict.sign(inside, events) == pytest.approx(heads)
    share = data.draw(st.floats(0.01, 0.99))
    at_least = stats.binom(rows, share).sf(hits - 1)
    assert verdict._at_least(rows, share, hits) == pytest.approx(at_least, abs=1e-12)


def test_a_mirror_swaps_two_conditions_that_a_sound_engine_treats_alike() -> None:
    """Cold and self-hit send one prompt; each of the others sends its own."""
    for inside, mirror in ONLY.values():
        if mirror is None:
            continue
        assert len(mirror) == len(inside) and mirror != inside
        gone, come = {*inside} - {*mirror}, {*mirror} - {*inside}
        assert ({*gone} | {*come}) == {0, 1} or ({*gone} | {*come}) <= {2, 3, 4}
        assert len(gone) == len(come) == 1


def test_places_are_runs_of_residues_each_once() -> None:
    found = places()
    assert (
        len({*found})
        == len(found)
        == 16 * 15 + sum(page + (page - 2) + (page - 2) for page in (32, 64, 128))
    )
    for place in found:
        numbers = [n for n in range(place.modulus) if place.holds(np.array([n]))[0]]
        assert len(numbers) == place.size and place.first in numbers
    assert str(Place(16, 14, 4)) == "where prompt tokens are 14 to 1 mod 16"
    assert str(Place(128, 5, 1)) == "where prompt tokens are 5 mod 128"
    assert str(ANYWHERE) == "at any number of prompt tokens"
    assert ANYWHERE.holds(np.arange(5)).all()


def test_a_sound_engine_has_no_fault_and_no_suspect() -> None:
    assert first_look(SOUND) == [] and suspects(SOUND) == []


#: What is lost where, and what the first look says of it.
FAULTS: list[tuple[Callable[[int, int], bool], list[str]]] = [
    (lambda n, _: n % 16 < 2,
     ["answers are lost where prompt tokens are 0 to 1 mod 16: 16 of 16 against 0 of 112, "
      "p < 1e-6"]),
    (lambda n, _: n % 16 in (15, 0),
     ["answers are lost where prompt tokens are 15 to 0 mod 16: 16 of 16 against 0 of 112, "
      "p < 1e-6"]),
    (lambda n, condition: condition == 1 and n % 64 < 8,
     ["answers are lost where prompt tokens are 0 to 7 mod 64, only on a self-hit: 16 of 16 "
      "against 0 of 112, p < 1e-6"]),
    (lambda n, condition: condition in (3, 4) and n % 32 == 3,
     ["answers are lost where prompt tokens are 3 mod 32, only in a batch: 4 of 4 against 0 of "
      "124, p = 0.006"]),
    (lambda n, condition: n % 64 == 3, []),  # two rows are no proof
    (lambda n, condition: condition == 2 and n % 2 == 0,
     ["answers are lost at any number of prompt tokens, only on a prefix-hit: 64 of 128 against 0 "
      "of 128, p < 1e-6"]),
    (lambda n, condition: condition == 0 and 37 * n % 128 < 16,
     ["answers are lost at any number of prompt tokens, only cold: 16 of 128 against 0 of 128, "
      "p = 0.0007"]),
    (lambda n, condition: condition in (1, 2, 4) and n % 4 == 0,
     ["answers are lost at any number of prompt tokens, only on cache hits: 32 of 128 against 0 of "
      "128, p < 1e-6"]),
]  # fmt: skip


@pytest.mark.parametrize(("lost", "said"), FAULTS)
def test_what_rows_prove_is_said_with_its_place_its_conditions_and_its_chance(
    lost: Callable[[int, int], bool], said: list[str]
) -> None:
    assert [str(fault) for fault in first_look(sheet_of(lost))] == said


def test_a_changed_answer_is_a_fault_of_its_own_and_two_faults_are_both_named() -> None:
    changed = sheet_of(
        lambda n, condition: n % 16 == 3, lambda n, condition: condition == 4 and n % 16 in (8, 9)
    )
    assert [str(fault) for fault in first_look(changed)] == [
        "answers are changed where prompt tokens are 8 to 9 mod 16, on shared: 16 of 16 against 0 "
        "of 112, p < 1e-6",
        "answers are lost where prompt tokens are 3 mod 16: 8 of 8 against 0 of 104, p < 1e-6",
    ]


def test_an_answer_that_is_lost_does_not_count_as_changed() -> None:
    sheet = sheet_of(
        lambda n, condition: n % 16 == 9, lambda n, condition: condition == 4 and n % 16 in (8, 9)
    )
    assert [str(fault) for fault in first_look(sheet)] == [
        "answers are changed where prompt tokens are 8 mod 16, on shared: 8 of 8 against 0 of 120, "
        "p < 1e-6",
        "answers are lost where prompt tokens are 9 mod 16: 8 of 8 against 0 of 112, p < 1e-6",
    ]


def test_the_smallest_faults_that_would_be_seen_grow_with_what_is_lost_anyway() -> None:
    noise = sheet_of(lambda n, condition: n % 11 == 0)
    assert [*smallest(SOUND).values()] == [0.96, 0.41, 0.12]
    assert [*smallest(SOUND, fresh=False).values()] == [None, 0.81, 0.12]
    assert [*smallest(noise).values()] == [None, 0.7, 0.33]


def test_a_residue_is_suspected_first_and_likelier_faults_before_others() -> None:
    one = sheet_of(lambda n, condition: n % 128 == 5)
    found = suspects(one)
    assert found[0].place == Place(128, 5, 1) and found[0].inside == (1, 1)
    two = suspects(sheet_of(lambda n, condition: n % 128 in (5, 6)))
    assert [fault.place for fault in two[:2]] == [Place(128, 5, 1), Place(128, 6, 1)]
    assert all(fault.p <= verdict.SUSPECT for fault in two[2:])
    many = suspects(sheet_of(lambda n, condition: n % 2 == 0))
    assert len(many) <= 2 * verdict.SUSPECTS


def fault_at(place: Place, kind: str = "lost", only: str = "") -> Fault:
    return Fault(kind, only, place, (1, 1), (0, 127), 0.01)


def test_a_suspect_gets_its_own_questions_a_residue_those_that_are_moved_to_it() -> None:
    pairs = {f"q{n}": np.array([1000 + n, 1000 + n]) for n in range(200)}
    page = Place(16, 4, 2)
    residue = Place(128, 7, 1)
    chosen = second_questions(pairs, [fault_at(residue), fault_at(page)], most=1250)
    moved = {pair: n for pair, n in chosen.items() if n}
    assert all((pairs[pair][0] + n) % 128 == 7 for pair, n in moved.items())
    assert all(pairs[pair].max() + n <= 1250 for pair, n in moved.items())
    at_residue = [pair for pair, n in chosen.items() if residue.holds(pairs[pair] + n)[0]]
    assert len(at_residue) >= verdict.MOVED and len(chosen) >= verdict.FRESH
    at_page = [pair for pair, n in chosen.items() if not n and page.holds(pairs[pair])[0]]
    assert verdict.INSIDE <= len(at_page) <= 30
    short = second_questions(pairs, [fault_at(residue)], most=1001)
    assert not any(short.values())  # none may be moved so far
    assert len(second_questions(pairs, [], most=1250)) == verdict.FRESH


def test_other_questions_prove_a_suspect_alone() -> None:
    place = Place(16, 4, 2)
    fresh = sheet_of(lambda n, condition: place.holds(np.array([n]))[0] and condition == 1)
    said = (
        "answers are lost where prompt tokens are 4 to 5 mod 16, only on a self-hit: 16 of 16 "
        "against 0 of 112, p < 1e-6"
    )
    suspected = fault_at(place, only="only on a self-hit")
    assert [str(fault) for fault in second_look(fresh, [suspected])] == [said]
    assert second_look(fresh, [replace(suspected, place=Place(16, 9, 2))]) == []
    assert second_look(fresh, [replace(suspected, kind="changed", only="on shared")]) == []
