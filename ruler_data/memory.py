"""One limit of memory for a process, fixed when a program starts.

A chat template, a tokenizer or a file of rows can make a library ask for any amount of memory. The
system refuses what goes beyond `RLIMIT_DATA`, which counts all private memory that a process may
write to, used or not. Python and Arrow then raise an error; a native library may end the process by
a signal. macOS does not count this memory, so there is no limit there.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ruler_data.errors import UsageError

GIB = 1 << 30
#: Variable with another limit, in GiB, and the least one: Python and the libraries take 1.3 GiB.
VARIABLE = "RULER_MEMORY"
LEAST_SETTING = 2
#: Bounds of the limit where the variable is not set.
LEAST = 4 * GIB
MOST = 16 * GIB
#: Tokens of rows from which a worker needs more memory, and what it needs below and above.
LONG = 131_072
WORKER = 2 * GIB
LONG_WORKER = 4 * GIB
#: Where Linux says of which control groups a process is, and where those are.
MEMBERSHIP = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")


def limit_process() -> None:
    """Limit the memory of this process and of those that it starts.

    Raises:
        UsageError: RULER_MEMORY is not a number of GiB.
    """
    size = min(max(machine_memory() // 2, LEAST), MOST)
    if setting := os.environ.get(VARIABLE):
        size = _parsed(setting)
    limit_to(size)


def _parsed(setting: str) -> int:
    try:
        size = float(setting)
    except ValueError:
        size = 0
    if not LEAST_SETTING <= size < 1 << 20:
        raise UsageError(f"{VARIABLE}={setting!r}: give a number of GiB, {LEAST_SETTING} or more")
    return int(size * GIB)


def limit_to(size: int) -> None:
    """Limit the memory of this process to so many bytes, unless it has a lower limit."""
    if sys.platform != "linux":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft == resource.RLIM_INFINITY or size < soft:
        resource.setrlimit(resource.RLIMIT_DATA, (size, hard))


def lift() -> None:
    """Lift the limit: an engine in this process takes as much memory as its model does."""
    if sys.platform != "linux":
        return
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))


def limit() -> int | None:
    """Return the limit of this process in bytes, or None."""
    if sys.platform != "linux":
        return None
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    return None if soft == resource.RLIM_INFINITY else soft


def machine_memory() -> int:
    """Return the bytes of memory that the machine or a control group of this process has."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for file in _group_files():
        with suppress(OSError, ValueError):  # it does not exist here, or says `max`
            sizes.append(int(file.read_text(encoding="ascii")))
    return min(sizes)


def _group_files() -> Iterator[Path]:
    """Yield the files with the limits of this process's control groups and of all above them."""
    try:
        lines = MEMBERSHIP.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, place = line.split(":", 2)
        if controllers == "":  # version 2
            root = GROUPS
            name = "memory.max"
        elif "memory" in controllers.split(","):  # version 1
            root = GROUPS / "memory"
            name = "memory.limit_in_bytes"
        else:
            continue
        group = Path(place)
        for folder in (group, *group.parents):
            yield root / folder.relative_to("/") / name


def most_workers(longest: int) -> int | None:
    """Return how many workers share the limit, for rows of so many tokens; None without a limit."""
    size = limit()
    if size is None:
        return None
    return max(1, size // _need(longest))


def _need(longest: int) -> int:
    """Return the bytes that a worker needs for rows of so many tokens."""
    if longest > LONG:
        return LONG_WORKER
    return WORKER


def shared(longest: int) -> str:
    """Return how workers share the limit, for rows of so many tokens."""
    size = limit() or 0
    return f"as each needs {_need(longest) // GIB} of the {size / GIB:.3g} GiB for all; {_remedy()}"


def failure(error: BaseException) -> str:
    """Return what to say where a library had no more memory; empty for another error.

    Rust's libraries panic, which is not an `Exception` and has no class that could be imported.
    """
    if type(error).__name__ == "PanicException":
        line = str(error).partition("\n")[0][:300]
        return f"a library failed ({line}), possibly for lack of memory; {_remedy()}"
    if isinstance(error, MemoryError):
        return excess()
    return ""


def excess() -> str:
    """Return what to say of something that takes too much memory."""
    size = limit()
    if size is None:
        return "takes more memory than there is"
    return f"takes more than the {size / GIB:.3g} GiB that this process may use; {_remedy()}"


def _remedy() -> str:
    size = limit() or LEAST
    return f"{VARIABLE}={2 * size / GIB:.3g} for more"
