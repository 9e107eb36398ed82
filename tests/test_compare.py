"""`ruler-eval compare`: what it pairs, what it refuses, what it prints."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from ruler_data import RulerError, UsageError
from ruler_data.tasks import Vt
from ruler_eval.scoring.loading import load_scores
from ruler_eval.scoring.scores import Scores
from ruler_report import compare
from ruler_report.columns import MEAN
from ruler_report.words import caveats, compare_sentence
from tests.conftest import Builds
from tests.results import coin, results_of, save, with_data
from tests.running.processes import evaluate
from tests.runs import make_run, patchy, refused, reported, scored_run

SCORES = {f"vt_{length}": coin(f"c{length}", 0.8, 50) for length in (4096, 8192)}

OTHERS: list[tuple[Callable[[Scores], Scores], str]] = [
    (lambda r: replace(r, run=replace(r.run, protocol="chat")),
     "the protocols differ: completion and chat"),
    (lambda r: replace(r, run=replace(r.run, no_context=True)),
     "the contexts differ: given and left out"),
    (lambda r: with_data(r, sample=True),
     "the source texts differ: real ones and the sample corpus"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "why"), OTHERS)
def test_runs_that_differ_in_more_than_the_model_are_refused_unless_forced(
    change: Callable[[Scores], Scores], why: str, tmp_path: Path
) -> None:
    first = save(tmp_path / "a", results_of(SCORES))
    second = save(tmp_path / "b", change(results_of(SCORES)))
    said = refused(evaluate("compare", first, second))
    assert f"not comparable: {why}; --force compares anyway" in said
    done = evaluate("compare", first, second, "--force", "--claimed", "--json")
    assert done.returncode == 0 and f"although {why}" in done.stderr
    assert any(why in note for note in json.loads(done.stdout)["notes"])


def test_other_questions_of_the_same_kind_are_compared_unpaired() -> None:
    other = with_data(results_of(SCORES, seed="x", model="org/other"), seed=7)
    found = compare(results_of(SCORES), other)
    line = "unpaired: no question is shared; the seeds differ"
    assert line in str(found).splitlines()
    record = found.to_record()["differences"][0]
    assert (record["paired"], record["basis"]) == (False, line)
    tasks = {"vt": replace(other.tasks["vt"], params=Vt(hops=8))}
    with pytest.raises(RulerError, match="the parameters of vt differ; --force"):
        compare(results_of(SCORES), replace(other, tasks=tasks))


def test_editions_are_not_compared_even_if_forced() -> None:
    first, second = results_of(SCORES), with_data(results_of(SCORES), edition="upstream-2026-07")
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
    gaps = json.loads(evaluate("compare", *places, "--json").stdout)["differences"][0]["gaps"]
    (gap,) = (gap for gap in gaps if (gap["task"], gap["length"]) == ("vt", 1024))
    means = []
    for place in places:
        lines = load_scores(place).to_pandas()
        means.append(lines[(lines["task"] == "vt") & (lines["length"] == 1024)]["official"].mean())
    assert gap["value"] == pytest.approx(100 * (means[0] - means[1]))


def test_runs_that_know_no_place_of_their_rows_are_compared_by_those_of_data(
    tmp_path: Path, builds: Builds
) -> None:
    data = builds()
    runs = [make_run(tmp_path / name, data, patchy(0.8, name)) for name in ("a", "b")]
    with pytest.raises(UsageError, match="--data is missing"):
        compare(*runs)
    assert compare(*runs, data=str(data)).to_record()["differences"][0]["paired"]


def test_the_better_run_is_named_and_runs_of_a_model_are_numbered() -> None:
    found = compare(results_of(SCORES), results_of({name: [1.0] * 50 for name in SCORES}))
    said = str(found)
    assert "org/model-7b minus org/model-7b (2): -" in said
    assert "points: org/model-7b (2) is better." in said
    same = results_of(SCORES)
    assert "0.0 [+0.0, +0.0] points: cannot tell them apart" in str(compare(same, same))


def test_a_build_of_some_tasks_has_the_same_sources(tmp_path: Path, builds: Builds) -> None:
    runs = [
        scored_run(tmp_path / f"{rows}", builds(tasks, rows=rows), patchy(0.8))
        for tasks, rows in (("vt,qa_1", 6), ("vt,qa_1,niah_single_2", 12))
    ]
    done = evaluate("compare", *runs)
    line = "paired: the same questions"
    assert line in done.stdout, done.stderr
    assert "differ" not in next(one for one in done.stdout.splitlines() if line in one)
    page = reported(tmp_path / "out", *runs)
    assert f"compared with org/model-7b, {line}" in page


def test_what_prompts_and_rows_have_apart_is_noted() -> None:
    more, fewer = results_of(SCORES), results_of({**SCORES, "vt_4096": SCORES["vt_4096"][:20]})
    plain = replace(more.run, frame="{content}{answer_prefix}", model_tokenizer="another")
    found = compare(replace(more, run=plain), fewer, force=True)
    assert found.conclusion.frame.rows == {("vt", 4096): 20, ("vt", 8192): 50}
    said = " ".join(found.notes)
    assert "completion is plain text, as in base" in said
    assert "other tokenizer files than those that the rows are counted in" in said


def test_answers_that_could_be_longer_or_shorter_or_were_sampled_are_noted() -> None:
    usual = results_of(SCORES)
    asked = {"extra_tokens": 500, "temperature": 0.7}
    notes = compare(usual, replace(usual, run=replace(usual.run, sampling=asked))).notes
    assert [note for note in notes if "answers" in note] == [
        "org/model-7b (2): answers could be 500 tokens longer than the rows say, by the protocol 0",
        "org/model-7b (2): answers sampled at temperature 0.7; the default is greedy",
    ]
    thinking = replace(usual.run, protocol="thinking", sampling={"extra_tokens": 8192})
    assert [*caveats(thinking)] == []
    assert [*caveats(replace(thinking, sampling={"extra_tokens": 100}))] == [
        "answers could be 100 tokens longer than the rows say, by the protocol 8192"
    ]


def test_a_conclusion_is_whole_on_a_terminal_and_in_a_pipe(tmp_path: Path) -> None:
    runs = [results_of(SCORES, model=f"org/{name * 20}") for name in ("one", "two")]
    found, file = compare(*runs), io.StringIO()
    sentence = compare_sentence(found.conclusion, 0)
    Console(file=file, width=80, force_terminal=True, color_system=None).print(found)
    shown = file.getvalue()
    assert max(map(len, shown.splitlines())) <= 80
    assert sentence.replace(" ", "") in "".join(shown.split())
    places = [save(tmp_path / str(place), run) for place, run in enumerate(runs)]
    done = evaluate("compare", *places, "--claimed", env={"COLUMNS": "40"})
    assert any(line.endswith("cannot tell them apart.") for line in done.stdout.splitlines())
    assert "…" not in done.stdout


def test_configs_that_only_one_run_has_are_named() -> None:
    first = results_of({**SCORES, "fwe_4096": [1.0] * 50, "cwe_4096": [1.0] * 50})
    second = results_of({**SCORES, "fwe_4096": [1.0] * 50})
    found = compare(first, second).conclusion
    assert found.frame.tasks == ("vt", "fwe") and found.frame.lengths == (4096,)
    assert found.frame.left_out == (("vt", 8192), ("cwe", 4096))


def test_runs_that_share_nothing_cannot_be_told() -> None:
    found = compare(results_of({"vt_4096": [1.0] * 9}), results_of({"cwe_4096": [1.0] * 9}))
    assert found.exit_status == 3 and found.gap is None and "cannot tell: " in str(found)


def test_the_score_that_a_task_leads_with_is_compared_unless_another_is_named() -> None:
    nothing = {name: [0.0] * 50 for name in SCORES}
    listed = results_of({name: [1.0] * 50 for name in SCORES}, exact=nothing, model="org/lists")
    found = compare(listed, results_of(SCORES))
    assert found.gap and found.gap.value > 0 and "scores differ in sign" in str(found)
    exact = compare(listed, results_of(SCORES), score="exact")
    assert exact.gap and exact.gap.value < 0 and exact.conclusion.beside_name == "official"
    task = replace(listed.tasks["vt"], headline="exact")
    hard = [replace(run, tasks={"vt": task}) for run in (listed, results_of(SCORES))]
    assert compare(*hard).gap == exact.gap
    assert compare(*hard).conclusion.value(MEAN, 0) == 0


def test_an_unknown_score_is_refused(tmp_path: Path) -> None:
    place = save(tmp_path, results_of(SCORES))
    said = refused(evaluate("compare", place, place, "--score", "best"), code=2)
    assert "--score 'best': not known; known: official, exact" in said
