"""Where the rows that are scored come from: suites of one's own, and releases on the Hub."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ruler_data.manifest import Manifest
from ruler_report.results_file import read_results
from tests.commands import Done
from tests.conftest import Cli
from tests.hub import Hub
from tests.publishing import Publisher
from tests.running.processes import evaluate
from tests.runs import golden, make_run, refused, run_info

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
    options = ("--suite", suite, "--rows", 4, "--lengths", "1024,1536", "--sources-kind", "sample")
    built = cli("build", *options, "--out", data)
    assert built.returncode == 0, built.stderr
    run = make_run(tmp_path / "run", data, golden)
    message = evaluate("score", run, "--data", data)
    assert message.returncode == 0
    assert "warning: suite mine; its means are not comparable with RULER's" in message.stderr
    assert "warning: some configs have only 4 rows; the paper uses 500" in message.stderr
    results = read_results(run)
    kinds = {name: (one.family, one.category) for name, one in results.configs.items()}
    assert kinds["fwe_steep_1024"] == ("fwe", "aggregation")
    assert kinds["vt_two_1536"] == ("vt", "multi-hop tracing")
    assert {score for one in results.configs.values() for score in one.scores} == {1.0}
    done = evaluate("report", run, "--out", tmp_path / "report", "--no-pictures")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    assert text.startswith("# Suite mine results: ") and "not comparable with RULER's" in text
    assert "| fwe\\_steep | 100.0" in text and "| 85.6 |" not in text


def run_of_release(folder: Path, data: Path, repo: str, commit: str) -> Path:
    """Write a run over rows that were asked from a release."""
    local = run_info(data, Manifest.from_json((data / "manifest.json").read_text()).configs)
    info = replace(local.data, repo=repo, revision=commit)
    return make_run(folder, data, golden, data_info=info)


def scored(run: Path, hub: Hub, home: Path, *options: object) -> Done:
    env = {**hub.env(), "HF_HOME": str(home)}
    return evaluate("score", run, *options, "--json", env=env)


def test_a_run_of_a_release_is_scored_on_that_very_commit(
    publisher: Publisher, hub: Hub, repo: str, builds: Callable[..., Path], tmp_path: Path
) -> None:
    data = builds()
    released = publisher(data, repo, "1.0.0")
    assert released.code == 0, released.said
    run = run_of_release(tmp_path / "run", data, repo, str(released.commit))
    hub.foreign_commit(repo)  # the branch goes on; the run's commit stays
    done = scored(run, hub, tmp_path / "hf", "--data", repo)  # as by default: at its commit
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["lengths"]
    assert read_results(run).run.data.revision == released.commit


def test_a_release_that_is_not_there_is_said_in_one_line(
    hub: Hub, repo: str, builds: Callable[..., Path], tmp_path: Path
) -> None:
    run = run_of_release(tmp_path / "run", builds(), repo, "0" * 40)
    message = refused(scored(run, hub, tmp_path / "hf"))
    assert f"{repo} at {'0' * 40}: manifest.json: the Hub does not have it" in message
