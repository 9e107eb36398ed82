"""What `ruler-eval score` survives, and what it refuses."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ruler_data import Row
from ruler_report.results_file import read_results
from tests.builds import snapshot
from tests.running.processes import evaluate
from tests.runs import golden, make_run, refused

FEW = ("vt_4096", "fwe_4096")


@pytest.fixture
def run(sample_build: Path, tmp_path: Path) -> Path:
    """A complete run over two configs."""
    return make_run(tmp_path / "run", sample_build, golden, FEW)


def score(run: Path, data: Path, *options: object) -> str:
    """Score a run that can be; return what was said on standard error."""
    done = evaluate("score", run, "--data", data, *options)
    assert done.returncode == 0, done.stderr
    return done.stderr


def first_journal(run: Path) -> Path:
    return run / "answers-0-of-2.jsonl"


@pytest.mark.parametrize("tail", [b'{"config": "vt_40', b"\0" * 512, b'{"\xc3'])
def test_a_torn_end_is_left_out_and_costs_its_row_alone(
    tail: bytes, run: Path, sample_build: Path
) -> None:
    path = first_journal(run)
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    number = len(whole.splitlines()) + 1
    reported = f"answers-0-of-2.jsonl line {number}: torn or not a line of a journal; ignored"
    assert reported in score(run, sample_build)
    assert read_results(run).scored == 12
    path.write_bytes(whole[:-20])
    done = evaluate("score", run, "--data", sample_build)
    assert done.returncode == 1 and "11 of 12 rows have an answer (1 missing" in done.stderr
    score(run, sample_build, "--partial")
    assert (read_results(run).scored, read_results(run).rows) == (11, 12)


def test_a_bad_line_is_told_and_the_first_answer_to_a_row_counts(
    run: Path, sample_build: Path
) -> None:
    path = first_journal(run)
    data = path.read_bytes()
    again = json.loads(data.splitlines()[0]) | {"text": "something else"}
    path.write_bytes(b"{}\n" + data + json.dumps(again).encode() + b"\n")
    assert "line 1: torn or not a line of a journal; ignored" in score(run, sample_build)
    assert set(read_results(run).configs["vt_4096"].scores) == {1.0}


def failing(_config: str, row: Row) -> str | None:
    return None if row.index == 2 else golden(_config, row)


def test_a_failed_row_is_unscored_and_an_answer_that_follows_it_counts(
    sample_build: Path, tmp_path: Path
) -> None:
    run = make_run(tmp_path / "run", sample_build, failing, FEW)
    failure = {"config": "vt_4096", "index": 2, "text": None, "finish": None, "error": "HTTP 500",
               "prompt_tokens": None, "answer_tokens": None, "seconds": None}  # fmt: skip
    with first_journal(run).open("a") as file:
        file.write(json.dumps(failure) + "\n")
    message = refused(evaluate("score", run, "--data", sample_build))
    assert "10 of 12 rows have an answer (1 missing, 1 failed)" in message
    score(run, sample_build, "--partial")
    vt = read_results(run).configs["vt_4096"]
    assert (vt.failed, vt.scores[2], vt.scored) == ((2,), None, 5)
    late = {"text": "late", "finish": "stop", "error": None}
    with first_journal(run).open("a") as file:
        file.writelines(json.dumps(failure | late | {"config": config}) + "\n" for config in FEW)
    score(run, sample_build)
    assert read_results(run).configs["vt_4096"].scores[2] == 0


def other_digest(run: Path, _data: Path) -> None:
    path = run / "run.json"
    path.write_text(path.read_text().replace("sha256:", "sha256:0"))


def one_bit(_run: Path, data: Path) -> None:
    path = data / "vt_4096/test-00000-of-00001.parquet"
    body = bytearray(path.read_bytes())
    body[len(body) // 2] ^= 1
    path.write_bytes(body)


def no_file(_run: Path, data: Path) -> None:
    (data / "vt_4096/test-00000-of-00001.parquet").unlink()


def not_a_run(run: Path, _data: Path) -> None:
    (run / "run.json").write_text('{"model": 3}')


def edited(run: Path, _data: Path) -> None:
    body = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**body, "fingerprint": "sha256:of another"}))


DAMAGE: list[tuple[Callable[[Path, Path], None], str]] = [
    (other_digest, "vt_4096: the run used rows sha256:0"),
    (one_bit, "sha256 expected"),
    (no_file, "parquet: cannot be read: No such file"),
    (edited, "run.json: edited after it was written: its fingerprint is sha256:of another"),
    (not_a_run, "run.json: not a run: data: Field required"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGE)
def test_other_or_damaged_rows_are_refused(
    damage: Callable[[Path, Path], None],
    message: str,
    run: Path,
    sample_build: Path,
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    shutil.copytree(sample_build, data)
    damage(run, data)
    assert message in refused(evaluate("score", run, "--data", data))
    assert not (run / "results.json").exists()


USAGE: list[tuple[tuple[object, ...], str]] = [
    ((), "--data is missing: give the folder or Hub repo"),
    (("--data", "nowhere"), "no such folder, and not a Hub repo either"),
    (("--data", "org/nowhere"), "to load the Hub repo of that name, give a revision"),
    (("--data", "a b\n"), "no such folder, and not a Hub repo either"),
    (("--data", "."), "it has no manifest.json"),
    (("--model", "m"), "--model and --protocol are for predictions; a run has its own"),
    (("--out", ""), "--out: is empty; give a value, or leave it out"),
    (("--out", "."), "--out '.': a folder; give a file, e.g. 'results.json'"),
]


@pytest.mark.parametrize(("options", "message"), USAGE)
def test_what_is_missing_is_said_in_one_line(
    options: tuple[object, ...], message: str, run: Path
) -> None:
    assert message in refused(evaluate("score", run, *options), code=2)


def test_results_replace_no_file_but_results(run: Path, sample_build: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    shutil.copytree(sample_build, tmp_path / "data")
    score(run, sample_build, "--out", tmp_path / "r.json")
    score(run, sample_build, "--out", tmp_path / "r.json")
    (run / "results.json").write_text("torn")
    score(run, sample_build)
    before = snapshot(tmp_path)
    taken = ["mine.txt", "run/run.json", "data/manifest.json", "data/results.json"]
    for name in (*taken, f"run/{first_journal(run).name}"):
        said = refused(evaluate("score", run, "--out", tmp_path / name), code=2)
        assert "is there, and not a results file" in said or "holds a dataset" in said
    assert snapshot(tmp_path) == before


def test_a_run_without_context_tells_parametric_answers_apart(
    sample_build: Path, tmp_path: Path
) -> None:
    def guess(_config: str, row: Row) -> str:
        return "Zanzibar" if row.index % 2 else golden(_config, row)

    qa = ("qa_1_4096",)
    run = make_run(tmp_path / "run", sample_build, guess, qa)
    bare = make_run(tmp_path / "bare", sample_build, lambda *_: "zanzibar.", qa, no_context=True)
    score(run, sample_build, "--no-context", bare)
    assert read_results(run).configs["qa_1_4096"].failures == {"as without context": (1, 3, 5)}
    message = refused(evaluate("score", run, "--data", sample_build, "--no-context", run), code=2)
    assert "that run was made with the context" in message


def test_nothing_of_this_machine_is_in_the_results(sample_build: Path, tmp_path: Path) -> None:
    secret = {"path": "/home/ann/models/llama", "url": "http://gpu7.lab:8000/v1",
              "token": "hf_abcdefghijklmnop"}  # fmt: skip
    run = make_run(tmp_path / "run", sample_build, golden, FEW, engine_info=secret)
    score(run, sample_build)
    text = (run / "results.json").read_text()
    for word in ("home", "ann/", "gpu7", "hf_abc", str(tmp_path), str(sample_build)):
        assert word not in text, word
