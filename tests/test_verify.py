"""`ruler-data verify` on files: clean folders pass, damaged files are named."""

import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ruler_data import DATA_VERSION, TASKS
from ruler_data.manifest import STATE, FileInfo
from ruler_data.row import COLUMNS
from tests.builds import snapshot
from tests.commands import Done, one_line
from tests.conftest import Builds, Cli
from tests.tampering import (
    MANIFEST,
    copy_of,
    edit_config,
    edit_file,
    edit_manifest,
    edit_table,
    file_of,
    flip,
    manifest_of,
    must_find,
    retype_manifest,
    table_of,
)

VT = file_of("vt_4096")
CUTS: dict[str, Callable[[int], int]] = {
    "vt_2048": lambda size: 0,
    "cwe_2048": lambda size: 1,
    "fwe_2048": lambda size: size // 2,
    "qa_1_2048": lambda size: size - 8,  # only the length of the footer and the magic are gone
    "qa_2_2048": lambda size: size - 1,
}


Damaged = Callable[..., Done]


@pytest.fixture
def thirteen(builds: Builds) -> Path:
    """Six rows of every task, few enough tokens for the reference alone to count them."""
    return builds(",".join(TASKS), 2048, rows=6)


@pytest.fixture
def damaged(builds: Builds, tmp_path: Path, cli: Cli) -> Damaged:
    """Damage a copy of a small build, and verify it: the rows of one task, unless asked."""

    def verified(act: Callable[[Path], object], *options: object) -> Done:
        copy = copy_of(builds("vt,qa_1,qa_2", 4096, rows=6), tmp_path)
        act(copy)
        return cli("verify", copy, *(options or ONE))

    return verified


def linked(folder: Path, elsewhere: Path) -> Path:
    """A snapshot in the Hub's cache: real folders, and every file a link to a blob."""
    commit = copy_of(folder, elsewhere / "snapshots")
    copy = commit.rename(commit.with_name("c" * 40))
    (elsewhere / "blobs").mkdir()
    for number, path in enumerate(path for path in [*copy.rglob("*")] if path.is_file()):
        path.rename(elsewhere / "blobs" / str(number))
        path.symlink_to(elsewhere / "blobs" / str(number))
    return copy


def downloaded(folder: Path, elsewhere: Path) -> Path:
    """A folder with what the Hub's clients leave beside the files."""
    copy = copy_of(folder, elsewhere / "a b")
    (copy / ".gitattributes").write_text("*.parquet filter=lfs\n", encoding="ascii")
    (copy / ".cache" / "huggingface").mkdir(parents=True)
    (copy / ".cache" / "huggingface" / "CACHEDIR.TAG").touch()
    return copy


@pytest.mark.parametrize("place", [linked, downloaded])
def test_a_clean_folder_passes_wherever_it_lies(
    place: Callable[[Path, Path], Path], thirteen: Path, tmp_path: Path, cli: Cli
) -> None:
    folder = place(thirteen, tmp_path)
    before = snapshot(folder)
    done = cli("verify", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert snapshot(folder) == before
    assert "proved; 13 configs, 78 rows" in done.stdout
    assert done.stderr == ""


def test_findings_are_json_on_request_and_still_fail(damaged: Damaged) -> None:
    done = damaged(lambda copy: (copy / VT).unlink(), *ONE, "--json")
    must_find(done)
    assert json.loads(done.stdout)["findings"] == [f"{VT}: missing"]
    assert json.loads(done.stdout)["exit_status"] == 1


def test_cut_and_flipped_files_are_named(thirteen: Path, tmp_path: Path, cli: Cli) -> None:
    copy = copy_of(thirteen, tmp_path)
    words, rng = [], random.Random(0)
    for config in manifest_of(copy).configs:
        path = copy / file_of(config)
        whole = path.read_bytes()
        left = flip(whole, rng.randrange(len(whole)), rng.randrange(8))
        left = whole[: CUTS[config](len(whole))] if config in CUTS else left
        path.write_bytes(left)
        hashes = [hashlib.sha256(data).hexdigest() for data in (whole, left)]
        entries = [
            f"{len(whole):,} bytes, sha256 {hashes[0]}",
            f"{len(left):,} bytes, sha256 {hashes[1]}",
        ]
        words.append("{}: expected {}, found {}".format(file_of(config), *entries))
    found = must_find(cli("verify", copy), *words)
    named = {line.partition(":")[0] for line in found}
    files = {*map(file_of, manifest_of(copy).configs)}
    assert {name for name in named if name.endswith(".parquet")} == files


def test_a_flipped_bit_behind_hashes_is_found(thirteen: Path, tmp_path: Path, cli: Cli) -> None:
    copy = copy_of(thirteen, tmp_path)
    rng = random.Random(0)
    flipped = [f"{task}_2048" for task in TASKS]
    for config in flipped:
        path = copy / file_of(config)
        with pq.ParquetFile(path) as file:
            context = file.metadata.row_group(0).column(2)
        end = context.data_page_offset + context.total_compressed_size
        place = rng.randrange(end - context.total_compressed_size // 4, end)
        edit_file(copy, config, flip(path.read_bytes(), place, rng.randrange(8)))
    must_find(cli("verify", copy), *map(file_of, flipped))


#: Make the rows of one task again: what is damaged is no other.
ONE = ("--tasks", "vt")
SHARD = "vt_4096/test-00001-of-00002.parquet"
Damage = Callable[[Path], object]


def edit_card(folder: Path) -> None:
    with (folder / "README.md").open("a", encoding="utf-8") as card:
        card.write("better than before\n")


def put_folder(folder: Path) -> None:
    (folder / VT).unlink()
    (folder / VT).mkdir()


def put_dangling_link(folder: Path) -> None:
    (folder / VT).unlink()
    (folder / VT).symlink_to("nowhere")


def leave_build(folder: Path) -> None:
    (folder / ".build").mkdir()
    (folder / ".build" / "manifest.json").write_text("{}", encoding="ascii")


def no_utf8(folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9")).touch()


#: Damage to files, and the beginning of each finding.
FILES: dict[str, tuple[Damage, list[str]]] = {
    "no card": (lambda folder: (folder / "README.md").unlink(), ["README.md: missing"]),
    "no licences": (lambda folder: (folder / "LICENSES.md").unlink(), ["LICENSES.md: missing"]),
    "no rows": (lambda folder: (folder / VT).unlink(), [f"{VT}: missing"]),
    "no folder": (lambda folder: shutil.rmtree(folder / "vt_4096"), [f"{VT}: missing"]),
    "a card edited": (edit_card, ["README.md: expected ", "README.md: line "]),
    "a file too many": (
        lambda folder: (folder / "notes.txt").touch(),
        ["notes.txt: no build makes it"],
    ),
    "a shard too many": (
        lambda folder: shutil.copy(folder / VT, folder / SHARD),
        [f"{SHARD}: no build makes it"],
    ),
    "a file renamed": (
        lambda folder: (folder / VT).rename(folder / SHARD),
        [f"{VT}: missing", f"{SHARD}: no build makes it"],
    ),
    "a folder renamed": (
        lambda folder: (folder / "vt_4096").rename(folder / "vt_8192"),
        [f"{VT}: missing", f"{file_of('vt_8192')}: no build makes it"],
    ),
    "a folder for a file": (put_folder, [f"{VT}: missing"]),
    "a dangling link": (put_dangling_link, [f"{VT}: is a symbolic link"]),
    "a pipe": (
        lambda folder: os.mkfifo(folder / "pipe"),
        ["pipe: is neither a file nor a folder"],
    ),
    "a folder linked in": (lambda folder: (folder / "more").symlink_to("vt_4096"), ["more"]),
    "a build left over": (leave_build, [".build/manifest.json: left by an unfinished build"]),
    "a name on two lines": (lambda folder: (folder / "a\nb").touch(), ["a\\nb"]),
    "a name in no encoding": (no_utf8, ["caf"]),
}


@pytest.mark.parametrize("damage", FILES)
def test_a_missing_extra_renamed_or_edited_file_is_named(damage: str, damaged: Damaged) -> None:
    act, words = FILES[damage]
    # Its output is strict UTF-8 (`call`), which has no half characters.
    assert len(must_find(damaged(act), *words)) == len(words)


def retyped(before: str, after: str) -> Damage:
    return lambda folder: retype_manifest(folder, before, after)


def replaced(data: bytes) -> Damage:
    return lambda folder: (folder / MANIFEST).write_bytes(data)


def config_with(field: str, value: object) -> Damage:
    """The manifest's own digest is repaired, so only the file can tell."""
    return lambda folder: edit_config(folder, "vt_4096", **{field: value})


def config_named(name: str, task: str = "vt") -> Damage:
    """A config has another name, or none and is left out."""

    def act(folder: Path) -> None:
        configs = manifest_of(folder).configs
        names = {config: name if config == f"{task}_4096" else config for config in configs}
        edit_manifest(folder, configs={names[c]: configs[c] for c in configs if names[c]})

    return act


def file_outside(folder: Path) -> None:
    card = manifest_of(folder).files["README.md"]
    shutil.copy(folder / "README.md", folder.parent / "secret.md")
    files = {**manifest_of(folder).files, "../secret.md": FileInfo(card.bytes, card.sha256)}
    edit_manifest(folder, files=files)


#: Damage to the manifest, and what the findings name.
MANIFESTS: dict[str, tuple[Damage, list[str]]] = {
    **{f"unsealed {after}": (retyped(before, after), [MANIFEST, "edited after it was written"])
       for before, after in (
           ('"seed": 42', '"seed": 43'),
           ('"digest": "sha256:', '"digest": "sha256:0'),
           ('"licence": "CC0-1.0"', '"licence": "MIT"'),
       )},
    **{f"{field} {value!a}": (config_with(field, value), ["vt_4096", field])
       for field, value in (
           ("rows", 7),  # of each other field, the mutation test of `test_verify_attacks`
           ("file", "vt_4096.parquet"), ("file", f"../copy/{VT}"), ("file", "vt_4096/a\0b"),
           ("file", 5), ("rows", "6"), ("bytes", None), ("length_min", [1]),
       )},
    **{f"named {name!a}": (config_named(name), [ascii(name)[1:-1]])
       for name in ("vt_8192", "other_4096", "vt", "../vt_4096", "vt_4096\n")},
    **{f"without {task}": (config_named("", task), [file_of(f"{task}_4096"), "no build makes it"])
       for task in ("qa_1", "qa_2")},
    "a file outside": (file_outside, ["../secret.md"]),
    **{name: (replaced(data), [MANIFEST])
       for name, data in {
           "empty": b"",
           "not JSON": b"seed: 42\n",
           "cut short": b'{"format": 1, "digest": "sha256:',
           "not UTF-8": b'{"suite": "caf\xe9"}',
           "UTF-16": '{"format": 1}'.encode("utf-16"),
           "NUL bytes": b"\0" * 4096,
           "a list": b"[]",
           "a number": b"1",
           "null": b"null",
           "an empty object": b"{}",
           "a list of configs": b'{"format": 1, "digest": "", "data_version": "1.0.0", '
                                b'"configs": []}',
           "an endless number": b'{"format": ' + b"1" * 5000 + b"}",
           "nested too deep": b"[" * 200_000,
       }.items()},
    **{f"odd {after}": (retyped(before, after), [MANIFEST])
       for before, after in (
           ('"suite": "ruler"', r'"suite": "\ud800"'),
           ('"seed": 42', '"seed": NaN'),
           ('"seed": 42', '"seed": 42, "unknown": 1'),
           ('"seed": 42', '"seed": 7, "seed": 42'),
           ('"rows": 6', '"rows": 6, "unknown": 1'),
           (f'"data_version": "{DATA_VERSION}",', ""),
       )},
}  # fmt: skip


@pytest.mark.parametrize("damage", MANIFESTS)
def test_a_manifest_that_is_not_of_its_folder_is_named(damage: str, damaged: Damaged) -> None:
    act, words = MANIFESTS[damage]
    must_find(damaged(act), *words)


def test_what_is_no_finished_build_is_refused_as_usage(
    sample_build: Path, tmp_path: Path, cli: Cli
) -> None:
    (copy_of(sample_build, tmp_path) / MANIFEST).unlink()
    (tmp_path / "file").touch()
    (tmp_path / "notes").mkdir()
    (tmp_path / "begun" / STATE).mkdir(parents=True)
    for name, words in {
        "copy": "it has no manifest.json: run `ruler-data build` with the same options",
        "begun": "it has no manifest.json: run `ruler-data build` with the same options",
        "notes": "it has no manifest.json",
        **dict.fromkeys(("nowhere", "file", "new\nline"), "no such folder"),
    }.items():
        said = one_line(cli("verify", tmp_path / name), 2)
        assert words in said and ("run `" in said) == ("run `" in words)


def cast(column: str, to: pa.DataType) -> Callable[[pa.Table], pa.Table]:
    """Return the change of a column's type."""
    return lambda table: table.set_column(
        table.schema.get_field_index(column), column, table[column].cast(to)
    )


def absent(column: str, value: object = None) -> Callable[[pa.Table], pa.Table]:
    """Return the change that leaves a value of two rows out."""

    def change(table: pa.Table) -> pa.Table:
        records = table.to_pylist()
        records[3][column] = records[5][column] = value
        schema = pa.schema([field.with_nullable(True) for field in table.schema])
        return pa.Table.from_pylist(records, schema)

    return change


SPANS_64 = pa.list_(pa.struct([("start", pa.int64()), ("end", pa.int64())]))
TABLES: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "no index": (lambda table: table.drop_columns("index"), "index"),
    "no evidence": (lambda table: table.drop_columns("evidence"), "evidence"),
    "no haystack": (lambda table: table.drop_columns("haystack"), "haystack"),
    "no columns": (lambda table: table.select([]), "columns"),
    "one more": (lambda table: table.append_column("note", table["task"]), "note"),
    "renamed": (lambda table: table.rename_columns({"outputs": "answers"}), "answers"),
    "other order": (lambda table: table.select(table.column_names[::-1]), "evidence"),
    "index in 64 bits": (cast("index", pa.int64()), "int64"),
    "length in words": (cast("length", pa.string()), "length: string"),
    "length in fractions": (cast("length", pa.float64()), "length: double"),
    "large strings": (cast("context", pa.large_string()), "large_string"),
    "bytes": (cast("context", pa.binary()), "context: binary"),
    "one answer": (lambda table: table.set_column(5, "outputs", table["task"]), "outputs: string"),
    "spans in 64 bits": (cast("evidence", SPANS_64), "int64"),
    "no rows": (lambda table: table.slice(0, 0), "/0: is missing"),
    **{f"absent {name}": (absent(name), f"row 3: {name} has no value") for name in COLUMNS},
    "absent haystack": (absent("haystack"), "/3: haystack is None"),
    "absent answer": (absent("outputs", [None]), "row 3: outputs has no value"),
    "absent span": (absent("evidence", [None]), "row 3: evidence has no value"),
    "absent start": (absent("evidence", [{"start": None, "end": 9}]), "row 3: evidence has no"),
}


@pytest.mark.parametrize("part", range(3))
def test_columns_and_values_that_are_not_the_contracts_are_named(
    part: int, thirteen: Path, tmp_path: Path, cli: Cli
) -> None:
    copy, damages = copy_of(thirteen, tmp_path), [*TABLES.values()][part::3]
    configs = [f"{task}_2048" for task in TASKS][: len(damages)]
    for config, (change, _) in zip(configs, damages, strict=True):
        edit_table(copy, config, change(table_of(copy, config)))
    found = must_find(cli("verify", copy))
    for config, (_, word) in zip(configs, damages, strict=True):
        assert any(line.startswith(config) and word in line for line in found), (config, word)
