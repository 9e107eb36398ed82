"""`ruler-eval compare --contamination`: what it refuses, what it finds, how often it is wrong."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ruler_data import RulerError
from ruler_report.results_file import Results
from ruler_report.stats.contamination import contamination
from tests.commands import succeeded
from tests.conftest import Builds, Cli
from tests.results import coin, results_of
from tests.running.processes import evaluate
from tests.runs import golden, patchy, refused, reported, scored_run
from tests.test_report import save

LENGTHS = (4096, 8192)


def run_of(name: str, chance: float, rows: int = 200, seed: int = 42, **data: Any) -> Results:  # noqa: ANN401
    """Return a run whose rows are right with a chance, on rows of a seed."""
    scores = {f"{task}_{length}": coin(f"{name}/{task}/{length}", chance, rows)
              for task in ("vt", "cwe") for length in LENGTHS}  # fmt: skip
    results = results_of(scores)
    info = replace(results.run.data, seed=seed, **data)
    return replace(results, run=replace(results.run, data=info))


def changed(**changes: Any) -> Callable[[Results], Results]:  # noqa: ANN401 - fields of RunInfo
    return lambda results: replace(results, run=replace(results.run, **changes))


def changed_data(**changes: Any) -> Callable[[Results], Results]:  # noqa: ANN401 - of DataInfo
    return lambda results: replace(
        results, run=replace(results.run, data=replace(results.run.data, **changes))
    )


def harder(results: Results) -> Results:
    configs = {
        name: replace(config, params={"hops": 8}) for name, config in results.configs.items()
    }
    return replace(results, configs=configs)


DIFFERENT = [
    (changed(model="org/other"), "the models differ"),
    (changed(protocol="chat"), "the protocols differ"),
    (changed(no_context=True), "the protocols differ"),
    (changed(engine_info={"version": "0.32.0"}), "the engines or their settings differ"),
    (changed_data(tokenizer_fingerprint="0" * 64), "the tokenizers differ"),
    (changed_data(data_version="2.0.0"), "the data versions differ"),
    (changed_data(suite="mini"), "the suites differ"),
    (changed_data(sample=True), "the sources or reserves differ"),
    (harder, "the parameters of vt_4096 differ"),
]


@pytest.mark.parametrize(("change", "why"), DIFFERENT)
def test_only_the_seed_may_differ(change: Callable[[Results], Results], why: str) -> None:
    public, fresh = run_of("a", 0.8), change(run_of("b", 0.8, seed=7))
    with pytest.raises(
        RulerError, match=f"not a test of contamination: {why}; a contamination test allows"
    ):
        contamination(public, fresh)
    assert contamination(public, fresh, force=True).warnings == (why,)


def test_a_fresh_run_of_some_tasks_and_lengths_is_compared_on_these() -> None:
    public, whole = run_of("a", 0.8), run_of("b", 0.8, seed=7)
    less = {name: config for name, config in whole.configs.items() if name.endswith("_4096")}
    fresh = changed_data(rows=dict.fromkeys(less, 200))(replace(whole, configs=less))
    found = contamination(public, fresh)
    assert (found.lengths, found.warnings) == ((4096,), ())
    assert any(note.startswith("not compared") and "8192" in note for note in found.notes)


def test_rows_of_one_seed_are_refused_even_if_forced(tmp_path: Path) -> None:
    first, second = (save(tmp_path / name, run_of(name, 0.8)) for name in "ab")
    said = refused(evaluate("compare", first, second, "--contamination", "--force"))
    assert "both runs are on rows of the same seed" in said
    assert "42" not in said


def test_runs_in_the_wrong_order_are_refused() -> None:
    public, fresh = run_of("a", 0.8), run_of("b", 0.8, seed=-77, data_version="1.2.3")
    assert contamination(public, fresh).warnings == ()  # a release that only added rows
    with pytest.raises(RulerError, match="give the run on the public rows first"):
        contamination(fresh, public)


def test_a_private_seed_is_in_no_run_result_or_report(tmp_path: Path, cli: Cli) -> None:
    seed = 2**63 + 12345678901
    few = ("--tasks", "fwe", "--lengths", 1024, "--rows", 3, "--out", tmp_path / "data")
    succeeded(cli("build", *few, "--seed", seed))
    run = scored_run(tmp_path / "run", tmp_path / "data", golden)
    assert "a private seed" in reported(tmp_path / "out", run)
    written = [path for folder in ("run", "out") for path in (tmp_path / folder).rglob("*.*")]
    assert not [path for path in written if str(seed).encode() in path.read_bytes()]
    assert "fwe" in json.dumps(json.loads((run / "run.json").read_text())["data"]["rows"])


def test_a_margin_without_the_test_is_refused(tmp_path: Path) -> None:
    place = save(tmp_path / "a", run_of("a", 0.8))
    said = refused(evaluate("compare", place, place, "--margin", 3), code=2)
    assert "--margin: needs --contamination" in said


@pytest.mark.parametrize(
    ("chances", "rows", "verdict"),
    [((0.9, 0.7), 200, "contaminated"), ((0.8, 0.8), 4000, "no sign"),
     ((0.7, 0.9), 200, "no sign"), ((0.8, 0.8), 20, "cannot tell"),
     ((1.0, 1.0), 20, "cannot tell"), ((1.0, 1.0), 500, "no sign")],
)  # fmt: skip
def test_the_verdict_is_no_more_than_the_rows_tell(
    chances: tuple[float, float], rows: int, verdict: str
) -> None:
    found = contamination(run_of("r", chances[0], rows), run_of("h", chances[1], rows, seed=7))
    assert found.overall.verdict == verdict
    assert found.overall.low <= found.overall.value <= found.overall.high


def test_one_leaked_task_is_named() -> None:
    public, fresh = run_of("r", 0.6, 300), run_of("h", 0.6, 300, seed=7)
    leaked = {f"vt_{length}": replace(public.configs[f"vt_{length}"], scores=(1.0,) * 300,
                                      failures={}) for length in LENGTHS}  # fmt: skip
    found = contamination(replace(public, configs={**public.configs, **leaked}), fresh)
    assert found.differences["vt", None].verdict == "contaminated"
    assert found.differences["cwe", None].verdict != "contaminated"


def test_a_build_of_another_seed_is_compared_from_the_command_line(
    builds: Builds, tmp_path: Path
) -> None:
    for name, seed, say in (("public", 42, golden), ("fresh", 7, patchy(0.5))):
        scored_run(tmp_path / name, builds(rows=20, seed=seed), say)
    both = (tmp_path / "public", tmp_path / "fresh", "--contamination")
    done = evaluate("compare", *both)
    assert "contaminated; public rows are easier for it than fresh ones" in done.stdout, done.stderr
    record = json.loads(evaluate("compare", *both, "--json").stdout)
    assert record["overall"]["verdict"] == "contaminated" and record["margin"] == 2.0
    assert record["overall"]["public"] == record["overall"]["fresh"] == 40
    assert "seed" not in json.dumps(record)
