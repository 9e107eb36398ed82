"""`ruler-eval repeat`: how much a run differs from itself, with an interval for the truth."""

import json
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ruler_eval
from ruler_data import RulerError, UsageError
from ruler_eval import Request
from ruler_eval.engine_check.repetition import Pair, Repeat, interval, repeat
from ruler_eval.scoring.loading import scores_of
from ruler_report.publication import compose
from tests.commands import succeeded
from tests.running.conftest import Ask
from tests.running.processes import evaluate, order, ran, refusal
from tests.running.server import FakeServer


@pytest.mark.slow
def test_the_printed_interval_covers_the_rate_of_an_engine_that_flips() -> None:
    covered = 0
    for simulation in range(200):
        rng = random.Random(f"1/{simulation}")
        flips = [rng.random() < 0.01 for _ in range(200)]
        pairs = tuple(Pair(f"vt_4096/{n}", flip, 1.0, 1.0 - flip) for n, flip in enumerate(flips))
        # Of changed answers, in percent.
        low, _, high = (
            str(Repeat(pairs)).partition("95 % interval ")[2].partition(")")[0].partition(" to ")
        )
        covered += float(low) <= 1 <= float(high)
    assert covered >= 186


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


def test_rows_are_asked_again_in_another_order(frozen: Path, tmp_path: Path) -> None:
    order_of_rows: list[object] = []
    engine = flipping(4)

    def generate(requests: Sequence[Request]) -> list[str]:
        order_of_rows.extend(request.key for request in requests)
        return engine(requests)

    run = ran(frozen, generate=generate, out=tmp_path)
    before = run.to_records()
    found = repeat(tmp_path, 40, generate=generate)
    assert (len(found.pairs), found.changed, found.failed) == (40, 0.25, 0)
    assert found.points == 25.0 and found.net == -25.0 and "25.0 % of the answers" in str(found)
    assert order_of_rows[:40] != order_of_rows[40:] and len(set(order_of_rows)) == 40
    (file,) = tmp_path.glob("repeat-*.json")
    record = json.loads(file.read_text())
    assert record["pairs"] == [asdict(pair) for pair in found.pairs] and record["points"] == 25.0
    assert ruler_eval.status(tmp_path).to_records() == before
    engine = flipping(4)
    few = repeat(tmp_path, 10, generate=generate)
    assert few.changed == 0 and len(few.pairs) == 10
    assert {pair.row.split("/")[0] for pair in few.pairs} == {"vt_2048", "fwe_2048"}


def test_the_command_starts_the_same_model_again(frozen: Path, tmp_path: Path) -> None:
    succeeded(evaluate(*order(frozen, tmp_path)))
    done = evaluate("repeat", tmp_path, "--rows", 6, "--option", "seconds=0.01", "--json")
    record = json.loads(succeeded(done).stdout)
    assert (record["rows"], record["changed"], record["differs"]) == (6, 0.0, ["seconds"])
    failing = evaluate("repeat", tmp_path, "--rows", 40, "--option", "fail=3")
    assert "2 rows could not be answered again" in refusal(failing, 1)


def test_another_model_is_no_noise(tmp_path: Path, server: FakeServer, ask: Ask) -> None:
    succeeded(ask())
    command = ("repeat", tmp_path, "--rows", 6, "--base-url", server.url)
    server.names = lambda body: {"model": "other" if len(server.seen) % 3 == 0 else "m"}
    done = evaluate(*command)
    assert "2 rows could not be answered again" in refusal(done, 1)
    assert "answered by 'other', the run's model is 'm'" in done.stderr
    server.names = lambda body: {}
    succeeded(evaluate(*command))


def test_a_folder_that_cannot_be_repeated_is_refused(frozen: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no run"):
        ruler_eval.repeat(tmp_path)
    ruler_eval.run(frozen, generate=flipping(9), out=tmp_path / "run", rows=1)
    with pytest.raises(UsageError, match="rows -5: give a whole number from 1"):
        ruler_eval.repeat(tmp_path / "run", -5)
    starts = tmp_path / "run" / "starts.jsonl"
    starts.write_text("{}\n")
    with pytest.raises(UsageError, match="does not record how it was started"):
        ruler_eval.repeat(tmp_path / "run")


def scaled(requests: Sequence[Request], share: float = 1.0) -> list[str]:
    return [str(share)] * len(requests)


def other(requests: Sequence[Request], share: float = 1.0) -> list[str]:
    return ["other"] * len(requests)


def test_another_function_or_argument_is_no_noise(frozen: Path, tmp_path: Path) -> None:
    half = partial(scaled, share=0.5)
    ruler_eval.run(frozen, generate=half, out=tmp_path, rows=2)
    for changed in (partial(other, share=0.5), partial(scaled, share=0.25), scaled):
        with pytest.raises(RulerError, match="rows, model or function are not those of the run"):
            repeat(tmp_path, 2, generate=changed)
    assert repeat(tmp_path, 2, generate=partial(half)).changed == 0
    assert repeat(tmp_path, 2, generate=half, options={"share": 0.25}).changed == 1


def often(requests: Sequence[Request]) -> list[str]:
    """Answer the first two of four samples, and the third of even rows."""
    return [
        ", ".join(request.row.outputs)
        if request.sample < 2 or (request.sample == 2 and request.row.index % 2 == 0)
        else ""
        for request in requests
    ]


def test_a_score_is_the_mean_over_samples(frozen: Path, tmp_path: Path) -> None:
    done = ran(frozen, out=tmp_path, generate=often, samples=4, rows=6)
    assert done.complete and done.rows == 48
    assert len({(r["config"], r["index"], r["sample"]) for r in done.to_records()}) == 48
    table = ruler_eval.score(done, frozen)
    of_vt = table[table.task == "vt"]
    assert of_vt.groupby("index").official.mean().tolist() == [0.75, 0.5] * 3
    assert of_vt.groupby("sample").official.mean().tolist() == [1, 1, 0.5, 0]
    shown = succeeded(evaluate("score", tmp_path, "--data", frozen)).stdout
    assert "62.50" in shown
    results = json.loads((tmp_path / "results.json").read_text())
    assert {(cell["official"], cell["rows"]) for cell in results["means"]} == {(0.625, 24)}
    published, _ = compose(tmp_path, "org/predictions")
    rows = pq.read_table(BytesIO(published["predictions/vt_2048.parquet"])).to_pylist()
    assert [(row["sample"], row["index"]) for row in rows] == [
        (sample, index) for index, sample in product(range(6), range(4))
    ]
    given = [bool(row["prediction"]) for row in rows]
    assert given == [True, True, True, False, True, True, False, False] * 3


def test_of_several_samples_of_a_row_the_first_is_generated_again(
    frozen: Path, tmp_path: Path
) -> None:
    asked: list[object] = []

    def generate(requests: Sequence[Request]) -> list[str]:
        asked.extend(request.key for request in requests)
        return often(requests)

    ran(frozen, out=tmp_path, generate=generate, samples=2, rows=2)
    assert len(asked) == 8
    found = repeat(tmp_path, 40, generate=generate)
    assert (len(found.pairs), found.changed, found.failed) == (4, 0.0, 0)
    assert {*asked[8:]} == {(name, row, 0) for name in ("vt_2048", "fwe_2048") for row in range(2)}


def test_a_function_that_a_run_folder_names_is_imported_only_if_it_is_named_again(
    frozen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "strange_answers.py"
    text = "def say(requests, trust_remote_code, nested):\n    return ['x'] * len(requests)\n"
    module.write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    named = {
        "function": "strange_answers:say",
        "trust_remote_code": True,
        "nested": {"processor": ["package.module"]},
    }
    ruler_eval.run(frozen, out=tmp_path / "run", engine="python", options=named, rows=1)
    del sys.modules["strange_answers"]
    for missing in named:
        others = {name: value for name, value in named.items() if name != missing}
        with pytest.raises(UsageError, match=f"its option {missing} names code, which is not run"):
            repeat(tmp_path / "run", 1, options=others)
    assert "strange_answers" not in sys.modules
    again = repeat(tmp_path / "run", 1, options=named)
    assert (again.changed, again.differs) == (0, ())  # with the run's own values nothing differs


def test_a_row_without_one_of_its_samples_has_no_score(frozen: Path, tmp_path: Path) -> None:
    calls: list[Request] = []

    def moody(requests: Sequence[Request]) -> list[str]:
        calls.extend(requests)
        return [] if requests[0].key == ("vt_2048", 1, 2) and len(calls) < 20 else often(requests)

    choice: dict[str, Any] = {"tasks": "vt", "rows": 3, "samples": 3}
    first = ran(frozen, out=tmp_path, generate=moody, **choice)
    assert list(first.failed) == ["vt_2048/1/2"]
    assert scores_of(first, frozen).shortfall.count("without one vt_2048/1;") == 1
    calls.extend(calls * 2)
    command = len(calls)
    again = ran(frozen, out=tmp_path, generate=moody, **choice)
    assert again.complete and [request.key for request in calls[command:]] == [("vt_2048", 1, 2)]
