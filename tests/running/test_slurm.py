"""The sbatch file, submitted to a real SLURM: subsets, preemption, a killed task, the time limit.

RULER_SLURM names a script that starts SLURM on this machine (`start FOLDER`, with the configuration
in FOLDER/slurm.conf) and stops it (`stop FOLDER`).
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from tests.builds import until
from tests.conftest import ROOT
from tests.running.processes import all_keys, keys, whole_lines

START = os.environ.get("RULER_SLURM")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("sbatch") is None, reason="SLURM is not installed"),
    pytest.mark.skipif(not START, reason="RULER_SLURM names no script that starts SLURM"),
]
SCRIPT = ROOT / "docs" / "slurm" / "ruler-eval.sbatch"
#: What a machine without GPUs has, instead of what the file asks for.
SMALL = ("--gpus-per-node=0", "--cpus-per-task=1", "--mem=500M")


@pytest.fixture(scope="module", autouse=True)
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A SLURM with a second partition, whose jobs preempt those of the first; one on a machine."""
    folder = tmp_path_factory.mktemp("slurm")
    alone = FileLock(Path(tempfile.gettempdir()) / "ruler-slurm.lock")
    with alone, pytest.MonkeyPatch.context() as patch:
        subprocess.run(["bash", str(START), "start", folder], check=True, timeout=120)
        patch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
        with (folder / "slurm.conf").open("a") as file:
            node = socket.gethostname().partition(".")[0]
            file.write(
                "PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n"
                f"PartitionName=urgent Nodes={node} State=UP PriorityTier=10\n"
            )
        shell("scontrol", "reconfigure")
        try:
            yield
        finally:
            subprocess.run(["scancel", "--user", str(os.getuid())], check=False, timeout=60)
            subprocess.run(["bash", str(START), "stop", folder], check=False, timeout=120)


def shell(*command: object) -> str:
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


class Array:
    """A job array of the golden answers."""

    def __init__(self, data: Path, folder: Path, shards: int) -> None:
        self.folder, self.data, self.out = folder, data, folder / "run"
        self.env = {"DATA": data, "MODEL": "golden", "OUT": self.out, "GROUPS_A_NODE": 1}
        self.env |= {"SHARDS": shards, "PATH": f"{folder}:{os.environ['PATH']}"}
        program = folder / "ruler-eval"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ruler_cli "$@"\n')
        program.chmod(0o755)

    def submit(self, array: str, *more: object, seconds: float = 0.0) -> str:
        """Submit tasks of the array; return the number of the job."""
        export = ",".join(["ALL", *(f"{name}={value}" for name, value in self.env.items())])
        arguments = (
            "--parsable",
            f"--array={array}",
            f"--chdir={self.folder}",
            f"--export={export}",
        )
        oracle = ("--engine", "oracle", "--option", f"seconds={seconds}")
        return shell("sbatch", *arguments, *SMALL, *more, SCRIPT, *oracle)

    def log(self, job: str, task: int) -> str:
        return (self.folder / f"ruler-{job}-{task}.log").read_text()


def states(job: str) -> list[str]:
    """Return the states of the tasks that wait or run."""
    return sorted(shell("squeue", "-h", "-r", "-o", "%T", "-j", job).split())


def finish(job: str) -> list[str]:
    """Wait for a job, and return the ends of its tasks; none waits two minutes to be requeued."""

    def over() -> bool:
        if "PENDING" in (now := states(job)):
            subprocess.run(["scontrol", "update", f"JobId={job}", "StartTime=now"], check=False)
        time.sleep(0.5)
        return not now

    until(over, seconds=300)
    return sorted(re.findall(r"JobState=(\w+)", shell("scontrol", "show", "job", job)))


@pytest.fixture
def array(frozen: Path, tmp_path: Path) -> Array:
    return Array(frozen, tmp_path, 2)


def test_preempted_tasks_are_requeued_and_resume(array: Array) -> None:
    job = array.submit("0-1", seconds=0.4)
    until(lambda: len(list(array.out.glob("answers-*.jsonl"))) == 2 and whole_lines(array.out) > 4)
    urgent = ("-p", "urgent", "-n", os.cpu_count() or 1, "--mem=100M", "-o", "/dev/null")
    shell("sbatch", *urgent, "--wrap", "sleep 1")
    until(lambda: states(job) == ["PENDING"] * 2)
    before = whole_lines(array.out)
    assert 4 < before < 40
    assert {path.read_bytes()[-2:] for path in array.out.glob("answers-*.jsonl")} == {b"}\n"}
    assert finish(job) == ["COMPLETED"] * 2
    assert "DUE TO PREEMPTION" in array.log(job, 0)
    assert keys(array.out) == all_keys(array.data)


def test_before_its_time_limit_a_task_goes_back_to_the_queue(array: Array) -> None:
    array.env["SHARDS"] = 1
    # SLURM looks every 30 s and signals up to 30 s early: here 10 to 40 s after the start. With
    # @50, that could be before the script has begun, and the signal would be lost.
    job = array.submit("0", "--time=1", "--signal=B:USR1@20", seconds=2.0)
    assert finish(job) == ["COMPLETED"]
    log = array.log(job, 0)
    assert "ruler-eval: stopped; run the same command again to resume" in log
    assert "Restarts=0" not in shell("scontrol", "show", "job", job)
    assert keys(array.out) == all_keys(array.data)
