"""The doors: what a stranger gives to a command is read within a limit of memory, or refused."""

import inspect
import json
import os
import re
import shutil
import signal
import stat
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.models import OptionInfo

import ruler_builders
import ruler_builders.__main__
import ruler_builders.commands
import ruler_cli
import ruler_data
import ruler_eval
import ruler_eval.commands
import ruler_report
import ruler_report.commands
from ruler_builders.sources.catalogue import WHEEL
from ruler_data.errors import RulerError
from ruler_data.parquet import UNREADABLE, opened
from ruler_data.signatures import _names, declared, options_of
from tests.commands import finish, kill_group, spawn, started
from tests.conftest import Builds, Cli
from tests.hub import Blob, Hub, running
from tests.hub_http import Handler, Serve
from tests.running import tiny
from tests.running.processes import answered
from tests.running.server import Answer, FakeServer
from tests.runs import golden, make_run
from tests.tampering import MANIFEST, copy_of, edit_file, file_of, manifest_of, table_of

#: A function with its name, for which typing has no type.
Function = Any


#: Names of parameters that are values: what they name is not read.
VALUES = {
    "allow", "config", "counter", "edition", "engine", "engine_options", "files",
    "form", "length", "lengths", "model_name", "model_revision", "options", "org", "prices",
    "procedure", "protocol", "revision", "rows", "score", "shard", "task", "tasks", "template",
    "version",
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
    ruler_builders.identify: {
        "data": "rows", "tokenizer": "model", "out": "written", "sources": "sources",
    },
    ruler_builders.verify: {
        "data": "data", "tokenizer": "model", "sources": "sources", "haystack": "texts",
    },
    ruler_builders.commands.show: {"data": "data", "repo": "value"},
    ruler_builders.commands.publish: {
        "folder": "data", "repo": "hub", "index": "hub", "tokenizer": "model",
        "tokenizers": "model", "sources": "sources", "haystack": "texts",
    },
    ruler_builders.commands.find: {"model": "model", "repo": "hub"},
    ruler_builders.commands.list_known: {
        "name": "value", "download": "sources",
    },
    ruler_eval.run: {
        "data": "data", "model": "model", "tokenizer": "model", "base_url": "server",
        "out": "run",
    },
    ruler_eval.check: {
        "data": "data", "model": "model", "tokenizer": "model", "base_url": "server",
        "out": "run",
    },
    ruler_eval.commands.run_or_check: {
        "data": "data", "model": "model", "tokenizer": "model", "base_url": "server",
        "out": "run",
    },
    ruler_eval.repeat: {"run": "run", "base_url": "server"},
    ruler_eval.check_engine: {
        "data": "data", "model": "model", "tokenizer": "model", "base_url": "server",
    },
    ruler_eval.status: {"run": "run"},
    ruler_eval.score: {"predictions": "run", "data": "data", "model": "value"},
    ruler_report.score: {"run": "run", "data": "data", "model": "value", "out": "written"},
    ruler_report.report: {
        "runs": "run", "baseline": "run", "data": "data", "name": "run", "out": "written",
    },
    ruler_report.compare: {"first": "run", "second": "run", "data": "data"},
    ruler_report.publish: {"run": "run", "data": "data", "repo": "hub"},
}  # fmt: skip


def functions() -> set[Function]:
    """Return the public functions of all packages, and their commands."""
    packages = (ruler_data, ruler_builders, ruler_eval, ruler_report)
    public = [getattr(package, name) for package in packages for name in package.__all__]
    for module in (ruler_builders.commands, ruler_eval.commands, ruler_report.commands):
        for name, value in vars(module).items():
            if getattr(value, "__module__", "") == module.__name__ and not name.startswith("_"):
                public.append(value)
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
        names = _names(declaration)
        names["pd"] = pandas  # which is imported for type checkers alone
        hints = get_type_hints(declaration, localns=names)
        parameters = inspect.signature(function).parameters
        texts = {name for name in parameters if name in hints and is_text(hints[name])}
        assert texts - VALUES == DOORS.get(function, {}).keys(), function


#: Bytes of memory that a program of these tests may use, in all of its processes.
LIMIT = 2 << 30
#: Bytes of a large file, of which a program that reads it may not hold all.
LARGE = 1 << 30


class Visit(NamedTuple):
    """What a program did that ran on a stranger's place."""

    code: int
    said: str
    peak: int  # bytes of memory
    touched: set[str]  # files that came, went or changed where it has nothing to write


def visit(folder: Path, program: str, *arguments: object, seconds: float = 120) -> Visit:
    """Run a program in a folder, beside what it is not to touch, until it ends.

    It has 2 GiB of memory. Its home, its caches and what it writes by itself are apart.
    """
    home = folder / "home"
    home.mkdir(exist_ok=True)
    settings = {"HOME": str(home), "RULER_CACHE": str(home / "cache"), "RULER_MEMORY": "2"}
    before = snapshot(folder)
    with started(program, *arguments, cwd=home, env=settings) as process:
        peak, end = 0, time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < end:
            peak = max(peak, peak_of(process.pid))
            time.sleep(0.02)
        kill_group(process)
        done = finish(process)
    after = snapshot(folder)
    touched = {name for name in before | after if before.get(name) != after.get(name)}
    return Visit(done.returncode, done.stdout + done.stderr, peak, touched)


def peak_of(pid: int) -> int:
    """Return the most bytes of memory that a process had; 0 once it has ended."""
    with suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text()
        if found := re.search(r"VmHWM:\s+(\d+) kB", status):
            return int(found[1]) * 1024
    return 0


def snapshot(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return kind, size and time of all that a folder holds, but for what a program is given."""
    states = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if name.split("/")[0] not in ("home", "out", "place"):
            state = path.lstat()
            # A lock in a folder comes and goes, which changes the folder's time.
            written = () if stat.S_ISDIR(state.st_mode) else (state.st_size, state.st_mtime_ns)
            states[name] = (state.st_mode, *written)
    return states


#: By name: a chat template, and how it ends.
TEMPLATES = {
    "holds itself": "{% set ns = namespace() %}{% set ns.me = ns %}"
    "{% set ns.a = 'x' * (messages | length * 1500000000) %}",
    "indents": "{{ messages | tojson(indent=10**9) }}",
    "only fails": "{% set a = 'x' * (messages | length * 1000000000) %}{{ 1 // 0 }}",
    "renders half a character": "{{ '\\ud800' }}",
    "multiplies": "{{ 'a' * 10**11 }}",
    "pads a number": "{{ '%3000000000d' % 1 }}",
    "is long": "{{ 'a' * 200000000 }}",
}
#: A suite of eight lines that hold 10^8 names.
LAUGHS = "a0: &a0 [x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)


def growing(model: Path) -> Path:
    """Let a tokenizer's normalizer make a gigabyte of a few letters."""
    tokenizer = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))
    grow = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 100}
    tokenizer["normalizer"] = {"type": "Sequence", "normalizers": [grow] * 5}
    return written("tokenizer.json", json.dumps(tokenizer), model)


LONG, MANY = "a" * (1 << 23), 1 << 21  # bytes of a value, and values of a list


def spans(count: int) -> pa.Array:
    """Return one row with so many spans."""
    sides = [pa.array([0] * count, pa.int32())] * 2
    structs = pa.StructArray.from_arrays(sides, names=["start", "end"])
    return pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), structs)


#: By name: a column, its values (those of one row are repeated), and how pyarrow writes them.
PARQUET: dict[str, tuple[str, Callable[[], pa.Array], dict[str, Any]]] = {
    "one long value in a dictionary": (
        "context", lambda: pa.array([LONG]), {"dictionary_pagesize_limit": 1 << 30},
    ),
    "long values": ("context", lambda: pa.array([LONG]), {"use_dictionary": False}),
    "prefixes shared": (
        "context", lambda: pa.array([LONG]),
        {"use_dictionary": False, "column_encoding": {"context": "DELTA_BYTE_ARRAY"}},
    ),
    "many outputs": (
        "outputs",
        lambda: pa.ListArray.from_arrays(pa.array([0, MANY], pa.int32()), pa.array(["x"] * MANY)),
        {},
    ),
    "many spans": ("evidence", lambda: spans(MANY), {}),
    "a footer that lies": ("index", lambda: pa.array([0], pa.int32()), {}),
}  # fmt: skip


def packed(name: str, folder: Path) -> Path:
    """Replace a config's file by a small one that is large once decoded, and seal it."""
    column, values, options = PARQUET[name]
    table = table_of(folder, "vt_1024")
    count = 5000 if "dictionary" in name else 100  # 40 GB or 800 MB
    table, rows = table.slice(0, 1), table.num_rows if "many" in name else count
    place = table.schema.get_field_index(column)
    value = values()
    repeated = pa.chunked_array([value] * rows)
    if "many" in name:  # in the first row
        repeated = pa.chunked_array([value, pa.array([[]] * (rows - 1), value.type)])
    if "dictionary" in name:
        numbers = pa.array([0] * rows, pa.int32())
        repeated = pa.chunked_array([pa.DictionaryArray.from_arrays(numbers, value)])
    path = folder / file_of("vt_1024")
    # In their places, so that nothing but the size is wrong.
    table = pa.concat_tables([table] * rows).set_column(
        0, "index", pa.array(range(rows), pa.int32())
    )
    pq.write_table(
        table.set_column(place, column, repeated), path,
        compression="zstd", row_group_size=rows, **options,
    )  # fmt: skip
    data = path.read_bytes()
    if "lies" in name:  # 100 rows become 8,191 in each number of the footer
        start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        data = data[:start] + data[start:].replace(b"\xc8\x01", b"\xfe\x7f")
    assert len(data) < 100_000
    edit_file(folder, "vt_1024", data)
    return folder


def packed_rows(name: str, folder: Path) -> Path:
    """Return a file of rows that is small and large once decoded."""
    copy = copy_of(folder, folder.parent)
    return packed(name, copy) / file_of("vt_1024")


def swollen(name: str, folder: Path, size: int = LARGE) -> Path:
    """Let a file of a folder end in so many bytes, none of which is on the disk."""
    with (folder / name).open("ab") as file:
        file.truncate(size)
    return folder


def alone(name: str, folder: Path) -> Path:
    """Return a file of 1 GB, none of which is on the disk."""
    return swollen(name, folder) / name


def written(name: str, text: str, folder: Path) -> Path:
    """Write a file of a folder."""
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def exported(folder: Path) -> Path:
    """Make a folder look like an export whose description is large."""
    (folder / MANIFEST).unlink()
    return swollen("ruler.json", folder)


def many_configs(name: str, folder: Path) -> Path:
    """Let a manifest or results have 3,000 configs more."""
    text = json.loads((folder / name).read_bytes())
    config = next(iter(text["configs"].values()))
    text["configs"] |= {f"vt_{length}": config for length in range(2000, 5000)}
    return written(name, json.dumps(text), folder)


def long_answer(folder: Path) -> Path:
    """Let a model have said 30 million characters in a row."""
    path = next(folder.glob("answers-*.jsonl"))
    lines = path.read_text(encoding="utf-8").splitlines()
    answer = json.loads(lines[0]) | {"text": "VAR AB, 1 not " * 2_000_000}
    return written(path.name, "\n".join([json.dumps(answer), *lines[1:], ""]), folder)


def pipe(name: str, folder: Path) -> Path:
    """Let a file of a folder be a pipe, to which nobody writes."""
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    return folder


def device(name: str, folder: Path) -> Path:
    """Let a file of a folder lead to a device that never ends."""
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to("/dev/zero")
    return folder


def many_values() -> str:
    """Return what a row of JSON holds where each of its millions of values takes 60 bytes."""
    return "[" + "[]," * 20_000_000 + "[]]"


def hosted(folder: Path, hub: Hub) -> str:
    """Put a folder on a Hub as org/x."""
    files = {
        str(path.relative_to(folder)): Blob(path.read_bytes(), large=path.suffix == ".parquet")
        for path in folder.rglob("*")
        if path.is_file()
    }
    hub.create("org/x")
    hub.repos["org/x"].commit({"index.json": Blob(b"{}", large=False), **files})
    return "org/x"


def endless(handler: Handler, _serve: Serve) -> None:
    """Send a megabyte again and again, as long as somebody listens."""
    handler.send_response(200)
    for name, value in (("X-Repo-Commit", "0" * 40), ("ETag", '"x"')):
        handler.send_header(name, value)
    handler.end_headers()
    handler.close_connection = True
    with suppress(OSError):
        while True:
            handler.wfile.write(b" " * (1 << 20))


Bomb = Callable[[Path], Path]
#: By kind of place: what a folder of that kind becomes.
BOMBS: dict[str, dict[str, Bomb]] = {
    "data": {
        **{f"{name} of 1 GB": partial(swollen, name) for name in (MANIFEST, "README.md")},
        "a manifest of many configs": partial(many_configs, MANIFEST),
        **{name: partial(packed, name) for name in PARQUET},
    },
    "run": {
        **{
            f"{name} of 1 GB": partial(swollen, name)
            for name in ("run.json", "answers-0-of-2.jsonl", "results.json", "starts.jsonl")
        },
        "a long answer": long_answer,
        **{f"{name} of 1 GB": partial(alone, name) for name in ("x.jsonl", "x.csv", "x.json")},
        "a table of many columns": lambda run: written("x.csv", "," * 100_000_000, run) / "x.csv",
    },
    "model": {
        **{
            f"{name} of 1 GB": partial(swollen, name)
            for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
        },
        **{
            f"a template that {name}": partial(written, "chat_template.jinja", template)
            for name, template in TEMPLATES.items()
        },
        "a normalizer that grows text": growing,
    },
    "rows": {
        **{f"{name} of 1 GB": partial(alone, name) for name in ("x.jsonl", "x.json", "x.csv")},
        "many values": lambda folder: written("x.json", many_values(), folder) / "x.json",
        "a parquet file, many outputs": partial(packed_rows, "many outputs"),
    },
    "sources": {
        **{
            f"{name} of 500 MB": partial(swollen, name, size=500 << 20)
            for name in ("PaulGrahamEssays.json", "dev-v2.0.json", "hotpotqa.json", WHEEL)
        },
        "many values": lambda folder: written("dev-v2.0.json", many_values(), folder),
    },
    "texts": {"a text of 1 GB": partial(swollen, "x.txt")},
    "suite": {
        "a suite of 1 GB": partial(alone, "suite.yaml"),
        "aliases": lambda folder: written("suite.yaml", LAUGHS, folder) / "suite.yaml",
    },
}  # fmt: skip
#: By name: what a server replies to every request.
PIECE = b'data: {"choices": [{"text": "x", "finish_reason": "stop"}]}\n'
REPLIES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "a stream of many pieces": ("identity", lambda: PIECE * 300_000 + b"data: [DONE]\n"),
    "many values": ("identity", lambda: b'{"choices": ' + many_values().encode() + b"}"),
    "many bytes": ("identity", lambda: b" " * 10**8),
    "zipped bytes": ("deflate", lambda: zlib.compress(b" " * 10**8)),
    "a stream of other things": ("identity", lambda: b'data: {"choices": ["x"]}\n'),
}

#: By command: options besides the place; words in capitals are what the fixture `good` has.
ASKED: dict[str, Any] = {"data": "DATA", "model": "m", "base_url": "URL", "tasks": "vt", "rows": 1}
RELEASED = {"repo": "org/x", "dry_run": True}
OPTIONS: dict[Function, dict[str, Any]] = {
    ruler_builders.build: {
        "tasks": "niah_single_2,qa_1,qa_2", "lengths": "4096", "rows": 1, "out": "OUT",
        "tokenizer": "mistral-v0.2", "sources": "sample",
    },
    ruler_builders.export: {"tool": "jsonl", "out": "OUT"},
    ruler_builders.identify: {"data": "DATA"},
    ruler_builders.verify: {"data": "DATA"},
    ruler_builders.commands.find: {"model": "model"},
    ruler_builders.commands.show: {"config": "vt_1024"},
    ruler_builders.commands.publish: {"folder": "DATA", "allow": "sample", **RELEASED},
    ruler_eval.commands.run_or_check: {**ASKED, "out": "OUT", "options": "patience=1"},
    ruler_eval.repeat: {"base_url": "URL", "rows": 1},
    ruler_eval.check_engine: {"data": "DATA", "model": "m", "base_url": "URL"},
    ruler_report.score: {"run": "RUN", "data": "DATA", "out": "OUT"},
    ruler_report.report: {"runs": "RUN", "data": "DATA", "out": "OUT", "pictures": False},
    ruler_report.compare: {"first": "RUN", "second": "RUN", "data": "DATA"},
    ruler_report.publish: {"run": "RUN", "data": "DATA", **RELEASED},
}  # fmt: skip


def commands() -> dict[Function, tuple[str, str]]:
    """Return program and name of each command, by its function."""
    tables = {"ruler-data": ruler_builders.__main__.table(), "ruler-eval": ruler_cli.commands()}
    return {
        inspect.unwrap(function): (program, name)
        for program, table in tables.items()
        for name, function in table.items()
    }


def typed(function: Function, parameter: str, place: object, good: dict[str, Any]) -> list[str]:
    """Return what a person types so that a command reads a place."""
    if parameter == "name":
        place = f"x={place}"
    values = {**OPTIONS.get(function, {}), parameter: place}
    words = [*commands()[function]]
    declarations = options_of(function)
    for name in inspect.signature(function).parameters:
        value = values.get(name)
        if name not in declarations or value in (None, False):
            continue
        (option,) = declarations[name].__metadata__
        if isinstance(option, OptionInfo):
            named = isinstance(option.default, str)  # else by the parameter
            words.append(str(option.default) if named else "--" + name.replace("_", "-"))
        if value is not True:
            words.append(str(good.get(value, value) if isinstance(value, str) else value))
    return words


@pytest.fixture(scope="module")
def good(builds: Builds, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Places in order, by the words in `OPTIONS`, and a folder of each kind of place."""
    base, data = tmp_path_factory.mktemp("good"), builds()
    empty = base / "empty"
    empty.mkdir()
    run, model = make_run(base / "run", data, golden), tiny.make_model(base / "model")
    kinds = {"data": data, "run": run, "model": model, "rows": data, "hub": data}
    with FakeServer(lambda body: "x") as server:
        yield {
            "DATA": data,
            "RUN": run,
            "URL": server.url,
            "OUT": "../out",
            "empty": empty,
            **kinds,
        }


def doors(*kinds: str) -> list[Any]:
    """Return the commands, and their parameters, that read a kind of place."""
    names = commands()
    return [
        pytest.param(function, parameter, id=f"{' '.join(names[function])} {parameter}")
        for function, parameters in DOORS.items()
        for parameter, kind in parameters.items()
        if kind in kinds and function in names
    ]


#: The command that reads the most of each kind of place.
READERS: dict[str, tuple[Function, str]] = {
    "data": (ruler_builders.verify, "data"),
    "run": (ruler_report.score, "run"),
    "model": (ruler_builders.build, "tokenizer"),
    "rows": (ruler_builders.identify, "data"),
    "sources": (ruler_builders.build, "sources"),
    "texts": (ruler_builders.build, "haystack"),
    "suite": (ruler_builders.build, "suite"),
}


def check(visit: Visit) -> None:
    """A program ends within its limits, says in one line why it refuses, and touches nothing."""
    assert "Traceback" not in visit.said, visit.said
    assert visit.peak < LIMIT
    assert not visit.touched
    if visit.code in (1, 2):
        lines = [line for line in visit.said.splitlines() if line.startswith("ruler-")]
        assert len(lines) == 1, visit.said
    else:  # it is read (3: nothing can be told), or a native library had no more memory
        assert visit.code in (0, 3, -signal.SIGABRT), visit.said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, bombs in BOMBS.items() for name in bombs]
)
def test_no_bomb_passes_a_door(kind: str, name: str, good: dict[str, Any], tmp_path: Path) -> None:
    place = BOMBS[kind][name](shutil.copytree(good.get(kind, good["empty"]), tmp_path / "place"))
    seen = visit(tmp_path, *typed(*READERS[kind], place, good))
    check(seen)
    if "of 1 GB" in name:
        assert seen.peak < LARGE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "parameter"), doors("data", "run", "model", "rows", "sources", "texts", "suite")
)
def test_no_door_waits_for_a_pipe(
    function: Function, parameter: str, good: dict[str, Any], tmp_path: Path
) -> None:
    kind = DOORS[function][parameter]
    place = with_all(pipe, good.get(kind, good["empty"]), tmp_path)
    check(visit(tmp_path, *typed(function, parameter, place, good), seconds=60))


@pytest.mark.slow
@pytest.mark.parametrize("kind", READERS)
def test_no_device_is_read_to_its_end(kind: str, good: dict[str, Any], tmp_path: Path) -> None:
    place = with_all(device, good.get(kind, good["empty"]), tmp_path)
    check(visit(tmp_path, *typed(*READERS[kind], place, good), seconds=60))


def with_all(make: Callable[[str, Path], Path], folder: Path, tmp_path: Path) -> Path:
    """Return a copy of a folder in which each file has become something else."""
    place = shutil.copytree(folder, tmp_path / "place")
    names = [path.name for path in place.glob("*") if path.is_file()] or ["dev-v2.0.json"]
    for name in names:
        make(name, place)
    return place


@pytest.mark.slow
@pytest.mark.parametrize("name", REPLIES)
def test_no_reply_of_a_server_takes_too_much(
    name: str, good: dict[str, Any], tmp_path: Path
) -> None:
    encoding, make = REPLIES[name]
    reply = make()
    with FakeServer(lambda body: "x") as server:
        server.rule = lambda body: (200, {"Content-Encoding": encoding}, reply)
        check(
            visit(tmp_path, *typed(ruler_eval.commands.run_or_check, "base_url", server.url, good))
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", REPLIES)
def test_a_run_under_way_survives_replies_that_take_too_much(
    name: str, builds: Builds, good: dict[str, Any], tmp_path: Path
) -> None:
    encoding, make = REPLIES[name]
    reply = make()
    place = tmp_path / "out"
    data = builds("vt", rows=40)
    with FakeServer(lambda body: "x") as server:
        server.fault = lambda number, body: (
            Answer() if number <= 8 else (200, {"Content-Encoding": encoding}, reply)
        )
        words = typed(
            ruler_eval.commands.run_or_check, "base_url", server.url, {**good, "DATA": data}
        )
        seen = visit(tmp_path, *words, "--out", place, "--rows", 40)
    check(seen)
    assert seen.code == 1
    assert len(answered(place)) == 8


#: By the file of a Hub that has no end: what reads it.
ENDLESS: dict[str, tuple[Function, str, list[str]]] = {
    "index.json": (ruler_builders.commands.find, "repo", []),
    MANIFEST: (ruler_builders.verify, "data", ["--revision", "main"]),
    "parquet": (ruler_builders.commands.show, "data", ["--revision", "main"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENDLESS)
def test_no_file_of_a_hub_is_read_without_end(
    name: str, good: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running() as hub:
        place = hosted(good["data"], hub)
        for variable, value in hub.env().items():
            monkeypatch.setenv(variable, value)
        hub.fail(f"GET .*{name}", endless, times=99)
        function, parameter, more = ENDLESS[name]
        words = typed(function, parameter, place, {**good, "model": "org/m"})
        seen = visit(tmp_path, *words, *more)
    assert seen.code == 1 and "are read" in seen.said, seen.said
    check(seen)


def test_a_parquet_file_that_is_a_pipe_is_refused_at_once(
    good: dict[str, Any], tmp_path: Path
) -> None:
    place = copy_of(good["data"], tmp_path)
    pipe(file_of("vt_1024"), place)
    seen = visit(tmp_path, "ruler-data", "show", place, "vt_1024", seconds=60)
    assert seen.code == 1 and "is not a regular file" in seen.said
    check(seen)


def test_a_start_is_not_appended_to_a_file_that_a_link_leads_to(
    good: dict[str, Any], tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    out = tmp_path / "out"
    out.mkdir()
    (out / "starts.jsonl").symlink_to(victim)
    seen = visit(tmp_path, *typed(ruler_eval.commands.run_or_check, "out", out, good))
    assert seen.code == 1 and "starts.jsonl" in seen.said
    check(seen)


@pytest.mark.parametrize("name", ["vt_1024", ".build"])
def test_a_build_writes_nothing_through_a_folder_that_is_a_link(
    good: dict[str, Any], tmp_path: Path, name: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    out = copy_of(good["data"], tmp_path)
    if name == ".build":
        elsewhere.mkdir()
    else:
        (out / name).rename(elsewhere)
    (out / name).symlink_to(elsewhere)
    seen = visit(tmp_path, *typed(ruler_builders.build, "out", out, good))
    assert seen.code == 2 and f"'{name}' in it is a link" in seen.said
    check(seen)


def test_a_report_writes_no_picture_through_a_link(good: dict[str, Any], tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    out = tmp_path / "out"
    out.mkdir()
    (out / "figures").symlink_to(elsewhere)
    seen = visit(tmp_path, *typed(ruler_report.report, "out", out, good))
    assert seen.code == 2 and "'figures' in it is a link" in seen.said
    check(seen)


def test_a_template_that_takes_too_much_is_one_line(good: dict[str, Any], tmp_path: Path) -> None:
    model = shutil.copytree(good["model"], tmp_path / "model")
    written("chat_template.jinja", TEMPLATES["multiplies"], model)
    seen = visit(tmp_path, *typed(ruler_builders.build, "tokenizer", model, good))
    check(seen)
    assert seen.said == (
        "ruler-data: tokenizer model: its chat template takes more than the 2 GiB that this "
        "process may use; RULER_MEMORY=4 for more\n"
    )


def test_a_limit_that_is_no_number_is_one_line() -> None:
    done = spawn("ruler-eval", "status", "x", env={"RULER_MEMORY": "much"})
    assert done.returncode == 2
    said = "RULER_MEMORY='much': give a number of GiB, 2 or more"
    assert done.stderr == f"ruler-eval: {said}\n"


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


@pytest.mark.parametrize("command", ["show --card", "show", "verify"])
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
    done = cli(*command.split(), copy, *(["--repo", "org/ruler"] if "card" in command else []))
    assert done.stdout + done.stderr
    assert not {"\x1b", "\x07", "\x9b"} & {*(done.stdout + done.stderr)}
    assert "Traceback" not in done.stderr
    if command == "verify":
        assert "sources.0.title expected" in done.stdout
        assert "sources.0.licence expected" in done.stdout
    as_json = cli("show", copy, "--json")
    assert json.loads(as_json.stdout)["vt_1536"]["question_digest"] == ESCAPE
