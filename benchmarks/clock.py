"""What is measured: CPU time, wall time, and the memory of a whole tree of processes."""

import contextlib
import resource
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

#: Seconds between two looks at the memory of a running command.
INTERVAL = 0.05


def cpu(work: Callable[[], object]) -> float:
    """Return the CPU seconds that a call takes, its child processes included."""
    before = spent()
    work()
    return spent() - before


def spent() -> float:
    """Return the CPU seconds, user and system, of this process and its children so far."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(use.ru_utime + use.ru_stime for use in map(resource.getrusage, kinds))


def least(work: Callable[[], object], times: int) -> float:
    """Return the CPU seconds of the cheapest of some calls; other work only adds to them."""
    return min(cpu(work) for _ in range(times))


@dataclass(frozen=True)
class Run:
    """What a command took: seconds on the wall and of CPU."""

    wall: float
    cpu: float


def run(command: Sequence[str]) -> Run:
    """Run a command to its end and measure it with all its processes."""
    before, start = spent(), time.monotonic()
    subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True
    )  # fmt: skip
    return Run(time.monotonic() - start, spent() - before)


def peak(command: Sequence[str]) -> int:
    """Run a command to its end and return the bytes that its processes took at the most.

    The sum of their proportional set sizes (PSS), which counts a page that several share once,
    looked at every `INTERVAL` seconds. Looking costs a tenth of a core, so nothing is timed.
    """
    most = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            most = max(most, _memory(process.pid))
            time.sleep(INTERVAL)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(command))
    return most


def _memory(process: int) -> int:
    """Return the bytes that a process and those that it started take together."""
    total = 0
    with contextlib.suppress(OSError, StopIteration):  # it may end while we look
        lines = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines()
        total += 1024 * int(next(line for line in lines if line.startswith("Pss:")).split()[1])
        for task in Path(f"/proc/{process}/task").iterdir():
            children = (task / "children").read_text(encoding="ascii").split()
            total += sum(map(_memory, map(int, children)))
    return total
