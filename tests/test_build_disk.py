"""A disk that is full or cannot be written: said in one line, and nothing finished is lost."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.builds import Asked, assert_nothing_torn, assert_same, run, snapshot
from tests.commands import HANG, line, one_line, succeeded

PAGE = 4096
NOTES = 2 * PAGE  # what an unfinished build keeps: its manifest so far, and who builds


def root(*command: object) -> None:
    """Run what only root may, or skip."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{command[0]} is not for us here: {done.stderr.strip()}")


@contextmanager
def disk(place: Path, size: int) -> Iterator[Callable[[str], None]]:
    """Mount a small disk; yield what mounts it anew with other options."""
    place.mkdir()
    root("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place)
    try:
        yield lambda options: root("mount", "-o", f"remount,{options}", place)
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def pages(data: bytes) -> int:
    """Return the bytes that a file takes on the disk."""
    return -(-len(data) // PAGE) * PAGE


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_config_that_finds_the_disk_full_names_path_and_need_and_the_others_stay(
    asked: Asked, tmp_path: Path, expected: dict[str, bytes], workers: int
) -> None:
    rows = {name: data for name, data in expected.items() if name.endswith(".parquet")}
    out = tmp_path / "disk" / "out"
    order = (*asked, "--out", out, "--workers", workers)
    with disk(tmp_path / "disk", 2 * NOTES + sum(map(pages, rows.values())) // 2) as again:
        line = one_line(run(*order), code=1)
        assert any((out / name).is_file() for name in rows)
        assert_nothing_torn(out, expected)
        assert not (out / "manifest.json").exists()
        again("size=64m")
        succeeded(run(*order))
        assert_same(out, expected)
    said = re.search(rf"{out}/(\w+/test-00000-of-00001.parquet): .* need up to (\d+) MB", line)
    assert said is not None, line
    assert "No space left" in line
    assert int(said[2]) * 1_000_000 >= len(rows[said[1]])


@pytest.mark.slow
@pytest.mark.parametrize("room", [1, -1, -6])
def test_wherever_the_disk_is_full_the_path_is_named_and_the_build_goes_on(
    asked: Asked, tmp_path: Path, expected: dict[str, bytes], room: int
) -> None:
    out = tmp_path / "disk" / "out"
    whole = NOTES + sum(map(pages, expected.values()))
    with disk(tmp_path / "disk", room * PAGE + (whole if room < 0 else 0)) as again:
        done = run(*asked, "--out", out)
        assert done.returncode in (1, 2)
        line = one_line(done, done.returncode)
        assert_nothing_torn(out, expected)
        assert not (out / "manifest.json").exists()
        again("size=64m")
        succeeded(run(*asked, "--out", out))
        assert_same(out, expected)
    assert str(out) in line
    assert "No space left" in line


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "closed"), [((), False), (("--json",), True)],
    ids=["table to /dev/full", "JSON to a closed pipe"],
)  # fmt: skip
def test_a_report_that_cannot_be_printed_is_one_line_and_the_build_is_whole(
    asked: Asked, tmp_path: Path, expected: dict[str, bytes], flags: tuple[str, ...], closed: bool
) -> None:
    if closed:
        read, write = os.pipe()
        os.close(read)
    else:
        write = os.open("/dev/full", os.O_WRONLY)
    done = subprocess.run(
        line("ruler-data", "build", *asked, *flags, "--out", tmp_path / "out"),
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        timeout=HANG,
        check=False,
    )
    os.close(write)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == (0 if closed else 1), done.stderr
    assert_same(tmp_path / "out", expected)


def immutable(place: Path) -> Path:
    """A folder that even root cannot write to."""
    place.mkdir()
    root("chattr", "+i", place)
    return place


def read_only(place: Path) -> Path:
    """A disk mounted read-only."""
    place.mkdir()
    root("mount", "-t", "tmpfs", "-o", "ro,size=64k", "tmpfs", place)
    return place / "out"


def a_file(place: Path) -> Path:
    place.write_bytes(b"mine")
    return place


def under_a_file(place: Path) -> Path:
    return a_file(place) / "out"


def of_other_things(place: Path) -> Path:
    place.mkdir()
    return a_file(place / "thesis.tex").parent


def too_long(place: Path) -> Path:
    return place.with_name("a" * 300)


def of_two_lines(place: Path) -> Path:
    return a_file(place.with_name("two\nlines"))


def a_device(_place: Path) -> Path:
    return Path("/dev/full")


@contextmanager
def made(make: Callable[[Path], Path], place: Path) -> Iterator[Path]:
    """Make a place, and unmake it so that it can be removed."""
    try:
        yield make(place)
    finally:
        for undo in (("chattr", "-i"), ("umount", "--lazy")):
            subprocess.run([*undo, place], capture_output=True, check=False)


@pytest.mark.parametrize(
    "out",
    [
        immutable, read_only, a_file, under_a_file, of_other_things, too_long, of_two_lines,
        a_device,
    ],
    ids=lambda make: make.__name__,
)  # fmt: skip
def test_a_place_that_cannot_take_a_build_is_refused_and_left_as_it_is(
    asked: Asked, tmp_path: Path, out: Callable[[Path], Path]
) -> None:
    with made(out, tmp_path / "place") as folder:
        before = snapshot(tmp_path)
        line = one_line(run(*asked, "--out", folder), code=2)
        assert snapshot(tmp_path) == before
    assert f"{folder}"[:40] in line


@pytest.mark.parametrize("out", [immutable, a_file], ids=lambda make: make.__name__)
def test_a_place_is_tried_before_sources_are_read_and_cut(
    tmp_path: Path, shared: Path, out: Callable[[Path], Path]
) -> None:
    real = ("--sources", shared / "sources", "--tasks", "niah_single_2", "--rows", 1)
    with made(out, tmp_path / "place") as folder:
        done = run(*real, "--out", folder, env={"RULER_CACHE": str(tmp_path / "cache")})
    assert [*tmp_path.glob("cache/sentences/*")] == []
    one_line(done, code=2)
