"""Data parallelism on one machine: a loop over `--shard`, one process per group of GPUs.

The processes share only the run's folder: one that dies affects no other, and only its shard is
resumed.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

from ruler_data import terminal
from ruler_data.errors import RulerError, UsageError
from ruler_eval.eval_config import EvalConfig
from ruler_eval.run_dir import LOG, RunFolder
from ruler_eval.sharding import Shard

#: Seconds that processes have to end by themselves.
GRACE = 60.0
#: What a process does.
WORK = "import ruler_eval; from ruler_eval.data_parallel import work; work(ruler_eval.run)"


def devices(groups: int, size: int, visible: str | None) -> list[str]:
    """Return CUDA_VISIBLE_DEVICES of each group; `visible` is this process's, None for all GPUs.

    >>> devices(2, 2, None), devices(2, 1, "5,7")
    (['0,1', '2,3'], ['5', '7'])
    """
    everything = ",".join(map(str, range(groups * size)))
    names = [name for name in (everything if visible is None else visible).split(",") if name]
    if len(names) < groups * size:
        need = f"--data-parallel {groups} of {size} GPUs needs {groups * size}"
        raise UsageError(need + f", CUDA_VISIBLE_DEVICES names {len(names)}")
    return [",".join(names[group * size : (group + 1) * size]) for group in range(groups)]


def run_processes(config: EvalConfig, folder: RunFolder, shard: Shard, groups: int) -> None:
    """Run a shard in one process per group of GPUs."""
    gpus = devices(groups, config.tensor_parallel, os.environ.get("CUDA_VISIBLE_DEVICES"))
    arguments = {**config.to_arguments(), "out": str(folder.path)}
    folder.path.mkdir(parents=True, exist_ok=True)
    processes: dict[Shard, subprocess.Popen[bytes]] = {}
    try:
        for number, visible in enumerate(gpus):
            shard_here = Shard(shard.index * groups + number, shard.count * groups)
            arguments["shard"] = str(shard_here)
            processes[shard_here] = _start(arguments, visible, folder.file(LOG, shard_here))
        if terminal.is_terminal():
            terminal.tell(f"{groups} processes; `ruler-eval status {folder.path}` shows their rows")
        for process in processes.values():
            process.wait()
    finally:
        for process in processes.values():
            process.terminate()  # nothing, if it has ended
        for process in processes.values():
            with process:  # its input is closed, and its end awaited
                try:
                    process.wait(GRACE)
                except subprocess.TimeoutExpired:
                    process.kill()
    exits = {
        shard_ended: process.returncode
        for shard_ended, process in processes.items()
        if process.returncode
    }
    if exits:
        errors = (f"shard {shard_ended}: {_last_error(folder.file(LOG, shard_ended), code)}"
                  for shard_ended, code in exits.items())  # fmt: skip
        problem = f"{len(exits)} of {groups} shards failed"
        raise RulerError(problem, f"{'; '.join(errors)}; run it again to resume")


def _start(arguments: dict[str, Any], visible: str, log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", WORK, "--shard", arguments["shard"]],  # shown by ps
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": visible},
        )
    assert process.stdin is not None
    process.stdin.write(json.dumps(arguments).encode() + b"\n")
    process.stdin.flush()  # it stays open: a process ends when it is closed
    return process


def _last_error(log: Path, code: int) -> str:
    """Return the line in which a process reported its failure, else where its output is."""
    lines = log.read_text("utf-8", "replace").splitlines()
    errors = [line for line in lines if line.startswith("ruler-eval: ")]
    return errors[-1].removeprefix("ruler-eval: ") if errors else f"ended with {code}, see {log}"


def work(run: Callable[..., Any]) -> None:
    """Run the shard whose arguments come on standard input; end when that is closed."""
    arguments = json.loads(sys.stdin.buffer.readline())

    def end_with_parent() -> None:
        os.read(0, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    program = "ruler-eval"
    Thread(target=end_with_parent, daemon=True).start()
    terminal.run(program, lambda: sys.exit(terminal.print_result(program, run(**arguments))))
