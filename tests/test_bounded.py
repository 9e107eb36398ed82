"""What strangers write is bounded: templates, parquet files, and texts with terminal escapes."""

import json
import re
import resource
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ruler_builders
import ruler_data
import ruler_eval
import ruler_report
from ruler_data import UsageError, load
from ruler_data.errors import RulerError
from ruler_data.parquet import UNREADABLE, read_rows
from ruler_data.tokenizers import load_tokenizer
from ruler_data.untrusted.pages import opened
from ruler_eval.data import open_dataset
from tests.conftest import Builds, Cli
from tests.running import tiny
from tests.runs import golden, make_run
from tests.tampering import MANIFEST, copy_of, edit_file, file_of, manifest_of, table_of


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Let this process take a gigabyte more than it has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 30), hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


TEMPLATES = {
    "loops": "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}",
    "multiplies": "{{ 'a' * 10**11 }}",
    "multiplies by a fraction": "{{ 'a' * 9e9 }}",
    "pads a number": "{{ '%3000000000d' % 1 }}",
    "is long": "{{ 'a' * 200000000 }}",
}
SHOWN = "{{ messages[0]['content'] }}!"


def with_template(folder: Path, template: str) -> Path:
    """Return a model's folder with a template."""
    model = tiny.make_model(folder)
    (model / "chat_template.jinja").write_text(template, encoding="utf-8")
    return model


def with_growth(folder: Path) -> Path:
    """Return a model's folder whose normalizer makes a gigabyte of a few letters."""
    model = tiny.make_model(folder)
    tokenizer = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))
    grow = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 100}
    tokenizer["normalizer"] = {"type": "Sequence", "normalizers": [grow] * 5}
    (model / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    return model


@pytest.mark.slow
@pytest.mark.parametrize("name", [*TEMPLATES, "a normalizer that grows text"])
def test_a_model_without_end_is_refused_by_every_command_and_the_next_one_runs(
    name: str, builds: Builds, tmp_path: Path, little_memory: None
) -> None:
    if name in TEMPLATES:
        model = with_template(tmp_path / "model", TEMPLATES[name])
    else:
        model = with_growth(tmp_path / "model")
    data, out = str(builds()), tmp_path / "out"
    commands: tuple[Callable[[], object], ...] = (
        lambda: ruler_data.find(str(model)),
        lambda: ruler_builders.build(str(model), out=out, tasks="vt", lengths="1024", rows=1),
        lambda: ruler_builders.import_rows(data, tokenizer=str(model), out=out),
        lambda: ruler_eval.doctor(data, model=str(model), engine="transformers"),
        lambda: ruler_eval.run(data, out=out, model=str(model), engine="transformers"),
        lambda: load_tokenizer(str(model)).prompt_ids("a banana", "a"),
    )
    for command in commands:
        with pytest.raises(RulerError):
            command()
    good = with_template(tmp_path / "good", SHOWN)
    assert load_tokenizer(str(good)).render("hello", "") == "hello!"


@pytest.mark.parametrize("trust", ["0", "1"])
def test_only_what_is_trusted_runs_in_this_process(
    trust: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = with_template(tmp_path / "model", SHOWN)
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
    model = with_template(tmp_path / "model", f"{{{{ messages[0]['content'] {change} }}}}")
    with pytest.raises(RulerError, match=re.escape(CHANGES[change])):
        ruler_builders.build(str(model), out=tmp_path / "out", tasks="vt", lengths="1024", rows=1)
    assert not (tmp_path / "out" / "manifest.json").exists()


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


def bomb(folder: Path, name: str) -> Path:
    """Replace a config's file by a small one that is large once decoded, and seal it."""
    column, values, options = PARQUET[name]
    table = table_of(folder, "vt_1024")
    table, rows = table.slice(0, 1), table.num_rows if "many" in name else 100
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
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", PARQUET)
def test_a_small_file_that_holds_gigabytes_is_refused_by_every_reader(
    name: str, builds: Builds, tmp_path: Path, little_memory: None
) -> None:
    copy = copy_of(builds(), tmp_path)
    path, tokenizer = bomb(copy, name), "mistral-v0.2"
    said = r"holds up to|has the encoding 7|values in \d+ rows|not those of the footer"
    reads: tuple[Callable[[], object], ...] = (
        lambda: list(load(copy, "vt_1024")),
        lambda: load(copy, "vt_1024")[0],
        lambda: open_dataset(str(copy)).questions("vt_1024") and list(read_rows(path)),
    )
    for read in reads:
        with pytest.raises((RulerError, ValueError), match=said):
            read()
    assert re.search(said, " ".join(ruler_builders.verify(copy).findings))
    if "dictionary" not in name:  # whose rows are read a few at a time
        with pytest.raises(RulerError):
            ruler_builders.import_rows(path, tokenizer=tokenizer, out=tmp_path / "imported")


def sparse(path: Path, size: int = 3 << 30) -> None:
    """Make a file of so many bytes, none of which is on the disk."""
    with path.open("ab") as file:
        file.truncate(size)


#: By file in a folder: how it is read.
READERS: dict[str, Callable[[Path], object]] = {
    "manifest.json": lambda folder: load(folder),
    "README.md": lambda folder: ruler_builders.verify(folder),
    "run.json": lambda folder: ruler_eval.status(folder),
    "answers-0-of-2.jsonl": lambda folder: ruler_eval.score(folder, folder.parent / "copy"),
    "results.json": lambda folder: ruler_report.read_results(folder),
    "predictions.jsonl": lambda folder: ruler_eval.score(
        folder / "predictions.jsonl", folder.parent / "copy"
    ),
    "tokenizer.json": lambda folder: ruler_data.find(str(folder)),
    "tokenizer_config.json": lambda folder: ruler_data.find(str(folder)),
    "chat_template.jinja": lambda folder: ruler_data.find(str(folder)),
    "config.json": lambda folder: ruler_eval.doctor(
        folder.parent / "copy", model=str(folder), engine="transformers"
    ),
    "suite.yaml": lambda folder: ruler_builders.build(
        "mistral", suite=str(folder / "suite.yaml"), out=folder / "out"
    ),
    "rows.json": lambda folder: ruler_builders.import_rows(
        folder / "rows.json", tokenizer="mistral", out=folder / "out"
    ),
    "predictions.csv": lambda folder: ruler_report.results(
        folder, str(folder.parent / "copy"), model="m", protocol="completion"
    ),
    "rows.jsonl": lambda folder: ruler_builders.identify(folder / "rows.jsonl"),
}


@pytest.mark.parametrize("file", READERS)
def test_three_gigabytes_in_any_file_are_refused_before_they_are_read(
    file: str, builds: Builds, tmp_path: Path, little_memory: None
) -> None:
    copy = folder = copy_of(builds(), tmp_path)
    if file.startswith(("run", "answers")):
        folder = make_run(tmp_path / "run", copy, golden)
    elif file not in ("manifest.json", "README.md"):
        folder = tiny.make_model(tmp_path / "model")
    sparse(folder / file)
    with pytest.raises(RulerError, match=r"holds (more than )?[0-9,]+ bytes"):
        READERS[file](folder)


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
