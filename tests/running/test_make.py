"""`make eval`: a run and its score by one command."""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from pyarrow import parquet

from tests.commands import HANG, Done, succeeded
from tests.conftest import ROOT

VENV = Path(sys.executable).parents[1]
#: What a make tells those that it starts.
MAKES_OWN = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES")


def make(*arguments: object) -> Done:
    """Run make with the environment that these tests run in, where nothing has been built."""
    ready = ("-f", ROOT / "Makefile", "-o", f"{VENV}/.build", f"VENV={VENV}")
    # These tests may run under `make check`, whose flags another make would take over.
    env = {name: value for name, value in os.environ.items() if name not in MAKES_OWN}
    with TemporaryDirectory() as empty:
        return subprocess.run(
            ["make", *map(str, (*ready, *arguments))],
            cwd=empty, env=env, capture_output=True, text=True, timeout=HANG, check=False,
        )  # fmt: skip


@pytest.mark.slow
def test_a_model_is_run_and_scored_by_one_command(frozen: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = make("eval", f"DATA={frozen}", "MODEL=golden", "ENGINE=oracle", "ROWS=2", f"OUT={out}")
    succeeded(done)
    assert parquet.read_table(out / "scores.parquet")["official"].to_pylist() == [1.0] * 4


def test_a_run_has_a_folder_of_its_own_unless_one_is_named() -> None:
    done = make("--dry-run", "eval", "MODEL=org/some-8b", "ENGINE=openai", "FLAGS=--protocol chat")
    assert "--data 'dist/mistral'" in done.stdout
    assert "--out 'runs/some-8b-mistral' --protocol chat" in done.stdout
    done = make("--dry-run", "eval", "MODEL=m", "ENGINE=vllm", "OUT=runs/x", "DATA=org/r")
    assert "build,report,vllm" in done.stdout and "--out 'runs/x'" in done.stdout
    # What is missing is said before an engine is installed.
    assert done.stdout.index("MODEL is missing") < done.stdout.index("build,report,vllm")


def said_of(*arguments: object, option: str = "--out") -> str:
    """Return the value that make gives an option of the first command that it would run."""
    done = make("--dry-run", *arguments)
    succeeded(done)
    return done.stdout.split(f"{option} '")[1].partition("'")[0]


def test_runs_of_other_data_and_rows_do_not_meet() -> None:
    command = ("eval", "MODEL=org/m", "ENGINE=oracle")
    folders = {
        said_of(*command, *more)
        for more in (
            (), ("TOKENIZER=llama3",), ("DATA=dist/llama3/",), ("ROWS=9",), ("DATA=org/r",),
        )
    }  # fmt: skip
    assert folders == {
        "runs/m-mistral", "runs/m-llama3", "runs/m-mistral-9", "runs/m-r",
    }  # fmt: skip


def test_data_that_is_not_there_and_no_runs_are_said_in_one_line() -> None:
    for command, message in (
        (("eval", "ENGINE=oracle"), "MODEL is missing: make eval MODEL="),
        (("eval", "MODEL=golden", "ENGINE=oracle", "DATA=/nope"), "DATA=/nope: no such folder"),
        (("report", "RUNS="), 'make report RUNS="runs/x runs/y"'),
    ):
        done = make(*command)
        assert done.returncode == 2
        [line, *of_make] = done.stderr.splitlines()
        assert line.startswith("make: ") and message in line
        assert len(of_make) == 1 and "Error 2" in of_make[0]


def test_variables_are_options_of_the_same_name() -> None:
    build = ("TOKENIZER=llama3", "LENGTHS=4k,8k", "TASKS=vt", "ROWS=20", "SOURCES=sample")
    done = make("--dry-run", "build", *build, "OUT=dist/x", "FLAGS=--seed 7")
    assert done.stdout.partition(" ")[2].strip() == (
        "build --tokenizer 'llama3' --lengths '4k,8k' --tasks 'vt' --rows '20' "
        "--sources 'sample' --out 'dist/x' --workers 0 --seed 7"
    )
    done = make("--dry-run", "publish", "TOKENIZER=llama3", "REPO=org/ruler", "VERSION=1.0.0")
    assert "publish 'dist/llama3' --repo 'org/ruler' --version '1.0.0'" in done.stdout


def test_the_makefile_is_read_in_one_go() -> None:
    lines = (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 140
    targets = succeeded(make("help")).stdout
    for name in (
        "help", "setup", "build", "verify", "publish", "eval", "report", "test", "check", "bench",
        "regold",
    ):  # fmt: skip
        assert f"  {name} " in targets


def test_a_mistyped_variable_is_refused_and_values_may_hold_spaces() -> None:
    done = make("--dry-run", "build", "LENGTH=8k")
    assert done.returncode == 2 and "LENGTH: no such variable; known: " in done.stderr
    succeeded(make("--dry-run", "build", "TOKENIZER=my model", "OUT=a b=c"))
