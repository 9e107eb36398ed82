"""The folder of a build: its manifest, the state of an unfinished build, and its locks.

While a build runs, `.build/` holds its inputs and one record for each finished config, so that it
can resume after any interruption. The folder is removed once the manifest exists.
"""

import json
import os
import secrets
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import sha256_file, try_writing, write_bytes, write_file
from ruler_data.manifest import (
    FILENAME,
    ConfigInfo,
    FileInfo,
    Manifest,
    read_manifest,
    reader_of,
)
from ruler_data.names import config_file, parse_config, quote
from ruler_data.version import DEFAULT_SEED

STATE = ".build"
INPUTS = "inputs.json"
#: End of the name of a finished config's record.
RECORD = ".config.json"
#: Bits of a private seed. The highest is set, which marks it as private.
SEED_BITS = 128


@dataclass(frozen=True)
class BuildDir:
    """A folder that is being built, verified or published."""

    path: Path

    @property
    def state(self) -> Path:
        """Folder of the records of an unfinished build."""
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
        return read_manifest(self.path) if self.manifest_path.exists() else None

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
                msg = f"{where}: is a file; name a folder"
                raise UsageError(msg)
            if self.path.is_dir() and not (self.manifest_path.exists() or self.state.exists()):
                other = next((entry.name for entry in sorted(self.path.iterdir())), None)
                if other is not None:
                    msg = f"{where}: holds {quote(other)} and no build; name a new or empty folder"
                    raise UsageError(msg)
            try_writing(self.path)
        except OSError as error:
            msg = f"{where}: cannot be written: {error.strerror}; choose another folder"
            raise UsageError(msg) from error

    def unfinished(self) -> tuple[Manifest, int] | None:
        """Return the manifest of an unfinished build, as far as it is, and its rows per config.

        None if there is no such build or its state is damaged.
        """
        record = self.read(INPUTS)
        try:
            manifest, rows = Manifest.from_json(record["manifest"]), int(record["rows"])
        except (RulerError, KeyError, TypeError, ValueError):
            return None
        return replace(manifest, configs=self._records()), rows

    def start(self, manifest: Manifest, rows: int) -> None:
        """Record the inputs of a build and the configs that exist; remove the old manifest."""
        inputs = replace(manifest, configs={})
        body = json.dumps({"rows": rows, "manifest": inputs.to_json()}, indent=1)
        write_file(self.state / INPUTS, body)
        for name, info in manifest.configs.items():
            self.record(name, info)
        self.manifest_path.unlink(missing_ok=True)

    def record(self, config: str, info: ConfigInfo) -> None:
        """Record that a config is finished."""
        write_file(self.state / f"{config}{RECORD}", json.dumps(asdict(info)))

    def _records(self) -> dict[str, ConfigInfo]:
        """Return the configs that an unfinished build has finished."""
        infos = {}
        for path in sorted(self.state.glob(f"*{RECORD}")):
            with suppress(ValueError):  # a record of something else
                info = reader_of(ConfigInfo).validate_python(self.read(path.name))
                infos[path.name.removesuffix(RECORD)] = info
        return infos

    def intact(self, infos: Mapping[str, ConfigInfo]) -> dict[str, ConfigInfo]:
        """Return the configs whose files are as they were written."""
        return {
            name: info
            for name, info in infos.items()
            if _is_config(name)
            and info.file == config_file(name)
            and _is_intact(self.path / info.file, info)
        }

    def is_whole(self, manifest: Manifest) -> bool:
        """Whether every file that the manifest names is as it was written."""
        return self.intact(manifest.configs) == manifest.configs and all(
            _is_intact(self.path / name, info) for name, info in manifest.files.items()
        )

    def choose_seed(self, seed: int | None, *, fresh: bool) -> int:
        """Return the seed of a build; a fresh build resumes with the private seed of its folder.

        Raises:
            UsageError: a seed and a private one are both requested.
        """
        if not fresh:
            return DEFAULT_SEED if seed is None else seed
        if seed is not None:
            msg = f"--fresh draws a seed of its own; leave out --seed {seed}"
            raise UsageError(msg)
        with suppress(RulerError):  # a damaged manifest: the build reports it
            earlier = self.manifest() or (self.unfinished() or [None])[0]
            if earlier is not None and earlier.is_private:
                return earlier.seed
        return secrets.randbits(SEED_BITS) | 1 << (SEED_BITS - 1)

    def clear(self) -> None:
        """Remove an earlier build: its manifest, its records and its configs."""
        for folder in filter(_holds_only_a_config, self.path.iterdir()):
            shutil.rmtree(folder, ignore_errors=True)
        for file in (*self.state.glob(f"*{RECORD}"), self.manifest_path, self.state / INPUTS):
            file.unlink(missing_ok=True)

    def read(self, name: str) -> dict[str, Any]:
        """Return a JSON object of the state; it is empty where it is missing or damaged."""
        try:
            body = json.loads((self.state / name).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return body if isinstance(body, dict) else {}


def _is_config(name: str) -> bool:
    try:
        parse_config(name)
    except UsageError:
        return False
    return True


def _holds_only_a_config(folder: Path) -> bool:
    """Whether a folder is named like a config and holds its file and nothing else."""
    if not _is_config(folder.name) or folder.is_symlink() or not folder.is_dir():
        return False
    file = Path(config_file(folder.name)).name
    return all(entry.name.startswith(file) for entry in folder.iterdir())


def _is_intact(path: Path, info: ConfigInfo | FileInfo) -> bool:
    is_whole = path.is_file() and path.stat().st_size == info.bytes
    return is_whole and sha256_file(path) == info.sha256


@contextmanager
def locked(folder: BuildDir) -> Iterator[None]:
    """Lock a folder for one build; the kernel releases the lock when its process ends.

    Raises:
        UsageError: the folder cannot be written.
        RulerError: another build holds the lock.
    """
    where = quote(str(folder.path), 200)
    try:
        folder.state.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"--out {where}: cannot be written: {error.strerror}"
        raise UsageError(msg) from error
    lock, owner = FileLock(folder.state / "lock"), folder.state / "owner"
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        who = owner.read_text(encoding="utf-8") if owner.exists() else "an unknown process"
        msg = f"{where}: another build is running in this folder ({who}); wait for it"
        raise RulerError(msg) from error
    try:
        write_file(owner, f"process {os.getpid()} on {socket.gethostname()}")
        for left in (*folder.path.glob("*.partial"), *folder.path.glob("*/*.partial")):
            left.unlink()  # left by a killed build
        yield
    finally:
        owner.unlink(missing_ok=True)
        if folder.manifest_path.exists():
            shutil.rmtree(folder.state, ignore_errors=True)
        lock.release()
