"""Intervals, p-values and effective lengths, against exact computation and simulation."""

import itertools
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from ruler_data import TASKS
from ruler_report.stats.comparison import compare, p_value
from ruler_report.stats.effective_length import weights
from ruler_report.stats.resampling import flip, interval, permute_labels, resample
from ruler_report.stats.summary import summarize
from tests.results import coin, results_of

LENGTHS = (4096, 8192, 16384, 32768, 65536, 131072)


def test_an_interval_is_as_wide_as_the_normal_one_of_many_rows() -> None:
    scores = np.array(coin("width", 0.8, 500))[:, None]
    low, high = interval(resample("vt", scores)[:, 0])
    p = scores.mean()
    assert (high - low) / (2 * 1.96 * math.sqrt(p * (1 - p) / 500)) == pytest.approx(1, abs=0.06)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    held = 0
    for trial in range(300):
        scores = np.array(coin(f"cover/{trial}", 0.7, 100))[:, None]
        low, high = interval(resample(f"task {trial}", scores)[:, 0])
        held += low <= 0.7 <= high
    assert 0.915 < held / 300 < 0.98


def test_rows_that_are_all_right_still_leave_room() -> None:
    overall = summarize(results_of({"vt_4096": [1.0] * 40})).cells["vt"][4096]
    assert (overall.value, overall.high) == (100, 100)
    assert (overall.low / 100) ** 40 == pytest.approx(0.025)  # exact binomial
    nothing = summarize(results_of({"vt_4096": [0.0] * 40})).cells["vt"][4096]
    assert (nothing.value, nothing.low) == (0, 0)
    assert nothing.high == pytest.approx(100 - overall.low)


def test_tasks_that_are_each_all_alike_leave_room_in_their_mean() -> None:
    scores = {f"{task}_{length}": [right] * 30
              for task, right in (("vt", 1.0), ("cwe", 0.0), ("fwe", 0.5))
              for length in (4096, 8192)}  # fmt: skip
    found = summarize(results_of(scores))
    share = 1 - 0.025 ** (1 / 30)  # of 30 questions, however many lengths
    for figure in (found.overall[4096], found.averages["avg"]):
        assert figure.value == pytest.approx(50)
        assert figure.high - 50 == pytest.approx(100 * share * math.hypot(1, 0.5) / 3)
        assert 50 - figure.low == pytest.approx(100 * share * math.hypot(1, 0.5) / 3)


def test_a_question_brings_its_scores_at_all_lengths_along() -> None:
    same = coin("same", 0.5, 200)
    other = coin("other", 0.5, 200)
    alike = summarize(results_of({"vt_4096": same, "vt_8192": same})).averages["avg"]
    apart = summarize(results_of({"vt_4096": same, "vt_8192": other})).averages["avg"]
    ratio = (alike.high - alike.low) / (apart.high - apart.low)
    assert ratio == pytest.approx(math.sqrt(2), abs=0.25)


@pytest.mark.parametrize("gaps", [[1, 1, 1, 1, 0, -1, 1, 1], [1, -1, 0.5, 0.25], [1] * 9, [0, 0]])
def test_p_values_are_those_of_all_sign_flips(gaps: list[float]) -> None:
    observed = abs(sum(gaps))
    signs = itertools.product((-1, 1), repeat=len(gaps))
    sums = [abs(sum(s * gap for s, gap in zip(row, gaps, strict=True))) for row in signs]
    exact = sum(value >= observed - 1e-12 for value in sums) / len(sums)
    parts = np.array(gaps, dtype=float)[:, None]
    found = p_value(sum(gaps), flip("vt", parts)[:, 0])
    assert found == pytest.approx(exact, abs=0.015)


def test_runs_of_equal_quality_are_seldom_told_apart() -> None:
    told = 0
    for trial in range(100):
        first = results_of({"vt_4096": coin(f"a{trial}", 0.8, 60)})
        second = results_of({"vt_4096": coin(f"b{trial}", 0.8, 60)})
        told += compare(first, second).overall.verdict != "cannot tell"
    assert told <= 10


def test_pairing_tells_apart_what_the_means_alone_cannot() -> None:
    first = coin("pairs", 0.5, 200)
    mended = [i for i, score in enumerate(first) if score == 0][:12]
    second = [1.0 if i in mended else score for i, score in enumerate(first)]
    paired = compare(results_of({"vt_4096": first}), results_of({"vt_4096": second})).overall
    assert paired.verdict == "second" and paired.low > 0
    shuffled = compare(results_of({"vt_4096": first}), results_of({"vt_4096": second[::-1]}))
    assert shuffled.overall.verdict == "cannot tell"


def test_draws_depend_on_names_alone() -> None:
    code = (
        "import numpy as np; from ruler_report.stats.resampling import flip, resample;"
        "a = np.linspace(0, 1, 50)[:, None];"
        "{}print(resample('vt', a).sum().hex(), flip('vt', a).sum().hex())"
    )
    lines = set()
    for noise in ("", "np.random.seed(3); resample('cwe', a); "):
        command = [sys.executable, "-c", code.format(noise)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        lines.add(done.stdout)
    assert len(lines) == 1


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
    assert set(effective.shares) == {16384, 32768}
    assert sum(effective.shares.values()) == pytest.approx(1)
    passing = [length for length in LENGTHS if summary.overall[length].value >= 85.6]
    assert effective.length == max(passing)
    own = summary.effective["own"]
    assert own.threshold == pytest.approx(0.85 * summary.overall[4096].value)
    assert set(summary.effective) == {"overall", "own", *summary.categories}


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


def test_the_names_of_the_draws_never_change() -> None:
    scores = np.linspace(0, 1, 50)[:, None]
    assert resample("vt", scores).mean() == pytest.approx(0.5010418367346938)
    assert flip("vt", scores).mean() == pytest.approx(-0.016918367346938766)
    permuted = permute_labels("vt", scores, scores[10:])
    assert permuted.mean() == pytest.approx(0.0005612959183673434)
