"""`ruler-eval leaderboard`: what it ranks, refuses and writes; and its page in a real browser."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from ruler_data import TASKS, RulerError, UsageError
from ruler_eval.scoring.results import Scores
from ruler_eval.scoring.results_file import write_results
from ruler_report import leaderboard
from ruler_report.board import build
from ruler_report.effective_length import effective_length
from ruler_report.runs import notes_of
from tests.commands import call_in, succeeded
from tests.hub import Hub, Repo
from tests.publishing import Publisher
from tests.results import coin, results_of
from tests.running.processes import evaluate
from tests.runs import refused
from tests.test_report import save

NAMES = ("alpha-7B", "beta-13b", "gamma-500M", "</script><script>alert(1)</script>")
LABELS = [*(f"org/{name}" for name in NAMES[:3]), f'"org/{NAMES[3]}"']
#: The second and the third run flip the same coins.
RATES, COINS = (0.95, 0.6, 0.6, 0.2), (0, 1, 1, 3)


def run_of(place: int, rows: int = 150, **changes: object) -> Scores:
    scores = {
        f"{task}_{length}": coin(
            f"{COINS[place]}{task}{length}", RATES[place] - 0.1 * (length > 4096), rows
        )
        for task in TASKS
        for length in (4096, 8192)
    }
    return results_of(scores, model=f"org/{NAMES[place]}", **changes)


RUNS = [run_of(place) for place in range(4)]


def test_runs_are_ranked_with_intervals_that_overlap_where_tests_cannot_tell() -> None:
    board = build(RUNS)
    ranks = {entry.model: entry.rank for entry in board.entries}
    assert [*ranks] == LABELS
    assert [*ranks.values()] == [(1, 1), (2, 3), (2, 3), (4, 4)]
    assert [entry.size for entry in board.entries] == [7.0, 13.0, 0.5, None]


def test_the_threshold_is_the_users(tmp_path: Path) -> None:
    for entry in build(RUNS, 50.0).entries:
        means = {n: mean.value or 0.0 for n, mean in entry.lengths.items()}
        assert entry.effective == effective_length(means, 50.0)
    for threshold in (float("nan"), -1.0, 101.0):
        with pytest.raises(UsageError, match="threshold"):
            leaderboard(RUNS, tmp_path / "out", threshold=threshold)
    assert not (tmp_path / "out").exists()


def test_a_board_says_of_a_run_what_its_report_says() -> None:
    whole = RUNS[0]
    short = {name: one for name, one in whole.configs.items() if name.endswith("_4096")}
    one = {name: whole.configs[name] for name in ("vt_4096", "vt_8192")}
    runs = [
        replace(whole, configs=short, name="short"),
        replace(whole, configs=one, name="one task"),
        with_data(replace(whole, name="small"), suite="mini"),
    ]
    board = build(runs, 94.0)
    for run, label in zip(runs, ("short", '"one task"', "small"), strict=True):
        assert {f"{label}: {note}" for note in notes_of(run)} <= {*board.notes}
    assert '"one task": 1 of 13 tasks; means over tasks are not RULER averages' in board.notes
    assert board.suite == "mini, ruler"
    assert board.frame.startswith("frame: 1 task at 4K, 150 rows of each; not in it: ")
    without = replace(run_of(0, no_context=True), name="great")
    assert build([without]).entries[0].model == "great without context"


def with_data(results: Scores, **changes: object) -> Scores:
    return replace(results, run=replace(results.run, data=replace(results.run.data, **changes)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (run_of(1, protocol="chat"), "the protocols differ: completion and chat"),
        (with_data(RUNS[1], edition="upstream-2026-07"), "the editions differ"),
    ],
)
def test_protocols_and_editions_are_not_mixed(other: Scores, why: str, tmp_path: Path) -> None:
    with pytest.raises(RulerError, match=why):
        leaderboard([RUNS[0], other], tmp_path / "out")


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("board")
    places = [save(folder / str(number), run) for number, run in enumerate(RUNS)]
    done = evaluate("leaderboard", *places, "--claimed", "--out", folder / "out")
    assert done.returncode == 0 and "4 runs" in done.stdout, done.stderr
    return folder / "out"


def test_the_page_is_one_file_and_the_json_has_the_same_numbers(board: Path) -> None:
    text = (board / "index.html").read_text(encoding="utf-8")
    assert "script-src 'sha256-" in text
    assert "<script>alert" not in text and not re.search(r"https?://(?!www\.w3)", text)
    entries = json.loads((board / "leaderboard.json").read_text())["entries"]
    for entry in entries:
        assert (
            f'data-value="{entry["lowest"]}"' in text and f"{entry['mean']['value']:.1f} [" in text
        )


def test_what_is_no_run_is_refused(board: Path, tmp_path: Path) -> None:
    refused(evaluate("leaderboard", tmp_path / "none.json", "--out", tmp_path / "out"), 2)
    refused(evaluate("leaderboard", board / "index.html", "--out", tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_predictions_on_the_hub_join_the_board(
    publisher: Publisher, hub: Hub, tmp_path: Path
) -> None:
    hub.repos["org/preds"] = Repo()
    hub.repos["org/preds"].commit({})
    write_results(tmp_path / "results.json", RUNS[1])
    hub.foreign_commit("org/preds", "results.json", (tmp_path / "results.json").read_bytes())
    local = save(tmp_path / "run", RUNS[0])
    out = ("--out", tmp_path / "out")
    command = ("leaderboard", local, "org/preds", *out)
    succeeded(call_in(publisher.pool, "ruler-eval", *command, env=publisher.env()))
    found = json.loads((tmp_path / "out" / "leaderboard.json").read_text())
    names = ["org/alpha-7B [claimed]", "org/beta-13b [claimed]"]
    assert [one["model"] for one in found["entries"]] == names
    assert all(one["rank"] is None for one in found["entries"])
    succeeded(evaluate("leaderboard", local, save(tmp_path / "b", RUNS[0]), "--claimed", *out))
    found = json.loads((tmp_path / "out" / "leaderboard.json").read_text())
    assert [one["rank"] for one in found["entries"]] == [[1, 2], [1, 2]]
