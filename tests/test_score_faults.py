"""What `ruler-eval score` survives, and what it refuses."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ruler_data import Row
from ruler_data.manifest import Manifest
from ruler_data.row import question_digest
from ruler_eval.scoring.results_file import read_results
from tests.builds import snapshot
from tests.commands import Done, call_in, succeeded
from tests.conftest import Cli
from tests.hub import Hub
from tests.publishing import Publisher
from tests.running.processes import evaluate
from tests.runs import golden, make_run, refused, reported, rows_of, run_info

FEW = ("vt_4096", "fwe_4096")


@pytest.fixture
def run(sample_build: Path, tmp_path: Path) -> Path:
    """A complete run over two configs."""
    return make_run(tmp_path / "run", sample_build, golden, FEW)


def score(run: Path, data: Path, *options: object) -> str:
    """Score a run that can be; return what was said on standard error."""
    return succeeded(evaluate("score", run, "--data", data, *options)).stderr


def first_journal(run: Path) -> Path:
    (journal,) = run.glob("answers-0-of-2.*.jsonl")
    return journal


def test_a_torn_end_is_told_and_left_out(run: Path, sample_build: Path) -> None:
    path = first_journal(run)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"\xc3')
    number = len(whole.splitlines()) + 1
    reported = f"{path.name} line {number}: torn or not a line of a journal; ignored"
    assert reported in score(run, sample_build)
    assert read_results(run).scored == 12


def failing(_config: str, row: Row) -> str | None:
    return None if row.index == 2 else golden(_config, row)


def test_an_answer_after_a_failure_counts(sample_build: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", sample_build, failing, FEW)
    failure = {"config": "vt_4096", "index": 2, "text": None, "finish": None, "error": "HTTP 500",
               "prompt_tokens": None, "answer_tokens": None, "seconds": None}  # fmt: skip
    with first_journal(run).open("a") as file:
        file.write(json.dumps(failure) + "\n")
    message = refused(evaluate("score", run, "--data", sample_build))
    assert "10 of 12 rows have an answer (1 missing, 1 failed)" in message
    none = make_run(tmp_path / "none", sample_build, lambda *_: None, FEW)
    message = refused(evaluate("score", none, "--data", sample_build, "--partial"))
    assert "0 of 12 rows have an answer" in message and not (none / "results.json").exists()
    score(run, sample_build, "--partial")
    vt = read_results(run).configs["vt_4096"]
    assert (vt.failed, vt.scores[2], vt.scored) == ((2,), None, 5)
    late = {"text": "late", "finish": "stop", "error": None}
    with first_journal(run).open("a") as file:
        for config in FEW:
            digest = question_digest(rows_of(sample_build, config)[2])
            answer = failure | late | {"config": config, "question_digest": digest}
            file.write(json.dumps(answer) + "\n")
    score(run, sample_build)
    assert read_results(run).configs["vt_4096"].scores[2] == 0


def other_digest(run: Path, _data: Path) -> None:
    path = run / "run.json"
    path.write_text(path.read_text().replace("sha256:", "sha256:0"))


def not_a_run(run: Path, _data: Path) -> None:
    (run / "run.json").write_text('{"model": 3}')


def edited(run: Path, _data: Path) -> None:
    body = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**body, "fingerprint": "sha256:of another"}))


DAMAGE: list[tuple[Callable[[Path, Path], None], str]] = [
    (other_digest, "vt_4096: the run used rows sha256:0"),
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
    (("--data", "."), "it has no manifest.json"),
    (("--model", "m"), "--model and --protocol are for predictions; a run has its own"),
    (("--out", ""), "--out: is empty; give a value, or leave it out"),
    (("--out", "."), "--out '.': a folder; give a file, e.g. 'results.json'"),
]


@pytest.mark.parametrize(("options", "message"), USAGE)
def test_what_is_missing_is_said(options: tuple[object, ...], message: str, run: Path) -> None:
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


def test_nothing_of_this_machine_is_in_the_results(sample_build: Path, tmp_path: Path) -> None:
    secret = {"path": "/home/ann/models/llama", "url": "http://gpu7.lab:8000/v1",
              "token": "hf_abcdefghijklmnop"}  # fmt: skip
    run = make_run(tmp_path / "run", sample_build, golden, FEW, engine_info=secret)
    score(run, sample_build)
    text = (run / "results.json").read_text()
    for word in ("home", "ann/", "gpu7", "hf_abc", str(tmp_path), str(sample_build)):
        assert word not in text, word


SUITE = """\
name: mine
about: Tasks of our own.
tasks:
  fwe_steep: {family: fwe, alpha: 3.5}
  vt_two: {family: vt, chains: 2, hops: 2}
"""


def test_tasks_of_a_suite_of_one_s_own_are_scored_by_their_family(cli: Cli, tmp_path: Path) -> None:
    suite, data = tmp_path / "mine.yaml", tmp_path / "data"
    suite.write_text(SUITE)
    options = ("--suite", suite, "--rows", 4, "--lengths", "1024,1536", "--sources", "sample")
    succeeded(cli("build", *options, "--out", data))
    run = make_run(tmp_path / "run", data, golden)
    message = score(run, data)
    assert "warning: suite mine; its means are not comparable with RULER's" in message
    assert "warning: some configs have only 4 rows; the paper uses 500" in message
    results = read_results(run)
    kinds = {name: (one.family, one.category) for name, one in results.configs.items()}
    assert kinds["fwe_steep_1024"] == ("fwe", "aggregation")
    assert kinds["vt_two_1536"] == ("vt", "multi-hop tracing")
    assert {score for one in results.configs.values() for score in one.scores} == {1.0}
    text = reported(tmp_path / "report", run)
    assert text.startswith("# Suite mine results: ") and "not comparable with RULER's" in text
    assert "| fwe\\_steep | 100.0" in text and "| 85.6 |" not in text


def run_of_release(folder: Path, data: Path, repo: str, commit: str) -> Path:
    """Write a run over rows that were asked from a release."""
    local = run_info(data, Manifest.from_json((data / "manifest.json").read_text()).configs)
    info = replace(local.data, repo=repo, revision=commit)
    return make_run(folder, data, golden, data_info=info)


def scored(run: Path, publisher: Publisher, *options: object) -> Done:
    command = ("score", run, *options, "--json")
    return call_in(publisher.pool, "ruler-eval", *command, env=publisher.env())


def test_a_run_of_a_release_is_scored_on_that_very_commit(
    publisher: Publisher, hub: Hub, repo: str, builds: Callable[..., Path], tmp_path: Path
) -> None:
    data = builds()
    released = publisher(data, repo, "1.0.0")
    assert released.code == 0, released.said
    run = run_of_release(tmp_path / "run", data, repo, str(released.commit))
    hub.foreign_commit(repo)  # the branch goes on; the run's commit stays
    done = scored(run, publisher, "--data", repo)  # as by default: at its commit
    assert json.loads(succeeded(done).stdout)["lengths"]
    assert read_results(run).run.data.revision == released.commit


def test_a_release_that_is_not_there_is_said_in_one_line(
    publisher: Publisher, repo: str, builds: Callable[..., Path], tmp_path: Path
) -> None:
    run = run_of_release(tmp_path / "run", builds(), repo, "0" * 40)
    message = refused(scored(run, publisher))
    assert f"{repo} at {'0' * 40}: the Hub does not have it" in message
