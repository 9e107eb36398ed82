"""Every conclusion of random sets of runs follows from one array, checked by code of its own.

The runs are partial, claimed, refused, subsets, prefixes, of other seeds, essays, suites,
protocols and editions. What checks them resamples nothing: it reads scores row by row, and counts
draws of the means.
"""

import random
import re
from dataclasses import replace
from itertools import combinations, product
from math import isnan, nan
from statistics import fmean

import pytest

from ruler_data.errors import RulerError
from ruler_eval.scoring.columns import Column
from ruler_eval.scoring.results import Scores
from ruler_eval.scoring.results_validity import Validity
from ruler_report.baseline import gate
from ruler_report.board import build as board_of
from ruler_report.contents import build
from ruler_report.lineup import Lineup, lineup
from ruler_report.means import FEWEST
from ruler_report.summary import summarize
from tests.results import config_result, questions_of, results_of

SETS = 60
TASKS = ("vt", "cwe", "niah_single_1")
RULER2 = ("mk_niah_easy", "mv_niah_hard", "qa_medium")
LENGTHS = (4096, 8192)


def random_run(rng: random.Random, name: str, pool: int, tasks: tuple[str, ...]) -> Scores:
    """Return a run of one of many kinds."""
    kind = rng.choice(
        ["whole"] * 3 + ["prefix", "subset", "holes", "fewer", "seed", "refused", "claimed",
         "essays", "empty", "two samples", "protocol", "edition"]
    )  # fmt: skip
    missing = {"holes": 0.3, "empty": 0.9}.get(kind, 0.0)
    chance = rng.choice((0.0, 0.3, 0.6, 0.61, 0.9, 1.0))
    rows = rng.randrange(1, pool + 1) if kind == "prefix" else pool
    chosen = sorted(rng.sample(range(pool), rng.randrange(1, pool + 1)))
    configs = {}
    for task in tasks:
        for length in LENGTHS:
            config = f"{task}_{length}"
            if kind == "fewer" and rng.random() < 0.4 and config != f"{tasks[0]}_4096":
                continue
            indexes = chosen if kind == "subset" else [*range(rows)]
            digests = questions_of(f"{task}{'/other' if kind == 'seed' else ''}_{length}", pool)
            scores: list[float | None] = [
                None if rng.random() < missing
                else rng.random() if tasks == RULER2 and rng.random() < 0.5
                else rng.choice((0.0, 0.5, 1.0)) if kind == "two samples"
                else float(rng.random() < chance)
                for _ in indexes
            ]  # fmt: skip
            questions = "".join(digests[16 * at : 16 * at + 16] for at in indexes)
            configs[config] = config_result(scores, questions=questions, family="vt")
    run = results_of({}, model=name)
    data = replace(
        run.run.data,
        essays="b" if kind == "essays" else rng.choice(("", "a")),
        suite="ruler2" if tasks == RULER2 else rng.choice(("ruler", "mini")),
        edition="upstream-2026-07" if kind == "edition" else "balanced",
        rows={name: config.rows for name, config in configs.items()},
    )
    info = replace(run.run, data=data, protocol="chat" if kind == "protocol" else "completion")
    exact = {
        config: replace(one, exact=Column([s if s is None else float(s == 1) for s in one.scores]))
        for config, one in configs.items()
    }
    bad = Validity(rows=1, answered=1, empty=1) if kind == "refused" else None
    return replace(
        run, run=info, fingerprint=name, configs=exact, validity=bad,
        claimed="only results.json was read" if kind == "claimed" else "",
    )  # fmt: skip


def bounds(run: Scores, field: Lineup, place: int) -> tuple[float, float]:
    """Return a run's least and largest mean over the frame, row by row, in percent."""
    least = most = 0.0
    for task in field.frame.tasks:
        for length in field.frame.lengths:
            config = run.configs.get(f"{task}_{length}")
            known = dict(zip(config.row_ids, config.scores, strict=True)) if config else {}
            wanted = [
                f"{digest:016x}" for digest in field.frame.lines[place][task, length].questions
            ]
            scores = [known.get(digest) for digest in wanted]
            share = 1 / len(field.frame.tasks) / len(field.frame.lengths) / len(scores)
            least += share * sum(score or 0.0 for score in scores)
            most += share * sum(1.0 if score is None else score for score in scores)
    return 100 * least, 100 * most


def check_ranks(field: Lineup) -> None:
    """Check ranks against the array, and who has one."""
    means, runs = field.means, field.runs
    allowed = [place for place, run in enumerate(runs) if not run.claimed and not run.validity]
    assert {*field.ranks} <= {*allowed}
    if not field.ranks:
        return
    assert {run.run.data.essays for place, run in enumerate(runs) if place in field.ranks} < {
        "", "a", "b", "c"}  # fmt: skip
    place = [*means.columns].index((None, None))
    for first, second in combinations(field.ranks, 2):
        low_1, high_1 = bounds(runs[first], field, first)
        low_2, high_2 = bounds(runs[second], field, second)
        (best_1, worst_1), (best_2, worst_2) = field.ranks[first], field.ranks[second]
        if worst_1 < best_2:
            assert low_1 > high_2, "a rank that rows without an answer could turn round"
            assert (means.low[place, first] > means.high[place, second]).mean() > 0.975
        if worst_2 < best_1:
            assert low_2 > high_1
    for run, (best, worst) in field.ranks.items():
        assert 1 <= best <= worst <= len(field.ranks)
        sizes = [len(rows.questions) for cell, rows in field.frame.lines[run].items()
                 if cell in field.frame.cells]  # fmt: skip
        assert min(sizes) >= FEWEST


def check_sentences(field: Lineup, verdict: tuple[str, ...]) -> None:
    """Check the first sentences of a report against rows."""
    assert verdict[0] == f"{field.line}."
    (standing,) = (line for line in verdict if "highest" in line or line.startswith("No run is"))
    if not field.ranks:
        assert standing.startswith("No run is ranked: ")
        return
    lows = {run: bounds(field.runs[run], field, run)[0] for run in field.ranks}
    number = float(re.findall(r", (-?[\d.]+) ", standing)[0])
    assert number == pytest.approx(max(lows.values()), abs=0.0501)
    named = next(run for run in field.ranks if standing.startswith(f"{field.labels[run]} "))
    assert lows[named] == pytest.approx(max(lows.values()), abs=1e-9)
    ties = [run for run in lows if abs(lows[run] - lows[named]) < 1e-9]
    assert ("shares the highest" in standing) == (len(ties) > 1)
    if "better than every other" in standing:
        assert field.ranks[named] == (1, 1)
        assert all(lows[named] > bounds(field.runs[run], field, run)[1] for run in lows
                   if run != named)  # fmt: skip


def check_gate(rng: random.Random, base: Scores, new: Scores) -> None:
    """Check the verdict of a gate against the rows of its baseline."""
    margin = rng.choice((1.0, 5.0, 20.0))
    try:
        found = gate(new, base, margin=margin)
    except RulerError:
        return
    assert base.run.protocol == new.run.protocol
    doubtful = any(run.validity for run in (base, new))
    if doubtful or (any(run.claimed for run in (base, new)) and found.passed):
        assert found.exit_status == 3
    for name, gap in found.differences.items():
        if found.verdict == "not worse":
            assert gap.low is not None
            assert gap.low > -margin, name
    if found.verdict == "worse":
        assert any((gap.high or 0) < -margin for gap in found.differences.values())
    if found.passed and base.fingerprint != new.fingerprint:
        field = lineup([base, new], baseline=0, force=True)
        assert bounds(new, field, 1)[0] >= bounds(base, field, 0)[1] - margin


def difference(field: Lineup, place: int, name: str) -> float:
    """Return the difference of a score from the first run's, means of answered rows by cell."""
    sums = []
    for run in (0, place):
        means = []
        for task, length in product(field.frame.tasks, field.frame.lengths):
            config = field.runs[run].configs[f"{task}_{length}"]
            known = dict(zip(config.row_ids, getattr(config, name), strict=True))
            questions = field.frame.lines[run][task, length].questions
            scores = [known.get(f"{digest:016x}") for digest in questions]
            means.append(fmean([score for score in scores if score is not None] or [nan]))
        sums.append(fmean(means))
    return 100 * (sums[1] - sums[0])


def check_comparison(field: Lineup, place: int) -> None:
    """Check the verdict of a run against the first, and that a difference of sign is said."""
    found, labels = field.comparisons[place], (field.labels[0], field.labels[place])
    bound = [bounds(field.runs[run], field, run) for run in (0, place)]
    if f": {labels[1]} is better" in found.conclusion:
        assert bound[1][0] > bound[0][1]
    if f": {labels[0]} is better" in found.conclusion:
        assert bound[0][0] > bound[1][1]
    official, exact = (difference(field, place, name) for name in ("scores", "exact"))
    if found.exact is None or isnan(official) or isnan(exact):
        assert not found.contradiction
        return
    is_clear = any((gap.low or 0) * (gap.high or 0) > 0 for gap in (found.overall, found.exact))
    assert bool(found.contradiction) == (is_clear and official * exact < -1e-9)
    assert not found.contradiction or found.contradiction in str(found)


def is_refused(runs: list[Scores]) -> bool:
    """Check that other protocols and editions are refused; whether the user cannot force it."""
    kinds = [(run.run.protocol, run.run.data.edition) for run in runs]
    if len({*kinds}) > 1:
        with pytest.raises(RulerError, match="not comparable"):
            lineup(runs)
    if len({edition for _, edition in kinds}) == 1:
        return False
    with pytest.raises(RulerError, match="the editions differ"):
        lineup(runs, force=True)
    return True


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(4))
def test_every_conclusion_of_random_sets_of_runs_follows_from_their_rows(batch: int) -> None:
    for number in range(batch, SETS, 4):
        rng = random.Random(number)
        pool = rng.choice((1, 6, 9, 20, 40))
        tasks = rng.choice((TASKS, TASKS, TASKS, RULER2))
        runs = [
            random_run(rng, f"org/{number}-{place}", pool, tasks)
            for place in range(rng.randrange(2, 6))
        ]
        first = random_run(random.Random(1), "org/a", 9, TASKS)
        runs = [run for run in runs if run.scored] or [first]
        if is_refused(runs):
            edition = runs[0].run.data.edition
            runs = [run for run in runs if run.run.data.edition == edition]
        field = lineup(runs, force=True)
        if len(runs) > 1:
            check_ranks(field)
            check_gate(rng, runs[0], runs[1])
            for place in range(1, len(runs) if field.frame.tasks else 1):
                check_comparison(field, place)
            if number % 3 == 0:
                report = build(runs, medium=None, force=True)
                check_sentences(field, report.verdict)
                if len({run.run.protocol for run in runs}) == 1:
                    board = board_of(runs)
                    assert board.frame == field.line
                    assert sum(bool(entry.rank) for entry in board.entries) == len(field.ranks)
        if field.frame.tasks:
            for place, run in enumerate(runs):
                mean = field.means.estimate((None, None), place)
                low, high = bounds(run, field, place)
                assert mean is not None
                if mean.low is not None and mean.high is not None:
                    assert mean.low <= low + 1e-6
                    assert high <= mean.high + 1e-6
                if low == high and mean.value is not None:
                    assert mean.value == pytest.approx(low)
                reach = summarize(field, place).effective.get("own")
                assert reach is None or reach.length in LENGTHS
