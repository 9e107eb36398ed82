"""Listings: every path with its bytes and hash, of a folder or a Hub commit; how two differ.

    listing = folder_listing(Path("dist/llama3"))
    listing["manifest.json"].bytes, listing["manifest.json"].sha256

A folder is walked without following links, so that what lies there is listed and not what it says.
Left out are the few things that the Hub and its clients add. In what two files differ is said in
words: by row, column, field or line.
"""

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from itertools import islice, zip_longest
from os.path import commonprefix
from pathlib import Path
from typing import Any

from ruler_data.errors import RulerError
from ruler_data.files import read_bytes, sha256_file
from ruler_data.hub.repo import Entry, PushFile, tree
from ruler_data.index import FILENAME as INDEX
from ruler_data.index import LARGEST, Index
from ruler_data.manifest import STATE
from ruler_data.names import quote
from ruler_data.parquet import SCHEMA, opened, read_packed
from ruler_data.row import PackedRow, serialize

#: How pyarrow names itself in a file.
WRITER = re.compile(r"parquet-cpp-arrow version (\d+(?:\.\d+){1,3})")
#: Characters of a text before its first difference.
BEFORE = 20
#: Characters of a text in all.
SHOWN = 60
#: What the Hub adds to a repo.
ATTRIBUTES = ".gitattributes"
#: What clients of the Hub and of git add to a folder.
CLIENTS = (ATTRIBUTES, ".git", ".cache", ".huggingface")


def folder_listing(folder: Path) -> dict[str, Entry]:
    """Return the listing of a folder."""
    root = folder.resolve()
    blobs = _blobs(root)
    listing = dict[str, Entry]()

    def fail(error: OSError) -> None:
        raise RulerError(folder, f"cannot be read: {error.strerror}") from error

    for place, folders, files in os.walk(root, onerror=fail):
        is_root = Path(place) == root
        for name in (*folders, *files):
            path = Path(place, name)
            entry = _entry(path, blobs)
            is_added = is_root and name in CLIENTS and (entry is None or not entry.kind)
            if entry is not None and not is_added:
                listing[path.relative_to(root).as_posix()] = entry
        if is_root:
            folders[:] = [name for name in folders if name not in CLIENTS]
    return listing


def _blobs(root: Path) -> Path | None:
    """Return where the files of a snapshot in a Hub cache are; None for any other folder."""
    if root.parent.name == "snapshots" and re.fullmatch("[0-9a-f]{40}", root.name):
        return root.parents[1] / "blobs"
    return None


def _entry(path: Path, blobs: Path | None) -> Entry | None:
    """Return what lies at a path; None for a folder."""
    mode = path.lstat().st_mode
    if stat.S_ISDIR(mode):
        return None
    if stat.S_ISLNK(mode):
        target = path.resolve()
        if blobs is None or target.parent != blobs or not target.is_file():
            return Entry(kind="a symbolic link")
    elif not stat.S_ISREG(mode):
        return Entry(kind="neither a file nor a folder")
    return Entry(path.stat().st_size, sha256_file(path))


def lists(path: Path, repos: Collection[str]) -> bool:
    """Whether a file is an index of an org that names one of the repos."""
    with suppress(RulerError):
        index = Index.from_json(read_bytes(path, LARGEST, INDEX), INDEX)
        return any(sibling.repo in repos for sibling in index.siblings)
    return False


def hub_listing(repo: str, commit: str) -> dict[str, Entry]:
    """Return the listing of a commit on the Hub, without what the Hub adds."""
    listing = tree(repo, commit)
    if ATTRIBUTES in listing and not listing[ATTRIBUTES].sha256:
        del listing[ATTRIBUTES]
    return listing


def differences(
    listing: Mapping[str, Entry], made: Mapping[str, PushFile]
) -> Iterator[tuple[str, str]]:
    """Yield each path that is not the same in both listings, and the difference in words."""
    for path in sorted(listing.keys() | made.keys()):
        entry = listing.get(path)
        file = made.get(path)
        if entry is None:
            yield path, "missing"
        elif entry.kind:
            yield path, f"is {entry.kind}"
        elif path.startswith(f"{STATE}/"):
            yield path, "left by an unfinished build; run the build again"
        elif file is None:
            yield path, "no build makes it"
        elif not entry.is_same(file):
            made_entry = Entry(file.size, file.sha256)
            if not entry.sha256:
                made_entry = Entry(file.size, git_hash=file.git_oid)
            yield path, f"expected {made_entry}, found {entry}"


def pyarrow_of(path: Path) -> str:
    """Return the version of pyarrow that a file says to be written by; empty for anything else."""
    with opened(path) as file:
        match = WRITER.fullmatch(file.metadata.created_by or "")
    if match is None:
        return ""
    return match[1]


def check_columns(path: Path) -> None:
    """Raise ValueError if a file has other columns than rows have."""
    with opened(path) as file:
        schema = file.metadata.schema.to_arrow_schema()
    expected = [(field.name, field.type) for field in SCHEMA]
    actual = [(field.name, field.type) for field in schema]
    if actual != expected:
        raise ValueError(f"columns expected {_columns(expected)}, found {_columns(actual)}")


def _columns(fields: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{name}: {kind}" for name, kind in fields)


def row_differences(name: str, path: Path, made: Path, rows: int | None) -> Iterator[str]:
    """Yield how the rows of a config's file differ from those made: all, or the first `rows`."""
    with closing(read_packed(path)) as rows_there, closing(read_packed(made)) as rows_made:
        pairs = islice(zip_longest(rows_there, rows_made), rows)
        for place, (row, row_made) in enumerate(pairs):
            if row is None:
                yield f"{name}/{place}: is missing"
            elif row_made is None:
                yield f"{name}/{place}: no build makes it"
            elif difference := _row_difference(row, row_made):
                yield f"{name}/{row.index}: {difference}"


def _row_difference(row: PackedRow, made: PackedRow) -> str:
    """Return the first column in which two rows differ, and its values; empty if in none."""
    if serialize(row) == serialize(made) and row.haystack == made.haystack:
        return ""
    columns_made = made.unpack().to_record()
    for name, value in row.unpack().to_record().items():
        value_made = columns_made[name]
        if value == value_made:
            continue
        if isinstance(value, str) and isinstance(value_made, str):
            start = max(len(commonprefix([value, value_made])) - BEFORE, 0)  # noqa: RUF071 - characters
            value = value[start : start + SHOWN]
            value_made = value_made[start : start + SHOWN]
        return f"{name} is {value!r:.200}, made again {value_made!r:.200}"
    return "other bytes than the row made again"


def unequal_values(actual: Any, expected: Any, *place: str) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401 - JSON
    """Yield where two parsed texts differ, and both values."""
    if isinstance(actual, list) and isinstance(expected, list) and len(actual) == len(expected):
        actual = _numbered(actual)
        expected = _numbered(expected)
    if isinstance(actual, dict) and isinstance(expected, dict):
        for key in {**actual, **expected}:
            yield from unequal_values(actual.get(key), expected.get(key), *place, key)
    elif actual != expected:
        yield place, actual, expected


def _numbered(values: list[Any]) -> dict[str, Any]:
    return {str(place): value for place, value in enumerate(values)}


def line_difference(actual: bytes, expected: bytes) -> str:
    """Return the first line in which two texts differ; empty if in none."""
    lines = zip_longest(actual.split(b"\n"), expected.split(b"\n"), fillvalue=b"nothing")
    for number, (line, line_expected) in enumerate(lines, 1):
        if line != line_expected:
            text = quote(line.decode(errors="replace"))
            text_expected = quote(line_expected.decode(errors="replace"))
            return f"line {number}: expected {text_expected}, found {text}"
    return ""
