"""Builds as processes of their own: run, watched and compared."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests import commands
from tests.commands import HANG, Done, Process

Asked = tuple[object, ...]

#: A small build of four configs; and the config that it begins with.
FOUR = (
    "--sources", "sample", "--tasks", "vt,fwe", "--lengths", "1280,1536", "--rows", 16,
)  # fmt: skip
FIRST = "vt_1536"


def run(*arguments: object, **how: Any) -> Done:  # noqa: ANN401 - what `commands.run` takes
    """Run `ruler-data build` to its end."""
    return commands.run("ruler-data", "build", *arguments, **how)


def started(*arguments: object) -> AbstractContextManager[Process]:
    """Start `ruler-data build` in a process group of its own."""
    return commands.started("ruler-data", "build", *arguments)


def until(
    condition: Callable[[], object], process: Process | None = None, seconds: float = HANG
) -> None:
    """Wait for a condition, or for the end of the process that should bring it about."""
    start = before = time.monotonic()
    while not condition():
        if process is not None and process.poll() is not None:
            return
        now = time.monotonic()
        if now > start + seconds:
            pytest.fail("what was waited for did not come")
        time.sleep(max(0.0005, 3 * (now - before)))  # a costly condition takes a quarter of a core
        before = time.monotonic()


def members(group: int) -> dict[int, str]:
    """Return the processes of a group that live, with their command lines."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, of_group = _stat(entry)
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (OSError, ValueError):  # it has just ended
            continue
        if of_group == group and state not in "ZX":
            found[int(entry.name)] = line
    return found


def workers_of(process: Process) -> list[int]:
    """Return the worker processes of a build."""
    return [pid for pid, line in members(process.pid).items() if "spawn_main" in line]


def snapshot(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder with its bytes, and every folder in it by name."""
    return {
        str(path.relative_to(folder)): b"" if path.is_dir() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
    }


def assert_same(folder: Path, expected: dict[str, bytes]) -> None:
    """Compare a folder with an undisturbed build: the set of files, then each one's bytes."""
    found = snapshot(folder)
    lost, stray = sorted(expected.keys() - found), sorted(found.keys() - expected)
    changed = [name for name in expected.keys() & found if found[name] != expected[name]]
    assert not lost + stray + changed, f"lost {lost}, stray {stray}, changed {changed}"


def assert_nothing_torn(folder: Path, expected: dict[str, bytes]) -> None:
    """Every file that an undisturbed build has is absent, or as it is there."""
    paths = {name: folder / name for name, data in expected.items() if data}
    there = {name: path.read_bytes() for name, path in paths.items() if path.is_file()}
    torn = [name for name, data in there.items() if data != expected[name]]
    assert not torn, torn


def _stat(entry: Path) -> tuple[str, int]:
    """Return state and process group of a process; its name may hold anything."""
    fields = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return fields[0], int(fields[2])
