"""An export for kvpress, run by kvpress itself and read back.

`RULER_KVPRESS` names a checkout of NVIDIA/kvpress (its `evaluation` is in no package), and
`RULER_CONSUMERS` a Python that has `kvpress[eval]`.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

import ruler_builders
import ruler_data
import ruler_eval
from ruler_data.layouts import records_of_csv
from tests.commands import HANG
from tests.test_consumers import PYTHON

KVPRESS = os.environ.get("RULER_KVPRESS", "")


@pytest.mark.skipif(not KVPRESS, reason="RULER_KVPRESS names no checkout")
def test_kvpress_runs_an_export(model: Path, frozen: Path, tmp_path: Path) -> None:
    export = ruler_builders.export(frozen, tool="kvpress", out=tmp_path / "export")
    command = [PYTHON, export / "ruler_kvpress.py", "--data_dir", "512", "--model", model]
    command += ["--press_name", "knorm", "--compression_ratio", "0.5", "--device", "cpu"]
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf"), "PYTHONPATH": ""}
    done = subprocess.run(
        [*map(str, command), "--output_dir", str(tmp_path / "out")], text=True, timeout=HANG,
        cwd=Path(KVPRESS) / "evaluation", env=env, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "out").iterdir()
    written = [record for _, record in records_of_csv(folder / "predictions.csv")]
    prompts = [row.context for row in ruler_data.load(frozen, "fwe_512")]
    assert len(written) == len(prompts) and all(line["predicted_answer"] for line in written)
    table = ruler_eval.score(folder, frozen)
    own = json.loads((folder / "metrics.json").read_text())["fwe"]["string_match"] / 100
    assert {*table.task} == {"fwe"} and table.official.count() == len(prompts)
    assert table.official.mean() == pytest.approx(own)
