"""`ruler-eval mend`: any folder of a run is described, and no answer is lost."""

import json
from pathlib import Path

import pytest

from tests.running.processes import all_keys, evaluate, keys, lines, order, refusal


@pytest.fixture
def run(frozen: Path, tmp_path: Path) -> Path:
    """A complete run of two shards."""
    for shard in ("0/2", "1/2"):
        assert evaluate(*order(frozen, tmp_path, "--shard", shard)).returncode == 0
    return tmp_path


def journal(run: Path, shard: str = "0-of-2") -> Path:
    return run / f"answers-{shard}.jsonl"


def changed(line: bytes, **values: object) -> bytes:
    return json.dumps({**json.loads(line), **values}).encode() + b"\n"


def test_a_run_in_order_is_left_as_it_is(run: Path) -> None:
    before = {path: path.read_bytes() for path in run.glob("answers-*")}
    done = evaluate("mend", run)
    assert done.returncode == 0 and done.stdout.endswith("in order, 40 answers\n")
    assert {path: path.read_bytes() for path in run.glob("answers-*")} == before
    assert not list(run.glob("before-mend-*"))


def test_rows_that_two_counts_of_shards_answered_alike_are_mended_and_can_be_scored(
    frozen: Path, run: Path
) -> None:
    twice = journal(run).read_bytes().splitlines(keepends=True)[:13]
    other = b"".join(changed(line, seconds=9.5) for line in twice)
    journal(run, "0-of-3").write_bytes(other + b'{"config":"vt_20')
    assert evaluate("score", run, "--data", frozen).returncode == 1
    done = evaluate("mend", run)
    assert done.returncode == 0, done.stderr
    assert "13 rows answered twice with the same text, the first is kept" in done.stdout
    assert "answers-0-of-3.jsonl:14: incomplete end, 16 bytes removed" in done.stdout
    assert keys(run) == all_keys(frozen)
    kept = run / "before-mend-1" / "answers-0-of-3.jsonl"
    assert kept.read_bytes() == other + b'{"config":"vt_20'
    assert evaluate("score", run, "--data", frozen).returncode == 0
    assert evaluate(*order(frozen, run)).returncode == 0


def test_different_answers_are_named_kept_and_asked_again_only_if_wanted(
    frozen: Path, run: Path
) -> None:
    first = journal(run).read_bytes().splitlines(keepends=True)[0]
    journal(run, "0-of-3").write_bytes(changed(first, text="another"))
    before = lines(run)
    done = evaluate("mend", run)
    assert done.returncode == 1 and "left: 1 finding" in done.stderr
    row = f"{json.loads(first)['config']}/{json.loads(first)['index']}"
    assert f"{row}: different answers: answers-0-of-2.jsonl:1: " in done.stdout
    assert "answers-0-of-3.jsonl:1: 'another'" in done.stdout and lines(run) == before
    done = evaluate("mend", run, "--ask-again")
    assert done.returncode == 0 and "in order, 39 answers" in done.stdout
    assert {path.name for path in (run / "before-mend-1").iterdir()} == {
        "answers-0-of-2.jsonl", "answers-0-of-3.jsonl",
    }  # fmt: skip
    assert evaluate(*order(frozen, run)).returncode == 0
    assert keys(run) == all_keys(frozen)


def test_an_answer_is_kept_beside_a_failure_and_what_cannot_be_mended_is_named(run: Path) -> None:
    data = journal(run).read_bytes().splitlines(keepends=True)
    failed = changed(data[0], text=None, finish=None, error="status 500")
    stranger = changed(data[0], index=99)
    journal(run).write_bytes(b"".join([failed, b"garbage\n", *data, stranger]))
    (run / "run.json").rename(run / "moved.json")
    done = evaluate("mend", run)
    assert done.returncode == 1 and "answers-0-of-2.jsonl:2: not a line of a journal" in done.stdout
    assert "has no run.json" in done.stdout
    assert json.loads(journal(run).read_bytes().splitlines()[1])["error"] is None
    (run / "moved.json").rename(run / "run.json")
    done = evaluate("mend", run)
    assert "/99 is not a row of this run" in done.stdout and "left: 2 findings" in done.stderr


def test_what_is_not_a_run_is_refused(tmp_path: Path) -> None:
    assert "holds no answers of a run" in refusal(evaluate("mend", tmp_path))
    assert "holds no answers of a run" in refusal(evaluate("mend", tmp_path / "none"))
    assert not (tmp_path / "none").exists()
