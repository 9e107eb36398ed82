"""`ruler-eval status`: how far a run is, from another terminal, while it goes on undisturbed."""

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import ruler_eval
from ruler_eval.run_dir import DEAD
from tests.builds import until
from tests.commands import finish
from tests.running.processes import all_keys, evaluate, keys, order, refusal, started, whole_lines


def seen(folder: Path, *more: object) -> dict[str, Any]:
    done = evaluate("status", folder, "--json", *more)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def has_lines(journal: Path) -> bool:
    return journal.exists() and journal.stat().st_size > 0


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
def test_a_run_is_watched_while_it_goes_on(frozen: Path, tmp_path: Path) -> None:
    with started(*order(frozen, tmp_path, "--option", "seconds=0.2")) as process:
        until(lambda: whole_lines(tmp_path) >= 10, process)
        found = seen(tmp_path)
        watched = evaluate("status", tmp_path, "--watch", 1)
        done = finish(process)
    assert done.returncode == 0, done.stderr
    assert keys(tmp_path) == all_keys(frozen)
    assert found["rows"] == 40 and 10 <= found["answered"] < 40
    (shard,) = found["shards"]
    assert shard["state"] == "running" and shard["answered"] + shard["pending"] == 40
    assert 0 < found["rows_per_second"] <= 5 and found["seconds_left"] >= 0.2 * shard["pending"]
    assert len(found["last"]) == 3 and found["last"][-1]["text"]
    assert watched.returncode == 0 and "40 of 40 rows answered" in watched.stdout
    assert watched.stdout.count("rows answered") >= 2 and "last: " in watched.stdout


def test_each_shard_of_an_array_has_its_state_and_no_file_changes(
    frozen: Path, tmp_path: Path
) -> None:
    assert evaluate(*order(frozen, tmp_path, "--shard", "0/4")).returncode == 0
    slow = order(frozen, tmp_path, "--option", "seconds=0.1")
    for shard, kill in (("1/4", "terminate"), ("2/4", "kill")):
        with started(*slow, "--shard", shard) as process:
            until(partial(has_lines, tmp_path / f"answers-{shard[0]}-of-4.jsonl"), process)
            getattr(process, kill)()
            process.wait()
    alive = tmp_path / ".answers-2-of-4.alive"
    os.utime(alive, (0, alive.stat().st_mtime - DEAD - 1))
    journal = tmp_path / "answers-2-of-4.jsonl"
    journal.write_bytes(journal.read_bytes() + b'{"config":"vt_2')  # as a crash leaves it
    before = files(tmp_path)
    found = seen(tmp_path)
    assert files(tmp_path) == before
    states = [shard["state"] for shard in found["shards"]]
    assert states == ["finished", "stopped", "died", "not started"]
    assert found["answered"] == whole_lines(tmp_path) and found["seconds_left"] is None
    assert found["shards"][0]["pending"] == 0 and found["shards"][1]["pending"] > 0


def test_reasons_of_unscored_rows_are_counted_with_an_example(frozen: Path, tmp_path: Path) -> None:
    assert evaluate(*order(frozen, tmp_path, "--option", "fail=3")).returncode == 1
    (reason,) = seen(tmp_path)["unscored"]
    assert reason == {"reason": "the option `fail` names this row", "rows": 2, "first": "vt_2048/3"}
    said = evaluate("status", tmp_path).stdout
    assert "38 of 40 rows answered, 2 unscored" in said and "2 rows, e.g. vt_2048/3" in said
    assert seen(tmp_path)["shards"][0] | {"speed": 0} == {
        "shard": "0/1", "state": "stopped", "answered": 38, "unscored": 2, "pending": 2,
        "speed": 0, "left": None,
    }  # fmt: skip
    assert evaluate(*order(frozen, tmp_path)).returncode == 0  # asked again by another number
    assert evaluate(*order(frozen, tmp_path, "--shard", "1/2")).returncode == 0
    found = ruler_eval.status(tmp_path)
    assert (found.answered, found.unscored) == (40, {})


def test_samples_count_each(frozen: Path, tmp_path: Path) -> None:
    def silent(requests: list[ruler_eval.Request]) -> list[str]:
        return ["" for _ in requests]

    ruler_eval.run(frozen, out=tmp_path, generate=silent, samples=3, rows=2)
    found = ruler_eval.status(tmp_path)
    assert (found.rows, found.answered) == (12, 12) and found.shards[0].state == "finished"


@pytest.mark.parametrize("what", ["nothing", "a dataset"])
def test_a_folder_that_is_no_run_is_refused(frozen: Path, tmp_path: Path, what: str) -> None:
    folder = frozen if what == "a dataset" else tmp_path
    assert "has no run.json; give the output folder of a run" in refusal(evaluate("status", folder))
