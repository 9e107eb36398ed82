"""`ruler-eval compare --margin`: when a run is shown to be not worse than another."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ruler_report
from ruler_eval.scoring.scores import Scores
from ruler_report.margin import CANNOT_TELL, NOT_WORSE, WORSE, MarginTest
from tests.results import coin, refused_by_score, results_of, save
from tests.running.processes import evaluate
from tests.runs import refused

CONFIGS = ("vt_4096", "vt_8192", "niah_single_1_4096", "niah_single_1_8192")


def run_with(lost: float, rows: int = 400, **changes: Any) -> Scores:  # noqa: ANN401
    """Return a run that loses a share of the rows that the full one has right."""
    scores = {}
    for name in CONFIGS:
        right, kept = coin(f"{name}/right", 0.9, rows), coin(f"{name}/kept", 1 - lost, rows)
        scores[name] = [a * b for a, b in zip(right, kept, strict=True)]
    return results_of(scores, model=f"org/lost-{lost}", **changes)


def test_the_exit_status_says_whether_a_run_is_worse(tmp_path: Path) -> None:
    full, near, bad = (save(tmp_path / str(lost), run_with(lost)) for lost in (0.0, 0.005, 0.2))
    for run, status, verdict in ((near, 0, "not worse"), (bad, 1, "worse")):
        done = evaluate("compare", run, full, "--margin", 2, "--claimed")
        assert done.returncode == status, done.stderr
        assert done.stdout.startswith(f"{verdict}: org/lost-")
    body = json.loads(evaluate("compare", bad, full, "--margin", 1, "--claimed", "--json").stdout)
    found = body["margin"]
    assert (found["verdict"], found["exit_status"], found["margin"]) == ("worse", 1, 1.0)
    assert {"mean", "4K", "8K", "multi-hop tracing", "retrieval"} == {*found["lost"]}
    done = evaluate("compare", near, full, "--margin", 2)
    assert done.returncode == 3 and "has no rank: claimed: " in done.stdout


def test_few_rows_cannot_tell_and_it_is_said_about_how_many_would() -> None:
    runs = [run_with(0.0, rows=10), replace(run_with(0.0, rows=10), fingerprint="another")]
    found = ruler_report.compare(*runs, margin=1.0)
    assert found.exit_status == 3 and found.margin is not None
    promised = found.margin.rows or 0
    assert "by more than 1 point (difference" in str(found)
    assert f"about {promised:,} rows a config would tell" in str(found)
    for rows, status in ((promised, 0), (promised // 2, 3)):
        pair = [run_with(0.0, rows=rows), replace(run_with(0.0, rows=rows), fingerprint="another")]
        assert ruler_report.compare(*pair, margin=1.0).exit_status == status
    few = [run_with(0.0, rows=7), replace(run_with(0.0, rows=7), fingerprint="another")]
    assert "a task has fewer than 8 rows" in str(ruler_report.compare(*few, margin=50.0))


@pytest.mark.parametrize("rows", [10, 80])
def test_a_run_is_not_worse_than_itself_however_few_its_rows(rows: int) -> None:
    found = ruler_report.compare(run_with(0.0, rows=rows), run_with(0.0, rows=rows), margin=0.1)
    assert found.exit_status == 0 and found.gap is not None and found.gap.value == 0


def test_a_loss_at_one_length_is_worse_although_the_mean_hides_it() -> None:
    full = {f"vt_{4096 << place}": [1.0] * 400 for place in range(6)}
    lost = {**full, "vt_16384": [0.0] * 40 + [1.0] * 360}
    pair = results_of(lost, model="org/lost"), results_of(full, model="org/full")
    found = ruler_report.compare(*pair, margin=2.0)
    assert found.exit_status == 1 and "shown for 16K." in str(found)


def with_holes(configs: Sequence[str], lost: float = 0.0) -> Scores:
    """Return a run that lacks an answer in some configs."""
    scores: dict[str, list[float | None]] = {}
    for name in CONFIGS:
        scores[name] = [*coin(f"{name}/right", 0.9 * (1 - lost), 400)]
    for name in configs:
        scores[name][3] = None
    return results_of(scores, model="org/holes")


def test_unanswered_rows_neither_pass_nor_fail_a_run() -> None:
    base = run_with(0.0)
    found = ruler_report.compare(with_holes(["vt_8192"]), base, margin=2.0)
    assert found.exit_status == 3 and "left out: " in str(found)
    assert "org/holes has not answered all rows of vt_8192" in str(found)
    short = ruler_report.compare(with_holes(["vt_8192"]), base, margin=2.0, lengths="4096")
    assert short.exit_status == 0
    assert ruler_report.compare(base, with_holes(["vt_8192"]), margin=2.0).exit_status == 0
    found = ruler_report.compare(with_holes(CONFIGS[1:]), base, margin=2.0)
    assert found.exit_status == 3 and "complete in 1 of the 4" in str(found)


def test_a_run_that_is_worse_where_it_answered_is_worse() -> None:
    found = ruler_report.compare(with_holes(["vt_8192"], lost=0.3), run_with(0.0), margin=2.0)
    assert found.exit_status == 1


@pytest.mark.parametrize(
    ("score", "blind", "status"),
    [(0.0, 0.0, 3), (0.3, 0.3, 3), (0.3, 0.1, 0), (0.3, 0.23, 3)],  # 25.2 [21.1, 29.7]
)
def test_nothing_can_be_told_from_a_base_at_its_blind_floor(
    score: float, blind: float, status: int
) -> None:
    base = results_of({"vt_4096": coin("x", score, 400)})
    base = replace(base, blind_floors={"vt_4096": blind})
    found = ruler_report.compare(base, base, margin=1.0)
    assert found.exit_status == status
    sentence = f"not shown to be above its blind floor ({100 * blind:.1f}), so that guessing might"
    assert (sentence in str(found)) == (status == 3)


def test_a_refused_run_cannot_be_told() -> None:
    for pair in (
        (refused_by_score(run_with(0.0)), run_with(0.0)),
        (run_with(0.0), refused_by_score(run_with(0.0))),
    ):
        found = ruler_report.compare(*pair, margin=50.0)
        assert found.exit_status == 3 and "suspect harness: noise" in str(found)


def test_margins_and_runs_that_cannot_be_end_with_2(tmp_path: Path) -> None:
    one = save(tmp_path / "a", run_with(0.0, 20))
    other = save(tmp_path / "b", run_with(0.0, 20, protocol="chat"))
    for margin in ("0", "nan", "101"):
        assert "--margin" in refused(evaluate("compare", one, one, "--margin", margin), 2)
    for margin in ("100", "0.001"):
        assert "CANNOT TELL" in evaluate("compare", one, one, "--margin", margin).stdout.upper()
    assert "the protocols differ" in refused(evaluate("compare", one, other, "--margin", 1), 2)
    assert refused(evaluate("compare", one, tmp_path / "none", "--margin", 1), 2)


@pytest.mark.parametrize(
    ("test", "status", "sentence"),
    [
        (
            MarginTest(2.5, NOT_WORSE, -1.26, 0.04), 0,
            "not worse: new is not worse than old by more than 2.5 points (difference of the means "
            "between -1.3 and 0.0).",
        ),
        (
            MarginTest(1.0, WORSE, -9.0, -2.0, lost=((None, None), ("vt", 4096), (None, 8192))), 1,
            "worse: new is worse than old by more than 1 point (difference of the means between "
            "-9.0 and -2.0); shown for mean, vt at 4K, 8K.",
        ),
        (
            MarginTest(1.0, CANNOT_TELL, -3.0, 0.0, rows=12_000), 3,
            "cannot tell: these rows cannot tell whether new is worse than old by more than 1 "
            "point (difference of the means between -3.0 and 0.0); if no mean changes, about "
            "12,000 rows a config would tell.",
        ),
        (
            MarginTest(2.0, CANNOT_TELL, -2.0, 0.0), 3,
            "cannot tell: these rows cannot tell whether new is worse than old by more than 2 "
            "points (difference of the means between -2.0 and 0.0); the difference is so near the "
            "margin that more rows would not tell.",
        ),
        (
            MarginTest(2.0, CANNOT_TELL, None, None, doubts=("one", "two"), rows=9), 3,
            "cannot tell: these rows cannot tell whether new is worse than old by more than 2 "
            "points; one; two.",
        ),
    ],
)  # fmt: skip
def test_each_verdict_has_its_words_its_status_and_its_record(
    test: MarginTest, status: int, sentence: str
) -> None:
    assert (test.exit_status, test.sentence("new", "old")) == (status, sentence)
    record = test.to_record()
    assert record["verdict"] == test.verdict and record["exit_status"] == status
    assert record["margin"] == test.margin and record["doubts"] == test.doubts
    assert record["lost"] == (["mean", "vt at 4K", "8K"] if test.lost else [])
    assert (record["low"], record["high"], record["rows"]) == (test.low, test.high, test.rows)


def test_a_loss_of_just_the_margin_is_told_by_no_number_of_rows() -> None:
    full = {f"vt_{length}": [1.0] * 400 for length in (4096, 8192)}
    lost = {name: [0.0] * 8 + [1.0] * 392 for name in full}
    pair = results_of(lost, model="org/lost"), results_of(full, model="org/full")
    found = ruler_report.compare(*pair, margin=2.0)
    assert found.margin is not None and found.margin.verdict == CANNOT_TELL
    assert found.margin.rows is None and "more rows would not tell" in str(found)
    near = ruler_report.compare(*pair, margin=2.5)
    assert near.margin is not None and 400 < (near.margin.rows or 0) < 100_000
