"""The folder of a build: its manifest, the one of an unfinished build, and its lock.

While a build runs, `.build/` holds the manifest of the finished configs, so that the build can
resume after any interruption. The folder is removed once the manifest itself exists.
"""

import os
import secrets
import shutil
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from ruler_builders.sources.catalogue import EssaysName, essays_of
from ruler_data.errors import RulerError, UsageError
from ruler_data.files import (
    read_text,
    refuse_links,
    replacing,
    sha256_file,
    try_writing,
    write_bytes,
    write_file,
)
from ruler_data.manifest import (
    FILENAME,
    STATE,
    ConfigInfo,
    FileInfo,
    Manifest,
    read_manifest,
    read_manifest_file,
)
from ruler_data.names import MOST_ROWS, config_file, quote
from ruler_data.parquet import CANARY, SCHEMA, to_table
from ruler_data.row import PackedRow, Row, RowDigest, utf8
from ruler_data.tasks import Qa, Task
from ruler_data.version import DEFAULT_SEED

#: Bits of a private seed. The highest is set, which marks it as private.
SEED_BITS = 128


@dataclass(frozen=True)
class BuildDir:
    """A folder that is being built, verified or published."""

    path: Path

    @property
    def state(self) -> Path:
        """Folder of the state of an unfinished build."""
        return self.path / STATE

    @property
    def manifest_path(self) -> Path:
        """The file whose presence means that the folder is complete."""
        return self.path / FILENAME

    def manifest(self) -> Manifest | None:
        """Return the manifest, or None while there is none.

        Raises:
            RulerError: it is damaged or cannot be read.
        """
        if not self.manifest_path.exists():
            return None
        return read_manifest(self.path)

    def unfinished(self) -> Manifest | None:
        """Return the manifest of an unfinished build; None if there is none or it is damaged."""
        try:
            return read_manifest_file(self.state / FILENAME, FILENAME)
        except RulerError:
            return None

    def start(self, manifest: Manifest) -> None:
        """Save the manifest and mark the folder as incomplete."""
        self.save(manifest)
        self.manifest_path.unlink(missing_ok=True)

    def save(self, manifest: Manifest) -> None:
        """Save the manifest of the finished configs, from which another build resumes."""
        write_file(self.state / FILENAME, manifest.to_json())

    def seal(self, manifest: Manifest, files: Mapping[str, bytes]) -> Manifest:
        """Write the card and the files beside it, and last the manifest; return the manifest."""
        manifest = manifest.with_files(files)
        for name, data in files.items():
            write_bytes(self.path / name, data)
        write_file(self.manifest_path, manifest.to_json())
        return manifest

    def check(self) -> None:
        """Refuse a path that cannot take a build, before any work and without leaving a trace.

        Raises:
            UsageError: it is a file, is not writable, or holds other things.
        """
        where = f"--out {quote(str(self.path), 200)}"
        try:
            if self.path.exists() and not self.path.is_dir():
                raise UsageError(f"{where}: is a file; name a folder")
            if self.path.is_dir() and not (self.manifest_path.exists() or self.state.exists()):
                stranger = next((entry.name for entry in sorted(self.path.iterdir())), None)
                if stranger is not None:
                    raise UsageError(
                        f"{where}: holds {quote(stranger)} and no build; name a new or empty folder"
                    )
            try_writing(self.path)
        except OSError as error:
            raise UsageError(
                f"{where}: cannot be written: {error.strerror}; choose another folder"
            ) from error

    def intact(self, infos: Mapping[str, ConfigInfo]) -> dict[str, ConfigInfo]:
        """Return the configs whose files are as they were written."""
        return {n: info for n, info in infos.items() if _is_intact(self.path / info.file, info)}

    def damaged(self, manifest: Manifest) -> Iterator[str]:
        """Yield the files of the manifest that are missing or differ from their hash."""
        files = {info.file: info for info in manifest.configs.values()} | manifest.files
        return (name for name, info in files.items() if not _is_intact(self.path / name, info))

    def choose_seed(self, seed: int | None, *, fresh: bool) -> int:
        """Return the seed of a build; a fresh build resumes with the private seed of its folder.

        Raises:
            UsageError: both a seed and a private seed are requested.
        """
        if not fresh:
            if seed is None:
                return DEFAULT_SEED
            return seed
        if seed is not None:
            raise UsageError(f"--fresh draws a seed of its own; leave out --seed {seed}")
        if (earlier := self._earlier()) and earlier.is_private:
            return earlier.seed
        return secrets.randbits(SEED_BITS) | 1 << (SEED_BITS - 1)

    def choose_essays(self) -> EssaysName:
        """Return which essays a build takes: those of its folder, else the default ones."""
        if earlier := self._earlier():
            return essays_of(earlier)
        return "nvidia"

    def _earlier(self) -> Manifest | None:
        """Return the manifest of an earlier build; None also where the build will say why not."""
        with suppress(RulerError, OSError):  # damaged, or no place for a folder
            return self.manifest() or self.unfinished()
        return None

    def clear(self) -> None:
        """Remove an earlier build, finished or not; what else is in the folder stays."""
        for file in self.path.glob(config_file("*")):
            file.unlink()
            with suppress(OSError):  # the folder holds other things as well
                file.parent.rmdir()
        for file in (self.manifest_path, self.state / FILENAME):
            file.unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder for one build; the kernel releases the lock when its process ends.

        Raises:
            UsageError: the folder cannot be written, or leads elsewhere by a link.
            RulerError: another build holds the lock.
        """
        refuse_links(self.path)
        where = quote(str(self.path), 200)
        try:
            self.state.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--out {where}: cannot be written: {error.strerror}") from error
        lock = FileLock(self.state / "lock")
        owner = self.state / "owner"
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            who = read_text(owner) if owner.exists() else "an unknown process"
            raise RulerError(
                f"{where}: another build is running in this folder ({who}); wait for it"
            ) from error
        try:
            write_file(owner, f"process {os.getpid()} on {socket.gethostname()}")
            for file in (*self.path.glob("*.partial"), *self.path.glob("*/*.partial")):
                file.unlink()  # left by a killed build
            yield
        finally:
            owner.unlink(missing_ok=True)
            if self.manifest_path.exists():
                shutil.rmtree(self.state, ignore_errors=True)
            lock.release()


def _is_intact(path: Path, info: ConfigInfo | FileInfo) -> bool:
    is_whole = path.is_file() and path.stat().st_size == info.bytes
    return is_whole and sha256_file(path) == info.sha256


#: Most rows of a row group, and most bytes of text unless one row has more. The writer holds a
#: group three times in memory.
GROUP_ROWS = 100
GROUP_BYTES = 40_000_000

#: Columns with few distinct values; a dictionary on long text only costs time.
DICTIONARY = ["task", "answer_prefix"]

#: zstd levels. Essays, domains and documents repeat from row to row, and only high levels look back
#: far enough to find that. Noise repeats within a line, which low levels compress better, and
#: needles, words and coded words do not repeat.
LEVEL_TEXTS = 9
LEVEL = 3


class _Writer(pq.ParquetWriter):  # type: ignore[misc]
    """A writer that is not closed when it is collected as garbage, which would print an error."""

    def __del__(self) -> None:
        """Leave the file open: its name marks it as partial."""


def write_rows(
    path: Path, rows: Iterable[Row | PackedRow], task: Task, length: int, expected: int
) -> ConfigInfo:
    """Write rows to a parquet file, atomically, and return its entry for the manifest.

    The last two parts of `path` are its path in the manifest. `task` decides the compression level,
    `length` (tokens) the fill, and `expected`, a number of rows, the space that an error names.

    Raises:
        UsageError: there are more rows than a file may have.
        RulerError: the disk is full or the folder not writable.
    """
    if expected > MOST_ROWS:
        raise UsageError(path.parent.name, f"{expected:,} rows; a config has {MOST_ROWS:,} at most")
    digest = RowDigest()
    lengths = list[int]()
    text_bytes = 0

    def record(row: Row | PackedRow) -> Row | PackedRow:
        digest.add(row)
        lengths.append(row.length)
        return row

    def need() -> str:
        most = text_bytes * expected // max(len(lengths), 1) // 1_000_000 + 1
        return f"its {expected} rows need up to {most} MB; "

    with replacing(path, need) as file:
        writer = _Writer(file, SCHEMA, **parquet_options(task))
        writer.add_key_value_metadata({"canary": CANARY})
        for group in row_groups(map(record, rows)):
            text_bytes += group.nbytes
            writer.write_table(group, row_group_size=len(group))
            del group  # frees its memory for the next one
        writer.close()
    return ConfigInfo(
        file=f"{path.parent.name}/{path.name}",
        bytes=path.stat().st_size,
        sha256=sha256_file(path),
        **row_figures(digest, lengths, length),
    )


def row_groups(rows: Iterable[Row | PackedRow]) -> Iterator[pa.Table]:
    """Turn rows into tables of at most `GROUP_ROWS` rows and `GROUP_BYTES` of text, or one row."""
    group = list[Row | PackedRow]()
    size = 0
    for row in rows:
        text = len(utf8(row.context))
        if group and (len(group) == GROUP_ROWS or size + text > GROUP_BYTES):
            yield to_table(group)
            group = []
            size = 0
        group.append(row)
        size += text
    if group:
        yield to_table(group)


def parquet_options(task: Task) -> dict[str, object]:
    """Return the options of the parquet writer for a task."""
    level = LEVEL
    haystack = getattr(task.params, "haystack", "")
    if haystack in ("essays", "domains") or isinstance(task.params, Qa):
        level = LEVEL_TEXTS
    return {
        "compression": "zstd",
        "compression_level": level,
        "use_dictionary": DICTIONARY,
        "write_page_index": True,
        "write_page_checksum": True,
        "store_schema": True,
    }


def row_figures(digest: RowDigest, lengths: Sequence[int], length: int) -> dict[str, Any]:
    """Return what the manifest states of the rows of a config, whose length is in tokens."""
    mean = sum(lengths) / len(lengths)
    return {
        "rows": len(lengths),
        "digest": digest.hexdigest(),
        "question_digest": digest.question_hexdigest(),
        "length_min": min(lengths),
        "length_mean": round(mean, 3),
        "length_max": max(lengths),
        "fill_min": round(min(lengths) / length, 6),
        "fill_mean": round(mean / length, 6),
    }
