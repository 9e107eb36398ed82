"""Where the package keeps things between runs."""

import tempfile
from pathlib import Path

import platformdirs
import pytest

from ruler_data.files import cache_dir


def homeless(_name: str) -> Path:
    msg = "Could not determine home directory."
    raise RuntimeError(msg)


def literal(name: str) -> Path:
    """What some releases return where there is no home."""
    return Path("~/.cache") / name


def test_the_folder_that_is_named_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RULER_CACHE", str(tmp_path))
    assert cache_dir("tokenizers", "x") == tmp_path / "tokenizers" / "x"


def test_else_it_is_in_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RULER_CACHE")
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name: tmp_path / name)
    assert cache_dir("sentences") == tmp_path / "ruler-data" / "sentences"


@pytest.mark.parametrize("found", [homeless, literal])
def test_who_has_no_home_has_a_folder_of_his_own_among_temporary_ones(
    found: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RULER_CACHE")
    monkeypatch.setattr(platformdirs, "user_cache_path", found)
    folder = cache_dir("sentences")
    assert folder.parent.parent == Path(tempfile.gettempdir())
    assert folder.parent.name.startswith("ruler-data-")
