"""Forgeries that are consistent in themselves: every hash, digest, figure and card is repaired.

`verify` makes the folder again, so each row, column, field and line that is not what a build would
have written is found, or printed as stated.
"""

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ruler_builders
from ruler_builders.card import Address, card_files
from ruler_builders.pipeline.build_dir import BuildDir, parquet_options
from ruler_builders.rebuild import Verdict
from ruler_builders.recorded import STATED
from ruler_data import Row, Span
from ruler_data.index import Index, Sibling
from ruler_data.manifest import Manifest
from ruler_data.parquet import CANARY
from ruler_data.tasks import TASKS
from tests.commands import one_line
from tests.conftest import Builds, Cli
from tests.running.tiny import make_tokenizer
from tests.tampering import (
    Change,
    Edit,
    at,
    bytes_of,
    copy_of,
    edit_config,
    edit_configs,
    edit_file,
    edit_manifest,
    edit_table,
    file_of,
    forge_all,
    insert,
    manifest_of,
    must_find,
    render,
    rows_of,
    sealed,
    table_of,
)

pytestmark = pytest.mark.slow

VT = file_of("vt_1024")
#: What is done to a copy of a folder.
Forgery = Callable[[Path], object]
OPTIONS = ("--lengths", 1024, "--rows", 24, "--sources", "sample", "--tokenizer", "mistral")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, cli: Cli) -> Path:
    """All 13 tasks, a row for each change; not to be changed."""
    out = tmp_path_factory.mktemp("attacks") / "build"
    assert cli("build", *OPTIONS, "--out", out).returncode == 0
    return out


@pytest.fixture
def few(builds: Builds) -> Path:
    """Two tasks; not to be changed."""
    return builds("vt,qa_1", rows=6)


def spelled(text: str) -> str:
    """Return a text with another last character."""
    return text[:-1] + ("1" if text[-1] == "0" else "0")


def moved(row: Row, start: int, end: int) -> Row:
    spans = [Span(span.start + start, span.end + end) for span in row.evidence]
    return replace(row, evidence=tuple(spans) or (Span(0, 5),))


def cut(row: Row) -> Row:
    """Leave out a word in the middle of the haystack."""
    place = row.context.index(" ", len(row.context) // 2)
    end = row.context.index(" ", place + 1)
    after = tuple(
        span._replace(start=span.start - end + place, end=span.end - end + place)
        if span.start >= end
        else span
        for span in row.evidence
    )
    return replace(row, context=row.context[:place] + row.context[end:], evidence=after)


def halves(row: Row) -> Row:
    """Swap two words of the haystack."""
    words = row.context.split(" ")
    at = next(n for n in range(len(words) // 2, len(words)) if words[n] != words[n + 1])
    words[at], words[at + 1] = words[at + 1], words[at]
    return replace(row, context=" ".join(words))


#: What the prompt alone tells, so that it is found without tokenizer and sources as well.
SOLVED: list[Change] = [
    lambda row: replace(row, outputs=(*row.outputs[:-1], spelled(row.outputs[-1]))),
    lambda row: replace(row, outputs=(*row.outputs, "QQQQQ")),
    lambda row: replace(row, outputs=(*row.outputs, row.outputs[-1])),
    lambda row: replace(row, outputs=(*row.outputs, "")),
    lambda row: moved(row, 1, 1),
    lambda row: replace(row, haystack=Span(0, len(row.context))),
    lambda row: moved(row, -(10**6), 0),
    lambda row: moved(row, 0, 10**6),
    lambda row: replace(row, task="vt" if row.task != "vt" else "cwe"),
    lambda row: replace(row, max_new_tokens=row.max_new_tokens + 1),
    lambda row: replace(row, length=1025),
]
#: What only a row that is made again tells.
MADE: list[Change] = [
    lambda row: replace(row, length=row.length - 1),
    lambda row: replace(row, outputs=tuple(one.upper() + "." for one in row.outputs)),
    lambda row: replace(row, outputs=(*row.outputs[1:], row.outputs[0] + " ")),
    lambda row: replace(row, answer_prefix=row.answer_prefix + " "),
    lambda row: replace(row, answer_prefix=""),
    lambda row: replace(row, question=row.question.replace("?", " ?") + " "),
    lambda row: replace(row, question=row.question.lower()),
    lambda row: replace(
        row, context="Read this. " + row.context, evidence=moved(row, 11, 11).evidence
    ),
    lambda row: replace(row, context=row.context[:-1] + " \n"),
    lambda row: insert(row, row.context.index(" ", len(row.context) // 2), " also"),
    cut,
    halves,
]


def unnamed(found: list[str], changes: int) -> set[tuple[str, int]]:
    """Return the tasks and rows that no finding names."""
    named = {
        (match[1], int(match[2]))
        for line in found
        if (match := re.match(r"(\w+)_1024/(\d+): ", line))
    }
    return {(task, index) for task in TASKS for index in range(changes)} - named


def forged(folder: Path, tmp_path: Path, changes: list[Change]) -> Path:
    """Return a copy in which row i of every task has change i."""
    copy = copy_of(folder, tmp_path)

    def edit(rows: list[Row]) -> list[Row]:
        for index, change in enumerate(changes):
            rows = at(index, change)(rows)
        return rows

    forge_all(copy, {f"{task}_1024": edit for task in TASKS})
    return copy


def test_every_column_of_every_task_is_made_again(folder: Path, tmp_path: Path, cli: Cli) -> None:
    changes = [*SOLVED, *MADE]
    found = must_find(cli("verify", forged(folder, tmp_path, changes)))
    assert unnamed(found, len(changes)) == set()


def test_without_the_tokenizer_nothing_is_proved(
    folder: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ruler_builders.rebuild.find_by_fingerprint", lambda _: None)
    done = cli("verify", folder)
    assert done.returncode == 3 and "vt_1024" in done.stderr and "--tokenizer" in done.stderr


def leaves(value: object, place: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return where the values of a manifest stand; of configs, those of one."""
    if isinstance(value, dict) and value:
        return [leaf for key, one in value.items() for leaf in leaves(one, (*place, key))]
    if isinstance(value, list) and value:
        return [leaf for key, one in enumerate(value) for leaf in leaves(one, (*place, key))]
    return [place]


def other(value: object) -> object:
    """Return another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return f"{value[:-1]}{'1' if value[-1:] == '0' else '0'}" if value else "GPT-9"
    return {"org/GPT-9": "GPT-9"} if isinstance(value, dict) else ["GPT-9"]


def seal(folder: Path, body: dict[str, Any]) -> None:
    """Seal a folder with a manifest, as a build does; only what it renders may be wrong."""
    manifest = Manifest.from_json(sealed(body))
    BuildDir(folder).seal(manifest, card_files(manifest, folder.joinpath))


SUITE = """\
name: mine
about: Of my own.
lengths: [1024]
tasks:
  vt_two: {family: vt, chains: 2, hops: 2, about: Two chains.}
"""


def of_a_suite(tmp_path: Path) -> Path:
    """Build a suite and with a tokenizer that this package does not know."""
    (tmp_path / "mine.yaml").write_text(SUITE, encoding="utf-8")
    out, tokenizer = tmp_path / "own", make_tokenizer(tmp_path / "tiny")
    ruler_builders.build(str(tokenizer), suite=str(tmp_path / "mine.yaml"), rows=1, out=out)
    return out


@pytest.mark.slow
@pytest.mark.parametrize("is_own", [False, True])
def test_every_field_is_found_or_stated(is_own: bool, builds: Builds, tmp_path: Path) -> None:
    """Each value is changed in turn, and the folder sealed again by the builder's own code."""
    copy = copy_of(of_a_suite(tmp_path) if is_own else builds("vt,qa_1", rows=1), tmp_path)
    body = json.loads((copy / "manifest.json").read_text(encoding="utf-8"))
    assert ruler_builders.verify(copy).exit_status == 0
    places = [
        place
        for place in leaves(json.loads((copy / "manifest.json").read_text(encoding="utf-8")))
        if place[0] not in ("digest", "files", "format") and "qa_1_1024" not in place
    ]
    assert len(places) > 40
    if is_own:  # its row is the same with a token more in reserve
        places.remove(("tokenizer", "extra_reserve"))
    missed, claims = [], {
        "suite", "tasks.vt_two.about", "tokenizer.name", *(f"tokenizer.{name}" for name in STATED),
    }  # fmt: skip

    for place in places:
        changed = json.loads(json.dumps(body))
        holder: Any = changed
        for key in place[:-1]:
            holder = holder[key]
        value = holder[place[-1]] = other(holder[place[-1]])
        try:
            seal(copy, changed)
        except Exception:
            continue
        verdict = ruler_builders.verify(copy, progress=False)
        name = ".".join(map(str, place))
        claimed = name in claims and f"{name}: {value}" in verdict.stated
        # Another version renders the card; a tokenizer or a source of other files is not here.
        absent = name.startswith(("package_version", "tokenizer.files", "tokenizer.name"))
        absent |= name.startswith("sources.") and name.endswith(".sha256")
        allowed = {1, 0 if claimed else 1, 3 if absent else 1}
        if verdict.exit_status not in allowed:
            missed.append((name, verdict.exit_status))
    assert missed == []


def test_a_tokenizer_is_found_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RULER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RULER_TOKENIZERS", str(tmp_path))
    there = make_tokenizer(tmp_path / "qwen2.5")
    make_tokenizer(tmp_path / "llama3", template=None)
    out, own = tmp_path / "out", tmp_path / "own"
    for spec, folder in (("qwen2.5", out), (str(there), own)):
        ruler_builders.build(spec, tasks=["vt"], lengths=[2048], rows=1, out=folder)
    edit_tokenizer(own, name="mine", hub_id=None)
    there.rename(tmp_path / "moved")
    for folder in (out, own):
        for tokenizer in (None, str(tmp_path / "moved")):
            verdict = ruler_builders.verify(folder, tokenizer=tokenizer, progress=False)
            name = f"tokenizer.name: {manifest_of(folder).tokenizer.name}"
            assert verdict.exit_status == 0
            assert (name in verdict.stated) == (tokenizer is not None or folder == own)
    edit_tokenizer(out, name="llama3")
    verdict = ruler_builders.verify(out, progress=False)
    assert any("tokenizer.name expected" in one for one in verdict.findings)


def test_hashes_of_a_mirror_are_stated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there, out = make_tokenizer(tmp_path / "tiny"), tmp_path / "out"
    ruler_builders.build(str(there), tasks=["vt"], lengths=[2048], rows=1, out=out)

    def verdict_of(name: str, **more: str) -> Verdict:
        files = {**manifest_of(out).tokenizer.files, name: "0" * 64}
        edit_tokenizer(copy_of(out, tmp_path / name), files=files, **more)
        return ruler_builders.verify(tmp_path / name / "copy", tokenizer=str(there))

    assert "tokenizer.files" in str(verdict_of("tokenizer.json").findings)
    assert "tokenizer.files.x" in str(verdict_of("x", mirror="org/mirror at main").findings)
    known = verdict_of("tokenizer_config.json", mirror="org/mirror at main")
    assert known.exit_status == 0
    assert any(f"tokenizer_config.json {'0' * 64}" in one for one in known.stated)


def edit_tokenizer(folder: Path, **changes: Any) -> None:  # noqa: ANN401 - forged values
    """Change what a manifest says of the tokenizer, and seal the folder again."""
    manifest = manifest_of(folder)
    manifest = replace(manifest, tokenizer=replace(manifest.tokenizer, **changes))
    BuildDir(folder).seal(manifest, card_files(manifest, folder.joinpath))


@pytest.mark.parametrize("emptied", [["vt_1024"], ["vt_1024", "qa_1_1024"]])
def test_a_config_without_rows_is_found_whatever_lies_beside_it(
    emptied: list[str], few: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(few, tmp_path)
    for config in emptied:
        edit_table(copy, config, table_of(copy, config).slice(0, 0))
    planted = dict.fromkeys(manifest_of(copy).files, b"GPT-9 scores 100 %\n")
    BuildDir(copy).seal(manifest_of(copy), planted)
    found = must_find(cli("verify", copy, "--tasks", "vt"), "vt_1024/0: is missing", "README.md: ")
    assert not [one for one in found if "Iteration" in one]
    publish = ("publish", copy, "--repo", "a/b", "--dry-run", "--allow", "sample")
    one_line(cli(*publish), 1)
    if len(emptied) > 1:
        assert "has no rows" in one_line(cli("show", copy, "--card", "--repo", "a/b"), 1)
    edit_configs(copy, {config: {"rows": 0} for config in emptied})
    one_line(cli(*publish), 1)
    assert f"{emptied[0]} has no rows" in one_line(cli("verify", copy), 1)


def in_rows(edit: Edit) -> Forgery:
    return lambda copy: forge_all(copy, {"vt_1024": edit})


def in_body(change: Callable[[dict[str, Any]], Any]) -> Forgery:
    """Change a manifest's JSON, and its digest of itself."""

    def forge(copy: Path) -> None:
        body = json.loads((copy / "manifest.json").read_text(encoding="utf-8"))
        (copy / "manifest.json").write_text(sealed(change(body) or body), encoding="utf-8")

    return forge


def in_text(name: str, before: str, after: str) -> Forgery:
    """Change a text, or add it, and what the manifest says of it."""

    def forge(copy: Path) -> None:
        manifest = manifest_of(copy)
        files = {one: (copy / one).read_bytes() for one in manifest.files}
        files[name] = files.get(name, before.encode()).replace(before.encode(), after.encode(), 1)
        BuildDir(copy).seal(manifest, files)

    return forge


def renumbered(rows: list[Row]) -> list[Row]:
    return [replace(row, index=n) for n, row in enumerate(sorted(rows, key=lambda r: r.context))]


ENDORSED = "endorsed expected 'None', found 'by all'"
#: Forgeries of one file, and words of the finding.
FORGERIES: dict[str, tuple[Forgery, str]] = {
    "two rows swapped": (in_rows(lambda rows: [rows[1], rows[0], *rows[2:]]), "vt_1024"),
    "sorted and renumbered": (in_rows(renumbered), "vt_1024"),
    "the first row left out": (in_rows(lambda rows: rows[1:]), "vt_1024"),
    "the last row left out": (in_rows(lambda rows: rows[:-1]), "vt_1024"),
    "a row twice": (in_rows(lambda rows: [*rows, rows[1]]), "vt_1024"),
    "keys in another order": (
        in_body(lambda body: dict(reversed(body.items()))), "manifest.json: line ",
    ),
    "an integer for a number": (
        in_body(lambda body: json.loads(json.dumps(body).replace("1.0,", "1,"))),
        "manifest.json: line ",
    ),
    "a field without a value": (
        in_body(lambda body: body.update(endorsed=None)), "manifest.json: line ",
    ),
    "a field too many": (in_body(lambda body: body.update(endorsed="by all")), ENDORSED),
    "a field of a source": (
        in_body(lambda body: body["sources"][0].update(endorsed="by all")), ENDORSED,
    ),
    "a source left out": (
        in_body(lambda body: body.update(
            sources=[one for one in body["sources"] if one["name"] != "squad"])),
        "does not name the source squad",
    ),
    "an example of the card": (
        in_text("README.md", "Memorize and track", "Forget"), "README.md: line ",
    ),
    "an alias bomb in the header": (
        in_text("README.md", "---\n", "---\na: &a [x]\nb: [*a, *a]\n"), "README.md: line ",
    ),
    "licences": (in_text("LICENSES.md", "CC0-1.0", "MIT"), "LICENSES.md: line "),
    "a file that no build writes": (
        in_text("base.py", "", "import os\n"), "base.py: no build makes it",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_that_is_sealed_again_is_found(
    name: str, few: Path, tmp_path: Path, cli: Cli
) -> None:
    forge, words = FORGERIES[name]
    copy = copy_of(few, tmp_path)
    forge(copy)
    must_find(cli("verify", copy, "--tasks", "vt"), words)


def test_what_a_card_names_is_stated(builds: Builds, tmp_path: Path) -> None:
    copy = copy_of(builds("vt,qa_1", rows=1), tmp_path)
    manifest = replace(manifest_of(copy), data_version="9.9.9")
    address = Address("evil/repo", "v9.9.9", "https://github.com/acme/ruler-data")
    BuildDir(copy).seal(manifest, card_files(manifest, copy.joinpath, address))
    verdict = ruler_builders.verify(copy, progress=False)
    assert verdict.exit_status == 0 and set(verdict.stated) >= {
        "card: of evil/repo at v9.9.9", "card: code at https://github.com/acme/ruler-data",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("version", "status"),
    [("0.9.0", 1), ("x", 1), ("1.0.7", 3), ("99.0.0", 3)],
)
def test_another_version_switches_nothing_off(
    version: str, status: int, few: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(few, tmp_path)
    (copy / "README.md").write_text("GPT-9 scores 100 % on these rows.\n", encoding="utf-8")
    manifest = replace(manifest_of(copy), package_version=version)
    files = {name: (copy / name).read_bytes() for name in manifest.files}
    BuildDir(copy).seal(manifest, files)
    done = cli("verify", copy, "--tasks", "vt")
    assert done.returncode == status, done.stdout
    if status == 3:
        assert "README.md, LICENSES.md" in done.stderr and version in done.stderr
    if version == "1.0.7":  # makes the same rows
        forge_all(copy, {"vt_1024": at(2, cut)})
        BuildDir(copy).seal(replace(manifest_of(copy), package_version=version), files)
        must_find(cli("verify", copy, "--tasks", "vt"), "vt_1024/2: ")


def footer(data: bytes) -> int:
    """Return where the footer of a parquet file begins."""
    return len(data) - 8 - int.from_bytes(data[-8:-4], "little")


def in_footer(before: bytes, after: bytes) -> Callable[[bytes], bytes]:
    assert len(before) == len(after)

    def edit(data: bytes) -> bytes:
        assert before in data[footer(data) :]
        return data[: footer(data)] + data[footer(data) :].replace(before, after)

    return edit


def without_page_index(data: bytes) -> bytes:
    """Return a file whose page index, which stands before the footer, is zeros."""
    group = pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0)
    last = group.column(group.num_columns - 1)
    end = last.data_page_offset + last.total_compressed_size
    return data[:end] + bytes(footer(data) - end) + data[footer(data) :]


def written(
    change: Callable[[pa.Table], pa.Table] = lambda table: table,
    *,
    more: int = 0,
    options_of: Callable[[pa.Table], dict[str, Any]] = lambda table: {},
    **options: object,
) -> Callable[[bytes], bytes]:
    """Return an edit that writes a changed table with the builder's own writer and options."""

    def edit(data: bytes) -> bytes:
        table = change(pq.read_table(pa.BufferReader(data)))
        sink = pa.BufferOutputStream()
        layout = parquet_options(TASKS[table["task"][0].as_py()])
        layout = {**layout, **options, **options_of(table)}
        with pq.ParquetWriter(sink, table.schema, **layout) as writer:
            writer.add_key_value_metadata({"canary": CANARY})
            for part in (table, *[table.slice(0, 0)] * more):
                writer.write_table(part)
        return bytes(sink.getvalue().to_pybytes())

    return edit


def nullable(table: pa.Table) -> pa.Table:
    return table.cast(pa.schema([field.with_nullable(True) for field in table.schema]))


def with_nested_metadata(table: pa.Table) -> pa.Table:
    item = pa.field("item", pa.string(), metadata={"claim": "GPT-9 scores 100 %"})
    place = table.schema.get_field_index("outputs")
    return table.cast(table.schema.set(place, pa.field("outputs", pa.list_(item), nullable=False)))


def sorted_the_other_way(table: pa.Table) -> dict[str, Any]:
    """Return the option that makes a file say that its rows are sorted as they are not."""
    column = table.schema.get_field_index("index")
    return {"sorting_columns": [pq.SortingColumn(column, descending=True)]}


def with_a_script(data: bytes) -> bytes:
    """Return a file with a script between its pages and its footer."""
    return data[: footer(data)] + b"#!/bin/sh\nrm -rf /\n" + data[footer(data) :]


def number(value: int) -> bytes:
    """Return how a footer holds an int32 of its statistics: its length, and its bytes."""
    return b"\x04" + value.to_bytes(4, "little")


WRITER = f"parquet-cpp-arrow version {pa.__version__}"
#: How another pyarrow names itself.
OTHER = f"parquet-cpp-arrow version {'25.0.1':<{len(pa.__version__)}}".strip()
#: The container that another pyarrow might write, as the issue lists them.
OF_ANOTHER_PYARROW: dict[str, Callable[[bytes], bytes]] = {
    "statistics by which no row has an index above 0": in_footer(number(5), number(0)),
    "a task that no row has, in the statistics": in_footer(b"vt", b"zz"),
    "a script between pages and footer": with_a_script,
    "snappy": written(compression="snappy", compression_level=None),
    "a sort order that is not its rows'": written(options_of=sorted_the_other_way),
}
#: Forged containers of the same rows.
CONTAINERS: dict[str, Callable[[bytes], bytes]] = {
    **OF_ANOTHER_PYARROW,
    "no page index": written(write_page_index=False),
    "a page index of zeros": without_page_index,
    "no page checksums": written(write_page_checksum=False),
    "a writer that is a claim": in_footer(
        WRITER.encode(), f"{'GPT-9 scores 100 %':{len(WRITER)}}".encode()
    ),
    "metadata of a column": written(with_nested_metadata),
    "metadata of the file": written(lambda table: table.replace_schema_metadata({"claim": "1"})),
    "columns that may be null": written(nullable),
    "an empty row group": written(more=1),
}


@pytest.mark.parametrize("pyarrow", [pa.__version__, "25.0.1"])
@pytest.mark.parametrize("name", CONTAINERS)
def test_another_container_of_the_same_rows_is_found(
    name: str, pyarrow: str, few: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(few, tmp_path)
    data = CONTAINERS[name]((copy / VT).read_bytes())
    assert data != (copy / VT).read_bytes()
    edit_file(copy, "vt_1024", data)
    edit_manifest(copy, pyarrow=pyarrow)
    render(copy)
    found = must_find(cli("verify", copy), f"{VT}: ")
    places = {line.partition(":")[0] for line in found}
    assert places == {VT} | ({"manifest.json"} if pyarrow != pa.__version__ else set())


@pytest.mark.parametrize("name", OF_ANOTHER_PYARROW)
def test_the_container_of_another_pyarrow_is_not_proved_and_its_version_is_named(
    name: str, few: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(few, tmp_path)
    data = OF_ANOTHER_PYARROW[name]((copy / VT).read_bytes())
    edit_file(copy, "vt_1024", in_footer(WRITER.encode(), OTHER.encode())(data))
    edit_manifest(copy, pyarrow="25.0.1")
    render(copy)
    if name.startswith("statistics"):
        assert len(pq.read_table(copy / VT, filters=[("index", ">=", 1)])) == 0
    done = cli("verify", copy)
    assert done.returncode == 3, done.stdout
    assert "vt_1024: its rows are equal" in done.stderr and "qa_1_1024" not in done.stderr
    assert "pip install 'pyarrow==25.0.1'" in done.stderr


def test_rows_are_compared_also_in_a_file_of_another_pyarrow(
    few: Path, tmp_path: Path, cli: Cli
) -> None:
    copy = copy_of(few, tmp_path)
    data = bytes_of(halved(table_of(copy, "vt_1024")))
    edit_file(copy, "vt_1024", in_footer(WRITER.encode(), OTHER.encode())(data))
    edit_manifest(copy, pyarrow="25.0.1")
    render(copy)
    must_find(cli("verify", copy), "vt_1024/0: context is ")


def halved(table: pa.Table) -> pa.Table:
    """Return a table whose contexts lack their second half."""
    rows = table.to_pylist()
    for row in rows:
        row["context"] = row["context"][: len(row["context"]) // 2]
    return pa.Table.from_pylist(rows, table.schema)


def linked_in(name: str, target: str) -> Forgery:
    """Put a link into a folder, in the place of what has this name."""

    def forge(copy: Path) -> None:
        (copy / name).unlink(missing_ok=True)
        (copy / name).symlink_to(target)

    return forge


def as_linked_blob(copy: Path) -> None:
    """Move the card to where a Hub cache would have it; but this folder is no Hub cache."""
    blobs = copy.parents[1] / "blobs"
    blobs.mkdir(exist_ok=True)
    (copy / "README.md").rename(blobs / "card")
    (copy / "README.md").symlink_to("../../blobs/card")


def in_windows_notation(copy: Path) -> None:
    text = (copy / "manifest.json").read_bytes()
    (copy / "manifest.json").write_bytes(text.replace(b"\n", b"\r\n"))


def with_a_pipe(copy: Path) -> None:
    os.mkfifo(copy / "pipe")


def with_a_name_that_is_not_utf_8(copy: Path) -> None:
    Path(os.fsdecode(os.fsencode(copy) + b"/\xff.txt")).write_text("x")


def with_a_foreign_index(copy: Path) -> None:
    sibling = Sibling("org/other", "v1.0.0", "c" * 40, "llama3", "f" * 64)
    (copy / "index.json").write_text(Index((sibling,)).to_json(), encoding="utf-8")


def as_snapshot(folder: Path, tmp_path: Path) -> Path:
    """Return a copy of a folder as a Hub cache holds a commit: its files are links to blobs."""
    place = tmp_path / "datasets--org--ruler" / "snapshots" / ("c" * 40)
    blobs = place.parents[1] / "blobs"
    blobs.mkdir(parents=True)
    for number, path in enumerate(sorted(path for path in folder.rglob("*") if path.is_file())):
        shutil.copyfile(path, blobs / str(number))
        link = place / path.relative_to(folder)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(blobs / str(number))
    return place


def test_in_a_hub_cache_a_link_to_a_blob_is_the_file_and_no_other_link(
    few: Path, tmp_path: Path, cli: Cli
) -> None:
    place = as_snapshot(few, tmp_path)
    assert cli("verify", place).returncode == 0
    (tmp_path / "card").write_bytes((place / "README.md").read_bytes())
    (place / "README.md").unlink()
    (place / "README.md").symlink_to(tmp_path / "card")
    must_find(cli("verify", place), "README.md: is a symbolic link")


#: What lies in a folder beside what a build makes, and the finding.
STRAYS: dict[str, tuple[Forgery, str]] = {
    "a manifest in another notation": (in_windows_notation, "manifest.json: line 1: "),
    "git's folder as a link": (linked_in(".git", "/etc"), ".git: is a symbolic link"),
    "a client's folder as a link": (linked_in(".cache", "/tmp"), ".cache: is a symbolic link"),
    "an index as a link": (linked_in("index.json", "/etc/hostname"), "index.json: is a symbolic"),
    "an index of other repos": (with_a_foreign_index, "index.json: no build makes it"),
    "a card in what is no Hub cache": (as_linked_blob, "README.md: is a symbolic link"),
    "rows as a link": (linked_in(VT, "/etc/hostname"), f"{VT}: is a symbolic link"),
    "what git adds, beside rows": (
        lambda copy: (copy / VT).with_name(".gitattributes").touch(),
        "vt_1024/.gitattributes: no build makes it",
    ),
    "a pipe": (with_a_pipe, "pipe: is neither a file nor a folder"),
    "a name that is not UTF-8": (with_a_name_that_is_not_utf_8, ".txt: no build makes it"),
    "a pyarrow that is none": (
        lambda copy: edit_manifest(copy, pyarrow="25.0.0 (reviewed by NIST)"),
        "pyarrow '25.0.0 (reviewed by NIST)' is no version",
    ),
    "a pyarrow that wrote nothing": (
        lambda copy: edit_manifest(copy, pyarrow="25.0.0"), "pyarrow expected",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STRAYS)
def test_what_a_build_does_not_make_is_found(
    name: str, few: Path, tmp_path: Path, cli: Cli
) -> None:
    forge, words = STRAYS[name]
    copy = copy_of(few, tmp_path)
    forge(copy)
    must_find(cli("verify", copy), words)
    publish = ("publish", copy, "--repo", "a/b", "--dry-run", "--allow", "sample")
    one_line(cli(*publish), 1)


def test_a_cut_config_is_not_proved_because_the_card_names_a_repo(
    few: Path, builds: Builds, tmp_path: Path, cli: Cli
) -> None:
    copy, cut = copy_of(few, tmp_path), builds("vt", rows=4)
    (copy / VT).write_bytes((cut / VT).read_bytes())
    edit_config(copy, "vt_1024", **vars(manifest_of(cut).configs["vt_1024"]))
    render(copy)
    must_find(cli("verify", copy), "vt_1024: 4 rows, and other configs have 6")
    manifest = manifest_of(copy)
    address = Address("evil/repo", f"v{manifest.data_version}", "")
    BuildDir(copy).seal(manifest, card_files(manifest, copy.joinpath, address))
    must_find(cli("verify", copy), "vt_1024: 4 rows, and other configs have 6")


def test_rows_of_each_config_can_be_chosen_and_are_named(few: Path, cli: Cli) -> None:
    done = cli("verify", few, "--rows", 2, "--json")
    verdict = json.loads(done.stdout)
    assert (done.returncode, verdict["made"], verdict["exit_status"]) == (3, 4, 3)
    assert sorted(verdict["unproved"]) == ["qa_1_1024", "vt_1024"]
    done = cli("verify", few, "--rows", 6, "--json")  # all of them
    verdict = json.loads(done.stdout)
    assert (done.returncode, verdict["made"], verdict["unproved"]) == (0, 12, {})


def test_sources_not_here_are_said_by_config(shared: Path, tmp_path: Path, cli: Cli) -> None:
    out, bare = tmp_path / "out", {"RULER_CACHE": str(tmp_path / "cache")}
    options = ("--tokenizer", "mistral", "--tasks", "vt,qa_1", "--lengths", 1024, "--rows", 3)
    built = cli("build", *options, "--sources", shared / "sources", "--out", out)
    assert built.returncode == 0, built.stderr
    assert cli("verify", out, "--sources", shared / "sources").returncode == 0
    done = cli("verify", out, env=bare)
    assert done.returncode == 3, done.stdout
    assert "qa_1_1024" in done.stderr and "vt_1024" not in done.stderr
    assert rows_of(out, "vt_1024")
