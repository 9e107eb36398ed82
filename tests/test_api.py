"""The Python API: what the page of it shows runs, and what it exports is there and light."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGES = ["ruler_data", "ruler_builders", "ruler_eval", "ruler_report"]
#: What an import of a package must not load.
HEAVY = {"torch", "pyarrow", "numpy", "tokenizers", "transformers", "vllm", "ray", "matplotlib"}


@pytest.mark.slow
def test_the_examples_of_the_page_run_in_order(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) >= 5
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks), encoding="utf-8")
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "vt_4096" in done.stdout


@pytest.mark.parametrize("package", PACKAGES)
def test_every_exported_name_is_there(package: str) -> None:
    module = import_module(package)
    assert module.__all__ == sorted(module.__all__, key=_place)
    for name in module.__all__:
        assert getattr(module, name).__doc__ or name.isupper() or name == "__version__"


@pytest.mark.parametrize("package", PACKAGES)
def test_an_import_loads_nothing_heavy(package: str) -> None:
    code = f"import sys, {package}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert not HEAVY & set(loaded.split())


@pytest.mark.parametrize("package", PACKAGES)
def test_an_unknown_name_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        getattr(import_module(package), "nonsense")  # noqa: B009 - as a user would by mistake


def _place(name: str) -> tuple[bool, bool, str]:
    """Constants first, then classes, then the rest, as the linter sorts `__all__`."""
    return (not name.isupper(), not name[0].isupper(), name)
