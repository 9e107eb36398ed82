"""`ruler-eval compare`: what it pairs, what it refuses, what it prints."""

import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ruler_data import RulerError, load
from ruler_eval.scoring.derive import score
from ruler_eval.scoring.results import Scores
from ruler_eval.scoring.results_file import read_results
from ruler_report.baseline import gate
from ruler_report.lineup import compare
from ruler_report.runs import caveats
from tests.conftest import Builds
from tests.results import coin, results_of
from tests.running.processes import evaluate
from tests.runs import patchy, refused, reported, scored_run
from tests.test_report import save

SCORES = {f"vt_{length}": coin(f"c{length}", 0.8, 50) for length in (4096, 8192)}


def on(**data: Any) -> Callable[[Scores], Scores]:  # noqa: ANN401 - fields of DataInfo
    return lambda r: replace(r, run=replace(r.run, data=replace(r.run.data, **data)))


def configs_with(**changes: Any) -> Callable[[Scores], Scores]:  # noqa: ANN401 - of ConfigResult
    return lambda r: replace(
        r, configs={name: replace(one, **changes) for name, one in r.configs.items()}
    )


ELSEWHERE = {"digest": "sha256:1", "question_digest": "sha256:a", "questions": ""}
OTHERS: list[tuple[Callable[[Scores], Scores], str]] = [
    (lambda r: replace(r, run=replace(r.run, protocol="chat")),
     "the protocols differ: completion and chat"),
    (lambda r: replace(r, run=replace(r.run, no_context=True)),
     "the contexts differ: given and left out"),
    (on(sample=True), "the source texts differ: real ones and the sample corpus"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "why"), OTHERS)
def test_runs_that_differ_in_more_than_the_model_are_refused_unless_forced(
    change: Callable[[Scores], Scores], why: str, tmp_path: Path
) -> None:
    first = save(tmp_path / "a", configs_with(questions="")(results_of(SCORES)))
    second = save(tmp_path / "b", change(configs_with(questions="")(results_of(SCORES))))
    said = refused(evaluate("compare", first, second))
    assert f"not comparable: {why}; " in said and "--force compares anyway" in said
    done = evaluate("compare", first, second, "--force", "--json")
    assert done.returncode == 0 and f"forced: {why}" in done.stderr
    assert json.loads(done.stdout)["warnings"][0] == why


def test_other_questions_of_the_same_kind_are_compared_unpaired(tmp_path: Path) -> None:
    first = configs_with(question_digest="sha256:a")(results_of(SCORES))
    second = configs_with(**{**ELSEWHERE, "question_digest": "sha256:b"})(results_of(SCORES))
    places = (save(tmp_path / "a", first), save(tmp_path / "b", on(seed=7)(second)))
    done = evaluate("compare", *places)
    line = "unpaired: no question is shared; the seeds differ"
    assert line in done.stdout.splitlines()
    record = json.loads(evaluate("compare", *places, "--json").stdout)
    assert (record["paired"], record["basis"]) == (False, line)
    assert record["overall"]["rows_first"] == record["overall"]["rows_second"] == 100
    assert "unpaired, in percentage points" in reported(tmp_path / "out", *places)
    harder = configs_with(params={"hops": 8})(second)
    with pytest.raises(RulerError, match="the parameters of vt_4096 differ; --force"):
        compare(first, harder)


def test_editions_are_not_compared_even_if_forced() -> None:
    first, second = results_of(SCORES), on(edition="upstream-2026-07")(results_of(SCORES))
    msg = "the editions differ: balanced and upstream-2026-07; run both models on one edition"
    with pytest.raises(RulerError, match=msg):
        compare(first, second, force=True)


def test_two_tokenizers_are_compared_by_question(tmp_path: Path, builds: Builds) -> None:
    places = []
    for tokenizer in ("mistral", "mistral-v0.2"):
        data = builds("vt,cwe,qa_1", tokenizer=tokenizer, rows=12)
        places.append(scored_run(tmp_path / tokenizer, data, patchy(0.8, tokenizer)))
    done = evaluate("compare", *places)
    assert "paired: the same questions, haystacks cut to each run's tokens" in done.stdout
    record = json.loads(evaluate("compare", *places, "--json").stdout)
    results = [read_results(place).configs["vt_1024"] for place in places]
    assert results[0].digest != results[1].digest
    means = [sum(score or 0.0 for score in config.scores) / 12 for config in results]
    assert record["cells"]["vt_1024"]["value"] == pytest.approx(100 * (means[1] - means[0]))
    assert record["cells"]["vt_1024"]["rows_first"] == 12


def test_the_better_run_is_named_and_runs_of_a_model_are_numbered(tmp_path: Path) -> None:
    first = save(tmp_path / "a", results_of(SCORES))
    second = save(tmp_path / "b", results_of({name: [1.0] * 50 for name in SCORES}))
    said = evaluate("compare", first, second).stdout
    assert "org/model-7b (2) [claimed] minus org/model-7b [claimed]: " in said
    assert "org/model-7b (2) [claimed] is better" in said
    assert "cannot tell them apart" in evaluate("compare", first, first).stdout


def test_a_build_of_some_tasks_has_the_same_sources(tmp_path: Path, builds: Builds) -> None:
    runs = [
        scored_run(tmp_path / f"{rows}", builds(tasks, rows=rows), patchy(0.8))
        for tasks, rows in (("vt,qa_1", 6), ("vt,qa_1,niah_single_2", 12))
    ]
    done = evaluate("compare", *runs)
    line = "paired: the same questions"
    assert line in done.stdout, done.stderr
    assert "differ" not in next(one for one in done.stdout.splitlines() if line in one)
    page = evaluate("report", *runs, "--out", tmp_path / "out", "--no-pictures")
    assert f"compared with org/model-7b, {line}" in page.stderr + page.stdout


def test_what_prompts_and_rows_have_apart_is_noted() -> None:
    more, fewer = results_of(SCORES), results_of({**SCORES, "vt_4096": SCORES["vt_4096"][:20]})
    plain = replace(more.run, frame="{content}{answer_prefix}", model_tokenizer="another")
    found = compare(replace(more, run=plain), fewer, force=True)
    assert found.rows["vt", 4096] == (20, 20)  # the rows of the run with fewer, for both
    said = " ".join(found.notes)
    assert "completion is plain text, as in base" in said
    assert "other tokenizer files than those that the rows are counted in" in said


def test_answers_that_could_be_longer_or_were_sampled_are_noted() -> None:
    usual = results_of(SCORES)
    asked = {"extra_tokens": 500, "temperature": 0.7}
    other = replace(usual, run=replace(usual.run, sampling=asked))
    notes = compare(usual, other).notes
    assert [note for note in notes if "answers" in note] == [
        "org/model-7b (2): answers could be 500 tokens longer than the rows say, by the protocol 0",
        "org/model-7b (2): answers sampled at temperature 0.7; the default is greedy",
    ]
    thinking = replace(usual.run, protocol="thinking", sampling={"extra_tokens": 8192})
    assert [*caveats(thinking)] == []


def test_a_conclusion_is_whole_on_a_terminal_and_in_a_pipe(tmp_path: Path) -> None:
    places = [save(tmp_path / name, results_of(SCORES, model=f"org/{name * 20}"))
              for name in ("one", "two")]  # fmt: skip
    made, file = compare(*places), io.StringIO()
    Console(file=file, width=80, force_terminal=True, color_system=None).print(made)
    shown = file.getvalue()
    assert max(map(len, shown.splitlines())) <= 80
    assert made.conclusion.replace(" ", "") in "".join(shown.split())
    done = evaluate("compare", *places, env={"COLUMNS": "40"})
    assert made.conclusion in done.stdout.splitlines() and "…" not in done.stdout


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


def edited(**changes: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:  # noqa: ANN401
    return lambda body: {**body, **changes}


def of_config(**changes: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:  # noqa: ANN401
    return lambda body: {**body, "configs": {"vt_4096": {**body["configs"]["vt_4096"], **changes}}}


BAD: list[tuple[Callable[[dict[str, Any]], dict[str, Any]], str]] = [
    (edited(format=9), "format 9, this version reads 1"),
    (edited(run=None), "not a results file: run: Input should be an object"),
    (edited(configs={"vt_4096": 3}), "not a results file: configs.vt_4096"),
    (lambda _: {}, "not a results file: run: Field required"),
    (of_config(rows=5, questions=""), "vt_4096: 5 rows, 50 scores"),
    (of_config(scores=[1.0, 2.0] * 25), "scores.1: Input should be less than or equal to 1"),
    (of_config(missing=[1]), "the rows without a score are not the failed and missing ones"),
    (of_config(depth={"pieces": [1], "shown": [1], "rows": [1]}), "depth does not have 10 cells"),
    (of_config(scores=[None] * 50, missing=[*range(50)]), "no row has a score"),
]


@pytest.mark.parametrize(("change", "said"), BAD)
def test_results_that_are_none_or_do_not_fit_together_are_refused(
    change: Callable[[dict[str, Any]], dict[str, Any]], said: str, tmp_path: Path
) -> None:
    path = save(tmp_path / "a", results_of(SCORES)) / "results.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(RulerError, match=re.escape(said)):
        read_results(path)


def test_answering_the_whole_context_raises_official_scores_alone(builds: Builds) -> None:
    data = load(builds("vt,cwe,qa_1", rows=12))
    texts: list[dict[str, str]] = [{}, {}]
    for config, row in ((config, row) for config, rows in data.items() for row in rows):
        texts[0][row.id] = patchy(0.6)(config, row) or "nothing"
        texts[1][row.id] = row.context
    few, whole = (score(text, data, model=model, protocol="completion")
                  for text, model in zip(texts, ("few", "whole"), strict=True))  # fmt: skip
    comparison, gated = compare(few, whole), gate(whole, few)
    assert comparison.exact is not None
    assert (comparison.overall.value or 0) > 10 > 0 > -10 > (comparison.exact.value or 0)
    for said in (str(comparison), str(gated)):
        assert "official and exact scores differ in sign: official +" in said
