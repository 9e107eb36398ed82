"""`ruler-eval status`, and what decides over the replies of a router."""

import json
from pathlib import Path

import ruler_eval
from tests.builds import until
from tests.commands import finish
from tests.running.processes import evaluate, order, refusal, started, whole_lines


def test_a_run_is_watched_while_it_goes_on_and_no_file_changes(
    frozen: Path, tmp_path: Path
) -> None:
    with started(*order(frozen, tmp_path, "--option", "seconds=0.2")) as process:
        until(lambda: whole_lines(tmp_path) >= 8, process)
        found = json.loads(evaluate("status", tmp_path, "--json").stdout)
        process.kill()
        finish(process)
    assert found["rows"] == 40 and found["answered"] + found["left"] == 40
    assert found["answered"] >= 8 and 0 < found["rows_per_second"] <= 5
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    stopped = ruler_eval.status(tmp_path)
    assert stopped.rows_per_second is None and not stopped.complete
    message = evaluate("status", tmp_path).stdout
    assert (
        f"{stopped.answered} of 40 rows answered, 0 failed, {40 - stopped.answered} left" in message
    )
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_reasons_of_failures_are_counted(frozen: Path, tmp_path: Path) -> None:
    assert evaluate(*order(frozen, tmp_path, "--option", "fail=3")).returncode == 1
    message = evaluate("status", tmp_path).stdout
    assert "38 of 40 rows answered, 2 failed, 0 left" in message
    assert "2 rows failed: 'the option `fail` names this row'" in message


def test_a_folder_that_is_no_run_is_refused(frozen: Path, tmp_path: Path) -> None:
    for folder in (frozen, tmp_path):
        assert "has no run.json; give the output folder of a run" in refusal(
            evaluate("status", folder)
        )


def test_a_lock_that_cannot_be_opened_tells_nothing(frozen: Path, tmp_path: Path) -> None:
    assert evaluate(*order(frozen, tmp_path)).returncode == 0
    lock = tmp_path / ".answers-0-of-1.lock"
    lock.unlink()
    lock.mkdir()  # as root, who may open any file, these tests run too
    assert "40 of 40 rows answered" in evaluate("status", tmp_path).stdout
