"""Several shards on one machine: a process for each group of GPUs, and one that watches them.

Each process is `ruler-eval run --shard I/N` with the GPUs of its group in CUDA_VISIBLE_DEVICES.
They share nothing but the run's folder: one that dies takes no other with it, and is resumed alone.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from ruler_data.errors import RulerError, UsageError
from ruler_eval.progress import JournalTail
from ruler_eval.run_dir import RunFolder, Shard
from ruler_eval.schema import Prediction

#: Seconds that shards have to end in order, and between looks at what they do.
GRACE, LOOK = 60.0, 0.2
#: Set for a process that ends when the one that started it does.
FOLLOWS = "RULER_FOLLOWS"


@dataclass(frozen=True)
class Member:
    """One shard's process."""

    shard: Shard
    process: subprocess.Popen[bytes]
    log: Path


def shards_of(shard: Shard, groups: int) -> list[Shard]:
    """Return the shards that a machine which was given one shard splits it into.

    >>> [str(part) for part in shards_of(Shard(1, 2), 3)]
    ['3/6', '4/6', '5/6']
    """
    count = shard.count * groups
    return [Shard(shard.index * groups + group, count) for group in range(groups)]


def devices(groups: int, size: int, visible: str | None) -> list[str]:
    """Return CUDA_VISIBLE_DEVICES of each group.

    >>> devices(2, 2, None)
    ['0,1', '2,3']
    >>> devices(2, 1, "5,7")
    ['5', '7']

    Args:
        groups: of GPUs.
        size: GPUs of each.
        visible: those that may be used, as CUDA_VISIBLE_DEVICES names them; all where None.

    Raises:
        UsageError: there are fewer.
    """
    names = [str(place) for place in range(groups * size)]
    if visible is not None:
        names = [name for name in visible.split(",") if name]
    if len(names) < groups * size:
        msg = (
            f"--data-parallel {groups} of {size} GPUs needs {groups * size}, "
            f"CUDA_VISIBLE_DEVICES names {len(names)}"
        )
        raise UsageError(msg)
    return [",".join(names[group * size : (group + 1) * size]) for group in range(groups)]


def run_shards(
    folder: RunFolder,
    shards: Sequence[Shard],
    gpus: Sequence[str],
    arguments: Sequence[str],
    progress: Callable[[Prediction], None],
) -> None:
    """Run shards side by side to their end.

    Args:
        folder: of the run.
        shards: to run.
        gpus: of each.
        arguments: of the command, as it was given.
        progress: called with each answer that a journal gains.

    Raises:
        RulerError: a shard failed; the others went on to their end.
    """
    follower = JournalTail(folder, shards)
    with _started(folder, shards, gpus, without_shards(arguments)) as members:
        while any(member.process.poll() is None for member in members):
            time.sleep(LOOK)
            for answer in follower.news():
                progress(answer)
        for answer in follower.news():
            progress(answer)
    failed = [member for member in members if member.process.returncode]
    if failed:
        said = "; ".join(f"shard {member.shard}: {_last_words(member)}" for member in failed)
        msg = f"{len(failed)} of {len(members)} shards failed: {said}; run the same command again"
        raise RulerError(msg)


def without_shards(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of a command without those that are a shard's own.

    >>> without_shards(["run", "--data-parallel", "8", "--out", "x", "--shard=0/2", "--json"])
    ['run', '--out', 'x']
    """
    kept: list[str] = []
    skip = False
    for argument in arguments:
        if skip:
            skip = False
        elif argument in ("--data-parallel", "--shard"):
            skip = True
        elif not argument.startswith(("--data-parallel=", "--shard=")) and argument != "--json":
            kept.append(argument)
    return kept


def follow() -> None:
    """End in order when the process that started this one is gone, if it is to be followed."""
    if os.environ.pop(FOLLOWS, None) is None:
        return

    def wait() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE)
        os._exit(128 + signal.SIGTERM)

    Thread(target=wait, daemon=True).start()


@contextmanager
def _started(
    folder: RunFolder, shards: Sequence[Shard], gpus: Sequence[str], arguments: Sequence[str]
) -> Iterator[list[Member]]:
    """Start the shards; however the block is left, none of them lives on."""
    members: list[Member] = []
    try:
        for shard, group in zip(shards, gpus, strict=True):
            log = folder.path / f"shard-{shard.name}.log"
            with log.open("ab") as output:
                process = subprocess.Popen(
                    [sys.executable, "-m", "ruler_eval", *arguments, "--shard", str(shard)],
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=output,
                    env={**os.environ, "CUDA_VISIBLE_DEVICES": group, FOLLOWS: "1"},
                )
            members.append(Member(shard, process, log))
        yield members
    finally:
        _end(members)


def _end(members: Sequence[Member]) -> None:
    for member in members:
        if member.process.poll() is None:
            member.process.terminate()
    deadline = time.monotonic() + GRACE
    for member in members:
        try:
            member.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            member.process.kill()
            member.process.wait()
        if member.process.stdin is not None:
            member.process.stdin.close()


def _last_words(member: Member) -> str:
    """Return the line in which a shard said why it failed, else where its output lies."""
    with member.log.open("rb") as file:
        file.seek(max(0, member.log.stat().st_size - 8192))
        lines = file.read().decode("utf-8", "replace").splitlines()
    said = [line for line in lines if line.startswith("ruler-eval: ")]
    if said:
        return said[-1].removeprefix("ruler-eval: ")
    return f"ended with {member.process.returncode}, see {member.log}"
