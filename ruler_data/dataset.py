"""Load a dataset from a folder or the Hub; every file is checked before its rows are read.

    rows = load("org/ruler", "vt_4096", revision="v1.0.0")
    rows[0].id, rows[0].prompt, rows[0].outputs

The manifest proves itself by its own digest, and each config's file by the manifest's sha256.
"""

import os
from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import sha256_file
from ruler_data.manifest import FILENAME, Manifest, read_manifest
from ruler_data.names import check_repo, config_file, near, quote
from ruler_data.row import Row

if TYPE_CHECKING:
    import pyarrow as pa

    from ruler_data.hub.download import Snapshot


@dataclass(frozen=True)
class Source:
    """Where a dataset comes from.

    Attributes:
        folder: the dataset's files; for a release, those downloaded so far.
        manifest: of the dataset.
        release: the release on the Hub; None for a local folder.
    """

    folder: Path
    manifest: Manifest
    release: "Snapshot | None" = None

    def fetch(self, configs: Iterable[str]) -> None:
        """Download the files of configs where needed, and check each against the manifest.

        Raises:
            RulerError: a file is not available, or is not the one that the manifest names.
        """
        if self.release:
            self.release.fetch(configs)
            return
        for config in configs:
            name = config_file(config)
            expected = self.manifest.configs[config].sha256
            try:
                actual = sha256_file(self.folder / name)
            except OSError as error:
                raise RulerError(name, f"cannot be read: {error.strerror or error}") from error
            if actual != expected:
                raise RulerError(name, f"refused: sha256 expected {expected}, found {actual}")

    def __str__(self) -> str:
        if self.release:
            return f"{self.release.repo} {self.release.revision}"
        return str(self.folder)


def open_source(where: str | Path, revision: str | None = None) -> Source:
    """Return a folder, or a Hub repo at a revision; only the manifest is read.

    Raises:
        UsageError: there is no such dataset, a repo comes without a revision, or a folder with one.
        RulerError: the manifest is damaged, or the Hub does not provide it.
    """
    where = str(where)
    data = f"data {quote(where)}"
    folder = Path(os.path.expanduser(where))  # noqa: PTH111 - Path's raises for unknown users
    if where and folder.is_dir():
        if revision is not None:
            problem = f"{quote(where)} is a folder and has no revisions"
            raise UsageError(f"revision {quote(revision)}: {problem}")
        manifest = read_manifest(folder)
        manifest.check(FILENAME)
        return Source(folder, manifest)
    from ruler_data.hub.download import open_release  # loads the Hub's client

    try:
        check_repo(where)
    except UsageError as error:
        problem = f"{no_folder(where)}; not a Hub repo either: {error}"
        raise UsageError(data, problem) from error
    if revision is None:
        remedy = "to load the Hub repo of that name, give a revision, e.g. v1.0.0"
        raise UsageError(data, f"{no_folder(where)}; {remedy}, because a branch can change")
    release = open_release(where, revision)
    return Source(release.folder, release.manifest, release)


def no_folder(where: str) -> str:
    """Return that there is no such folder, and which dataset beside it may have been meant."""
    path = Path(where)
    datasets = [manifest.parent.name for manifest in path.parent.glob(f"*/{FILENAME}")]
    meant = near(path.name, sorted(datasets))
    if not meant:
        return "no such folder"
    return f"no such folder{meant} in {quote(str(path.parent))}"


def read_in_order(path: Path, config: str, rows: int) -> Generator[Row, None, None]:
    """Yield the first rows of a config's file, in order.

    Raises:
        RulerError: the file cannot be read, or rows are not where they belong.
    """
    from ruler_data.parquet import conformed, read_groups

    end = 0
    with readable(config), closing(read_groups(path)) as groups:
        for group in groups:
            table = conformed(group).slice(0, rows - end)
            for row in checked_rows(table, end, config):
                if row.index != end:
                    break
                yield row
                end += 1
            if end == rows:
                return
    raise damaged(config, f"row {end} is not in its place")


def checked_rows(table: "pa.Table", first: int, config: str) -> Generator[Row, None, None]:
    """Yield the rows of a part of a file that begins with row `first`.

    Raises:
        ValueError: a value is missing, or a row has no gold answer.
    """
    from ruler_data.parquet import packed_rows

    for packed in packed_rows(table, first):
        if not packed.outputs:
            raise ValueError(f"row {packed.index} has no gold answer")
        yield packed.unpack(config)


@contextmanager
def readable(config: str) -> Iterator[None]:
    """Turn what reading a damaged file raises into an error that names the config."""
    from ruler_data.parquet import UNREADABLE

    try:
        yield
    except UNREADABLE as error:
        reason = (str(error).splitlines() or [""])[0]
        raise damaged(config, f"cannot be read ({type(error).__name__}: {reason})") from error


def damaged(config: str, problem: str) -> RulerError:
    """Return the error for a config's file that holds something other than its rows."""
    return RulerError(config, f"{problem}; verify the data")


class Rows(Sequence[Row]):
    """The rows of one config, in order; they are read from its file when they are needed.

    Indexing and iteration raise RulerError where the file holds something other than its rows.
    """

    def __init__(self, source: Source, config: str) -> None:
        """Fetch and check the config's file.

        Raises:
            RulerError: the file is not available, or is not the one that the manifest names.
        """
        source.fetch([config])
        self.source = source
        self.config = config
        self._path = source.folder / config_file(config)
        self._length = source.manifest.configs[config].rows
        self._group: tuple[int, pa.Table] | None = None

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Row]:
        return read_in_order(self._path, self.config, len(self))

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        from ruler_data.parquet import SCHEMA, conformed, opened

        if not -len(self) <= index < len(self):
            raise IndexError(f"{self.config} has {len(self)} rows, so none at {index}")
        at = index % len(self)
        with readable(self.config):
            number = bisect_right(self._starts, at) - 1
            if self._group is None or self._group[0] != number:
                with opened(self._path) as file:
                    table = file.group(number, SCHEMA.names)
                self._group = number, conformed(table)
            piece = self._group[1].slice(at - self._starts[number], 1)
            row = next(checked_rows(piece, at, self.config))
        if row.index != at:
            raise damaged(self.config, f"row {at} is not in its place")
        return row

    @cached_property
    def _starts(self) -> list[int]:
        """Index of the first row of each row group, and the number of rows."""
        from ruler_data.parquet import opened

        with opened(self._path) as file:
            return file.starts

    def to_records(self) -> list[dict[str, Any]]:
        """Return all rows as plain values, e.g. for `pandas.DataFrame`; `id` comes first."""
        return [{"id": row.id, **row.to_record()} for row in self]

    def __repr__(self) -> str:
        return f"<Rows {self.config}: {len(self)} rows of {self.source}>"


class UnknownConfig(UsageError, KeyError):
    """A dataset has no config of this name; a `KeyError`, as mappings raise it."""

    def __init__(self, config: object, dataset: "Dataset") -> None:
        where = f"{quote(str(config))} is not in {dataset.source}"
        super().__init__(f"{where}{near(str(config), dataset)}; it has {', '.join(dataset)}")


class Dataset(Mapping[str, Rows]):
    """The configs of a dataset by name; a config is fetched and checked when it is used."""

    def __init__(self, source: Source) -> None:
        self.source = source

    @property
    def manifest(self) -> Manifest:
        """The manifest of the dataset."""
        return self.source.manifest

    def __getitem__(self, config: str) -> Rows:
        if config not in self.manifest.configs:
            raise UnknownConfig(config, self)
        return Rows(self.source, config)

    def __contains__(self, config: object) -> bool:  # Mapping's own would fetch the config
        return config in self.manifest.configs

    def __iter__(self) -> Iterator[str]:
        return iter(self.manifest.configs)

    def __len__(self) -> int:
        return len(self.manifest.configs)

    def __repr__(self) -> str:
        return f"<Dataset {self.source}: {', '.join(self)}>"


@overload
def load(source: str | Path, config: None = None, revision: str | None = None) -> Dataset: ...
@overload
def load(source: str | Path, config: str, revision: str | None = None) -> Rows: ...
def load(
    source: str | Path, config: str | None = None, revision: str | None = None
) -> Dataset | Rows:
    """Return the rows of a config, or of all configs by name, checked against the manifest.

    Args:
        source: folder of a build, or id of a dataset repo on the Hub.
        config: name of a config, e.g. `vt_4096`; None for a mapping of all.
        revision: tag or commit; needed for a repo, and not allowed for a folder.

    Raises:
        UsageError: there is no such dataset or config.
        RulerError: the manifest or a file is damaged, or the Hub does not provide it.
    """
    dataset = Dataset(open_source(source, revision))
    if config is None:
        return dataset
    return dataset[config]
