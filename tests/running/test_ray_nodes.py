"""Several machines, as Ray sees them, which come and go while rows are with them."""

import json
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ruler_data.names import config_file
from ruler_data.parquet import read_rows
from ruler_eval.running import ray as engine
from ruler_eval.running.config import EvalConfig
from ruler_eval.running.engine import Request, Setup
from ruler_eval.running.models import Model
from ruler_eval.running.oracle import gold_text
from ruler_eval.running.ray import RayOptions, _room, connect
from tests.builds import until
from tests.commands import finish, spawn, succeeded
from tests.running.processes import all_keys, evaluate, keys, refusal, started, whole_lines
from tests.running.test_ray import copies, order

pytest.importorskip("ray", reason="the extra `ray` is not installed")

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from ray.cluster_utils import Cluster


#: The environment of this module's cluster has it, so that its processes are known.
MARK = f"nodes-{os.getpid()}"


@pytest.fixture(scope="module")
def head() -> Iterator["Cluster"]:
    """A cluster of one machine with one CPU."""
    from ray.cluster_utils import Cluster  # takes a second to import

    files = tempfile.mkdtemp(prefix="ray-")  # short, for its sockets
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RULER_TEST_MARK", MARK)
        # Runs without an address look for a cluster in Ray's folder: not for this one.
        patch.setenv("RAY_TMPDIR", files)
        # A machine that has left is missed after five looks: 2 seconds, not 15.
        patch.setenv("RAY_health_check_period_ms", "400")
        made = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
        )
        try:
            yield made
        finally:
            made.shutdown()
            shutil.rmtree(files, ignore_errors=True)


@pytest.fixture
def cluster(head: "Cluster", monkeypatch: pytest.MonkeyPatch) -> Iterator["Cluster"]:
    """That cluster, which others may join; they leave with the test."""
    monkeypatch.setenv("RULER_TEST_MARK", MARK)
    monkeypatch.setenv("RAY_ADDRESS", head.address)
    yield head
    for node in [*head.worker_nodes]:
        head.remove_node(node, allow_graceful=False)
    head.wait_for_nodes()  # until they are known to have left


def machine(process: int) -> int:
    """Return the process that a machine's workers are children of."""
    stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    return int(stat.rpartition(")")[2].split()[1])


def test_a_machine_leaves_its_rows(cluster: "Cluster", frozen: Path, tmp_path: Path) -> None:
    second = cluster.add_node(num_cpus=1)
    command = order(frozen, tmp_path, "--option", "copies=2", "--option", "seconds=0.3")
    with started(*command) as process:
        until(lambda: len(copies(MARK)) == 2, process)
        until(lambda: whole_lines(tmp_path) >= 4, process)
        machines = {machine(copy) for copy in copies(MARK)}
        cluster.remove_node(second, allow_graceful=False)
        succeeded(finish(process))
    assert len(machines) == 2
    assert keys(tmp_path) == all_keys(frozen)


def test_copies_come_with_a_machine(cluster: "Cluster", frozen: Path, tmp_path: Path) -> None:
    cluster.add_node(num_cpus=1, num_gpus=1)
    two = ("--option", "gpus=1", "--option", "copies=2")
    command = order(frozen, tmp_path, *two, "--option", "seconds=0.2")
    with started(*command) as process:
        until(lambda: len(copies(MARK)) == 1 and whole_lines(tmp_path) >= 1, process)
        [first] = copies(MARK)
        os.kill(first, signal.SIGSTOP)  # a machine may take longer to join than all rows
        second = cluster.add_node(num_cpus=1, num_gpus=1)
        until(lambda: len(copies(MARK)) == 2, process)
        message = json.loads(evaluate("status", tmp_path, "--json").stdout)
        os.kill(first, signal.SIGCONT)
        cluster.remove_node(second, allow_graceful=False)
        succeeded(finish(process))
    assert message["answered"] >= 1
    assert keys(tmp_path) == all_keys(frozen)


def test_a_run_goes_on_with_the_copies_that_found_room(
    cluster: "Cluster", frozen: Path, tmp_path: Path
) -> None:
    cluster.add_node(num_cpus=1, num_gpus=1)
    two = ("--option", "gpus=1", "--option", "copies=2", "--option", "wait=3")
    done = spawn("ruler-eval", *order(frozen, tmp_path, *two, "--option", "seconds=0.2"))
    message = succeeded(done).stderr
    assert "after 3 s the cluster has no room for 1 actor with 1 GPUs on one node each" in message
    assert "; going on with 1\n" in message
    assert keys(tmp_path) == all_keys(frozen)


def test_a_copy_takes_the_gpus_of_each_of_its_stages(cluster: "Cluster", frozen: Path) -> None:
    cluster.add_node(num_cpus=1, num_gpus=13)
    stages = {"pipeline_parallel_size": 3}
    config = EvalConfig(frozen, engine="vllm", tensor_parallel=2, options=stages)
    ray = connect()
    try:
        room = _room(ray, RayOptions(), config)
    finally:
        ray.shutdown()
    assert str(room) == "6 GPUs on one node"
    assert room.copies == 2


@pytest.mark.parametrize(("option", "given"), [(64, 160), (300, 332)])
def test_a_copy_gets_more_rows_at_once_than_it_can_compute(
    cluster: "Cluster", frozen: Path, monkeypatch: pytest.MonkeyPatch, option: int, given: int
) -> None:
    # The option is vLLM's, which is not here: an oracle answers in its place.
    config = EvalConfig(frozen, engine="vllm", options={"max_num_seqs": option})
    setup = Setup(config, Model("m", "m"), None, 4096)
    oracle = Setup(EvalConfig(frozen, engine="oracle"), setup.model, None, 4096)
    serve = engine._serve
    monkeypatch.setattr(engine, "_serve", lambda _, actor: serve(oracle, actor))
    row = next(iter(read_rows(frozen / config_file("vt_2048"))))
    ids = np.array([1], dtype=np.uint32)
    requests = iter([Request("vt_2048", row, ids, 30, sample=n) for n in range(400)])
    answers = engine._generate(RayOptions(engine="vllm", copies=1, gpus=0), setup, requests)
    first = next(answers)
    left = len(list(requests))
    assert [first, *answers][-1].text == gold_text(row)
    assert left == 400 - given


def test_a_copy_may_span_machines(cluster: "Cluster", frozen: Path, tmp_path: Path) -> None:
    for _ in range(2):
        cluster.add_node(num_cpus=1, num_gpus=1)
    three = order(frozen, tmp_path, "--option", "gpus=3", "--option", "wait=3")
    message = refusal(spawn("ruler-eval", *three), 1)
    assert "after 3 s the cluster has no room for 1 actor with 3 GPUs each" in message
    assert "GPUs of its nodes, free or not: [0, 1, 1]; ask for less" in message
    succeeded(spawn("ruler-eval", *order(frozen, tmp_path, "--option", "gpus=2")))
    assert keys(tmp_path) == all_keys(frozen)
