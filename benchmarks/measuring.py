"""CPU time, wall time and memory of functions and commands, and what a page says of the machine."""

import os
import platform
import resource
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path


def cpu(work: Callable[[], object]) -> float:
    """Return the CPU seconds that a call takes, its child processes included."""
    before = spent()
    work()
    return spent() - before


def spent() -> float:
    """Return the CPU seconds, user and system, of this process and its children so far."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(use.ru_utime + use.ru_stime for use in map(resource.getrusage, kinds))


@dataclass(frozen=True)
class Run:
    """What a command took: seconds on the wall and of CPU."""

    wall: float
    cpu: float


def run(command: Sequence[str]) -> Run:
    """Run a command to its end and measure it with all its processes."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(command))
    cpu = used.ru_utime + used.ru_stime
    return Run(time.monotonic() - start, cpu)


def about(*packages: str) -> dict[str, str]:
    """Return machine, commit, and the versions of Python and of packages."""
    git = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return {
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.machine()}",
        "commit": git.stdout.strip() or "unknown",
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


def facts(about: Mapping[str, object]) -> list[str]:
    """Return the lines of a Markdown list."""
    return [f"- {name}: {value}" for name, value in about.items()]


def table(heads: Sequence[str], rows: Iterable[Iterable[object]]) -> list[str]:
    """Return the lines of a Markdown table; a missing value (None) is a dash."""
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    return lines + [f"| {' | '.join(map(_cell, row))} |" for row in rows]


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(": ")[1] for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()
