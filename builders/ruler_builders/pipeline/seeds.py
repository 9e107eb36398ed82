"""Private seeds: drawn for one build, kept in its folder, and found there by the next run."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from ruler_builders.pipeline.build_dir import BuildDir
from ruler_data.errors import RulerError, UsageError
from ruler_data.files import write_file
from ruler_data.manifest import PRIVATE_SEEDS
from ruler_data.version import DEFAULT_SEED

#: Bits of a private seed. The highest is set, which marks it as private.
BITS = 128


def choose_seed(seed: int | None, folder: BuildDir, *, fresh: bool) -> int:
    """Return the seed of a build; nothing is written.

    A fresh build resumes with the private seed of its folder. If there is none, one is drawn.

    Raises:
        UsageError: a seed and a private one are both requested.
        RulerError: the folder keeps something that is not a private seed.
    """
    if not fresh:
        return DEFAULT_SEED if seed is None else seed
    if seed is not None:
        msg = f"--fresh draws a seed of its own; leave out --seed {seed}"
        raise UsageError(msg)
    with suppress(RulerError):  # a damaged manifest: the build reports it
        earlier = folder.manifest() or (folder.unfinished() or [None])[0]
        if earlier is not None and earlier.is_private:
            return earlier.seed
    path = folder.state / "seed"
    return _read(path) if path.exists() else secrets.randbits(BITS) | 1 << (BITS - 1)


def keep_seed(folder: BuildDir, seed: int) -> int:
    """Keep a private seed in a folder; return it, or the one that another shard kept first."""
    path = folder.state / "seed"
    own = folder.state / f"seed.{os.getpid()}"
    write_file(own, f"{seed}\n")
    with suppress(FileExistsError):  # a link appears complete or not at all
        os.link(own, path)
    own.unlink()
    return _read(path)


def _read(path: Path) -> int:
    kept = path.read_text(encoding="utf-8", errors="replace").strip()
    if not (kept.isascii() and kept.isdigit() and int(kept) >= PRIVATE_SEEDS):
        msg = f"{path}: not a private seed; remove it, and the next build draws one"
        raise RulerError(msg)
    return int(kept)
