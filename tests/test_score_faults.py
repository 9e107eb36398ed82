"""What `ruler-eval score` survives, and what it refuses."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from ruler_data import Row
from ruler_data.manifest import Manifest
from ruler_data.row import question_digest
from ruler_eval.scoring.scores import FILENAME, Scores, read_scores
from ruler_eval.scoring.summary import FILENAME as SUMMARY
from ruler_eval.scoring.table import means
from tests.builds import snapshot
from tests.commands import Done, call_in, succeeded
from tests.conftest import ROOT, Cli
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


def written(run: Path) -> Scores:
    """Return the scores that a command wrote."""
    return read_scores(run / FILENAME)


def first_journal(run: Path) -> Path:
    (path,) = run.glob("answers-0-of-2.*")
    return path


def test_a_torn_end_is_told_and_left_out(run: Path, sample_build: Path) -> None:
    path = first_journal(run)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"\xc3')
    number = len(whole.splitlines()) + 1
    reported = f"{path.name} line {number}: torn or not a line of a journal; ignored"
    assert reported in score(run, sample_build)
    assert written(run).answered == 12


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
    assert "0 of 12 rows have an answer" in message and not (none / FILENAME).exists()
    assert "2 rows of 12 unanswered, counted as wrong" in score(run, sample_build, "--partial")
    lines = [line for line in written(run).table.to_pylist() if line["official"] is None]
    errors = {line["task"]: (line["index"], line["error"]) for line in lines}
    assert errors == {"vt": (2, "HTTP 500"), "fwe": (2, "not asked")}
    summary = json.loads((run / SUMMARY).read_text())
    assert [cell["official"] for cell in summary["means"]] == [pytest.approx(5 / 6)] * 2
    assert summary["refusals"] == ["2 rows of 12 unanswered"]
    late = {"text": "late", "finish": "stop", "error": None}
    with first_journal(run).open("a") as file:
        for config in FEW:
            digest = question_digest(rows_of(sample_build, config)[2])
            answer = failure | late | {"config": config, "question_digest": digest}
            file.write(json.dumps(answer) + "\n")
    score(run, sample_build)
    assert {cell.official for cell in means(written(run).table)} == {5 / 6}


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
    assert not (run / FILENAME).exists() and not (run / SUMMARY).exists()


USAGE: list[tuple[tuple[object, ...], str]] = [
    ((), "--data is missing: give the folder or Hub repo"),
    (("--data", "nowhere"), "no such folder; not a Hub repo either"),
    (("--data", "org/nowhere"), "to load the Hub repo of that name, give a revision"),
    (("--data", "."), "it has no manifest.json"),
    (("--model", "m"), "--model and --protocol are for predictions; a run has its own"),
    (("--out", ""), "--out: is empty; give a value, or leave it out"),
    (("--tasks", ""), "--tasks: is empty; give a value, or leave it out"),
    (("--out", __file__), "a file; give a folder"),
    (("--tasks", "cwe"), "--data is missing: give the folder or Hub repo"),
]


@pytest.mark.parametrize(("options", "message"), USAGE)
def test_what_is_missing_is_said(
    options: tuple[object, ...], message: str, run: Path, tmp_path: Path
) -> None:
    env = {"RULER_CACHE": str(tmp_path / "cache")}  # where these answers were never scored
    assert message in refused(evaluate("score", run, *options, env=env), code=2)


def test_scores_replace_nothing_but_scores(run: Path, sample_build: Path, tmp_path: Path) -> None:
    shutil.copytree(sample_build, tmp_path / "data")
    for out in tmp_path / "out", tmp_path / "out", run:
        score(run, sample_build, "--out", out)
        assert {FILENAME, SUMMARY} <= {path.name for path in out.iterdir()}
    (run / FILENAME).write_text("torn")
    score(run, sample_build)
    another = make_run(tmp_path / "another", sample_build, golden, FEW)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / FILENAME).write_text("mine")
    before = snapshot(tmp_path)
    for out, why in (
        (tmp_path / "data", "holds a dataset"),
        (another, "holds another run"),
        (tmp_path / "mine", "is there, and not scores"),
        (run / "run.json", "a file; give a folder"),
    ):
        assert why in refused(evaluate("score", run, "--out", out), code=2)
    assert snapshot(tmp_path) == before


def test_predictions_do_not_replace_the_scores_of_others(
    sample_build: Path, tmp_path: Path
) -> None:
    rows = rows_of(sample_build, "vt_4096")
    lines = [json.dumps({"id": f"vt_4096/{row.index}", "text": golden("", row)}) for row in rows]
    about = ("--data", sample_build, "--model", "m", "--protocol", "chat")
    for name in "a", "b":
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    succeeded(evaluate("score", tmp_path / "a.jsonl", *about))
    succeeded(evaluate("score", tmp_path / "a.jsonl", *about))
    said = refused(evaluate("score", tmp_path / "b.jsonl", *about), code=2)
    assert "has the scores of 'a.jsonl'; give another --out" in said
    succeeded(evaluate("score", tmp_path / "b.jsonl", *about, "--out", tmp_path / "b"))


@pytest.mark.parametrize("option", ["--model", "--protocol"])
def test_predictions_need_both_a_model_and_a_protocol(
    option: str, sample_build: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": "vt_4096/0", "text": "x"}))
    one = ("--data", sample_build, option, "chat")
    said = refused(evaluate("score", tmp_path / "a.jsonl", *one), code=2)
    assert "--model and --protocol are required for predictions" in said


def test_where_nothing_can_be_written_scores_are_printed(run: Path, sample_build: Path) -> None:
    (run / FILENAME).mkdir()
    done = succeeded(evaluate("score", run, "--data", sample_build))
    assert "the scores are only printed" in done.stderr and "mean of 2 tasks 100.0" in done.stdout
    asked = evaluate("score", run, "--data", sample_build, "--out", "/proc/none")
    assert "cannot be written" in refused(asked)


def test_of_some_tasks_alone_nothing_is_written_unless_asked(
    run: Path, sample_build: Path, tmp_path: Path
) -> None:
    done = succeeded(evaluate("score", run, "--data", sample_build, "--tasks", "vt"))
    assert "mean of 1 task 100.0" in done.stdout and "fwe" not in done.stdout
    assert not (run / FILENAME).exists()
    score(run, sample_build, "--tasks", "vt", "--out", tmp_path / "vt")
    assert written(tmp_path / "vt").rows == 6


def test_the_table_is_eighty_columns_wide_and_one_line_has_the_interval(
    run: Path, sample_build: Path
) -> None:
    done = succeeded(evaluate("score", run, "--data", sample_build, env={"COLUMNS": "80"}))
    first, *lines = done.stdout.splitlines()
    assert first.split() == ["task", "4K"]
    assert [line.split() for line in lines[:2]] == [["vt", "100.00"], ["fwe", "100.00"]]
    (mean,) = [line for line in lines if line.startswith("mean of")]
    assert re.fullmatch(r"mean of 2 tasks 100\.0 \[\d\d\.\d, 100\.0\]; exact 100\.0", mean)
    assert all(len(line) <= 80 for line in lines if not line.startswith(("validity", "/")))


def test_the_summary_is_described_and_says_what_is_refused(
    sample_build: Path, tmp_path: Path
) -> None:
    run = make_run(tmp_path / "run", sample_build, lambda *_: "42", FEW)
    done = evaluate("score", run, "--data", sample_build)
    said = refused_last(done)
    assert "every answer is the same text" in said and "suspect harness" in said
    summary = json.loads((run / SUMMARY).read_text())
    jsonschema.validate(summary, json.loads((ROOT / "docs/results.schema.json").read_text()))
    assert "every answer is the same text" in summary["refusals"]
    assert json.loads(evaluate("score", run, "--data", sample_build, "--json").stdout) == summary
    assert (summary["mean"]["official"], summary["mean"]["tasks"]) == (0, 2)


def refused_last(done: Done) -> str:
    """Return the last line of a command that printed scores and failed."""
    assert done.returncode == 1 and "mean of 2 tasks 0.0" in done.stdout
    return done.stderr.splitlines()[-1]


def test_nothing_of_this_machine_is_in_the_results(sample_build: Path, tmp_path: Path) -> None:
    secret = {"path": "/home/ann/models/llama", "url": "http://gpu7.lab:8000/v1",
              "token": "hf_abcdefghijklmnop"}  # fmt: skip
    run = make_run(tmp_path / "run", sample_build, golden, FEW, engine_info=secret)
    score(run, sample_build)
    text = (run / SUMMARY).read_text() + written(run).run.model
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
    scores = written(run)
    kinds = {name: (task.params.family, task.category) for name, task in scores.tasks.items()}
    assert kinds == {
        "fwe_steep": ("fwe", "aggregation"),
        "vt_two": ("vt", "multi-hop tracing"),
    }
    assert {*scores.table["official"].to_pylist()} == {1.0}
    text = reported(tmp_path / "report", run)
    assert text.startswith("# Suite mine: ") and "not comparable with RULER's" in text
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
    assert json.loads(succeeded(done).stdout)["data"]["revision"] == released.commit
    assert written(run).run.data.revision == released.commit


def test_a_release_that_is_not_there_is_said_in_one_line(
    publisher: Publisher, repo: str, builds: Callable[..., Path], tmp_path: Path
) -> None:
    run = run_of_release(tmp_path / "run", builds(), repo, "0" * 40)
    message = refused(scored(run, publisher))
    assert f"{repo} at {'0' * 40}: the Hub does not have it" in message
