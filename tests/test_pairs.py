"""The table of pairs: what pairs, how missing rows count; no sentence contradicts it."""

import random
import re
from dataclasses import replace
from itertools import pairwise, permutations
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruler_report import board
from ruler_report.pages.report import build
from ruler_report.results_file import Results
from ruler_report.stats.comparison import compare, pair_table
from ruler_report.stats.intervals import mean_of, minus
from ruler_report.stats.pairs import CANNOT_TELL, FIRST, SECOND
from tests.results import coin, results_of

CONFIGS = ("vt_4096", "vt_8192", "cwe_4096", "cwe_8192")
ROWS = 24


def asked(run: Results, seed: int = 42) -> Results:
    """Return a run whose rows have question digests, equal at all lengths."""
    configs = {
        name: replace(
            config,
            questions="".join(
                f"{seed:06d}{hash_of(name):05d}{row:05d}" for row in range(config.rows)
            ),
        )
        for name, config in run.configs.items()
    }
    return replace(run, configs=configs)


def hash_of(config: str) -> int:
    return sum(map(ord, config.partition("_")[0]))


def part(run: Results, rows: int) -> Results:
    return replace(run, configs={name: one.first(rows) for name, one in run.configs.items()})


@st.composite
def sets_of_runs(draw: st.DrawFn) -> list[Results]:
    """Draw 2 to 12 runs: ties, unanswered rows, configs without any answer, subsets, claims.

    Some runs lack tasks or lengths.
    """
    rng = random.Random(draw(st.integers(0, 2**32)))
    runs: list[Results] = []
    for number in range(draw(st.integers(2, 12))):
        rate = draw(st.sampled_from([0.05, 0.5, 0.9, 0.95, 1.0]))
        scores: dict[str, list[float | None]] = {
            name: [float(rng.random() < rate) for _ in range(ROWS)] for name in CONFIGS
        }
        faults = ["none", "none", "tie", "gaps", "failed", "fewer", "claim", "part"]
        fault = draw(st.sampled_from(faults))
        if fault == "tie" and runs:
            known = runs[-1].configs.items()
            scores = {n: list(one.scores) for n, one in known if one.rows == ROWS}
            scores = {name: scores.get(name, [1.0] * ROWS) for name in CONFIGS}
        if fault == "gaps":
            scores = {n: [s if rng.random() < 0.8 else None for s in x] for n, x in scores.items()}
        if fault == "failed":
            scores["vt_4096"] = [None] * ROWS
        run = asked(results_of(scores, model=f"org/m{number}"))
        if fault == "part":
            fewer = draw(st.sampled_from([CONFIGS[:1], CONFIGS[:2], CONFIGS[::2]]))
            run = replace(run, configs={name: run.configs[name] for name in fewer})
        if fault == "claim" and number:
            configs = {"vt_4096": run.configs["vt_4096"]} if rate < 0.5 else run.configs
            run = replace(run, configs=configs, claimed="only its file is known")
        runs.append(part(run, ROWS // 2) if fault == "fewer" else run)
    return runs


def lowest(run: Results) -> float:
    """Return the mean of a run in percent if every row without an answer is wrong."""
    return 100 * fmean(fmean(s or 0.0 for s in one.scores) for one in run.configs.values())


def listed(text: str) -> list[str]:
    return re.findall(r"org/m\d+", text)


@settings(max_examples=25, deadline=None)
@given(runs=sets_of_runs())
def test_no_sentence_of_a_report_contradicts_the_table(runs: list[Results]) -> None:
    report = build(runs, medium=None)
    proved = [run for run in runs if not run.claimed]
    every = {name for run in proved for name in run.configs}
    ranked = [run for run in proved if run.configs.keys() == every]
    ranked = ranked if len(ranked) > 1 else []
    table = pair_table(ranked or runs[:1])
    places = {run.run.model: place for place, run in enumerate(ranked)}
    pairs = {
        (one, other): table.difference((None, None), places[one], places[other])
        for one, other in permutations(places, 2)
    }
    standing = "".join(line for line in report.verdict if "the highest" in line)
    assert bool(standing) == bool(ranked)
    assert (not ranked and len(proved) > 1) == ("No run is ranked" in report.verdict[0])
    best = report.runs[0].results.run.model
    assert not standing or listed(standing)[0] == best
    for clause in standing.partition("; ")[2].split("; "):
        others = [label for label in places if label != best]
        for other in others if "every" in clause else listed(clause):
            gap = pairs[best, other]
            if "cannot be told apart" in clause:
                assert gap.low <= 0 <= gap.high
            elif "is better than" in clause:
                assert gap.adjusted < 0.05 and gap.high < 0
            elif "behind" in clause:
                assert gap.adjusted < 0.05 and gap.low > 0
            else:
                assert gap.adjusted >= 0.05 and not gap.low <= 0 <= gap.high
    with_base = [runs[0], *(run for run in ranked if run is not runs[0])]
    for line in report.verdict:
        if line.startswith(("Better than", "Worse than", "Not told")):
            for one in (one for one in runs[1:] if one.run.model in listed(line)[1:]):
                beside = with_base if one in ranked else [runs[0], one]
                gap = pair_table(beside).difference((None, None), 0, beside.index(one))
                word = line.split()[0]
                assert (word == "Not") == (gap.low <= 0 <= gap.high)
                assert (word == "Better") == (gap.adjusted < 0.05 and gap.low > 0)
    order = [run.results.run.model for run in report.runs]
    assert {*order[: len(ranked)]} == {*places}
    ranks = [table.ranks()[places[label]] for label in order[: len(ranked)]]
    for place, (above, below) in enumerate(pairwise(ranks)):
        assert above and below
        if above[1] < below[0]:
            assert pairs[order[place], order[place + 1]].high < 0
    for (label, other), gap in pairs.items():
        back = pairs[other, label]
        assert gap.value == pytest.approx(-back.value) and gap.adjusted == back.adjusted
        assert gap.low - 1e-9 <= gap.value <= gap.high + 1e-9
        assert (gap.p < 0.05) == (gap.low > 0 or gap.high < 0)
        assert {FIRST: SECOND, SECOND: FIRST}.get(gap.verdict, gap.verdict) == back.verdict
    for run in report.runs:
        assert run.summary.mean
        assert run.summary.mean.asked == run.results.rows, "a config left the mean"
        assert run.summary.mean.low <= lowest(run.results) <= run.summary.mean.high
    entries = board.build(runs, {}, None).entries[: len(ranked)]
    cells = [entry.scores["all"]["all"] for entry in entries]
    assert {one.model: cell[3:5] for one, cell in zip(entries, cells, strict=True)} == dict(
        zip(order, ranks, strict=False)
    )
    assert all(above[5] >= below[5] for above, below in pairwise(cells)), "what decides sorts"


def test_a_pair_is_the_difference_of_two_means_of_the_same_questions() -> None:
    runs = [
        asked(results_of({n: coin(f"{n}{k}", 0.7 + k / 10, 60) for n in CONFIGS}, model=f"m{k}"))
        for k in range(3)
    ]
    found = pair_table(runs).difference((None, None), 0, 2)
    weights = {task: np.array([0.25, 0.25]) for task in ("vt", "cwe")}
    means = [
        mean_of(
            {t: np.array([run.configs[f"{t}_{n}"].scores for n in (4096, 8192)], float).T
             for t in ("vt", "cwe")},
            weights,
        )
        for run in (runs[0], runs[2])
    ]  # fmt: skip
    wanted = minus(means[1], means[0], paired=True)
    ends = (100 * float(end) for end in (wanted.value, *wanted.interval()))
    assert (found.value, found.low, found.high) == pytest.approx(tuple(ends))


def test_a_subset_pairs_with_the_whole_and_another_seed_with_nothing() -> None:
    whole = asked(results_of({n: coin(n, 0.8, 40) for n in CONFIGS}))
    few = asked(results_of({n: coin(f"{n}b", 0.8, 20) for n in CONFIGS}, model="org/b"))
    found = compare(few, whole)
    assert found.paired and found.overall.rows == (80, 80)
    assert "80 questions are shared of 80 and 160" in found.basis
    again = compare(asked(few, seed=7), whole)
    assert not again.paired and again.basis.startswith("unpaired: no question is shared")


def test_an_unanswered_row_is_a_zero_in_one_end_and_a_one_in_the_other() -> None:
    scores = {"vt_4096": coin("x", 0.8, 50)}
    first = asked(results_of(scores))
    holes = [None if score == 0 else score for score in scores["vt_4096"]]
    found = compare(first, asked(results_of({"vt_4096": holes}, model="org/holes"))).overall
    zeros = compare(
        first, asked(results_of({"vt_4096": [s or 0.0 for s in holes]}, model="z"))
    ).overall
    ones = compare(
        first, asked(results_of({"vt_4096": [1.0 if s is None else s for s in holes]}, model="o"))
    ).overall
    assert (found.low, found.high) == pytest.approx((zeros.low, ones.high))
    assert found.verdict == CANNOT_TELL


def test_the_noise_floor_of_a_run_is_in_its_intervals_and_is_said() -> None:
    runs = [asked(results_of({n: coin(f"{n}{k}", 0.8, 60) for n in CONFIGS}, model=f"m{k}"))
            for k in range(2)]  # fmt: skip
    bare, noisy = compare(*runs), compare(replace(runs[0], noise=0.05), runs[1])
    assert noisy.overall.low < bare.overall.low < bare.overall.high < noisy.overall.high
    assert noisy.overall.value == bare.overall.value
    assert any("changed by 10.0 points on average; that noise" in note for note in noisy.notes)
    alike = compare(replace(runs[0], noise=0.05), runs[0])
    assert alike.overall.low == 0 and not any("noise" in note for note in alike.notes)
