"""`ruler-eval leaderboard`: what it ranks, refuses and writes; and its page in a real browser."""

import html
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from ruler_data import TASKS, RulerError, UsageError
from ruler_report import leaderboard
from ruler_report.board import build
from ruler_report.pages.report import notes_of
from ruler_report.results_file import Results, write_results
from ruler_report.stats.effective_length import effective_length
from tests.commands import succeeded
from tests.hub import Hub, Repo
from tests.results import coin, results_of
from tests.running.processes import evaluate
from tests.runs import refused
from tests.test_report import save
from tests.test_report_browser import CHROMIUM, browse

NAMES = ("alpha-7B", "beta-13b", "gamma-500M", "</script><script>alert(1)</script>")
#: The second and the third run flip the same coins.
RATES, COINS = (0.95, 0.6, 0.6, 0.2), (0, 1, 1, 3)


def run_of(place: int, rows: int = 150, **changes: object) -> Results:
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
    board = build(RUNS, {}, None)
    ranks = {entry.model: entry.scores["all"]["all"][3:5] for entry in board.entries}
    assert [*ranks] == [f"org/{name}" for name in NAMES]
    assert [*ranks.values()] == [(1, 1), (2, 3), (2, 3), (4, 4)]
    assert [entry.size for entry in board.entries] == [7.0, 13.0, 0.5, None]


def without_wrong_rows(run: Results) -> Results:
    return results_of({n: [s or None for s in one.scores] for n, one in run.configs.items()})


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium is here")
def test_a_page_sorts_by_what_decides_and_a_length_that_is_not_known_is_blank(
    tmp_path: Path,
) -> None:
    whole, names = RUNS[0], ("holes", "whole", "some", "low")
    some = replace(whole, configs={"vt_4096": whole.configs["vt_4096"]})
    runs = [without_wrong_rows(whole), whole, some, RUNS[3]]
    runs = [replace(run, run=replace(run.run, model=name))
            for run, name in zip(runs, names, strict=True)]  # fmt: skip
    leaderboard([runs[place] for place in (1, 0, 2, 3)], tmp_path / "out", threshold=97)
    for state in ("", "w4096=1&w8192=3", "sort=4096", "view=cwe&length=8192"):
        rows = {row[0]: row for row in shown(tmp_path / "out", state)}
        assert [*rows][:2] == ["whole", "holes"]
        assert rows["holes"][3].startswith("100.0") and not rows["whole"][3].startswith("100.0")
        assert [rows[name][4] for name in names] == ["none (none, 4K or ≥8K)", "none", "", "none"]


def test_weights_and_threshold_are_the_users() -> None:
    board = build(RUNS, {4096: 3.0, 8192: 1.0}, 50.0)
    one = board.entries[1].scores["all"]
    assert one["all"][0] == pytest.approx(0.75 * one["4096"][0] + 0.25 * one["8192"][0], abs=1e-3)
    for entry in board.entries:
        means = {n: entry.scores["all"][str(n)][0] for n in (4096, 8192)}
        assert entry.effective == effective_length(means, 50.0)
    assert build(RUNS, {4096: 1.0}, None).weights == {4096: 1.0, 8192: 0.0}


@pytest.mark.parametrize("weights", ["4096", "4096=-1", "4096=1,4k=2", "4096=0", "x=1", "16384=1"])
def test_weights_and_thresholds_that_are_none_are_refused(weights: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--weights"):
        leaderboard(RUNS, tmp_path / "out", weights=weights)
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
    board = build(runs, {}, 94.0)
    for run in runs:
        assert {f"{run.name}: {note}" for note in notes_of(run)} <= {*board.notes}
    assert "one task: 1 of 13 tasks; means over tasks are not RULER averages" in board.notes
    assert board.suite == "mini, ruler"
    reach = {entry.model: (entry.effective, entry.reach) for entry in board.entries}
    some, none = (4096, "≥4K (none or ≥4K)"), (None, "")
    assert reach == {"short": some, "one task": none, "small": none}
    without = replace(run_of(0, no_context=True), name="great")
    assert build([without], {}, None).entries[0].model == "great without context"


def with_data(results: Results, **changes: object) -> Results:
    return replace(results, run=replace(results.run, data=replace(results.run.data, **changes)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (run_of(1, protocol="chat"), "the protocols differ: completion and chat"),
        (with_data(RUNS[1], edition="upstream-2026-07"), "the editions differ"),
    ],
)
def test_protocols_and_editions_are_not_mixed(other: Results, why: str, tmp_path: Path) -> None:
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
    (data,) = re.findall(r'id="data">(.*?)</script>', text)
    assert json.loads(data) == json.loads((board / "leaderboard.json").read_text())


def test_what_is_no_run_is_refused(board: Path, tmp_path: Path) -> None:
    refused(evaluate("leaderboard", tmp_path / "none.json", "--out", tmp_path / "out"), 2)
    refused(evaluate("leaderboard", board / "index.html", "--out", tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_predictions_on_the_hub_join_the_board(hub: Hub, tmp_path: Path) -> None:
    hub.repos["org/preds"] = Repo()
    hub.repos["org/preds"].commit({})
    write_results(tmp_path / "results.json", RUNS[1])
    hub.foreign_commit("org/preds", "results.json", (tmp_path / "results.json").read_bytes())
    local = save(tmp_path / "run", RUNS[0])
    env = {**hub.env(), "HF_HOME": str(tmp_path / "hf")}
    out = ("--out", tmp_path / "out")
    succeeded(evaluate("leaderboard", local, "org/preds", *out, env=env))
    found = json.loads((tmp_path / "out" / "leaderboard.json").read_text())
    names = ["org/alpha-7B [claimed]", "org/beta-13b [claimed]"]
    assert [one["model"] for one in found["entries"]] == names
    assert all(one["scores"]["all"]["all"][3:5] == [0, 0] for one in found["entries"])
    succeeded(evaluate("leaderboard", local, save(tmp_path / "b", RUNS[0]), "--claimed", *out))
    found = json.loads((tmp_path / "out" / "leaderboard.json").read_text())
    assert [one["scores"]["all"]["all"][3:5] for one in found["entries"]] == [[1, 2], [1, 2]]


def shown(board: Path, state: str) -> list[list[str]]:
    """Return the rows of the table as a browser shows them."""
    dom = browse(board / "index.html", "--dump-dom", state=state)
    body = dom.partition('<tbody id="body">')[2].partition("</tbody>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    return [[html.unescape(re.sub(r"<[^>]+>", " ", cell)) for cell in row] for row in cells]


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium is here")
def test_a_browser_sorts_and_filters_by_length_task_category_and_size(board: Path) -> None:
    rows = shown(board, "")
    assert [row[0].removesuffix(" [claimed]") for row in rows] == [f"org/{name}" for name in NAMES]
    assert [row[1] for row in rows] == ["1", "2-3", "2-3", "4"]
    rows = shown(board, "sort=size")
    assert [row[2] for row in rows] == ["13", "7", "0.5", ""]
    rows = shown(board, "least=1&most=10")
    assert [row[0].removesuffix(" [claimed]") for row in rows] == ["org/alpha-7B"]
    rows = shown(board, "name=BETA&view=vt&length=8192")
    entries = json.loads((board / "leaderboard.json").read_text())["entries"]
    value, low, high, *_ = entries[1]["scores"]["vt"]["8192"]
    assert rows[0][3].startswith(f"{value:.1f}") and f"[{low:.1f}, {high:.1f}]" in rows[0][3]
    rows = shown(board, "view=retrieval&sort=model&up=1")
    assert [row[0].removesuffix(" [claimed]") for row in rows] == sorted(
        (f"org/{name}" for name in NAMES), key=str.lower
    )
    rows = shown(board, "threshold=10&w4096=3&w8192=1")
    cells = entries[0]["scores"]["all"]
    assert rows[0][3].strip() == f"{0.75 * cells['4096'][0] + 0.25 * cells['8192'][0]:.1f}"
    assert rows[0][1] == "" and {row[4] for row in rows[:3]} == {"≥8K"}
