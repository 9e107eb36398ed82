"""Commands in processes of their own, forked from one that has the libraries in memory.

A start of Python that loads pyarrow, numpy and pydantic takes half a second of CPU, and vLLM ten; a
process forked after that begins where it ended. Nothing else is shared: each process has its own
environment, folder, files, session and exit status. Our own modules are not loaded before the fork,
since some look at the terminal and the environment when they are.
"""

import atexit
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path

#: What is imported before the first fork; none of it starts a thread or reads the environment
#: (as `huggingface_hub` does).
PRELOAD = (
    "numpy", "pyarrow.parquet", "pyarrow.compute", "typer", "pydantic", "jinja2.sandbox",
    "jinja2.ext", "yaml", "rich.console", "rich.table", "rich.progress", "tokenizers", "tenacity",
    "filelock", "concurrent.futures.process", "multiprocessing.pool", "tempfile", "sqlite3",
    "PIL.ImageDraw", "PIL.ImageFont", "PIL.PngImagePlugin", "gigatoken", "tiktoken", "requests",
    "mistral_common.tokens.tokenizers.instruct", "httpx2", "anyio", "truststore", "tqdm.auto",
    "fsspec", "platformdirs",
)  # fmt: skip

#: Beginnings of variables that are read when Python starts, so that a fork comes too late.
AT_START = (
    "PYTHON", "FORCE_COLOR", "LC_", "LANG", "LD_", "TZ", "MALLOC", "OMP_", "OPENBLAS_", "RAY_",
)  # fmt: skip

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(list(PRELOAD))


def preload(modules: Sequence[str]) -> None:
    """Import other modules before the first fork."""
    _forks.set_forkserver_preload(list(modules))


def pool(env: Mapping[str, str]) -> ProcessPoolExecutor:
    """Return a pool of one process that has an environment of its own."""
    return ProcessPoolExecutor(1, _forks, _surround, (dict(env),))


def _surround(env: dict[str, str]) -> None:
    """Replace the environment that was copied from the first process."""
    os.environ.clear()
    os.environ.update(env)


class Process:
    """`python -m module` in a session of its own, as far as tests use `subprocess.Popen` for it."""

    def __init__(
        self, module: str, arguments: Sequence[str], env: dict[str, str], cwd: Path | None
    ) -> None:
        """Start it; its output goes to files, which `communicate` reads."""
        self.args = [sys.executable, "-m", module, *arguments]
        self._output: tuple[str, str] | None = None
        self._files = []
        for _ in range(2):
            number, name = tempfile.mkstemp()
            os.close(number)
            self._files.append(Path(name))
        cwd = cwd or Path.cwd()
        work = (module, list(arguments), env, cwd, *map(str, self._files))
        self._process = _forks.Process(target=_become, args=work)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit status, or None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return the exit status, or None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and return the exit status."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            said = [path.read_text("utf-8", "replace") for path in self._files if path.exists()]
            raise subprocess.TimeoutExpired(self.args, timeout or 0, *said)
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end, and return its output and errors."""
        self.wait(timeout)
        if self._output is None:
            out, err = (path.read_text("utf-8", "replace") for path in self._files)
            self._output = out, err
            for path in self._files:
                path.unlink()
        return self._output

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        self.send_signal(signal.SIGKILL)


def _become(
    module: str, arguments: list[str], env: dict[str, str], cwd: Path, out: str, err: str
) -> None:
    """Do in this process what `python -m module` does."""
    os.setsid()
    _surround(env)
    os.chdir(cwd)
    for path, number in ((out, 1), (err, 2)):
        with Path(path).open("wb") as file:
            os.dup2(file.fileno(), number)
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()
