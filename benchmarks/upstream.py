"""What upstream (NVIDIA/RULER) costs for the same task, length and rows.

Needs a checkout with its data files in place (`scripts/data/synthetic/json`) and a Python that
has what upstream imports. Each script runs for n rows and for 2n; the difference is the cost of n
rows. So word lists, tokenizer and the search for a size, once per config, are not counted.
"""

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from measuring import cpu

#: Seconds after which a run counts as hanging.
TIMEOUT = 1800


@dataclass(frozen=True)
class Upstream:
    """A checkout, the Python that runs it, the tokenizer's folder, and the tokens of n rows."""

    checkout: Path
    python: str
    tokenizer: Path
    tokens: int

    def cost(self, task: str, length: int, rows: int) -> float | None:
        """Return the CPU seconds of as many rows; None if it fails or is below the noise."""
        measured = max(self.tokens // length, 2)
        once, twice = (self._spent(task, length, times * measured) for times in (1, 2))
        if once is None or twice is None or twice <= once:
            return None
        return (twice - once) / measured * rows

    def _spent(self, task: str, length: int, rows: int) -> float | None:
        scripts = self.checkout / "scripts" / "data" / "synthetic"
        settings = _settings(self)[task]
        with tempfile.TemporaryDirectory() as scratch:
            command = [
                self.python, str(scripts / f"{settings['script']}.py"), "--save_dir", scratch,
                "--save_name", task, "--tokenizer_path", str(self.tokenizer), "--tokenizer_type",
                "hf", "--max_seq_length", str(length), "--num_samples", str(rows),
                "--tokens_to_generate", str(settings["tokens"]), "--template",
                settings["template"],
            ]  # fmt: skip
            for name, value in settings["args"].items():
                command += [f"--{name}", str(value)]
            try:
                return cpu(
                    lambda: subprocess.run(
                        command, check=True, capture_output=True, timeout=TIMEOUT, cwd=scripts,
                        env={**os.environ, "OMP_NUM_THREADS": "1"},
                    )
                )  # fmt: skip
            except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
                return None


@cache
def _settings(upstream: Upstream) -> dict[str, dict[str, Any]]:
    """Return script, arguments and template of every task, as upstream's own files say."""
    code = (
        "import json, sys, yaml; sys.path.insert(0, 'data/synthetic'); from constants import TASKS;"
        "tasks = yaml.safe_load(open('synthetic.yaml'));"
        "print(json.dumps({name: {'script': task['task'], 'args': task['args'],"
        " 'tokens': TASKS[task['task']]['tokens_to_generate'], 'template':"
        " TASKS[task['task']]['template'] + TASKS[task['task']]['answer_prefix']}"
        " for name, task in tasks.items()}))"
    )
    done = subprocess.run(
        [upstream.python, "-c", code], cwd=upstream.checkout / "scripts", capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    settings: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return settings
