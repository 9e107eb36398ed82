"""Two machines, as Ray sees them: a copy on each, and one that goes while rows are with it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.builds import until
from tests.commands import finish
from tests.running.processes import all_keys, keys, started, whole_lines
from tests.running.test_ray import copies, order

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from ray.cluster_utils import Cluster


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator["Cluster"]:
    """A cluster of one machine with one CPU, which others may join; it ends with the test."""
    from ray.cluster_utils import Cluster  # takes a second to import

    monkeypatch.setenv("RULER_TEST_MARK", str(tmp_path))  # its processes are known by it
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        yield made
    finally:
        made.shutdown()  # type: ignore[no-untyped-call]


def machine(process: int) -> int:
    """Return the process that a machine's workers are children of."""
    stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    return int(stat.rpartition(")")[2].split()[1])


def test_a_machine_that_goes_leaves_its_rows_to_the_other(
    cluster: "Cluster", frozen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = cluster.add_node(num_cpus=1)
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    asked = order(frozen, tmp_path, "--option", "copies=2", "--option", "seconds=0.1")
    with started(*asked) as process:
        until(lambda: len(copies(str(tmp_path))) == 2, process)
        until(lambda: whole_lines(tmp_path) >= 4, process)
        machines = {machine(copy) for copy in copies(str(tmp_path))}
        cluster.remove_node(second, allow_graceful=False)
        done = finish(process)
    assert len(machines) == 2
    assert done.returncode == 0, done.stderr
    assert keys(tmp_path) == all_keys(frozen)
