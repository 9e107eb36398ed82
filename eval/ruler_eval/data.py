"""Frozen rows: found in a folder or on the Hub, proved by the manifest, read one by one.

Rows read from a config's file one by one: each in its place, or the file is called spoilt.
"""

import hashlib
import json
import os
from collections.abc import Collection, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import pyarrow as pa

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import sha256_file
from ruler_data.hub import Release, open_release
from ruler_data.manifest import FILENAME, Manifest
from ruler_data.names import check_repo, parse_config, quote
from ruler_data.parquet import SCHEMA, UNREADABLE, config_file, read_columns, read_groups, row_at
from ruler_data.row import Row
from ruler_eval.schema import DataInfo, told_seed

#: Rows that are held to be sorted.
ALIKE = 100


@dataclass(frozen=True)
class Size:
    """What a row costs, read without its text.

    Attributes:
        length: tokens of the prompt as its tokenizer counts it, room for the answer included.
        max_new_tokens: tokens that the answer may take.
    """

    length: int
    max_new_tokens: int


def read(path: Path, config: str, rows: int) -> Generator[Row, None, None]:
    """Yield the first rows of a file, in order.

    Raises:
        RulerError: the file cannot be read, or rows are not where they belong.
    """
    with _readable(config), closing(_places(path, config, rows)) as places:
        for _, group, place in places:
            yield _row(group, place)


def read_alike(
    path: Path, config: str, rows: int, indices: Collection[int]
) -> Generator[Row, None, None]:
    """Yield those of a file's first rows that are asked, `ALIKE` at a time sorted by their text.

    Those that begin alike follow one another, and a prefix cache that holds no more than the last
    row saves as much as one without limit.

    Raises:
        RulerError: the file cannot be read, or rows are not where they belong.
    """
    with _readable(config), closing(_places(path, config, rows)) as places:
        wanted = ((group, place) for index, group, place in places if index in indices)
        while held := list(islice(wanted, ALIKE)):
            for group, place in sorted(held, key=_text):
                yield _row(group, place)


def read_sizes(path: Path, config: str, rows: int) -> list[Size]:
    """Return what each of the first rows costs.

    Raises:
        RulerError: the file cannot be read, or holds fewer rows.
    """
    columns = ["length", "max_new_tokens"]
    with _readable(config):
        table = read_columns(path, columns)
        found = [Size(*map(int, pair)) for pair in zip(*map(table.column, columns), strict=True)]
    if len(found) < rows:
        raise _spoilt(config, f"it holds only {len(found)} rows")
    return found[:rows]


def _places(path: Path, config: str, rows: int) -> Generator[tuple[int, pa.Table, int], None, None]:
    """Yield the index of each row, the row group that it is in, and its place there."""
    end = 0
    with closing(read_groups(path)) as groups:
        for group in groups:
            table = group.select(SCHEMA.names).cast(SCHEMA)
            for place, index in enumerate(table["index"].to_pylist()[: rows - end]):
                if index != end:
                    raise _spoilt(config, f"row {end} is not in its place")
                yield index, table, place
                end += 1
            if end == rows:
                return
    raise _spoilt(config, f"row {end} is not in its place")


def _row(group: pa.Table, place: int) -> Row:
    row = row_at(group, place)
    if not row.outputs:
        msg = f"row {row.index} has no golden answer"
        raise ValueError(msg)
    return row


def _text(where: tuple[pa.Table, int]) -> bytes:
    """Return a row's context in UTF-8, whose order is that of its characters."""
    group, place = where
    text: bytes = group["context"][place].as_buffer().to_pybytes()
    return text


@contextmanager
def _readable(config: str) -> Iterator[None]:
    """Say of which config it is that a file cannot be read, or holds something else than rows."""
    try:
        yield
    except UNREADABLE as error:
        reason = (str(error).splitlines() or [""])[0]
        what = f"cannot be read ({type(error).__name__}: {reason})"
        raise _spoilt(config, what) from error


def _spoilt(config: str, what: str) -> RulerError:
    return RulerError(f"{config}: {what}; verify the data")


@dataclass(frozen=True)
class Dataset:
    """Rows of a dataset, proved by its manifest once they are fetched.

    Attributes:
        folder: where they lie.
        manifest: what proves them.
        rows: number of rows asked of each config, the first ones; by name.
        release: that they are of on the Hub; None for a folder.
    """

    folder: Path
    manifest: Manifest
    rows: dict[str, int]
    release: Release | None = None

    @property
    def info(self) -> DataInfo:
        """What a run says of its rows."""
        manifest, release = self.manifest, self.release
        return DataInfo(
            repo=release.repo if release else None,
            revision=release.commit if release else None,
            data_version=manifest.data_version,
            suite=manifest.suite,
            seed=told_seed(manifest),
            sample=manifest.is_sample,
            tokenizer=manifest.tokenizer.name,
            tokenizer_fingerprint=manifest.tokenizer.fingerprint,
            digests={config: manifest.configs[config].digest for config in self.rows},
            rows=dict(self.rows),
            inputs=_inputs(manifest),
        )

    def choose(self, configs: Collection[str] = (), rows: int | None = None) -> "Dataset":
        """Return the same with only some rows asked, configs in the order of the manifest.

        All configs are where none is named, and all of their rows where `rows` is None.

        Raises:
            UsageError: a config is not in the dataset.
        """
        for config in configs:
            if config not in self.rows:
                msg = f"{quote(config)} is not in {self.folder}; it has {', '.join(self.rows)}"
                raise UsageError(msg)
        counts = {name: n for name, n in self.rows.items() if not configs or name in configs}
        return replace(self, rows={name: min(rows or n, n) for name, n in counts.items()})

    def fetch(self) -> "Dataset":
        """Have the files of the configs asked here, each with the sha256 of the manifest.

        Raises:
            RulerError: a file cannot be had, or is not the one that the manifest names.
        """
        if self.release:
            self.release.fetch(self.rows)
        else:
            for config in self.rows:
                _check(self.folder, config_file(config), self.manifest.configs[config].sha256)
        return self

    def read(self, config: str) -> Generator[Row, None, None]:
        """Yield the rows asked of a config, in order.

        Raises:
            RulerError: the file cannot be read, or rows are not where they belong.
        """
        return read(self._file(config), config, self.rows[config])

    def read_alike(self, config: str, indices: Collection[int]) -> Generator[Row, None, None]:
        """Yield some of these rows, sorted by their text a group at a time; see `read_alike`.

        Raises:
            RulerError: the file cannot be read, or rows are not where they belong.
        """
        return read_alike(self._file(config), config, self.rows[config], indices)

    def sizes(self, config: str) -> list[Size]:
        """Return what each row asked of a config costs.

        Raises:
            RulerError: the file cannot be read, or holds fewer rows than the manifest says.
        """
        return read_sizes(self._file(config), config, self.rows[config])

    def _file(self, config: str) -> Path:
        return self.folder / config_file(config)


def _inputs(manifest: Manifest) -> str:
    """Return the sha256 of the sources' names and hashes and of the tokens kept free."""
    sources = sorted((source.name, source.sha256) for source in manifest.sources)
    values = [sources, manifest.tokenizer.extra_reserve]
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()


def open_dataset(where: str, revision: str | None = None) -> Dataset:
    """Return all rows of a folder, or of a Hub repo at a revision; only the manifest is read.

    Raises:
        UsageError: there is no such data.
        RulerError: the manifest is damaged, or the Hub does not give it.
    """
    folder = Path(os.path.expanduser(where))  # noqa: PTH111 - Path's raises for unknown users
    release = None if where and folder.is_dir() else open_release(*_repo(where, revision))
    if release is None and revision is not None:
        msg = f"--revision {quote(revision)}: {quote(where)} is a folder and has no revisions"
        raise UsageError(msg)
    manifest = release.manifest if release else _read_manifest(folder)
    rows = {name: info.rows for name, info in manifest.configs.items() if parse_config(name)}
    if not rows:
        msg = f"--data {quote(where)}: its manifest names no config"
        raise UsageError(msg)
    return Dataset(release.folder if release else folder, manifest, rows, release)


def _repo(where: str, revision: str | None) -> tuple[str, str]:
    """Return what can be asked of the Hub."""
    try:
        check_repo(where)
    except UsageError as error:
        msg = f"--data {quote(where)}: no such folder, and as a Hub repo it cannot be had: {error}"
        raise UsageError(msg) from error
    if revision is None:
        msg = (
            f"--data {quote(where)}: no such folder; for the Hub repo of that name say which "
            "--revision, e.g. v1.0.0: a name alone moves"
        )
        raise UsageError(msg)
    return where, revision


def _read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a folder, which every finished build has."""
    try:
        return Manifest.from_json((folder / FILENAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        msg = f"--data {quote(str(folder))}: holds no {FILENAME}, so no finished build"
        raise UsageError(msg) from None
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{FILENAME}: cannot be read: {error}"
        raise RulerError(msg) from error


def _check(folder: Path, name: str, sha256: str) -> None:
    """Refuse a file that is not the one that the manifest names."""
    try:
        found = sha256_file(folder / name)
    except OSError as error:
        msg = f"{name}: cannot be read: {error.strerror or error}"
        raise RulerError(msg) from error
    if found != sha256:
        msg = f"{name}: refused: sha256 expected {sha256}, found {found}"
        raise RulerError(msg)
