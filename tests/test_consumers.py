"""What others read the published rows with, each snippet of docs/api.md tried for real."""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import ruler_eval
from ruler_data.parquet import read_rows
from tests import commands, consumers
from tests.commands import HANG
from tests.conftest import ROOT, Builds
from tests.hub import Hub
from tests.publishing import Publisher

pytestmark = pytest.mark.slow

Run = Callable[..., str]
#: Where the harnesses are installed, if not here.
PYTHON = os.environ.get("RULER_CONSUMERS", sys.executable)
VT = "vt_1024/test-00000-of-00001.parquet"


def snippets() -> dict[str, str]:
    """Return the snippets of the page by the file names in their first lines."""
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n# (\S+)\n(.*?)```", page, re.DOTALL)
    return dict(blocks)


def prompts_of(folder: Path) -> list[str]:
    rows = list(read_rows(folder / VT))
    return [row.context + row.question + row.answer_prefix for row in rows]


@pytest.fixture
def run(publisher: Publisher, hub: Hub, repo: str, builds: Builds, tmp_path: Path) -> Run:
    """Publish, lay out the snippets in a folder, and run Python there as somebody else would."""
    assert publisher(builds(), repo, "1.0.0").code == 0
    for name, text in {**snippets(), "reply.py": consumers.REPLY}.items():
        (tmp_path / name).write_text(text.replace("org/ruler", repo), encoding="utf-8")

    def python(code: str, interpreter: str = sys.executable, **env: str) -> str:
        theirs = {"HF_HOME": str(tmp_path / "hf"), "HF_TOKEN": "", "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(
            [interpreter, "-c", code], capture_output=True, text=True, timeout=HANG, check=False,
            cwd=tmp_path, env={**os.environ, **hub.env(), **theirs, **env},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return python


def test_every_snippet_is_known() -> None:
    assert set(snippets()) == {"load.py", "stream.py", "fetch.py"}


def test_load_dataset_gives_the_rows_of_each_release(
    run: Run, publisher: Publisher, repo: str, builds: Builds
) -> None:
    assert publisher(builds(seed=43), repo, "2.0.0").code == 0
    assert run("from load import rows, prompt; print(len(rows), repr(prompt))") == (
        f"3 {prompts_of(builds())[0]!r}\n"
    )
    second = f'load_dataset("{repo}", "vt_1024", split="test", revision="v2.0.0")'
    said = run(f"from datasets import load_dataset; print({second}[0]['outputs'])")
    assert ast.literal_eval(said) == list(next(read_rows(builds(seed=43) / VT)).outputs)


def test_streaming_gives_the_first_row(run: Run, builds: Builds) -> None:
    said = run("from stream import row; print(row)")
    assert ast.literal_eval(said) == next(read_rows(builds() / VT)).to_record()


def test_load_gives_rows_and_says_the_commit(run: Run, hub: Hub, repo: str, builds: Builds) -> None:
    said = run("from fetch import row; print(row.outputs)").splitlines()
    assert said[0] == f"{hub.repos[repo].tags['v1.0.0']} 1.0.0"
    assert ast.literal_eval(said[1]) == next(read_rows(builds() / VT)).outputs


@pytest.mark.parametrize("where", ["hub", "folder"])
def test_lm_eval_reads_an_export_sends_each_prompt_as_it_is_and_is_read_back(
    where: str, run: Run, hub: Hub, repo: str, builds: Builds, tmp_path: Path
) -> None:
    if subprocess.run(
        [PYTHON, "-c", "import lm_eval"], capture_output=True, check=False
    ).returncode:
        pytest.skip("lm_eval is not installed")
    data = (repo, "--revision", "v1.0.0") if where == "hub" else (builds(),)
    done = commands.run(
        *("ruler-data", "export", *data, "--for", "lm-eval", "--out", tmp_path / "export"),
        env={**os.environ, **hub.env(), "HF_HOME": str(tmp_path / "hf")},
    )
    assert done.returncode == 0, done.stderr
    shutil.copytree(tmp_path / "export", tmp_path, dirs_exist_ok=True)
    said = run(consumers.LM_EVAL, PYTHON)
    assert "score 1.0" in said.splitlines(), said
    sent = (tmp_path / "sent").read_text(encoding="utf-8").splitlines()
    assert sorted(map(ast.literal_eval, sent)) == sorted(prompts_of(builds()))
    assert ruler_eval.score(tmp_path / "out", builds()).official.tolist() == [1.0] * 3
