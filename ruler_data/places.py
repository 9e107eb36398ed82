"""Where the package keeps things between runs: one folder, named by RULER_CACHE."""

import os
import tempfile
from pathlib import Path

import platformdirs


def cache_folder(*parts: str) -> Path:
    """Return a folder in the user's cache; nothing in it is needed, all of it saves time."""
    try:
        root = Path(os.environ.get("RULER_CACHE") or platformdirs.user_cache_dir("ruler-data"))
    except (RuntimeError, KeyError):  # no home folder
        root = Path(tempfile.gettempdir()) / f"ruler-data-{os.getuid()}"
    return root.joinpath(*parts)
