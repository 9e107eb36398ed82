"""Scores beside upstream's own script, where a checkout of it is: equal to the last printed digit.

RULER_UPSTREAM names a checkout of NVIDIA/RULER, RULER_PREDICTIONS a folder of real predictions:
samples of lm-evaluation-harness, or a run in `run` and its rows in `data`. Neither ships with this
project.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ruler_report.prediction_formats import Place, parse_record
from tests.conftest import ROOT
from tests.runs import make_run
from tests.test_score import adversarial

UPSTREAM = os.environ.get("RULER_UPSTREAM")
PREDICTIONS = os.environ.get("RULER_PREDICTIONS")
needs_upstream = pytest.mark.skipif(UPSTREAM is None, reason="no checkout of upstream is here")


def parity(*arguments: object) -> str:
    """Run the comparison; it exits 1 if any score differs."""
    command = [sys.executable, ROOT / "benchmarks" / "parity.py", "--upstream", UPSTREAM]
    done = subprocess.run([*map(str, command), *map(str, arguments)], capture_output=True,
                          text=True, timeout=600, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_upstream
def test_adversarial_answers_score_as_upstream_s_own_script_has_it(
    sample_build: Path, tmp_path: Path
) -> None:
    run = make_run(tmp_path / "run", sample_build, adversarial)
    said = parity("--data", sample_build, run)
    assert "78 predictions; no score differs" in said and said.count("_4096 |") == 13


@needs_upstream
@pytest.mark.skipif(PREDICTIONS is None, reason="no real predictions are here")
def test_real_predictions_score_as_upstream_s_own_script_has_it() -> None:
    folder = Path(PREDICTIONS or "")
    samples = sorted(folder.glob("samples_*.jsonl"))
    if samples:
        assert "no score differs" in parity(*samples)
    if (folder / "run").is_dir():
        assert "no score differs" in parity("--data", folder / "data", folder / "run")
    assert samples or (folder / "run").is_dir()


@pytest.mark.parametrize(
    ("name", "config"),
    [("niah_single_1", "niah_single_1_1000"), ("ruler_vt", "vt_1000"), ("ruler_cwe", "cwe_1000"),
     ("ruler_fwe", "fwe_1000"), ("ruler_qa_squad", "qa_1_1000"), ("ruler_qa_hotpot", "qa_2_1000")],
)  # fmt: skip
def test_the_harness_s_own_tasks_are_told_by_file_and_length(name: str, config: str) -> None:
    line = {"doc_id": 0, "filter": "none", "resps": [["a"]], "filtered_resps": ["a"],
            "doc": {"index": 3, "input": "?", "outputs": ["a"], "length": 900, "max_length": 1000,
                    "gen_prefix": ""}}  # fmt: skip
    path = Path(f"samples_{name}_2025-06-27T14-58-32.284616.jsonl")
    found = parse_record(line, Place(path, 1), ())
    assert (found.config, found.index, found.outputs) == (config, 3, ("a",))
