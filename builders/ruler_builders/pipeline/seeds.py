"""Private seeds: drawn for one build, kept in its folder, and found again there."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ruler_builders.pipeline.build_dir import BuildDir
from ruler_data.errors import RulerError, UsageError
from ruler_data.files import write_file
from ruler_data.manifest import PRIVATE_SEEDS
from ruler_data.version import DEFAULT_SEED

#: Bits of a private seed; the highest is set, so that it is one.
BITS = 128


def choose_seed(asked: int | None, folder: Path, *, fresh: bool) -> int:
    """Return the seed of a build.

    A fresh build goes on with the private seed that its folder holds, finished or not; where
    there is none, one is drawn and kept, so that shards that start side by side agree on it.

    Raises:
        UsageError: a seed is asked for and a private one as well, or the folder cannot be written.
    """
    if not fresh:
        return DEFAULT_SEED if asked is None else asked
    if asked is not None:
        msg = f"--fresh draws a seed of its own; leave out --seed {asked}"
        raise UsageError(msg)
    home = BuildDir(folder)
    home.check()
    drawn = secrets.randbits(BITS) | 1 << (BITS - 1)
    held = _recorded(home)
    if held is None:
        return _kept(home, drawn)
    return held if held >= PRIVATE_SEEDS else drawn  # a build of another seed will say so


@contextmanager
def discard_seed_on_failure(folder: Path) -> Iterator[None]:
    """Take back the seed that is kept in here for a build, if the build does not even begin.

    A build that begins leaves locks and records beside the seed, or nothing at all once it is
    finished. A seed that was there before stays: another build keeps it.
    """
    home = BuildDir(folder)
    kept = had_folder = True  # unless it can be looked into, nothing there is ours to take back
    with suppress(OSError):
        kept, had_folder = (home.state / "seed").exists(), home.path.exists()
    try:
        yield
    finally:
        with suppress(OSError):
            if not kept and [path.name for path in home.state.iterdir()] == ["seed"]:
                shutil.rmtree(home.state)
                if not had_folder:
                    home.path.rmdir()


def _recorded(home: BuildDir) -> int | None:
    """Return the seed of what a folder holds, finished or not; None if it holds nothing."""
    try:
        manifest = home.manifest()
    except RulerError:  # the build will say so
        return 0
    if manifest is not None:
        return manifest.seed
    inputs = home.inputs()
    return int(inputs["values"].get("seed", 0)) if inputs else None


def _kept(home: BuildDir, seed: int) -> int:
    """Keep a seed for a build that is about to start, or return the one that another has kept.

    Raises:
        RulerError: what is kept is no private seed.
    """
    path = home.state / "seed"
    mine = home.state / f"seed.{os.getpid()}"
    write_file(mine, f"{seed}\n")
    with suppress(FileExistsError):  # a link is made whole or not at all
        os.link(mine, path)
    mine.unlink()
    kept = path.read_text(encoding="utf-8", errors="replace").strip()
    if not (kept.isascii() and kept.isdigit() and int(kept) >= PRIVATE_SEEDS):
        msg = f"{path}: no private seed; remove it, and the next build draws one"
        raise RulerError(msg)
    return int(kept)
