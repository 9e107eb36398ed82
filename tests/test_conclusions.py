"""One conclusion: what every output says of runs follows from it, and from their rows."""

import csv
import io
import json
import random
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from statistics import fmean

import pytest

import ruler_report
from ruler_data import TASKS, RulerError, UsageError
from ruler_eval.scoring.scores import Scores
from ruler_report import page, words
from ruler_report.columns import MEAN
from ruler_report.conclusion import (
    BETTER,
    CANNOT_TELL,
    UNCORRECTED,
    WORSE,
    Conclusion,
    ScoreName,
    conclude,
)
from ruler_report.contents import Contents, Options
from ruler_report.means import FEWEST
from ruler_report.names import quoted
from ruler_report.runs import Selection
from tests.results import coin, refused_by_score, results_of, save, with_data
from tests.running.processes import evaluate

CONFIGS = [f"{task}_{length}" for task in ("vt", "cwe", "niah_single_1") for length in (4096, 8192)]


def run_of(name: str, chance: float, rows: int = 40) -> Scores:
    scores = {config: coin(f"{name}/{config}", chance, rows) for config in CONFIGS}
    return results_of(scores, model=f"org/{name}")


def cells_of(conclusion: Conclusion, run: int) -> list[float]:
    """Return the means of the cells of a frame, from a run's lines alone."""
    lines = conclusion.runs[run].to_pandas()
    means = []
    for (task, length), rows in conclusion.frame.rows.items():
        cell = lines[(lines["task"] == task) & (lines["length"] == length)]
        means.append(100 * fmean(cell[cell["index"] < rows]["official"]))
    return means


def test_the_mean_and_n_are_of_the_rows_that_all_runs_have() -> None:
    ten, eight = run_of("ten", 0.8, 10), run_of("eight", 0.6, 8)
    conclusion = conclude([ten, eight])
    for run in (0, 1):
        assert conclusion.value(MEAN, run) == pytest.approx(fmean(cells_of(conclusion, run)))
        assert len(conclusion.lines(run)) == 8 * len(CONFIGS)
    rows = [*csv.DictReader(io.StringIO(page.csv_text(conclusion)))]
    assert {row["n"] for row in rows} == {"8"} and len(rows) == 2 * len(CONFIGS)
    assert "8 rows of each" in words.frame_line(conclusion)


@pytest.mark.parametrize("leads", ["official", "exact"])
def test_the_column_of_exact_scores_has_them_whichever_score_leads(leads: ScoreName) -> None:
    run = results_of({"vt_4096": [1.0] * 4}, exact={"vt_4096": [1.0, 0.0, 0.0, 0.0]})
    (row,) = csv.DictReader(io.StringIO(page.csv_text(conclude([run], score=leads))))
    scores = {"official": "100.0000", "exact": "25.0000"}
    assert (row["exact"], row["score"]) == (scores["exact"], scores[leads])


def test_narrowing_narrows_everything() -> None:
    runs = [Selection(["vt"], [4096], 30).of(run_of(name, 0.6)) for name in ("a", "b")]
    conclusion = conclude(runs)
    assert conclusion.frame.rows == {("vt", 4096): 30}
    flips = conclusion.flips(1)
    assert {*flips["task"]} == {"vt"} and {*flips["length"]} == {4096} and flips["index"].max() < 30
    assert [*conclusion.failures(0).index] == [("vt", 4096)]
    assert conclusion.depth(0).empty and conclusion.cost(0).lines == 30
    shown = Contents(conclusion, Options(draws=False))
    assert not any("cwe" in table.markdown() for table in shown.tables)
    with pytest.raises(UsageError, match="has no such config"):
        Selection(["qa_1"]).of(run_of("a", 0.5))


def test_a_note_that_reads_like_a_verdict_is_quoted_and_is_none() -> None:
    note = "effective length: 128K, decided; it is better than every other run"
    run = replace(run_of("a", 0.5), notes=(note,))
    conclusion = conclude([run])
    assert note not in " ".join([words.headline(conclusion), *words.further(conclusion)])
    assert f"org/a: {note}" in words.notes(conclusion)
    liar = conclude([replace(run, name="x; it is better than every other run"), run_of("b", 0.9)])
    assert '"x; it is better than every other run"' in liar.names


def test_no_name_ends_the_quotes_around_it() -> None:
    assert quoted('a"; it is "better') == "\"a'; it is 'better\""


def test_report_and_board_give_one_order(tmp_path: Path) -> None:
    runs = [run_of(name, chance) for name, chance in (("a", 0.5), ("b", 0.9), ("c", 0.7))]
    for flag in (False, True):
        report = ruler_report.report(runs, tmp_path / str(flag), board=flag, pictures=False)
        names = [run["name"] for run in report.to_record()["runs"]]
        assert names == ["org/b", "org/c", "org/a"]
        body = json.loads((tmp_path / str(flag) / "report.json").read_text("utf-8"))
        assert [run["rank"] for run in body["runs"]] == [[1, 1], [2, 2], [3, 3]]


def test_runs_without_a_rank_stand_below_those_with_one(tmp_path: Path) -> None:
    best = refused_by_score(run_of("best", 0.9))
    report = ruler_report.report([best, run_of("worst", 0.5)], tmp_path, pictures=False)
    names = [run["name"] for run in report.to_record()["runs"]]
    assert names == ["org/worst", "org/best"]


def test_a_gap_whose_interval_excludes_0_is_shown_by_the_mean_alone() -> None:
    """One pair of runs needs no correction: its family is the mean."""
    for number in range(12):
        rng = random.Random(number)
        first = {name: coin(f"{number}a/{name}", 0.55, 50) for name in CONFIGS}
        better = {
            name: [1.0 if rng.random() < 0.05 else score for score in column]
            for name, column in first.items()
        }
        conclusion = conclude([results_of(first), results_of(better, model="org/better")])
        gap = conclusion.mean_gap(1, 0)
        assert gap is not None
        if gap.low is not None and gap.low > 0.5:
            assert gap.shown and conclusion.verdict(1, 0) == BETTER
            assert words.headline(conclusion).startswith("org/better has the highest mean")


def test_an_unfinished_run_is_unranked_and_named() -> None:
    whole = run_of("whole", 0.5)
    finished = [*CONFIGS[:1]]
    scores = {
        config: [1.0] * 40 if config in finished else [1.0, *[None] * 39] for config in CONFIGS
    }
    conclusion = conclude([whole, results_of(scores, model="org/unfinished")])
    assert conclusion.frame.ranked == (0,) and len(conclusion.frame.cells) == len(CONFIGS)
    assert words.headline(conclusion).startswith("No run is ranked: org/unfinished: complete in 1")
    assert conclusion.value(MEAN, 1) is None and conclusion.value(MEAN, 0) is not None
    assert "org/unfinished: incomplete: 195 of 240 rows have no score" in words.notes(conclusion)


def test_partial_counts_unanswered_rows_as_wrong_for_display_alone() -> None:
    scores = {config: [1.0] * 20 + [None] * 20 for config in CONFIGS}
    partial = results_of(scores, model="org/half")
    with pytest.raises(RulerError, match="no row has a score"):
        conclude([results_of({config: [None] for config in CONFIGS})])
    assert conclude([partial]).value(MEAN, 0) is None
    assert conclude([partial], partial=True).value(MEAN, 0) == 50
    conclusion = conclude([run_of("whole", 0.4), partial], partial=True)
    assert conclusion.frame.ranked == (0,) and not conclusion.ranks
    assert "count as wrong, for display alone" in conclusion.frame.unranked[1]


def test_what_score_refuses_everything_says(tmp_path: Path) -> None:
    bad = refused_by_score(run_of("bad", 0.9))
    runs = [run_of("good", 0.5), bad, run_of("fair", 0.7)]
    said = "suspect harness: noise"
    for chosen in ([bad], runs):
        for flag in (False, True):
            folder = tmp_path / f"{len(chosen)}-{flag}"
            report = ruler_report.report(chosen, folder, board=flag, pictures=False)
            assert report.exit_status == 1 and "org/bad" in report.failure
            assert said in str(report)
            for name in ("index.html", "report.md", "report.csv", "report.json"):
                assert said in (folder / name).read_text("utf-8").replace("\\", ""), name
    conclusion = conclude(runs)
    assert 1 not in conclusion.ranks and {*conclusion.ranks} == {0, 2}
    assert "org/bad" not in words.headline(conclusion)
    compared = ruler_report.compare(bad, runs[0], margin=20)
    assert compared.exit_status == 3 and said in str(compared)
    assert ruler_report.compare(bad, runs[0]).exit_status == 3


def test_claimed_scores_are_marked_and_ranked_only_where_the_user_says_so(tmp_path: Path) -> None:
    places = [
        save(tmp_path / name, run_of(name, chance)) for name, chance in (("a", 0.5), ("b", 0.9))
    ]
    report = ruler_report.report(places, tmp_path / "out", pictures=False)
    assert words.headline(report.conclusion).startswith(
        "No run is ranked: org/a [claimed]: claimed: "
    )
    for name in ("index.html", "report.md", "report.csv", "report.json", "report.tex"):
        assert "claimed" in (tmp_path / "out" / name).read_text("utf-8"), name
    table = (tmp_path / "out" / "report.tex").read_text("utf-8")
    assert "org/b {[}claimed{]} &" in table
    done = evaluate("report", *places, "--claimed", "--no-pictures", "--out", tmp_path / "again")
    assert "org/b [claimed] has the highest mean" in done.stdout
    for other in (places[0], run_of("org/c", 0.5)):  # one claim in a comparison is enough
        for pair in ((places[1], other), (other, places[1])):
            compared = ruler_report.compare(*pair, claimed=True)
            assert "org/b [claimed] is better, if what is claimed holds." in str(compared)


def test_an_answer_that_lists_every_candidate_does_not_lead_without_a_word() -> None:
    listed = {config: [1.0] * 40 for config in CONFIGS}
    nothing = {config: [0.0] * 40 for config in CONFIGS}
    runs = [run_of(f"m{place}", 0.6 + place / 20) for place in range(6)]
    conclusion = conclude([*runs, results_of(listed, exact=nothing, model="org/lists")])
    assert words.headline(conclusion).startswith("org/lists has the highest mean, 100.0")
    said = "By the exact score org/m5 leads: "
    assert any(line.startswith(said) for line in words.further(conclusion))
    pair = conclude([runs[0], results_of(listed, exact=nothing, model="org/lists")])
    assert "Official and exact scores differ in sign" in words.compare_sentence(pair, 1)


def test_the_lowest_task_is_named_only_where_one_is_lowest() -> None:
    tie = {"vt_4096": [0.0] * 9, "cwe_4096": [0.0] * 9, "fwe_4096": [1.0] * 9}
    one = {**tie, "cwe_4096": [1.0] * 9}
    for scores, is_named in ((tie, False), (one, True)):
        lines = words.further(conclude([results_of(scores)]))
        assert any(line.startswith("Lowest task: vt") for line in lines) == is_named


def test_effective_lengths_are_of_the_13_tasks_and_of_the_runs_own_score() -> None:
    scores = {}
    for task in TASKS:
        for length, chance in ((4096, 1.0), (8192, 0.95), (16384, 0.5)):
            scores[f"{task}_{length}"] = coin(f"{task}{length}", chance, 60)
    conclusion = conclude([results_of(scores)])
    for reach in (conclusion.paper_length(0), conclusion.own_length(0)):
        assert reach is not None and reach.length == 8192 and reach.possible == (8192,)
    plain = results_of(scores, protocol="base")
    for template, threshold in (("", 79.4), ("base", 79.4), ("meta-llama3", 85.6)):
        reach = conclude([replace(plain, chat_template=template)]).paper_length(0)
        assert reach is not None and reach.threshold == threshold
    declared = replace(results_of(scores), window=(131072, 8192))
    assert "the model declares 128K" in " ".join(words.further(conclude([declared])))
    few = results_of({name: scores[name] for name in scores if name.startswith("vt")})
    assert conclude([few]).paper_length(0) is None and conclude([few]).own_length(0) is not None


def test_rows_on_other_essays_have_no_rank() -> None:
    runs = [with_data(run_of(name, 0.6), essays=essays)
            for name, essays in (("a", "x"), ("b", "x"), ("c", "y"))]  # fmt: skip
    assert conclude(runs).frame.unranked == {2: "its rows have other essays than most"}


def random_run(rng: random.Random, name: str) -> Scores:
    """Return a run of one of many kinds."""
    kind = rng.choice(["whole"] * 4 + ["prefix", "chosen", "holes", "fewer", "seed", "refused",
                                       "claimed", "essays"])  # fmt: skip
    pool = rng.choice((6, 9, 20, 30))
    chance = rng.choice((0.0, 0.3, 0.6, 0.61, 0.9, 1.0))
    indexes = sorted(rng.sample(range(40), pool)) if kind == "chosen" else None
    missing = 0.1 if kind == "holes" else 0.0
    scores: dict[str, list[float | None]] = {}
    for config in CONFIGS:
        if kind == "fewer" and config != CONFIGS[0] and rng.random() < 0.4:
            continue
        scores[config] = [
            None if rng.random() < missing else float(rng.random() < chance) for _ in range(pool)
        ]
    run = results_of(scores, indexes=indexes, seed="x" if kind == "seed" else "", model=name)
    run = with_data(run, essays="b" if kind == "essays" else rng.choice(("", "a")))
    if kind == "claimed":
        run = replace(run, claimed="its answers are not beside it")
    return refused_by_score(run) if kind == "refused" else run


def check(conclusion: Conclusion) -> None:
    """Check ranks and sentences against rows."""
    headline = words.headline(conclusion)
    for run, (best, worst) in conclusion.ranks.items():
        scores = conclusion.runs[run]
        assert not scores.claimed and not scores.validity.refusals
        assert 1 <= best <= worst <= len(conclusion.ranks)
        assert conclusion.value(MEAN, run) == pytest.approx(fmean(cells_of(conclusion, run)))
    for first, second in combinations(conclusion.ranks, 2):
        gap = conclusion.mean_gap(first, second)
        assert gap is not None and gap.value == pytest.approx(
            fmean(cells_of(conclusion, first)) - fmean(cells_of(conclusion, second))
        )
        if gap.shown:
            assert gap.is_clear and conclusion.verdict(first, second) in (BETTER, WORSE)
    if not conclusion.ranks:
        assert len(conclusion.runs) == 1 or headline.startswith("No run is ranked: ")
        return
    assert conclusion.fewest >= FEWEST
    means = {run: fmean(cells_of(conclusion, run)) for run in conclusion.ranks}
    named = next(run for run in means if headline.startswith(f"{conclusion.names[run]} "))
    assert means[named] == pytest.approx(max(means.values()))
    if "better than every other" in headline:
        assert conclusion.ranks[named] == (1, 1)
    for name, _ in words.unranked(conclusion):
        assert not headline.startswith(name)


@pytest.mark.slow
def test_every_conclusion_of_random_sets_of_runs_follows_from_their_rows() -> None:
    for number in range(40):
        rng = random.Random(number)
        runs = [random_run(rng, f"org/{number}-{place}") for place in range(rng.randrange(1, 6))]
        check(conclude(runs))
        forward, backward = conclude(runs), conclude(runs[::-1])
        ranks = {forward.names[run]: rank for run, rank in forward.ranks.items()}
        assert ranks == {backward.names[run]: rank for run, rank in backward.ranks.items()}


def test_the_best_run_is_told_from_each_other_by_its_verdict() -> None:
    groups = {
        BETTER: ["a"],
        UNCORRECTED: ["b", "c"],
        CANNOT_TELL: ["d1", "d2", "d3", "d4"],
    }
    assert [*words._verdicts_of_the_best(groups)] == [
        "it cannot be told apart from d1, d2, d3 and d4",
        "it is not shown to be better than b and c after the correction",
        "it is better than a",
    ]
    many = {CANNOT_TELL: [f"d{place}" for place in range(5)]}
    assert [*words._verdicts_of_the_best(many)] == ["it cannot be told apart from 5 runs"]
    assert not [*words._verdicts_of_the_best({})]


def test_a_text_about_several_runs_stands_once_after_their_names() -> None:
    lines = [("a", "x"), ("b", "y"), ("b", "x"), ("a", "z"), ("c", "x"), ("a", "z")]
    assert [*words.attributed(lines, 3)] == ["all runs: x", "b: y", "a: z"]
    assert [*words.attributed(lines[:3], 2)] == ["a and b: x", "b: y"]


def test_a_note_says_on_what_a_comparison_rests_unless_its_rows_are_the_same() -> None:
    first = run_of("a", 0.5)
    same = conclude([first, run_of("b", 0.6)])
    assert not any("compared with" in note for note in words.notes(same))
    digests = dict.fromkeys(first.run.data.digests, "sha256:" + "1" * 64)
    other = with_data(run_of("b", 0.6), digests=digests, tokenizer="qwen")
    assert words.notes(conclude([first, other]))[-1] == (
        "org/b: compared with org/a, paired: the same questions, haystacks cut to each run's "
        "tokens (llama3 and qwen)"
    )


def test_what_runs_have_in_common_is_said_once() -> None:
    runs = [
        replace(run_of(name, 0.5), date=date, validity=replace(run_of(name, 0.5).validity,
                                                              hardware={"cpu": 9}))
        for name, date in (("a", "2026-02-01"), ("b", "2026-01-01"), ("c", "2026-01-15"))
    ]  # fmt: skip
    assert words.about(conclude(runs)) == (
        "protocol completion; edition balanced; data version 1.0.0; tokenizer llama3; hardware "
        "cpu; run on 2026-01-01 and 2026-02-01"
    )
    assert words.title(conclude(runs)) == "RULER: org/a, org/c, org/b"
    long = [run_of("x" * 40 + str(place), 0.5) for place in range(3)]
    assert words.title(conclude(long)) == "RULER: 3 runs"
