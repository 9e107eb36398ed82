"""However a test run ends, the processes that its tests started end with it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builds import until
from tests.commands import HANG
from tests.conftest import ROOT
from tests.leftovers import NAME, marked

pytestmark = pytest.mark.slow

#: A test that starts a build with workers, and a process that leaves every group.
TEST = """
import subprocess
from pathlib import Path
from tests.builds import until, workers_of
from tests.commands import finish, started
from tests.conftest import isolated

BUILD = ("build", "--sources-kind", "sample", "--tokenizer", "{tiny}", "--counter", "tokenizers",
         "--lengths", 65536, "--rows", 5000, "--workers", 2)

def test_a_long_build(tmp_path):
    with started("ruler-data", *BUILD, "--out", tmp_path / "out") as process:
        away = subprocess.Popen(["sleep", "600"], start_new_session=True)
        until(lambda: workers_of(process), process)
        Path(__file__).with_name("begun").touch()
        finish(process)
"""


@pytest.mark.parametrize(("number", "workers"), [(signal.SIGINT, 0), (signal.SIGKILL, 1)])
def test_a_test_run_that_is_stopped_leaves_no_process(
    number: signal.Signals, workers: int, tiny: Path, tmp_path: Path
) -> None:
    (tmp_path / "test_long.py").write_text(TEST.format(tiny=tiny))
    mark = f"{os.environ[NAME]}:{number.name}{workers}"
    options = ("-q", "-n", workers, "--basetemp", tmp_path / "base", "-p", "no:cacheprovider")
    run = subprocess.Popen(
        [*map(str, (sys.executable, "-m", "pytest", *options, "-c", os.devnull, tmp_path))],
        cwd=tmp_path,
        env={**os.environ, NAME: mark, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        until((tmp_path / "begun").exists, run)
        assert run.poll() is None, run.communicate()
        assert len(marked(mark)) >= 4 + workers  # pytest, sleep, the build and its worker
        run.send_signal(number)
        run.communicate(timeout=HANG)
        until(lambda: not marked(mark))
    finally:
        for pid in marked(mark):
            os.kill(pid, signal.SIGKILL)
