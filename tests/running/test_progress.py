"""The bar: rows, rows a second and what is left; nothing of it in logs."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.commands import HANG, line


@pytest.mark.slow
def test_on_a_terminal_a_bar_moves_and_in_a_log_there_is_none(frozen: Path, tmp_path: Path) -> None:
    asked = line(
        "ruler-eval", "run", "--data", frozen, "--model", "golden", "--engine", "oracle",
        "--option", "seconds=0.05", "--out",
    )  # fmt: skip
    terminal, side = os.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "160"}
    process = subprocess.Popen(
        [*asked, str(tmp_path / "a")], stdout=subprocess.PIPE, stderr=side, env=env
    )
    os.close(side)
    shown = b""
    while True:
        try:
            shown += os.read(terminal, 65_536)
        except OSError:  # the other side is closed
            break
    os.close(terminal)
    output, _ = process.communicate(timeout=HANG)
    assert process.returncode == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    assert "loading the model" in text
    assert re.search(r"vt_2048 .* \d+ rows [\d.]+ rows/s", text) and "left" in text
    quiet = subprocess.run(
        [*asked, str(tmp_path / "b")], capture_output=True, timeout=HANG, check=True
    )
    assert quiet.stderr == b""
    assert b"40 of 40 rows answered" in output and b"40 of 40 rows answered" in quiet.stdout
