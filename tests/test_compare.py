"""`ruler-eval compare`: what it pairs, what it refuses, what it prints."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ruler_data import RulerError
from ruler_report.results import Depth, Results, read_results, write_results
from ruler_report.stats.comparison import Difference, better, compare, judge
from tests.results import coin, config_result, results_of
from tests.running.processes import evaluate
from tests.runs import refused

SCORES = {f"vt_{length}": coin(f"c{length}", 0.8, 50) for length in (4096, 8192)}


def save(folder: Path, results: Results) -> Path:
    folder.mkdir(exist_ok=True)
    write_results(folder / "results.json", results, {})
    return folder


def other_digest(results: Results) -> Results:
    digests = {**results.run.data.digests, "vt_8192": "sha256:other"}
    data = replace(results.run.data, digests=digests, tokenizer="qwen3")
    return replace(results, run=replace(results.run, data=data))


OTHERS: list[tuple[Callable[[Results], Results], str]] = [
    (other_digest, "the rows of vt_8192 differ (rows for llama3 and qwen3)"),
    (lambda r: replace(r, run=replace(r.run, protocol="chat")),
     "the protocols differ: completion and chat"),
    (lambda r: replace(r, run=replace(r.run, no_context=True)),
     "one of the runs was not given the context"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "why"), OTHERS)
def test_runs_that_differ_in_more_than_the_model_are_refused_unless_forced(
    change: Callable[[Results], Results], why: str, tmp_path: Path
) -> None:
    first = save(tmp_path / "a", results_of(SCORES))
    second = save(tmp_path / "b", change(results_of(SCORES)))
    said = refused(evaluate("compare", first, second))
    assert f"not comparable: {why}; --force" in said
    done = evaluate("compare", first, second, "--force", "--json")
    assert done.returncode == 0 and f"forced: {why}" in done.stderr
    assert json.loads(done.stdout)["warnings"] == [why]


def test_the_better_run_is_named_and_an_equal_one_is_not(tmp_path: Path) -> None:
    better = {name: [1.0] * 50 for name in SCORES}
    first = save(tmp_path / "a", results_of(SCORES))
    second = save(tmp_path / "b", results_of(better, model="org/better"))
    done = evaluate("compare", first, second)
    assert "org/better is better" in done.stdout
    assert "cannot tell them apart" in evaluate("compare", first, first).stdout


def test_two_runs_of_one_model_are_told_apart_by_number(tmp_path: Path) -> None:
    first = save(tmp_path / "a", results_of(SCORES))
    second = save(tmp_path / "b", results_of({name: [1.0] * 50 for name in SCORES}))
    said = evaluate("compare", first, second).stdout
    assert "org/model-7b (2) minus org/model-7b: " in said
    assert "org/model-7b (2) is better" in said


def test_only_rows_that_both_scored_are_paired() -> None:
    first = results_of({"vt_4096": [0.0, 1.0, None, 1.0]})
    second = results_of({"vt_4096": [1.0, None, 1.0, 1.0]})
    cell = compare(first, second).differences["vt", 4096]
    assert (cell.rows, cell.value) == ((2, 2), 50)


def test_configs_that_only_one_run_has_are_named() -> None:
    first = results_of({**SCORES, "fwe_4096": [1.0] * 50, "cwe_4096": [1.0] * 50})
    second = results_of({**SCORES, "fwe_4096": [1.0] * 50})
    comparison = compare(first, second)
    assert comparison.tasks == ("vt",)
    assert comparison.left_out == ("cwe_4096", "fwe_4096")


def test_runs_that_share_nothing_are_refused(tmp_path: Path) -> None:
    first = save(tmp_path / "a", results_of({"vt_4096": [1.0]}))
    second = save(tmp_path / "b", results_of({"cwe_4096": [1.0]}))
    said = refused(evaluate("compare", first, second))
    assert "nothing to compare" in said and "report them one at a time" in said


def test_holm_s_correction_is_the_textbook_one() -> None:
    values = {"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}
    family = judge({name: Difference(1, 0, 2, p, (9, 9)) for name, p in values.items()}, better)
    found = {name: round(one.adjusted, 9) for name, one in family.items()}
    assert found == {"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02}
    assert [one.verdict for one in family.values()] == ["second", *["cannot tell"] * 2, "second"]


def edited(**changes: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:  # noqa: ANN401
    return lambda body: {**body, **changes}


BAD: list[tuple[Callable[[dict[str, Any]], dict[str, Any]], str]] = [
    (edited(format=9), "format 9, this version reads 1"),
    (edited(run=None), "not a results file: run: Input should be an object"),
    (edited(configs={"vt_4096": 3}), "not a results file: configs.vt_4096"),
    (lambda _: {}, "not a results file: run: Field required"),
]


@pytest.mark.parametrize(("change", "said"), BAD)
def test_results_that_are_none_are_refused(
    change: Callable[[dict[str, Any]], dict[str, Any]], said: str, tmp_path: Path
) -> None:
    path = save(tmp_path / "a", results_of(SCORES)) / "results.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    assert said in refused(evaluate("compare", path, path))


UNFIT = [
    ({"rows": 5}, "vt_4096: 5 rows, 4 scores"),
    ({"strict": (1.0,)}, "vt_4096: 4 rows, 1 strict"),
    ({"scores": (1.0, 2.0, 0.0, 0.0)}, "a score is not between 0 and 1"),
    ({"missing": (1,)}, "the rows without a score are not the failed and missing ones"),
    ({"depth": Depth((1,), (1,), (1,))}, "depth does not have 10 cells"),
    ({"scores": (None,) * 4, "missing": (0, 1, 2, 3)}, "no row has a score"),
]


@pytest.mark.parametrize(("changes", "said"), UNFIT)
def test_results_that_do_not_fit_together_are_refused(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    unfit = replace(config_result([1.0] * 4), **changes)
    path = save(tmp_path / "a", replace(results_of(SCORES), configs={"vt_4096": unfit}))
    with pytest.raises(RulerError, match=re.escape(said)):
        read_results(path)


def test_a_folder_without_results_is_told_how_to_get_them(tmp_path: Path) -> None:
    said = refused(evaluate("compare", tmp_path, tmp_path), code=2)
    assert "does not exist; create it with `ruler-eval score`" in said
