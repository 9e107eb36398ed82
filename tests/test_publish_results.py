"""`ruler-eval publish` against a small Hub on loopback: predictions, scores and card."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import ruler_report
from ruler_data import Row
from tests.commands import call_in, succeeded
from tests.hub import Hub
from tests.hub_faults import answers, loses_the_answer
from tests.publishing import Publisher, contents
from tests.running.processes import evaluate
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
    other = {"README.md", "results.json", "every_eval_ever.json"}
    assert set(held) == {*other, *(f"predictions/{c}.parquet" for c in FEW)}
    record = json.loads(held["every_eval_ever.json"])
    assert record["schema_version"] == "0.3.0" and len(record["evaluation_results"]) == 2
    assert json.loads(held["results.json"])["run"]["model"] == "org/model-7b"
    card = held["README.md"].decode()
    front = yaml.safe_load(card.split("---\n")[1])
    files = {item["config_name"]: item["data_files"][0]["path"] for item in front["configs"]}
    assert files == {config: f"predictions/{config}.parquet" for config in FEW}
    assert f'load_dataset("{REPO}", "vt_4096", split="test")' in card
    assert "| vt | " in card and "| protocol | completion |" in card


def test_predictions_have_their_scores(run: Path, held: dict[str, bytes]) -> None:
    rows = pq.read_table(pa.BufferReader(held["predictions/vt_4096.parquet"])).to_pylist()
    results = json.loads((run / "results.json").read_text())["configs"]["vt_4096"]
    assert [row["score"] for row in rows] == results["scores"]
    assert [row["index"] for row in rows] == list(range(6))
    assert rows[2]["prediction"] == "<b>"
    assert {row["failure"] for row in rows if row["score"] == 1} <= {None}
    assert "context" not in rows[0] and "outputs" not in rows[0]


def test_publishing_again_writes_nothing(run: Path, publish: Publish, hub: Hub, said: str) -> None:
    hub.requests.clear()
    again = publish(run, "--repo", REPO)
    assert again.returncode == 0 and "0 of 5 files sent" in again.stdout
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


def test_a_run_that_score_refuses_is_not_published_and_a_partial_one_with_its_bounds(
    sample_build: Path, tmp_path: Path, publish: Publish, hub: Hub, repo: str
) -> None:
    def say(_: str, row: Row) -> str | None:
        return golden(_, row) if row.index % 3 else None

    folder, data = make_run(tmp_path / "run", sample_build, say, FEW), ("--data", sample_build)
    said = refused(publish(folder, *data, "--repo", repo))
    assert "4 of 12 rows are unanswered, the first vt_4096/0, vt_4096/3, qa_1_4096/0; " in said
    succeeded(evaluate("score", folder, *data, "--partial"))
    succeeded(publish(folder, *data, "--repo", repo))
    files = contents(hub, repo, "main")
    record = json.loads(files["every_eval_ever.json"])
    for one in record["evaluation_results"]:
        bounds = one["score_details"]["uncertainty"]["confidence_interval"]
        assert one["score_details"]["score"] == bounds["upper"] == 100 > 200 / 3 > bounds["lower"]
        assert "incomplete: 8 of 12" in one["generation_config"]["additional_details"]["notes"]
    headline = ruler_report.report([folder], tmp_path / "out", pictures=False)
    card = files["README.md"].decode()
    assert "incomplete: 8 of 12 rows scored; the others count as wrong in one end of" in card
    assert all(table.markdown() in card for table in headline.tables if table.name == "headline")
