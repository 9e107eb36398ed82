"""Where the package keeps things between runs: one folder, named by RULER_CACHE."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path

import platformdirs


def cache_folder(*parts: str) -> Path:
    """Return a folder in the user's cache; nothing in it is needed, all of it saves time."""
    own = os.environ.get("RULER_CACHE")
    return (Path(own) if own else _users()).joinpath(*parts)


def _users() -> Path:
    with suppress(RuntimeError, KeyError):
        root = platformdirs.user_cache_path("ruler-data")
        if root.is_absolute():
            return root
    # Who has no home folder. Releases of platformdirs say so, or return what begins with `~`.
    return Path(tempfile.gettempdir()) / f"ruler-data-{os.getuid()}"
