"""`ruler-eval publish` against a small Hub on loopback: predictions, scores and card."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from ruler_data import Row
from ruler_eval.running.data import open_dataset
from ruler_eval.scoring.loading import load_scores
from tests.commands import call_in, succeeded
from tests.hub import Hub
from tests.hub_faults import answers, loses_the_answer
from tests.publishing import Publisher, contents
from tests.runs import golden, make_run, patchy, refused, scored_run

pytestmark = pytest.mark.slow

FEW = ("vt_4096", "qa_1_4096")


@pytest.fixture(scope="module")
def run(sample_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scored run over two configs; one of its answers is HTML."""

    def say(config: str, row: Row) -> str:
        return "<b>" if row.index == 2 else patchy(0.6)(config, row) or ""

    return scored_run(tmp_path_factory.mktemp("runs") / "run", sample_build, say, FEW)


Publish = Callable[..., Any]


@pytest.fixture(scope="module")
def publish(publisher: Publisher) -> Publish:
    """Run `ruler-eval publish` against the Hub on loopback."""
    return lambda *arguments: call_in(
        publisher.pool, "ruler-eval", "publish", *arguments, env=publisher.env()
    )


REPO = "org/published-once"


@pytest.fixture(scope="module")
def said(run: Path, publish: Publish) -> str:
    """What a publication to REPO printed."""
    done = succeeded(publish(run, "--repo", REPO))
    return done.stdout + done.stderr


@pytest.fixture
def held(said: str, hub: Hub) -> dict[str, bytes]:
    """The files of REPO after that."""
    return contents(hub, REPO, "main")


def test_predictions_are_published_with_scores_and_a_card(held: dict[str, bytes]) -> None:
    other = {"README.md", "scores.parquet"}
    assert set(held) == {*other, *(f"predictions/{c}.parquet" for c in FEW)}
    card = held["README.md"].decode()
    front = yaml.safe_load(card.split("---\n")[1])
    files = {item["config_name"]: item["data_files"][0]["path"] for item in front["configs"]}
    assert files == {config: f"predictions/{config}.parquet" for config in FEW}
    assert f'load_dataset("{REPO}", "vt_4096", split="test")' in card
    assert "| vt | " in card and "| protocol | completion |" in card


def test_predictions_have_their_scores(run: Path, held: dict[str, bytes]) -> None:
    rows = pq.read_table(pa.BufferReader(held["predictions/vt_4096.parquet"])).to_pylist()
    lines = load_scores(run).to_pandas()
    assert [row["official"] for row in rows] == lines[lines["task"] == "vt"]["official"].tolist()
    assert [row["index"] for row in rows] == list(range(6))
    assert rows[2]["prediction"] == "<b>"
    assert {row["label"] for row in rows if row["exact"] == 1} <= {None}
    assert "context" not in rows[0] and "outputs" not in rows[0]


@pytest.mark.parametrize("private", [True, False])
def test_a_new_repo_is_private_if_the_user_says_so(
    private: bool, run: Path, publish: Publish, hub: Hub, repo: str
) -> None:
    succeeded(publish(run, "--repo", repo, *["--private"] * private))
    assert hub.repos[repo].private is private


def test_publishing_again_writes_nothing(run: Path, publish: Publish, hub: Hub, said: str) -> None:
    hub.requests.clear()
    again = publish(run, "--repo", REPO)
    assert again.returncode == 0 and "0 of 4 files sent" in again.stdout
    assert [line for line in hub.writes() if "repos/create" not in line] == []


def test_a_dry_run_writes_nothing(
    run: Path, publish: Publish, publisher: Publisher, hub: Hub, repo: str
) -> None:
    done = publish(run, "--repo", repo, "--dry-run")
    assert done.returncode == 0 and "predictions/vt_4096.parquet" in done.stdout
    arguments = ("ruler-eval", "publish", run, "--repo", repo)
    env = publisher.env() | {"HF_TOKEN": ""}
    for more, status in ((), 1), (("--dry-run",), 3):
        done = call_in(publisher.pool, *arguments, *more, env=env)
        assert done.returncode == status and "no token" in done.stderr, done.stderr
    assert hub.writes() == [] and repo not in hub.repos


def test_nothing_of_this_machine_is_published(
    run: Path, hub: Hub, said: str, held: dict[str, bytes], sample_build: Path
) -> None:
    secrets = (hub.env()["HF_TOKEN"], str(run), str(sample_build), os.environ.get("HOME", "/root"))
    published = b"".join(held.values()).decode("utf-8", "replace")
    for secret in secrets:
        assert secret not in published and secret not in said


def test_passing_faults_cost_nothing(run: Path, publish: Publish, hub: Hub, repo: str) -> None:
    for match, act in (
        (r"POST .*/preupload/", answers(503)), (r"POST .*/commit/", answers(429)),
        (r"POST .*/commit/", loses_the_answer),
    ):  # fmt: skip
        hub.fail(match, act)
    assert publish(run, "--repo", repo).returncode == 0
    assert not any(fault.times for fault in hub.faults)
    assert len(hub.repos[repo].log()) == 2, "the Hub's own first commit, and one"


def test_an_incomplete_run_is_published_as_one(
    sample_build: Path, tmp_path: Path, publish: Publish, hub: Hub, repo: str
) -> None:
    def say(_: str, row: Row) -> str | None:
        return golden(_, row) if row.index % 3 else None

    folder, data = make_run(tmp_path / "run", sample_build, say, FEW), ("--data", sample_build)
    said = succeeded(publish(folder, *data, "--repo", repo)).stdout
    assert f"{repo}: incomplete, 4 rows of 12 unanswered" in said
    card = contents(hub, repo, "main")["README.md"].decode()
    assert "incomplete: 4 of 12 rows have no score" in card
    assert "no task at a length is complete" in card


def test_gold_answers_are_not_published_as_a_models(
    sample_build: Path, tmp_path: Path, publish: Publish, hub: Hub, repo: str
) -> None:
    folder = make_run(tmp_path / "run", sample_build, golden, FEW, engine="oracle")
    said = refused(publish(folder, "--data", sample_build, "--repo", repo))
    assert "its answers are the gold answers, of no model" in said and repo not in hub.repos


@pytest.mark.parametrize(
    ("answer", "why"), [("", "every answer is empty"), (None, "no row is answered")]
)
def test_what_score_refuses_is_not_published(
    answer: str | None, why: str, publish: Publish, sample_build: Path, tmp_path: Path, hub: Hub
) -> None:
    folder = make_run(tmp_path / "run", sample_build, lambda *_: answer, FEW)
    writes = len(hub.writes())
    said = refused(publish(folder, "--data", sample_build, "--repo", "org/refused"))
    assert why in said and len(hub.writes()) == writes


def test_a_run_with_one_row_a_config_is_published(
    sample_build: Path, tmp_path: Path, publish: Publish, hub: Hub, repo: str
) -> None:
    def say(config: str, row: Row) -> str | None:
        return golden(config, row)

    data = open_dataset(str(sample_build)).choose(configs=[*FEW]).info
    one = replace(data, rows=dict.fromkeys(FEW, 1))
    folder = make_run(tmp_path / "run", sample_build, say, FEW, data_info=one)
    succeeded(publish(folder, "--data", sample_build, "--repo", repo))
    assert "one row alone" in contents(hub, repo, "main")["README.md"].decode()


def test_predictions_on_the_hub_join_a_report(
    publish: Publish, publisher: Publisher, said: str, run: Path, tmp_path: Path, hub: Hub
) -> None:
    arguments = ("report", REPO, "--claimed", "--no-pictures", "--out", tmp_path / "out")
    done = call_in(publisher.pool, "ruler-eval", *arguments, env=publisher.env())
    assert "org/model-7b [claimed]" in succeeded(done).stdout
    revision = hub.repos[REPO].head
    for at, status in ((revision, 0), ("v9.9.9", 1)):
        arguments = ("report", f"{REPO}@{at}", *arguments[2:])
        done = call_in(publisher.pool, "ruler-eval", *arguments, env=publisher.env())
        assert done.returncode == status, done.stderr
