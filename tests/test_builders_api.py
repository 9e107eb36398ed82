"""`ruler_builders.build` and `verify`: the commands' work, from Python."""

from pathlib import Path

import pytest

import ruler_builders
from ruler_data import UsageError
from ruler_data.manifest import Manifest
from tests.builds import run, snapshot
from tests.commands import succeeded
from tests.conftest import Builds
from tests.tampering import copy_of

SMALL = ("--tokenizer", "mistral-v0.2", "--sources", "sample", "--tasks", "vt,fwe")


def test_python_builds_the_bytes_of_the_command(tmp_path: Path) -> None:
    rows: dict[str, int] = {}

    def progress(name: str, more: int) -> None:
        rows[name] = rows.get(name, 0) + more

    manifest = ruler_builders.build(
        "mistral-v0.2",
        out=tmp_path / "python",
        tasks=["fwe", "vt"],
        lengths=[1024],
        rows=3,
        sources="sample",
        progress=progress,
    )
    succeeded(run(*SMALL, "--lengths", 1024, "--rows", 3, "--out", tmp_path / "command"))
    assert snapshot(tmp_path / "python") == snapshot(tmp_path / "command")
    text = (tmp_path / "python" / "manifest.json").read_text(encoding="utf-8")
    assert manifest == Manifest.from_json(text)
    assert len(repr(manifest).splitlines()) <= 10
    assert rows == {"vt_1024": 3, "fwe_1024": 3}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"tasks": ["no"]}, "no such task"),
        ({"suite": "no"}, "no such suite"),
        ({"rows": 0}, "rows 0: give a whole number from 1"),
        ({"rows": 10_001}, "rows 10001: give a whole number from 1 to 10,000"),
        ({"lengths": [0]}, "not a number of tokens"),
        ({"lengths": [20_000_000]}, "use a shorter length"),
        ({"fresh": True, "seed": 7}, "leave out --seed 7"),
    ],
)
def test_bad_options_are_refused(wrong: dict[str, object], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        ruler_builders.build(
            "mistral-v0.2",
            out=tmp_path / "out",
            sources="sample",
            **wrong,  # type: ignore[arg-type]
        )
    assert not (tmp_path / "out").exists()


def test_a_report_shows_itself(builds: Builds, tmp_path: Path) -> None:
    clean = ruler_builders.verify(builds())
    assert clean.findings == ()
    assert repr(clean).endswith(": proved; 2 configs, 6 rows, 6 made again>")
    copy = copy_of(builds(), tmp_path)
    (copy / "<b>.txt").touch()
    report = ruler_builders.verify(str(copy), rows=0)
    assert report.findings == ("<b>.txt: no build makes it",)
    assert "1 finding" in repr(report)
