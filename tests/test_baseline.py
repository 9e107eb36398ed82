"""A run against a baseline: the gate for checkpoints, and retention of full attention's scores."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ruler_data import TASKS
from ruler_data.errors import UsageError
from ruler_data.manifest import Floor
from ruler_eval.scoring.results import ConfigScores, Scores
from ruler_report.baseline import Retention, gate
from ruler_report.baseline import retention as retention_of
from ruler_report.contents import build
from ruler_report.frame import Name
from ruler_report.lineup import compare, lineup
from ruler_report.summary import summarize
from tests.commands import succeeded
from tests.results import coin, config_result, questions_of, results_of
from tests.running.processes import evaluate
from tests.runs import refused
from tests.test_report import save

CONFIGS = ("vt_4096", "vt_8192", "niah_single_1_4096", "niah_single_1_8192")


def run_with(lost: float, rows: int = 400, **changes: object) -> Scores:
    """Return a run that loses a share of the rows that the full one has right."""
    scores = {}
    for name in CONFIGS:
        right, kept = coin(f"{name}/right", 0.9, rows), coin(f"{name}/kept", 1 - lost, rows)
        scores[name] = [a * b for a, b in zip(right, kept, strict=True)]
    return results_of(scores, model=f"org/lost-{lost}", **changes)


def column(name: str, scores: Sequence[float | None]) -> ConfigScores:
    """Return a config with these scores, of the same questions as those of other runs."""
    return config_result(scores, questions=questions_of(name, len(scores)))


def retention(run: Scores, base: Scores) -> dict[Name, Retention]:
    return retention_of(lineup([base, run]), 0, 1)


@pytest.fixture
def places(tmp_path: Path) -> dict[float, Path]:
    """Folders of runs, by the share of rows that they lose."""
    return {lost: save(tmp_path / str(lost), run_with(lost)) for lost in (0.0, 0.005, 0.2)}


def test_a_run_passes_if_it_loses_less_than_the_margin(places: dict[float, Path]) -> None:
    known = ("--baseline", places[0.0], "--claimed")
    done = succeeded(evaluate("gate", places[0.005], *known, "--margin", 2))
    assert done.stdout.startswith("not worse: org/lost-0.005 [claimed] is")
    done = evaluate("gate", places[0.2], *known, "--margin", 2)
    assert done.returncode == 1 and done.stdout.startswith("worse: org/lost-0.2 [claimed] is worse")
    assert "overall -1" in done.stdout and "retrieval" in done.stdout
    body = json.loads(evaluate("gate", places[0.2], *known, "--json").stdout)
    assert (body["verdict"], body["exit_status"], body["margin"]) == ("worse", 1, 1.0)
    assert body["differences"].keys() == {"overall", "4K", "8K", "multi-hop tracing", "retrieval"}
    assert body["lacking"] == {} and body["frame"].startswith("frame: 2 tasks at 4K, 8K, 400 rows")
    assert {one["verdict"] for one in body["differences"].values()} == {"worse"}


def test_few_rows_do_not_pass_even_if_no_row_is_lost() -> None:
    other = replace(run_with(0.0, rows=10), fingerprint="another run")
    found = gate(other, run_with(0.0, rows=10), margin=1.0)
    assert found.exit_status == 3 and set(found.verdicts.values()) == {"cannot tell"}
    assert re.search(r"about [\d,]+ rows a config would tell", str(found))
    promised = found.rows or 0
    for rows, status in ((promised, 0), (promised // 2, 3)):  # it is the gate's own interval
        runs = [run_with(0.0, rows=rows), replace(run_with(0.0, rows=rows), fingerprint="another")]
        assert gate(*runs, margin=1.0).exit_status == status
    few = [run_with(0.0, rows=7), replace(run_with(0.0, rows=7), fingerprint="another run")]
    assert "a task has fewer than 8 rows" in str(gate(*few, margin=50.0))


@pytest.mark.parametrize("rows", [10, 80, 400])
def test_a_run_is_not_worse_than_itself_however_few_its_rows(rows: int) -> None:
    found = gate(run_with(0.0, rows=rows), run_with(0.0, rows=rows), margin=0.1)
    assert found.exit_status == 0 and found.differences["overall"].low == 0


def test_a_run_of_which_only_its_results_are_known_does_not_pass(places: dict[float, Path]) -> None:
    done = evaluate("gate", places[0.005], "--baseline", places[0.0], "--margin", 2)
    assert done.returncode == 3 and done.stdout.startswith("cannot tell: ")
    assert "org/lost-0.005 [claimed]: only its results.json is known" in done.stdout
    assert evaluate("gate", places[0.2], "--baseline", places[0.0]).returncode == 1


def test_what_the_baseline_has_and_the_run_lacks_neither_passes_it_nor_fails_it() -> None:
    base = run_with(0.0)
    failed = {**base.configs, "vt_4096": column("vt_4096", [None] * 400)}
    half = [s if i % 2 else None for i, s in enumerate(base.configs["vt_4096"].scores)]
    holes = {**base.configs, "vt_4096": column("vt_4096", half)}
    one_task = {name: base.configs[name] for name in ("vt_4096", "vt_8192")}
    for configs, lacking in ((failed, 400), (holes, 200), (one_task, 800)):
        run = replace(base, fingerprint="another", configs=configs)
        found = gate(run, base)
        assert found.exit_status == 3 and sum(found.lacking.values()) == lacking
        assert f"lacks {lacking:,} rows (" in str(found) and "resume it" in str(found)
        if configs is not one_task:
            assert gate(base, run).exit_status == 3  # nor if the baseline lacks them
    assert gate(replace(base, configs=one_task), base, rows=100, lengths=[8192]).exit_status == 3
    lost = run_with(0.5)
    few = [None, *lost.configs["vt_4096"].scores[1:]]
    lost = replace(lost, configs={**lost.configs, "vt_4096": column("vt_4096", few)})
    assert gate(lost, base).exit_status == 1  # even if the row that it lacks were right
    near = {name: column(name, [*[1.0] * 399, None]) for name in CONFIGS}
    full = {name: column(name, [1.0] * 400) for name in CONFIGS}
    runs = [replace(base, fingerprint=str(number), configs=one)
            for number, one in enumerate((near, full))]  # fmt: skip
    assert gate(*runs, margin=5.0).exit_status == 0  # even if the row that it lacks were wrong


def test_a_task_that_neither_run_answered_cannot_be_told() -> None:
    base = run_with(0.0)
    run = replace(base, configs={**base.configs, "vt_4096": column("vt_4096", [None] * 400)})
    for other in (run, replace(run, fingerprint="another")):
        found = gate(other, run)
        assert found.exit_status == 3 and found.lacking == {"vt_4096": 400}


def test_a_baseline_without_a_score_is_refused_and_a_run_without_one_cannot_be_told() -> None:
    run = run_with(0.0)
    failed = {name: column(name, [None] * 400) for name in run.configs}
    base = replace(run, fingerprint="another", configs=failed)
    for new in (run, base):
        with pytest.raises(UsageError, match="no row has a score"):
            gate(new, base)
    found = gate(base, run)
    assert found.exit_status == 3 and sum(found.lacking.values()) == 400 * len(run.configs)
    with pytest.raises(UsageError, match="no row has a score"):
        compare(run, base)


def test_a_run_passes_exactly_if_every_interval_stays_above_the_margin() -> None:
    for lost in (0.002, 0.01, 0.02, 0.05):
        found = gate(run_with(lost), run_with(0.0), margin=3.0)
        gaps = [*found.differences.values()]
        assert found.passed == all(gap.low is not None and gap.low > -3.0 for gap in gaps)


def test_a_gate_refuses_margins_and_runs_that_cannot_be(tmp_path: Path) -> None:
    one = save(tmp_path / "a", run_with(0.0, 20))
    other = save(tmp_path / "b", run_with(0.0, 20, protocol="chat"))
    for margin in ("0", "nan", "101"):
        done = evaluate("gate", one, "--baseline", one, "--margin", margin)
        assert "--margin" in refused(done, 2)
    said = refused(evaluate("gate", one, "--baseline", other), 2)
    assert "the protocols differ" in said and "; run it as the baseline was run" in said
    assert "--force" not in said


def test_a_gate_on_some_lengths_or_rows_says_so_in_its_verdict() -> None:
    found = gate(run_with(0.005), run_with(0.0), margin=3.0, rows=300, lengths=[4096])
    assert str(found).startswith("not worse: org/lost-0.005 is not worse than org/lost-0.0, margin")
    assert "frame: 2 tasks at 4K, 300 rows of each, the first 300" in str(found)


def test_retention_is_the_ratio_with_an_interval_that_has_the_truth_in_it() -> None:
    base, kept = run_with(0.0), run_with(0.3)
    found = retention(kept, base)
    for name in CONFIGS:
        task, _, length = name.rpartition("_")
        one = found[task, int(length)]
        sums = [sum(score or 0 for score in run.configs[name].scores) for run in (kept, base)]
        assert one.value is not None and one.value == pytest.approx(100 * sums[0] / sums[1])
        low, high = (one.low or 0), (one.high or 0)
        assert low < one.value < high and low < 70 < high
        overall = found[None, None]
        assert (overall.high or 0) - (overall.low or 0) < high - low
    assert all(one.high == pytest.approx(100, abs=1.5) for one in retention(base, base).values())
    nothing = results_of({name: [0.0] * 40 for name in CONFIGS})
    assert str(retention(kept, nothing)[None, None]).startswith("[")


@pytest.mark.parametrize(
    ("score", "blind", "status"), [(0.0, 0.0, 3), (0.3, 0.3, 3), (0.3, 0.1, 0)]
)
def test_a_gate_cannot_tell_with_a_baseline_at_its_blind_floor(
    score: float, blind: float, status: int
) -> None:
    base = results_of({"vt_4096": coin("x", score, 400)})
    floor = Floor(
        score=1.0, strategy="all", listing=1.0, rows=500, blind=blind, blind_strategy="any"
    )
    base.configs["vt_4096"] = replace(base.configs["vt_4096"], floor=floor)
    found = gate(base, base)
    assert found.exit_status == status
    sentence = f"not shown to be above its blind floor ({100 * blind:.1f}), so that guessing might"
    assert (sentence in str(found)) == (status == 3)


def test_floor_and_ceiling_are_flagged() -> None:
    top = results_of({"vt_4096": [1.0] * 500, "cwe_4096": coin("low", 0.1, 500)})
    for name, blind in (("cwe_4096", 0.1), ("vt_4096", 0.0)):  # listing is no guess
        floor = Floor(
            score=1.0, strategy="all", listing=1.0, rows=500, blind=blind, blind_strategy="any"
        )
        top.configs[name] = replace(top.configs[name], floor=floor)
    found = retention(top, top)
    assert found["vt", 4096].flag == "ceiling" and found["cwe", 4096].flag == "floor"
    assert str(found["cwe", 4096]).endswith("] floor")
    assert str(found["vt", 4096]).endswith("] ceiling")


def test_an_instruct_model_on_rows_with_a_template_has_the_threshold_of_its_like() -> None:
    scores = {f"{task}_4096": coin(task, 0.9, 20) for task in TASKS}
    plain = results_of(scores, protocol="base")
    for template, threshold in (("", 79.4), ("base", 79.4), ("meta-llama3", 85.6)):
        found = summarize(replace(plain, chat_template=template))
        assert found.effective["overall"].threshold == threshold
    declared = replace(plain, window=(131072, 8192))
    (table,) = (one for one in build([declared], medium=None).tables if one.name == "effective")
    assert table.rows[0][-2:] == ("128K", "8K")
    assert "of 128K declared" in build([declared], medium=None).verdict[-1]
