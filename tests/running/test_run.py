"""`ruler-eval run`: every row exactly once, killed anywhere, resumed by the same command."""

import json
import shutil
import signal
from pathlib import Path
from threading import Timer

import pytest
from filelock import FileLock

import ruler_eval
from ruler_data import UsageError
from ruler_data.names import config_file, parse_shard
from ruler_data.parquet import read_rows
from ruler_eval.running import run_dir
from ruler_eval.running.run_dir import RunFolder, Shard
from ruler_eval.scoring.loading import scores_of
from tests.builds import until
from tests.commands import finish, succeeded
from tests.running.processes import (
    all_keys,
    evaluate,
    keys,
    lines,
    order,
    refusal,
    started,
    whole_lines,
)  # fmt: skip


def test_every_row_is_answered_once(frozen: Path, tmp_path: Path) -> None:
    message = json.loads(succeeded(evaluate(*order(frozen, tmp_path, "--json"))).stdout)
    assert message["complete"] and {c["answered"] for c in message["configs"]} == {20}
    configs = ("vt_2048", "fwe_2048")
    rows = {(c, row.index): row for c in configs for row in read_rows(frozen / config_file(c))}
    assert keys(tmp_path) == sorted(rows)
    for line in lines(tmp_path):
        row = rows[str(line["config"]), int(str(line["index"]))]
        assert line["text"] == ", ".join(row.outputs)
        assert int(str(line["prompt_tokens"])) + row.max_new_tokens == row.length
        assert (line["counted"], line["hardware"]) == ("engine", "cpu")
    assert message["hardware"] == {"cpu": 40}
    assert "40 of 40 rows answered; on 'cpu'" in ruler_eval.status(tmp_path).coverage
    validity = scores_of(tmp_path, str(frozen)).validity
    assert "prompts counted by engine 40" in validity.line and validity.hardware == {"cpu": 40}
    run = json.loads((tmp_path / "run.json").read_text())
    manifest = json.loads((frozen / "manifest.json").read_text())
    assert run["data"]["digests"] == {
        c: manifest["configs"][c]["digest"] for c in run["data"]["rows"]
    }
    turns = "user<|end|>\n\n{content}<|eot|><|start|>assistant<|end|>\n\n{answer_prefix}"
    assert run["frame"] == f"<s><|start|>{turns}" and run["protocol"] == "completion"
    assert "cpu" not in str(run)  # hardware is no part of a run's identity
    assert str(frozen) not in (tmp_path / "run.json").read_text()


@pytest.mark.slow
def test_killed_and_resumed_every_row_is_there_once(frozen: Path, tmp_path: Path) -> None:
    slow = order(frozen, tmp_path, "--option", "seconds=0.02")
    for wanted in (3, 17):
        with started(*slow) as process:
            until(lambda: whole_lines(tmp_path) >= wanted, process)  # noqa: B023
            process.kill()
    before = whole_lines(tmp_path)
    torn = min(tmp_path.glob("answers-*"))
    torn.write_bytes(torn.read_bytes() + b'{"config":"vt_2048","ind')
    done = succeeded(evaluate(*slow))
    assert "torn or not a line of a journal; ignored" in done.stderr
    assert before >= 17 and keys(tmp_path) == all_keys(frozen)
    assert b'"ind' in torn.read_bytes()  # nobody changes what another process wrote


def test_sigterm_flushes_and_ends_with_143(frozen: Path, tmp_path: Path) -> None:
    with started(*order(frozen, tmp_path, "--option", "seconds=0.2")) as process:
        until(lambda: whole_lines(tmp_path) >= 4, process)
        process.send_signal(signal.SIGTERM)
        done = finish(process)
    assert done.returncode == 143
    assert done.stderr == "ruler-eval: stopped; run the same command again to resume\n"
    journal = next(tmp_path.glob("answers-*")).read_bytes()
    assert journal.endswith(b"}\n") and 4 <= journal.count(b"\n") < 40


def test_a_row_that_fails_is_asked_again_on_resume(frozen: Path, tmp_path: Path) -> None:
    done = evaluate(*order(frozen, tmp_path, "--option", "fail=3"))
    message = refusal(done, 1)
    assert "2 rows could not be answered" in message and "0 were not run" in message
    failed = [line for line in lines(tmp_path) if line["error"]]
    assert [(line["index"], line["text"]) for line in failed] == [(3, None)] * 2
    shown = evaluate("status", tmp_path).stdout
    assert "38 of 40 rows answered, 2 failed, 0 left" in shown
    assert "2 rows failed: 'the option `fail` names this row'" in shown
    again = evaluate(*order(frozen, tmp_path, "--option", "fail=3"))
    assert again.returncode == 1 and "retrying 2 rows that failed before" in again.stderr
    assert set(keys(tmp_path)) == set(all_keys(frozen)) and len(lines(tmp_path)) == 42


def test_a_run_without_answers_gives_way(
    frozen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_dir, "GLANCE", 0.2)
    other = order(frozen, tmp_path, "--protocol", "base")
    with started(*order(frozen, tmp_path, "--option", "seconds=60")) as process:
        until(lambda: list(tmp_path.glob("answers-*.jsonl")), process)
        assert "shard 0/1 is running" in refusal(evaluate(*other), 1)
        process.kill()
        finish(process)
    succeeded(evaluate(*other))
    assert json.loads((tmp_path / "run.json").read_text())["protocol"] == "base"


OTHERS = {
    "model": ("--model-name", "other"),
    "protocol": ("--protocol", "base"),
    "no_context": ("--no-context",),
    "sampling.extra_tokens": ("--extra-tokens", "7"),
    "data.rows.vt_2048": ("--rows", "5"),
    "data.digests.fwe_2048": ("--tasks", "vt"),
}


@pytest.mark.parametrize("difference", OTHERS)
def test_a_folder_of_another_run_is_refused(frozen: Path, begun: Path, difference: str) -> None:
    before = next(begun.glob("answers-*")).read_bytes()
    message = refusal(evaluate(*order(frozen, begun, *OTHERS[difference])))
    assert f"holds another run: {difference} is " in message or f"; {difference} is " in message
    assert next(begun.glob("answers-*")).read_bytes() == before


@pytest.fixture(scope="module")
def begun(frozen: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("begun")
    succeeded(evaluate(*order(frozen, folder)))
    return folder


def test_a_shard_that_runs_is_not_run_twice(
    frozen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_dir, "GLANCE", 0.2)
    with started(*order(frozen, tmp_path, "--option", "seconds=0.5")) as process:
        until(lambda: whole_lines(tmp_path) >= 1, process)
        for shard in ("0/1", "0/2"):
            second = evaluate(*order(frozen, tmp_path, "--shard", shard))
            assert "shard 0/1 is running" in refusal(second, 1)


def test_shards_in_any_order_and_number_answer_every_row_once(frozen: Path, tmp_path: Path) -> None:
    for shard in ("2/3", "0/3"):
        succeeded(evaluate(*order(frozen, tmp_path, "--shard", shard)))
    assert 0 < whole_lines(tmp_path) < 40
    rest = succeeded(evaluate(*order(frozen, tmp_path)))  # one process does what a lost shard left
    assert keys(tmp_path) == all_keys(frozen)
    assert "40 of 40 rows answered" in rest.stdout


def test_answers_of_another_run_are_not_taken(frozen: Path, begun: Path, tmp_path: Path) -> None:
    base = order(frozen, tmp_path, "--protocol", "base")
    assert evaluate(*base, "--shard", "1/2").returncode == 0
    own = whole_lines(tmp_path)
    for path in begun.glob("answers-*"):
        shutil.copy(path, tmp_path)
    done = evaluate("status", tmp_path)
    assert f"{own} of 40 rows answered" in done.stdout
    done = evaluate(*base)
    assert done.returncode == 0 and "40 answers of another run; ignored" in done.stderr
    assert whole_lines(tmp_path) == 40 + 40


def test_an_answer_to_no_row_is_none(frozen: Path, begun: Path, tmp_path: Path) -> None:
    shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
    (journal,) = tmp_path.glob("answers-*")
    first, *rest = map(json.loads, journal.read_text().splitlines())
    stray = [first | {"index": 99}, first | {"index": -1}, first | {"sample": 3}]
    wrong = first | {"question_digest": "0" * 16, "text": "of another"}
    journal.write_text("".join(json.dumps(one) + "\n" for one in [wrong, *stray, *rest]))
    assert "40 of 40 rows answered" in evaluate("status", tmp_path).stdout
    done = evaluate(*order(frozen, tmp_path))
    assert done.returncode == 0 and "retrying 1 row" in done.stderr
    table = ruler_eval.score(tmp_path, frozen)
    task, length = first["config"].rsplit("_", 1)
    of_config = table[(table.task == task) & (table.length == int(length))]
    assert of_config.official.tolist()[first["index"]] == 1


@pytest.mark.parametrize("share", ["1/1", "-1/2", "a/b", "3", "0/0", "0/999999", "²/3"])
def test_what_is_not_a_shard_is_refused(share: str) -> None:
    with pytest.raises(UsageError, match="not a shard; write I/N"):
        parse_shard(share)


def test_watching_a_run_changes_no_file(frozen: Path, tmp_path: Path) -> None:
    with started(*order(frozen, tmp_path, "--option", "seconds=0.2")) as process:
        until(lambda: whole_lines(tmp_path) >= 8, process)
        found = json.loads(evaluate("status", tmp_path, "--json").stdout)
        process.kill()
        finish(process)
    assert found["rows"] == 40 and found["answered"] + found["left"] == 40
    assert found["answered"] >= 8 and found["is_running"]
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    stopped = ruler_eval.status(tmp_path)
    assert not stopped.is_running and not stopped.complete
    message = evaluate("status", tmp_path).stdout
    assert (
        f"{stopped.answered} of 40 rows answered, 0 failed, {40 - stopped.answered} left" in message
    )
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_process_that_looks_at_a_run_for_an_instant_stops_no_start(tmp_path: Path) -> None:
    with FileLock(tmp_path / ".answers-0-of-1.lock", thread_local=False) as probe:
        Timer(0.3, probe.release).start()
        with RunFolder(tmp_path).hold(Shard()):
            assert RunFolder(tmp_path).running() == {Shard()}


def test_a_folder_that_is_no_run_is_refused(frozen: Path) -> None:
    message = refusal(evaluate("status", frozen))
    assert "a dataset, not a run; run a model on it first" in message


def test_a_lock_that_cannot_be_opened_tells_nothing(frozen: Path, tmp_path: Path) -> None:
    succeeded(evaluate(*order(frozen, tmp_path)))
    lock = tmp_path / ".answers-0-of-1.lock"
    lock.unlink()
    lock.mkdir()  # as root, who may open any file, these tests run too
    assert "40 of 40 rows answered" in evaluate("status", tmp_path).stdout
