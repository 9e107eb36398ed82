"""The notebook of the documentation: every cell runs, and what it ends with shows itself."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

NOTEBOOK = ROOT / "docs" / "tour.ipynb"


def execute(source: str, names: dict[str, Any]) -> object:
    """Run a cell as a notebook does; return the value of its last expression."""
    *body, last = ast.parse(source).body
    exec(compile(ast.Module(body, []), str(NOTEBOOK), "exec"), names)
    if isinstance(last, ast.Expr):
        return eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)
    exec(compile(ast.Module([last], []), str(NOTEBOOK), "exec"), names)
    return None


@pytest.mark.slow
def test_every_cell_of_the_notebook_runs_and_shows_what_it_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = []
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            value = execute("".join(cell["source"]), names)
            html = getattr(value, "_repr_html_", lambda: "")()
            shown.append((html, repr(value)))
    assert len(shown) == 10
    for html, text in shown:
        assert html or text.strip("'\"")
        assert len(text.splitlines()) <= 40, text
    assert (tmp_path / "report" / "index.html").is_file()
