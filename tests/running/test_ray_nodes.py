"""Several machines, as Ray sees them, which come and go while rows are with them."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.builds import until
from tests.commands import finish, spawn
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


def test_a_machine_that_goes_leaves_its_rows_to_the_other(
    cluster: "Cluster", frozen: Path, tmp_path: Path
) -> None:
    second = cluster.add_node(num_cpus=1)
    asked = order(frozen, tmp_path, "--option", "copies=2", "--option", "seconds=0.3")
    with started(*asked) as process:
        until(lambda: len(copies(MARK)) == 2, process)
        until(lambda: whole_lines(tmp_path) >= 4, process)
        machines = {machine(copy) for copy in copies(MARK)}
        cluster.remove_node(second, allow_graceful=False)
        done = finish(process)
    assert len(machines) == 2
    assert done.returncode == 0, done.stderr
    assert keys(tmp_path) == all_keys(frozen)


def test_copies_come_with_a_machine_that_joins_and_its_rows_stay_when_it_goes(
    cluster: "Cluster", frozen: Path, tmp_path: Path
) -> None:
    cluster.add_node(num_cpus=1, num_gpus=1)
    two = ("--option", "gpus=1", "--option", "copies=2")
    asked = order(frozen, tmp_path, *two, "--option", "seconds=0.2")
    with started(*asked) as process:
        until(lambda: len(copies(MARK)) == 1 and whole_lines(tmp_path) >= 1, process)
        [first] = copies(MARK)
        os.kill(first, signal.SIGSTOP)  # a machine may take longer to join than all rows
        second = cluster.add_node(num_cpus=1, num_gpus=1)
        until(lambda: len(copies(MARK)) == 2, process)
        said = json.loads(evaluate("status", tmp_path, "--json").stdout)
        os.kill(first, signal.SIGCONT)
        cluster.remove_node(second, allow_graceful=False)
        done = finish(process)
    assert said["answered"] >= 1
    assert done.returncode == 0, done.stderr
    assert keys(tmp_path) == all_keys(frozen)


def test_what_has_no_room_is_named_and_a_copy_may_span_machines(
    cluster: "Cluster", frozen: Path, tmp_path: Path
) -> None:
    for _ in range(2):
        cluster.add_node(num_cpus=1, num_gpus=1)
    three = order(frozen, tmp_path, "--option", "gpus=3", "--option", "wait=3")
    said = refusal(spawn("ruler-eval", *three), 1)
    assert "after 3 s the cluster has no room for 1 actor with 3 GPUs each" in said
    assert "GPUs of its nodes, free or not: [0, 1, 1]; ask for less" in said
    done = spawn("ruler-eval", *order(frozen, tmp_path, "--option", "gpus=2"))
    assert done.returncode == 0, done.stderr
    assert keys(tmp_path) == all_keys(frozen)


LISTS = "cluster_synced_files rsync_exclude rsync_filter initialization_commands setup_commands"
STARTS = "head_setup worker_setup head_start_ray worker_start_ray"
#: A cluster of a head without GPUs, and fake nodes. (Ray's own AutoscalingCluster ends every Ray on
#: the machine; fake nodes look for the head at Ray's own port.)
SCALING = {
    "cluster_name": "test", "max_workers": 2, "upscaling_speed": 1.0, "idle_timeout_minutes": 5,
    "provider": {
        "type": "fake_multinode", "use_node_id_as_ip": True, "disable_node_updaters": True,
    },
    "auth": {}, "docker": {}, "file_mounts": {}, "file_mounts_sync_continuously": False,
    **{name: [] for name in LISTS.split()}, **{f"{name}_commands": [] for name in STARTS.split()},
    "head_node_type": "ray.head.default",
    "available_node_types": {
        "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
        "gpu": {
            "resources": {"CPU": 1, "GPU": 1}, "node_config": {}, "min_workers": 0,
            "max_workers": 2,
        },
    },
}  # fmt: skip
PORT = 6379


def listens() -> bool:
    with socket.socket() as door:
        return door.connect_ex(("127.0.0.1", PORT)) == 0


def test_a_cluster_without_gpus_scales_up(
    frozen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RULER_TEST_MARK", str(tmp_path))
    config = tmp_path / "autoscaler.json"
    config.write_text(json.dumps(SCALING))
    if listens():
        pytest.skip(f"port {PORT} is in use")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    # Of its own, as runs without an address look for a cluster in Ray's; short, for its sockets.
    files = tempfile.mkdtemp(prefix="ray-")
    head = subprocess.Popen(
        [
            Path(sys.executable).with_name("ray"), "start", "--head", "--block", "--num-cpus=0",
            f"--port={PORT}", f"--temp-dir={files}", f"--autoscaling-config={config}",
            "--disable-usage-stats",
        ],
        env={**os.environ, "RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"},
        stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{PORT}")
        until(listens)
        asked = ("--option", "gpus=1", "--option", "copies=2", "--option", "seconds=0.2")
        with started(*order(frozen, tmp_path / "run", *asked)) as process:
            until(lambda: len(copies(str(tmp_path))) == 2, process)
            done = finish(process)
    finally:
        head.terminate()
        head.wait(60)
        end_marked(str(tmp_path))
        shutil.rmtree(files, ignore_errors=True)
    assert done.returncode == 0, done.stderr
    assert keys(tmp_path / "run") == all_keys(frozen)


def end_marked(mark: str) -> None:
    """End what a fake cluster left behind, and nothing else."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            marked = f"RULER_TEST_MARK={mark}".encode() in (entry / "environ").read_bytes()
            if marked and int(entry.name) != os.getpid():
                os.kill(int(entry.name), signal.SIGKILL)
        except OSError:  # it has just ended
            continue
