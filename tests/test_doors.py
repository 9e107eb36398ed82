"""The doors: what a stranger gives to a command is read within a limit of memory, or refused."""

import inspect
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FunctionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ruler_builders
import ruler_builders.commands
import ruler_data
import ruler_eval
import ruler_eval.commands
import ruler_report
import ruler_report.commands
from ruler_data.errors import RulerError
from ruler_data.parquet import UNREADABLE, opened
from ruler_data.signatures import _names, declared
from tests.conftest import Builds, Cli
from tests.running import tiny
from tests.tampering import MANIFEST, copy_of, manifest_of

#: A function with its name, for which typing has no type.
Function = Any


#: Names of parameters that are values: what they name is not read.
VALUES = {
    "against", "attr", "config", "configs", "edition", "engine", "engine_options", "files", "form",
    "length", "lengths", "model_name", "model_revision", "options", "org", "procedure", "protocol",
    "revision", "rows", "score", "shard", "task", "tasks", "template", "version",
}  # fmt: skip
#: By public function and parameter: the kind of place that it reads. `written` is not read, `hub`
#: a repo; what reads `data` reads repos, too.
DOORS: dict[Function, dict[str, str]] = {
    ruler_data.config_name: {},
    ruler_data.parse_config: {"name": "value"},
    ruler_data.find: {"model": "model", "repo": "hub"},
    ruler_data.load: {"source": "data"},
    ruler_builders.build: {
        "tokenizer": "model", "suite": "suite", "sources": "sources", "haystack": "texts",
        "out": "data",
    },
    ruler_builders.export: {"data": "data", "out": "written"},
    ruler_builders.identify: {"data": "rows", "tokenizer": "model", "sources": "sources"},
    ruler_builders.import_rows: {
        "data": "rows", "tokenizer": "model", "out": "written", "sources": "sources",
    },
    ruler_builders.verify: {
        "data": "data", "tokenizer": "model", "sources": "sources", "haystack": "texts",
    },
    ruler_builders.commands.show: {"data": "data"},
    ruler_builders.commands.card: {"data": "data", "repo": "value"},
    ruler_builders.commands.publish: {
        "folder": "data", "repo": "hub", "index": "hub", "tokenizer": "model",
    },
    ruler_builders.commands.release: {
        "tokenizers": "model", "suite": "suite", "name": "value", "sources": "sources",
        "out": "written",
    },
    ruler_builders.commands.find: {"model": "model", "repo": "hub"},
    ruler_builders.commands.procedures: {"name": "value"},
    ruler_builders.commands.sources: {"folder": "sources", "download": "sources"},
    ruler_eval.run: {
        "data": "data", "model": "model", "tokenizer": "model", "base_url": "server",
        "out": "run",
    },
    ruler_eval.repeat: {
        "run": "run", "data": "data", "model": "model", "tokenizer": "model",
        "base_url": "server",
    },
    ruler_eval.status: {"run": "run"},
    ruler_eval.score: {"predictions": "run", "data": "data", "model": "value"},
    ruler_report.results: {"run": "run", "data": "data", "model": "value", "out": "written"},
    ruler_report.read_results: {"run": "run"},
    ruler_report.report: {
        "runs": "run", "baseline": "run", "data": "data", "name": "run", "out": "written",
    },
    ruler_report.compare: {"first": "run", "second": "run", "data": "data"},
    ruler_report.gate: {"new": "run", "baseline": "run", "data": "data"},
    ruler_report.leaderboard: {"runs": "run", "data": "data", "name": "run", "out": "written"},
    ruler_report.publish: {"run": "run", "data": "data", "repo": "hub"},
}  # fmt: skip


def functions() -> set[Function]:
    """Return the public functions of all packages, and their commands."""
    packages = (ruler_data, ruler_builders, ruler_eval, ruler_report)
    public = [getattr(package, name) for package in packages for name in package.__all__]
    for module in (ruler_builders.commands, ruler_eval.commands, ruler_report.commands):
        names = vars(module).values()
        public += [v for v in names if getattr(v, "__module__", "") == module.__name__]
    return {value for value in public if isinstance(value, FunctionType)}


def is_text(kind: Any) -> bool:  # noqa: ANN401 - any annotation
    """Whether a text or a path is among the values of a type."""
    if kind is Callable or get_origin(kind) in (Literal, Callable):
        return False
    if inner := get_args(kind):
        return any(map(is_text, inner))
    return kind in (str, object, Any) or (isinstance(kind, type) and issubclass(kind, os.PathLike))


def test_every_parameter_that_may_name_a_place_is_in_the_table() -> None:
    for function in functions():
        declaration = declared(function)
        hints = get_type_hints(declaration, localns=_names(declaration))
        parameters = inspect.signature(function).parameters
        texts = {name for name in parameters if name in hints and is_text(hints[name])}
        assert texts - VALUES == DOORS.get(function, {}).keys(), function


def written(name: str, text: str, folder: Path) -> Path:
    """Write a file of a folder."""
    (folder / name).write_text(text, encoding="utf-8")
    return folder


CHANGES = {
    "| upper": "its chat template changes the case of letters in the user's text",
    ".replace('1', '7')": "changes digits in",
    r".replace('\n', ' ')": "changes line feeds in",
    ".split() | join(' ')": "changes line feeds in",
    "| e": "changes punctuation in",
    "* 2": "shows the user's text 2 times, and not once as it",
    "+ ['a', 'b'] | random": "it draws at random, so that no prompt is sent as it was counted",
    ".replace('VAR ', 'VAL ')": "vt_1024/0: the chat template of model changes context or question",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_template_that_rewrites_text_is_refused(change: str, tmp_path: Path) -> None:
    model = written(
        "chat_template.jinja",
        f"{{{{ messages[0]['content'] {change} }}}}",
        tiny.make_model(tmp_path / "model"),
    )
    with pytest.raises(RulerError, match=re.escape(CHANGES[change])):
        ruler_builders.build(str(model), out=tmp_path / "out", tasks="vt", lengths="1024", rows=1)
    assert not (tmp_path / "out" / "manifest.json").exists()


@given(at=st.integers(0, 3000), byte=st.integers(0, 255))
@settings(max_examples=100)
def test_a_byte_changed_anywhere_is_read_or_refused(
    at: int, byte: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "byte.parquet"
    table = pa.table({"a": ["text"] * 30, "b": range(30), "c": [["x", "y"]] * 30})
    pq.write_table(table, path, write_page_checksum=True)
    data = bytearray(path.read_bytes())
    data[at % len(data)] = byte
    path.write_bytes(data)
    try:
        with opened(path) as file:
            list(file.groups())
    except UNREADABLE as error:
        assert str(error)


ESCAPE = "\x1b]0;owned\x07\x1b[2J\x9b31m"


@pytest.mark.parametrize("command", ["card", "show", "verify"])
def test_escapes_never_get_out(command: str, builds: Builds, tmp_path: Path, cli: Cli) -> None:
    copy = copy_of(builds("vt,niah_single_2", length=1536), tmp_path)
    manifest = manifest_of(copy)
    source = replace(manifest.sources[0], title=ESCAPE, licence="MIT" + ESCAPE)
    info = replace(manifest.configs["vt_1536"], question_digest=ESCAPE, digest="[/bold]" + ESCAPE)
    hostile = replace(
        manifest, suite="ruler" + ESCAPE, sources=(source, *manifest.sources[1:]),
        configs={**manifest.configs, "vt_1536": info},
    )  # fmt: skip
    (copy / MANIFEST).write_text(hostile.to_json(), encoding="utf-8")
    done = cli(command, copy, *(["--repo", "org/ruler"] if command == "card" else []))
    assert done.stdout + done.stderr
    assert not {"\x1b", "\x07", "\x9b"} & {*(done.stdout + done.stderr)}
    assert "Traceback" not in done.stderr
    if command == "verify":
        assert "sources.0.title expected" in done.stdout
        assert "sources.0.licence expected" in done.stdout
    as_json = cli("show", copy, "--json")
    assert json.loads(as_json.stdout)["vt_1536"]["question_digest"] == ESCAPE
