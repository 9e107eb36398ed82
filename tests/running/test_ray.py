"""The ray engine: a real cluster on this machine, whose processes die while rows are with them."""

from pathlib import Path

import pytest

from tests.commands import spawn
from tests.running.processes import evaluate, lines, refusal

pytest.importorskip("ray", reason="the extra `ray` is not installed")

pytestmark = pytest.mark.slow


def order(data: Path, out: Path, *more: object) -> tuple[object, ...]:
    return (
        "run", "--data", data, "--model", "golden", "--engine", "ray", "--option", "engine=oracle",
        "--out", out, *more,
    )  # fmt: skip


def copies(mark: str) -> list[int]:
    """Return the processes that hold a copy of the model and have a mark in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if b"ray::EngineActor" in (entry / "cmdline").read_bytes():
                found += [int(entry.name)] * (mark.encode() in (entry / "environ").read_bytes())
        except OSError:  # no process, or it has just ended
            continue
    return found


def test_a_row_that_ends_every_copy_is_unscored_alone(frozen: Path, tmp_path: Path) -> None:
    command = order(frozen, tmp_path, "--tasks", "vt", "--option", "crash=7")
    done = spawn("ruler-eval", *command)
    assert "2 copies of the model were lost with this row" in refusal(done, 1)
    unscored = [line["index"] for line in lines(tmp_path) if line["error"]]
    assert unscored == [7] and len(lines(tmp_path)) == 20


#: Makes Python forget the oracle in the processes of a cluster, as where an engine is missing.
WITHOUT_ORACLE = """
import sys
if any("default_worker" in argument for argument in sys.orig_argv):
    sys.modules["ruler_eval.running.oracle"] = None
"""


def test_an_engine_that_a_copy_lacks_is_said(frozen: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_ORACLE)
    command = order(frozen, tmp_path / "out")
    done = spawn("ruler-eval", *command, env={"PYTHONPATH": str(tmp_path)})
    missing = "ModuleNotFoundError: import of ruler_eval.running.oracle halted"
    assert f"a copy of the model failed: {missing}" in refusal(done, 1)


def test_an_address_where_no_cluster_is_is_refused(frozen: Path, tmp_path: Path) -> None:
    done = evaluate(*order(frozen, tmp_path / "out"), env={"RAY_ADDRESS": "127.0.0.1:1"})
    assert "no Ray cluster answers there" in refusal(done)


def test_an_option_that_the_copies_do_not_know_is_refused(frozen: Path, tmp_path: Path) -> None:
    done = evaluate(*order(frozen, tmp_path / "out", "--option", "sekonds=1"))
    assert "engine oracle has no such option; did you mean seconds" in refusal(done)
