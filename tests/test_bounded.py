"""What strangers write is bounded: whatever a public function reads, in memory and in time."""

import inspect
import json
import os
import re
import resource
import shutil
import signal
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType, FunctionType
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
from ruler_builders.sources.wheel import WHEEL
from ruler_data import Rows, UsageError
from ruler_data.errors import RulerError
from ruler_data.hub.client import client as hub_client
from ruler_data.parquet import UNREADABLE
from ruler_data.signatures import _names, declared
from ruler_data.tokenizers import load_tokenizer
from ruler_data.untrusted.pages import opened
from tests.conftest import Builds, Cli
from tests.hub import Blob, running
from tests.hub_http import Handler, Serve
from tests.running import tiny
from tests.running.server import FakeServer
from tests.runs import golden, make_run
from tests.tampering import MANIFEST, copy_of, edit_file, file_of, manifest_of, table_of

GIGABYTE = 1 << 30
#: Servers that bombs have started.
SERVERS = ExitStack()
#: A function with its name, for which typing has no type.
Function = Any


class OutOfTime(BaseException):
    """A call took a minute of CPU time."""


def out_of_time(_signal: int, _frame: FrameType | None) -> None:
    raise OutOfTime


@pytest.fixture
def limits() -> Iterator[None]:
    """Let this process take a gigabyte more than it has; `outcome` limits its time."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + GIGABYTE, hard))
    before = signal.signal(signal.SIGPROF, out_of_time)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


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
    ruler_eval.doctor: {
        "data": "data", "model": "model", "tokenizer": "model", "base_url": "server",
    },
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


TEMPLATES = {
    "loops": "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}",
    "multiplies": "{{ 'a' * 10**11 }}",
    "multiplies by a fraction": "{{ 'a' * 9e9 }}",
    "pads a number": "{{ '%3000000000d' % 1 }}",
    "is long": "{{ 'a' * 200000000 }}",
}
SHOWN = "{{ messages[0]['content'] }}!"
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


def swollen(name: str, folder: Path, size: int = 3 << 30) -> Path:
    """Let a file of a folder end in so many bytes, none of which is on the disk."""
    with (folder / name).open("ab") as file:
        file.truncate(size)
    return folder


def alone(name: str, folder: Path) -> Path:
    """Return a file of 3 GB, none of which is on the disk."""
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
    path = folder / "answers-0-of-2.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    answer = json.loads(lines[0]) | {"text": "VAR AB, 1 not " * 2_000_000}
    return written(path.name, "\n".join([json.dumps(answer), *lines[1:], ""]), folder)


def served(reply: bytes, encoding: str = "identity") -> str:
    """Return the address of a server that gives this reply to every request, until the end."""
    server = SERVERS.enter_context(FakeServer(lambda body: "x"))
    server.rule = lambda body: (200, {"Content-Encoding": encoding}, reply)
    return server.url


class Swollen(bytes):
    """Bytes that are said to be three billion."""

    def __len__(self) -> int:
        return 3 << 30


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


def hosted(
    folder: Path, bomb: Callable[[Path], object] = Path, swollen: str = "", fault: str = ""
) -> str:
    """Put a folder on a Hub as org/x, where a file is too large, or never ends."""
    bomb(folder)
    hub = SERVERS.enter_context(running())
    patch = SERVERS.enter_context(pytest.MonkeyPatch.context())
    for variable, value in hub.env().items():
        patch.setenv(variable, value)
    for variable, setting in {
        "ENDPOINT": hub.endpoint,
        "HUGGINGFACE_CO_URL_TEMPLATE": hub.endpoint + "/{repo_id}/resolve/{revision}/{filename}",
        "HF_HUB_CACHE": str(folder / "cache"),
        "HF_HUB_OFFLINE": False,
    }.items():
        patch.setattr(f"huggingface_hub.constants.{variable}", setting)
    hub_client.cache_clear()
    files = {
        str(path.relative_to(folder)): Blob(path.read_bytes(), large=path.suffix == ".parquet")
        for path in folder.rglob("*")
        if path.is_file()
    }
    hub.create("org/x")
    index = {"index.json": Blob(b"{}", large=False)}
    hub.repos["org/x"].commit(
        {**index, **files, **({swollen: Blob(Swollen(b"{"), large=False)} if swollen else {})}
    )
    if fault:
        hub.fail(f"GET .*{fault}", endless, times=99)
    return "org/x"


def with_results(folder: Path) -> Path:
    """Score a run, so that it has results."""
    ruler_report.results(folder)
    return folder


#: A piece of a stream.
PIECE = b'data: {"choices": [{"text": "x", "finish_reason": "stop"}]}\n'
#: What a row of JSON holds where each of its millions of values takes 60 bytes.
MANY_VALUES = "[" + "[]," * 20_000_000 + "[]]"
#: By kind of place: what a folder of that kind becomes.
BOMBS: dict[str, dict[str, Callable[[Path], Path | str]]] = {
    "data": {
        **{f"{name} of 3 GB": partial(swollen, name) for name in (MANIFEST, "README.md")},
        "an export": exported,
        "a manifest of many configs": partial(many_configs, MANIFEST),
        **{name: partial(packed, name) for name in PARQUET},
    },
    "run": {
        **{
            f"{name} of 3 GB": partial(swollen, name)
            for name in (
                "run.json", "answers-0-of-2.jsonl", "results.json", "starts.jsonl", "repeat-1.json",
            )
        },
        "results of many configs": lambda run: many_configs("results.json", with_results(run)),
        "a long answer": long_answer,
        **{f"{name} of 3 GB": partial(alone, name) for name in ("x.jsonl", "x.csv", "x.json")},
        "a table of many columns": lambda run: written("x.csv", "," * 100_000_000, run) / "x.csv",
    },
    "model": {
        **{
            f"{name} of 3 GB": partial(swollen, name)
            for name in (
                "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "config.json",
            )
        },
        **{
            f"a template that {name}": partial(written, "chat_template.jinja", template)
            for name, template in TEMPLATES.items()
        },
        "a normalizer that grows text": growing,
    },
    "rows": {
        **{f"{name} of 3 GB": partial(alone, name) for name in ("x.jsonl", "x.json", "x.csv")},
        "many values": lambda folder: written("x.json", MANY_VALUES, folder) / "x.json",
        # 100 rows of 8 MB are rows, and read in two minutes.
        **{
            f"a parquet file, {name}": partial(packed_rows, name)
            for name in PARQUET
            if name != "long values"
        },
    },
    "sources": {
        **{
            f"{name} of 500 MB": partial(swollen, name, size=500 << 20)
            for name in ("PaulGrahamEssays.json", "dev-v2.0.json", "hotpotqa.json", WHEEL)
        },
        "many values": partial(written, "dev-v2.0.json", MANY_VALUES),
    },
    "texts": {"a text of 3 GB": partial(swollen, "x.txt")},
    "server": {
        "a stream of many pieces": lambda _: served(PIECE * 300_000 + b"data: [DONE]\n"),
        "many values": lambda _: served(b'{"choices": ' + MANY_VALUES.encode() + b"}"),
        "many bytes": lambda _: served(b" " * 10**8),
        "zipped bytes": lambda _: served(zlib.compress(b" " * 10**8), "deflate"),
        "a stream of other things": lambda _: served(b'data: {"choices": ["x"]}\n'),
    },
    "hub": {
        **{
            f"{name} of 3 GB": partial(hosted, swollen=name)
            for name in ("index.json", MANIFEST, "README.md")
        },
        **{
            f"{name} without end": partial(hosted, fault=name) for name in ("index.json", MANIFEST)
        },
        "a manifest of many configs": partial(hosted, bomb=partial(many_configs, MANIFEST)),
        "a file of rows": partial(hosted, bomb=partial(packed, "many spans")),
    },
    "suite": {
        "a suite of 3 GB": partial(alone, "suite.yaml"),
        "aliases": lambda folder: written("suite.yaml", LAUGHS, folder) / "suite.yaml",
    },
}  # fmt: skip


#: By function: arguments besides the place; names in capitals are what the fixture `good` has.
SERVED: dict[str, Any] = {"data": "DATA", "model": "m", "base_url": "URL", "tasks": "vt", "rows": 1}
RELEASED = {"repo": "org/x", "dry_run": True}
ARGUMENTS: dict[Function, dict[str, Any]] = {
    ruler_data.find: {"model": "model"},
    ruler_data.load: {"config": "vt_1024"},
    ruler_builders.build: {
        "tasks": "niah_single_2,qa_1,qa_2", "lengths": "4096", "rows": 1, "out": "OUT",
    },
    ruler_builders.export: {"tool": "upstream", "out": "OUT"},
    ruler_builders.identify: {"data": "DATA"},
    ruler_builders.import_rows: {"data": "DATA", "tokenizer": "mistral-v0.2", "out": "OUT"},
    ruler_builders.verify: {"data": "DATA"},
    ruler_builders.commands.find: {"model": "model"},
    ruler_builders.commands.show: {"config": "vt_1024"},
    ruler_builders.commands.publish: {"folder": "DATA", "allow_sample": True, **RELEASED},
    ruler_builders.commands.release: {
        "org": "org", "version": "1.0.0", "tokenizers": "mistral-v0.2", "lengths": "4096",
        "tasks": "niah_single_2", "rows": 1, "out": "OUT", "dry_run": True,
    },
    ruler_eval.doctor: SERVED,
    ruler_eval.run: {**SERVED, "out": "OUT", "options": ["patience=1"]},
    ruler_eval.repeat: {"base_url": "URL", "rows": 1},
    ruler_eval.score: {"predictions": "RUN", "data": "DATA", "model": "m", "protocol": "base"},
    ruler_report.results: {
        "run": "RUN", "data": "DATA", "model": "m", "protocol": "base", "out": "OUT",
    },
    ruler_report.report: {"runs": "RUN", "data": "DATA", "out": "OUT", "pictures": False},
    ruler_report.compare: {"first": "RUN", "second": "RUN", "data": "DATA"},
    ruler_report.gate: {"new": "RUN", "baseline": "RUN", "data": "DATA"},
    ruler_report.leaderboard: {"runs": ["RUN"], "data": "DATA", "out": "OUT"},
    ruler_report.publish: {"run": "RUN", "data": "DATA", **RELEASED},
}  # fmt: skip
PAGES = {"pages": True, "data": "DATA", "model": "m", "base_url": "URL"}


def arguments(function: Function, parameter: str, place: object, good: Any) -> dict[str, Any]:  # noqa: ANN401 - places of several types
    """Return what a function is called with, so that it reads a place."""
    values = dict(ARGUMENTS.get(function, {}))
    if function is ruler_eval.repeat and parameter != "run":
        values = dict(PAGES)
    if parameter == "haystack" and function is ruler_builders.build:
        values |= {"suite": "domains", "tasks": "all"}
    if place == "org/x" and "revision" in inspect.signature(function).parameters:
        values["revision"] = "main"
    if parameter == "data" and function in (ruler_eval.score, ruler_report.results):
        del values["model"], values["protocol"]  # those of predictions; a run has its own
    values[parameter] = place
    if parameter == "runs":
        values[parameter] = [place]
    elif parameter == "name":
        values |= {"runs": [], "name": [f"x={place}"]}
    elif parameter in ("tokenizer", "tokenizers"):
        values[parameter] = str(place)
    names = {name: (value == ["RUN"] and [good["RUN"]]) or value for name, value in values.items()}
    return {
        name: good.get(value, value) if isinstance(value, str) else value
        for name, value in names.items()
    }


@pytest.fixture(scope="module")
def good(builds: Builds, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Places in order, by the names in `ARGUMENTS`, and a folder of each kind of place."""
    base, data = tmp_path_factory.mktemp("good"), builds()
    empty = base / "empty"
    empty.mkdir()
    run, model = make_run(base / "run", data, golden), tiny.make_model(base / "model")
    kinds = {"data": data, "run": run, "model": model, "rows": data, "hub": data}
    with FakeServer(lambda body: "x") as server:
        yield {"DATA": str(data), "RUN": run, "URL": server.url, "empty": empty, **kinds}


def outcome(function: Function, values: dict[str, Any]) -> str:
    """Return what a call does: it refuses in one line, ends, or something else."""
    signal.setitimer(signal.ITIMER_PROF, 60)
    try:
        result = function(**values)
        if isinstance(result, Rows):
            deque(result, 0)
    except RulerError as error:
        return "refused" if len(str(error).splitlines()) == 1 else f"not one line: {error}"
    except (Exception, OutOfTime) as error:  # a bomb passed
        return f"{type(error).__name__}: {str(error)[:300]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return "read"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, bombs in BOMBS.items() for name in bombs]
)
def test_no_bomb_passes_a_door(
    kind: str, name: str, good: dict[str, Any], tmp_path: Path, limits: None
) -> None:
    folder = shutil.copytree(good.get(kind, good["empty"]), tmp_path / "place")
    place, outcomes = BOMBS[kind][name](folder), dict[str, str]()
    for number, (function, parameter) in enumerate(doors(kind)):
        here = {**good, "OUT": tmp_path / str(number)}
        values = arguments(function, parameter, place, here)
        outcomes[f"{function.__module__}.{function.__name__} {parameter}"] = outcome(
            function, values
        )
    SERVERS.close()
    assert "refused" in outcomes.values()
    assert {door: said for door, said in outcomes.items() if said not in ("refused", "read")} == {}


def doors(kind: str) -> list[tuple[Function, str]]:
    """Return the functions, and their parameters, that read a kind of place."""
    kinds = ("hub", "data") if kind == "hub" else (kind,)
    return [
        (function, parameter)
        for function, parameters in DOORS.items()
        for parameter, value in parameters.items()
        if value in kinds and (kind, function) != ("hub", ruler_builders.build)
    ]


@pytest.mark.parametrize("trust", ["0", "1"])
def test_only_what_is_trusted_runs_in_this_process(
    trust: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = written("chat_template.jinja", SHOWN, tiny.make_model(tmp_path / "model"))
    monkeypatch.setenv("RULER_TRUST", trust)
    monkeypatch.setattr("ruler_data.untrusted.child._child", None)
    if trust == "1":
        assert load_tokenizer(str(model)).render("hello", "") == "hello!"
    else:
        with pytest.raises(UsageError, match="not callable"):
            load_tokenizer(str(model))
    assert load_tokenizer("mistral-v0.2").count(["a"]) == [1]


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


def test_a_column_that_contradicts_its_own_statistics_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": ["text"] * 30}), path)
    data = path.read_bytes()
    optional, required = b"%\x02\x18\x01a", b"%\x00\x18\x01a"  # how often, and the name
    assert data.count(optional) == 1
    path.write_bytes(data.replace(optional, required))
    # pyarrow aborts the process when it is asked for the column's description.
    with pytest.raises(UNREADABLE, match="histogram size"), opened(path) as file:
        list(file.groups())


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
