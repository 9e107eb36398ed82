"""One model over two machines, as Ray sees them: its halves answer together."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.commands import succeeded
from tests.engines.conftest import CPU, Answers, Order, answers, assert_same

if TYPE_CHECKING:
    from ray.cluster_utils import Cluster

#: Python finds the platform `ray_cpu` there, and vLLM takes it; threads are not bound to cores, of
#: which two nodes here have the same.
ENV = {"PYTHONPATH": str(Path(__file__).parent / "ray_cpu"), "VLLM_CPU_OMP_THREADS_BIND": "nobind"}


@pytest.fixture
def cluster() -> Iterator["Cluster"]:
    """Two nodes, each with what Ray takes for a GPU."""
    from ray.cluster_utils import Cluster

    files = tempfile.mkdtemp(prefix="ray-")  # short, for its sockets
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**ENV, "RAY_TMPDIR": files}.items():
            patch.setenv(name, value)
        head = {"num_cpus": 1, "num_gpus": 1, "include_dashboard": False}
        made = Cluster(initialize_head=True, head_node_args=head)
        try:
            made.add_node(num_cpus=1, num_gpus=1)
            patch.setenv("RAY_ADDRESS", made.address)
            yield made
        finally:
            made.shutdown()
            shutil.rmtree(files, ignore_errors=True)


@pytest.mark.usefixtures("cluster")
def test_two_nodes_say_the_same(order: Order, reference: Answers, tmp_path: Path) -> None:
    halves = ("--tensor-parallel", 2, "--option", "gpu_memory_utilization=0.1")
    done = order("ray", tmp_path / "run", *CPU, *halves, "--rows", 1, env=ENV)
    succeeded(done)
    assert_same(answers(tmp_path / "run"), {key: reference[key] for key in reference if not key[1]})
