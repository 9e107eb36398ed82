"""The Python API: what the page of it shows runs, and what it exports is there and light."""

import inspect
import pydoc
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ruler_builders
import ruler_data
import ruler_eval
from ruler_builders.__main__ import table
from ruler_cli import commands
from ruler_data import UsageError
from ruler_data.signatures import declared, options_of
from tests.conftest import ROOT

PACKAGES = ["ruler_data", "ruler_builders", "ruler_eval", "ruler_report", "ruler_audit"]
#: What neither an import of a package nor a program's table of commands may load.
HEAVY = {
    "torch", "pyarrow", "numpy", "tokenizers", "transformers", "vllm", "ray", "matplotlib", "scipy",
    "pydantic", "jinja2", "huggingface_hub", "nltk", "wonderwords", "datasets", "pandas",
}  # fmt: skip
LIGHT = f"""
import sys, ruler_cli, ruler_builders.__main__, {", ".join(PACKAGES)}
ruler_builders.__main__.table()
print(*sys.modules)
"""


@pytest.mark.slow
def test_the_examples_of_the_page_run_in_order(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(?!# \w+\.py\n)(.*?)```", page, re.DOTALL)
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
    assert {*module.__all__} <= {*dir(module)}
    for name in module.__all__:
        assert getattr(module, name).__doc__ or name.isupper() or name == "__version__"


def test_imports_and_help_load_nothing_heavy_and_no_builder() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not HEAVY & loaded
    builders = {name for name in loaded if name.startswith("ruler_builders.")}
    assert builders == {"ruler_builders.__main__", "ruler_builders.commands"}


@pytest.mark.parametrize("package", PACKAGES)
def test_an_unknown_name_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        getattr(import_module(package), "nonsense")  # noqa: B009 - as a user would by mistake


def _place(name: str) -> tuple[bool, bool, str]:
    """Constants first, then classes, then the rest, as the linter sorts `__all__`."""
    return (not name.isupper(), not name[0].isupper(), name)


@pytest.mark.parametrize("command", [*table().values(), *commands().values()])
def test_python_refuses_what_a_signature_does_not_allow(command: Callable[..., object]) -> None:
    options, parameters = options_of(command), inspect.signature(command).parameters
    needed = {
        name: {"tool": "jsonl", "kind": "suites"}.get(name, "x")
        for name in options
        if parameters[name].default is inspect.Parameter.empty
    }
    if "out" in options:
        needed.setdefault("out", "x")  # `run` asks for it before anything else
    for name, hint in options.items():
        wrong = [] if "object" in str(hint.__origin__) else [object()]  # that allows any run
        least = hint.__metadata__[0].min
        for value in wrong if least is None else [*wrong, least - 1]:
            with pytest.raises(UsageError, match=f"^{name} .*: give "):
                command(**{**needed, name: value})


@pytest.mark.parametrize("command", [*table().values(), *commands().values()])
def test_help_shows_types_and_options_of_a_command(command: Callable[..., object]) -> None:
    text = pydoc.plain(pydoc.render_doc(command))
    assert "Annotated" not in text and "Option(" not in text and "typing." not in text
    for name, hint in options_of(command).items():
        assert f"        {name}: {hint.__metadata__[0].help}\n" in text


def test_a_value_that_does_not_fit_is_named_with_what_to_give() -> None:
    with pytest.raises(UsageError, match=r"^workers -1: give a whole number from 0 to 1,024$"):
        ruler_builders.build(workers=-1)
    with pytest.raises(UsageError, match=r"^tool 'fast': give one of nemo, kvpress, lm-"):
        ruler_builders.export("x", tool="fast", out="y")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"^lengths 4096: give a text or a list$"):
        ruler_builders.build(lengths=4096)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"^data_parallel 0: give a whole number from 1$"):
        ruler_eval.run("x", out="y", data_parallel=0)


def test_every_command_but_score_of_the_evaluator_is_exported() -> None:
    """The program's `check-engine` builds rows besides, and its `run` is `check` with an option."""
    evaluator = {
        name.replace("-", "_"): command
        for name, command in commands().items()
        if "ruler_eval" in command.__module__
    }
    assert {*evaluator} == {"run", "status", "repeat", "check_engine"}
    run = declared(evaluator.pop("run"))
    assert run.__bases__ == (declared(ruler_eval.run),) == (declared(ruler_eval.check),)
    for name, command in evaluator.items():
        assert declared(getattr(ruler_eval, name)) is declared(command)


def test_a_number_of_numpy_is_a_number(tmp_path: Path) -> None:
    options: dict[str, Any] = {"seed": np.int64(3), "rows": np.int32(1)}
    out = tmp_path / "out"
    manifest = ruler_builders.build(
        tokenizer="mistral", sources="sample", tasks=["vt"], lengths=[1024], out=out, **options
    )
    assert (manifest.seed, manifest.configs["vt_1024"].rows) == (3, 1)


def test_the_tokenizer_that_is_found_is_described_as_in_a_build_with_it(sample_build: Path) -> None:
    manifest = ruler_data.load(sample_build).manifest
    found = ruler_data.find(manifest.tokenizer.name).tokenizer
    assert found is not None and found.template_reserve > 0
    assert found == replace(manifest.tokenizer, engine=found.engine)
