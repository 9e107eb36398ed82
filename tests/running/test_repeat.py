"""`ruler-eval repeat`: how much a run differs from itself, with an interval for the truth."""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ruler_eval
from ruler_data import RulerError, UsageError
from ruler_eval import Request
from ruler_eval.commands import repeat
from ruler_eval.repeat import Pair, Repeat, interval, read_repeats
from ruler_report.derive import derive
from tests.running.processes import evaluate, order, refusal


def printed(found: Repeat) -> tuple[float, float]:
    """Return the interval of changed answers, as it is printed, in percent."""
    low, _, high = str(found).partition("95 % interval ")[2].partition(")")[0].partition(" to ")
    return float(low), float(high)


@pytest.mark.parametrize("percent", [1, 10])
def test_the_printed_interval_covers_the_rate_of_an_engine_that_flips(percent: int) -> None:
    covered = 0
    for simulation in range(500):
        rng = random.Random(f"{percent}/{simulation}")
        flips = [rng.random() < percent / 100 for _ in range(200)]
        pairs = tuple(Pair(f"vt_4096/{n}", flip, 1.0, 1.0 - flip) for n, flip in enumerate(flips))
        low, high = printed(Repeat(pairs))
        covered += low <= percent <= high
    assert covered >= 465


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60))
def test_an_interval_lies_around_its_mean_and_inside_0_to_1(values: list[float]) -> None:
    mean = sum(values) / len(values)
    low, high = interval(mean, len(values))
    assert 0 <= low <= mean <= high <= 1


def flipping(every: int) -> Callable[[Sequence[Request]], list[str]]:
    """Return an engine that answers right, but on its second call for every n-th row."""
    seen: set[object] = set()

    def generate(requests: Sequence[Request]) -> list[str]:
        texts = []
        for request in requests:
            flips = request.key in seen and request.row.index % every == 0
            seen.add(request.key)
            texts.append("something else" if flips else ", ".join(request.row.outputs))
        return texts

    return generate


def test_rows_are_asked_again_in_another_order_and_the_journal_stays(
    frozen: Path, tmp_path: Path
) -> None:
    order_of_rows: list[object] = []
    engine = flipping(4)

    def generate(requests: Sequence[Request]) -> list[str]:
        order_of_rows.extend(request.key for request in requests)
        return engine(requests)

    run = ruler_eval.run(frozen, generate=generate, out=tmp_path)
    before = run.to_records()
    assert derive(tmp_path).noise == 0
    found = repeat(tmp_path, 40, generate=generate)
    assert (len(found.pairs), found.changed, found.failed) == (40, 0.25, 0)
    assert found.points == 25.0 and found.net == -25.0 and "25.0 % of the answers" in str(found)
    assert order_of_rows[:40] != order_of_rows[40:] and len(set(order_of_rows)) == 40
    assert [again for _, again in read_repeats(tmp_path)] == [found]
    assert ruler_eval.status(tmp_path).to_records() == before
    few = repeat(tmp_path, 10, generate=flipping(4))
    assert few.changed == 0 and len(few.pairs) == 10
    assert {pair.row.split("/")[0] for pair in few.pairs} == {"vt_2048", "fwe_2048"}


def test_the_noise_is_that_of_all_repetitions_that_fit_the_journal(
    frozen: Path, tmp_path: Path
) -> None:
    engine = flipping(4)
    ruler_eval.run(frozen, generate=engine, out=tmp_path)
    repeat(tmp_path, 40, generate=engine)
    repeat(tmp_path, 10, generate=flipping(4))
    assert derive(tmp_path).noise == pytest.approx(10 / 50 / 2)
    newest = max(tmp_path.glob("repeat-*.json"))
    for row, before in (("vt_2048/999", 1.0), ("vt_9/0", 1.0), ("vt_2048/0", 0.25)):
        body = json.loads(newest.read_text())
        body["pairs"][3] |= {"row": row, "before": before}
        forged = tmp_path / "repeat-x.json"
        forged.write_text(json.dumps(body))
        with pytest.raises(RulerError, match=f"the run has no row '{row}' with"):
            derive(tmp_path)


def test_the_command_starts_the_same_model_again(frozen: Path, tmp_path: Path) -> None:
    assert evaluate(*order(frozen, tmp_path)).returncode == 0
    done = evaluate("repeat", tmp_path, "--rows", 6, "--option", "seconds=0.01", "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert (record["rows"], record["changed"], record["differs"]) == (6, 0.0, ["seconds"])
    failing = evaluate("repeat", tmp_path, "--rows", 40, "--option", "fail=3")
    assert "2 rows could not be answered again" in refusal(failing, 1)


def test_a_folder_that_cannot_be_repeated_is_refused(frozen: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no run"):
        repeat(tmp_path)
    ruler_eval.run(frozen, generate=flipping(9), out=tmp_path / "run", rows=1)
    with pytest.raises(UsageError, match="rows -5: give a whole number from 1"):
        repeat(tmp_path / "run", -5)
    (tmp_path / "run" / "repeat-x.json").write_text("{}")
    with pytest.raises(RulerError, match=r"repeat-x\.json: not a repetition"):
        [*read_repeats(tmp_path / "run")]
    starts = tmp_path / "run" / "starts.jsonl"
    starts.write_text("{}\n")
    with pytest.raises(UsageError, match="does not record how it was started"):
        repeat(tmp_path / "run")
