"""Intervals, p-values and effective lengths, against exact computation and simulation."""

import math
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from ruler_data import TASKS
from ruler_report.results_file import Results
from ruler_report.stats.comparison import compare, pair_table
from ruler_report.stats.effective_length import weights
from ruler_report.stats.scores import Estimate
from ruler_report.stats.summary import summarize
from tests.conftest import ROOT
from tests.results import coin, results_of

LENGTHS = (4096, 8192, 16384, 32768, 65536, 131072)


def cell(scores: Sequence[float]) -> Estimate:
    return summarize(results_of({"vt_4096": scores})).cells["vt"][4096]


@pytest.mark.parametrize("rows", [1, 2, 7, 20, 40])
def test_the_interval_of_right_and_wrong_rows_is_the_exact_binomial_one(rows: int) -> None:
    lows, highs = [], []
    for right in range(rows + 1):
        found = cell([1.0] * right + [0.0] * (rows - right))
        exact = binomtest(right, rows).proportion_ci(method="exact")
        assert (found.low, found.high) == pytest.approx((100 * exact.low, 100 * exact.high))
        lows.append(found.low)
        highs.append(found.high)
    assert lows == sorted(lows) and highs == sorted(highs)


shares = st.lists(st.integers(0, 4).map(lambda part: part / 4), min_size=1, max_size=30)


@settings(max_examples=50)
@given(shares)
def test_every_interval_has_a_width_and_holds_its_mean(scores: list[float]) -> None:
    found = cell(scores)
    assert 0 <= found.low <= found.value + 1e-9 and found.value - 1e-9 <= found.high <= 100
    assert found.high - found.low > 1
    perfect, none = cell([1.0] * len(scores)), cell([0.0] * len(scores))
    assert found.low <= perfect.low + 1e-9 and found.high >= none.high - 1e-9
    turned = cell([1 - score for score in reversed(scores)])
    assert (turned.low, turned.high) == pytest.approx((100 - found.high, 100 - found.low))


def test_the_mean_of_tasks_is_as_certain_as_all_their_rows() -> None:
    scores = {f"{task}_4096": coin(f"many/{task}", 0.7, 500) for task in TASKS}
    found = summarize(results_of(scores)).overall[4096]
    half = 196 * math.sqrt(sum(np.var(column) / 500 for column in scores.values())) / 13
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.02)
    perfect = summarize(results_of({name: [1.0] * 30 for name in scores})).overall[4096]
    assert perfect.high == 100
    assert (perfect.low / 100) ** (13 * 30) == pytest.approx(0.025)  # exact binomial


def test_a_question_brings_its_scores_at_all_lengths_along() -> None:
    same = coin("same", 0.5, 200)
    other = coin("other", 0.5, 200)
    alike = summarize(results_of({"vt_4096": same, "vt_8192": same})).averages["avg"]
    apart = summarize(results_of({"vt_4096": same, "vt_8192": other})).averages["avg"]
    ratio = (alike.high - alike.low) / (apart.high - apart.low)
    assert ratio == pytest.approx(math.sqrt(2), abs=0.25)


def runs_of(pairs: Sequence[tuple[float, float]], asks: str = "same") -> tuple[Results, Results]:
    """Return two runs of one config on other haystacks, with the same questions or others."""
    first, second = (results_of({"vt_4096": [pair[side] for pair in pairs]}) for side in (0, 1))
    cells = [run.configs["vt_4096"] for run in (first, second)]
    one = replace(cells[0], question_digest="sha256:same")
    other = replace(cells[1], digest="sha256:1", question_digest=f"sha256:{asks}")
    return replace(first, configs={"vt_4096": one}), replace(second, configs={"vt_4096": other})


@settings(max_examples=50)
@given(st.lists(st.tuples(*[st.sampled_from([0.0, 0.25, 0.5, 1.0])] * 2), min_size=1, max_size=25))
def test_a_p_value_is_below_5_percent_where_the_interval_leaves_out_0(
    pairs: list[tuple[float, float]],
) -> None:
    for asks in ("same", "other"):
        comparison = compare(*runs_of(pairs, asks))
        found = comparison.overall
        assert comparison.paired == (asks == "same")
        assert (found.p < 0.05) == (found.low > 0 or found.high < 0)
        assert found.low < found.value + 1e-9 and found.value - 1e-9 < found.high


@pytest.mark.parametrize(("better", "worse"), [(10, 0), (20, 0), (14, 4), (30, 12), (9, 8)])
def test_p_values_of_pairs_are_near_the_exact_ones(better: int, worse: int) -> None:
    pairs = [(0.0, 1.0)] * better + [(1.0, 0.0)] * worse + [(1.0, 1.0)] * (100 - better - worse)
    exact = binomtest(better, better + worse).pvalue  # McNemar
    assert exact / 3 < compare(*runs_of(pairs)).overall.p < 3 * exact


def test_comparisons_made_at_once_are_corrected_together() -> None:
    base = results_of({"vt_4096": coin("base", 0.6, 100)})
    others = [results_of({"vt_4096": coin(f"other {n}", 0.8, 100)}) for n in range(3)]
    alone = [compare(base, other).overall for other in others]
    table = pair_table([base, *others])
    together = [table.difference((None, None), 0, place) for place in range(1, 4)]
    assert [one.p for one in alone] == [one.p for one in together]
    smallest = min(range(3), key=lambda place: alone[place].p)
    assert together[smallest].adjusted == pytest.approx(min(1, 6 * alone[smallest].p))
    assert all(one.adjusted >= one.p for one in together)


def test_pairing_tells_apart_what_the_means_alone_cannot() -> None:
    first = coin("pairs", 0.5, 200)
    mended = [i for i, score in enumerate(first) if score == 0][:12]
    second = [1.0 if i in mended else score for i, score in enumerate(first)]
    paired = compare(results_of({"vt_4096": first}), results_of({"vt_4096": second})).overall
    assert paired.verdict == "second" and paired.low > 0
    shuffled = compare(results_of({"vt_4096": first}), results_of({"vt_4096": second[::-1]}))
    assert shuffled.overall.verdict == "cannot tell"


def test_thresholds_of_the_paper_are_for_the_benchmark_s_own_suite_alone() -> None:
    results = results_of({f"{task}_{length}": [1.0] * 3 for task in TASKS for length in LENGTHS})
    other = replace(results.run, data=replace(results.run.data, suite="mine"))
    assert set(summarize(results).effective) > {"overall", "own"}
    assert set(summarize(replace(results, run=other)).effective) == {"own"}


def test_effective_length_carries_its_uncertainty() -> None:
    chances = (0.97, 0.95, 0.93, 0.86, 0.7, 0.5)
    scores = {
        f"{task}_{length}": coin(f"{task}/{length}", chance, 60)
        for task in TASKS
        for length, chance in zip(LENGTHS, chances, strict=True)
    }
    summary = summarize(results_of(scores))
    effective = summary.effective["overall"]
    assert effective.threshold == 85.6
    assert effective.possible == (16384, 32768)
    passing = [length for length in LENGTHS if summary.overall[length].value >= 85.6]
    assert effective.length == max(passing)
    own = summary.effective["own"]
    assert own.threshold == pytest.approx(0.85 * summary.overall[4096].value)
    assert set(summary.effective) == {"overall", "own", *summary.categories}


def test_the_shortest_length_passes_a_run_s_own_bar_also_where_rows_are_unanswered() -> None:
    half = [1.0, None] * 20
    own = summarize(results_of({"vt_4096": half, "vt_8192": [1.0, *half[1:]]})).effective["own"]
    assert own.length == 4096 and 4096 in own.possible


def test_averages_are_weighted_as_in_the_paper() -> None:
    scores = {f"vt_{length}": coin(f"w{length}", 0.9, 50) for length in LENGTHS}
    summary = summarize(results_of(scores))
    means = [summary.overall[length].value for length in LENGTHS]
    by_hand = sum(place * mean for place, mean in enumerate(means, 1)) / 21
    assert summary.averages["wavg_inc"].value == pytest.approx(by_hand)
    assert weights(6, "wavg_dec") == pytest.approx(weights(6, "wavg_inc")[::-1])


def test_means_over_tasks_are_left_out_where_a_task_is_missing() -> None:
    scores = {"vt_4096": [1.0] * 9, "fwe_4096": [0.0] * 9, "vt_8192": [1.0] * 9}
    summary = summarize(results_of(scores))
    assert {length: figure.value for length, figure in summary.overall.items()} == {4096: 50}
    assert summary.averages == {} and "overall" not in summary.effective


def test_unscored_rows_take_no_part_and_are_counted() -> None:
    cell = summarize(results_of({"vt_4096": [1.0, None, 0.0, None]})).cells["vt"][4096]
    assert (cell.value, cell.scored, cell.asked) == (50, 2, 4)


def test_a_small_part_of_the_simulation_covers() -> None:
    command = [sys.executable, "benchmarks/coverage.py", "--profile", "realistic"]
    command += ["--draws", "100", "--rows", "20", "--lengths", "3"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = re.findall(r"^\| ([a-z_, ]+) \| ([0-9.]+) \| realistic", done.stdout, re.MULTILINE)
    lowest = {kind: float(share) for kind, share in lines}
    assert len(lowest) > 20 and {"cell", "paired cell", "unpaired avg", "effective"} <= set(lowest)
    assert min(lowest.values()) >= 89  # 95, give or take three standard errors of 100 draws


def test_tasks_that_ask_the_same_are_not_counted_as_independent() -> None:
    same = coin("alike", 0.5, 200)
    results = results_of({"vt_4096": same, "cwe_4096": same})
    asks = {"vt_4096": None, "cwe_4096": "vt"}
    alike = replace(results, configs={name: replace(one, same_questions_as=asks[name])
                                      for name, one in results.configs.items()})  # fmt: skip
    found, single = summarize(alike).overall[4096], cell(same)
    assert (found.low, found.high) == pytest.approx((single.low, single.high))
    apart = summarize(results).overall[4096]
    ratio = (found.high - found.low) / (apart.high - apart.low)
    assert ratio == pytest.approx(math.sqrt(2), abs=0.05)
