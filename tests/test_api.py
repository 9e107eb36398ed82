"""The Python API: what the page of it shows runs, and what it exports is there and light."""

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

import ruler_builders
import ruler_eval
from ruler_builders.__main__ import table
from ruler_cli import commands
from ruler_data import UsageError
from ruler_data.signatures import options_of
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


@pytest.mark.parametrize("command", [*table().values(), *commands().values()])
def test_every_command_refuses_in_python_what_its_signature_does_not_allow(
    command: Callable[..., object],
) -> None:
    options, parameters = options_of(command), inspect.signature(command).parameters
    needed = {
        name: "jsonl" if name == "tool" else "x"
        for name in options
        if parameters[name].default is inspect.Parameter.empty
    }
    for name, hint in options.items():
        wrong = [] if "object" in str(hint.__origin__) else [object()]  # that allows any run
        least = hint.__metadata__[0].min
        for value in wrong if least is None else [*wrong, least - 1]:
            with pytest.raises(UsageError, match=f"^{name} .*: give "):
                command(**{**needed, name: value})


def test_a_value_that_does_not_fit_is_named_with_what_to_give() -> None:
    with pytest.raises(UsageError, match=r"^workers 0: give a whole number from 1 to 1,024$"):
        ruler_builders.build(workers=0)
    with pytest.raises(UsageError, match=r"^sources_kind 'reel': give one of auto, real, sample$"):
        ruler_builders.build(sources_kind="reel")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"^lengths 4096: give a text or a list$"):
        ruler_builders.build(lengths=4096)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"^data_parallel 0: give a whole number from 1$"):
        ruler_eval.run("x", out="y", data_parallel=0)
