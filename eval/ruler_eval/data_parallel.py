"""Several shards on one machine: one process per group of GPUs, and this one, which watches them.

Each process is `ruler-eval run --shard I/N` with the GPUs of its group in CUDA_VISIBLE_DEVICES.
They share only the run's folder: one that dies affects no other, and only its shard is resumed.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from ruler_data.errors import RulerError, UsageError
from ruler_eval.run_dir import LOG, RunFolder
from ruler_eval.runner import RunJob, bar
from ruler_eval.sharding import Shard, shares_of

#: Seconds that processes have to end by themselves, and between checks of what they do.
GRACE, POLL = 60.0, 2.0
#: Environment variable of a process that ends when its parent does.
ENDS_WITH_PARENT = "RULER_FOLLOWS"


def devices(groups: int, size: int, visible: str | None) -> list[str]:
    """Return CUDA_VISIBLE_DEVICES of each group; `visible` is this process's, None for all GPUs.

    >>> devices(2, 2, None), devices(2, 1, "5,7")
    (['0,1', '2,3'], ['5', '7'])
    """
    names = [str(place) for place in range(groups * size)]
    if visible is not None:
        names = [name for name in visible.split(",") if name]
    if len(names) < groups * size:
        need = f"--data-parallel {groups} of {size} GPUs needs {groups * size}"
        raise UsageError(need + f", CUDA_VISIBLE_DEVICES names {len(names)}")
    return [",".join(names[group * size : (group + 1) * size]) for group in range(groups)]


def run_processes(
    job: RunJob, folder: RunFolder, shard: Shard, groups: int, arguments: Sequence[str]
) -> None:
    """Run a shard in one process per group of GPUs, to the end of all of them."""
    if job.engine.open is not None:
        job.engine.open()
    folder.begin(job.info, shard)
    gpus = devices(groups, job.config.tensor_parallel, os.environ.get("CUDA_VISIBLE_DEVICES"))
    first, count = shard.index * groups, shard.count * groups
    shards = [Shard(first + group, count) for group in range(groups)]
    answered = {key for key, one in folder.answers().items() if one.error is None}
    shares = shares_of(job.data, count, job.config.samples)
    pending = [item for part in shards for item in shares[part.index] if item.key not in answered]
    with bar(pending) as progress, _started(folder, shards, gpus, arguments) as processes:
        running = True
        while running:
            running = any(process.poll() is None for process in processes.values())
            for key, prediction in folder.answers().items():
                if key not in answered:
                    answered.add(key)
                    progress(prediction)
            if running:
                time.sleep(POLL)
    failed = [
        f"shard {part}: {_last_error(folder.file(LOG, part), process.returncode)}"
        for part, process in processes.items()
        if process.returncode
    ]
    if failed:
        what = f"{len(failed)} of {len(processes)} shards failed"
        raise RulerError(what, f"{'; '.join(failed)}; run it again to resume")


def end_with_parent() -> None:
    """End this process when its parent is gone, if the parent asked for it.

    The parent holds the other end of standard input, which the kernel closes when it dies.
    """
    if os.environ.pop(ENDS_WITH_PARENT, None) is None:
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
) -> Iterator[dict[Shard, subprocess.Popen[bytes]]]:
    """Start the processes; none of them outlives the block."""
    processes: dict[Shard, subprocess.Popen[bytes]] = {}
    try:
        for shard, group in zip(shards, gpus, strict=True):
            with folder.file(LOG, shard).open("ab") as output:
                # Of an option that is given twice, the last counts.
                own = ("--data-parallel", "1", "--shard", str(shard))
                processes[shard] = subprocess.Popen(
                    [sys.executable, "-m", "ruler_cli", *arguments, *own],
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=output,
                    env={**os.environ, "CUDA_VISIBLE_DEVICES": group, ENDS_WITH_PARENT: "1"},
                )
        yield processes
    finally:
        for process in processes.values():
            process.terminate()  # nothing, if it has ended
        deadline = time.monotonic() + GRACE
        for process in processes.values():
            with process:  # its input is closed, and its end awaited
                try:
                    process.wait(max(0.0, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    process.kill()


def _last_error(log: Path, code: int) -> str:
    """Return the line in which a process reported its failure, else where its output is."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 8192))
        lines = file.read().decode("utf-8", "replace").splitlines()
    errors = [line for line in lines if line.startswith("ruler-eval: ")]
    return errors[-1].removeprefix("ruler-eval: ") if errors else f"ended with {code}, see {log}"
