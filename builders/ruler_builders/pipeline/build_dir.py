"""The folder of a build: what was finished in it, and its manifest.

While a build runs, `.build/` holds the inputs it was started with and one record for each
finished config, so that it can go on after any interruption. It goes when the manifest is there.

Who may work in a folder: one build of the whole, or shares of a build side by side.

Locks are files in `.build/` that the kernel lets go of when their holder dies.
"""

import json
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import sha256_file, write_file
from ruler_data.manifest import FILENAME, ConfigInfo, Manifest, config_info, read_manifest
from ruler_data.names import config_file, parse_config, quote

STATE = ".build"
#: End of the name of a finished config's record.
RECORD = ".config.json"


@dataclass(frozen=True)
class BuildDir:
    """A folder that is being built, verified or published."""

    path: Path

    @property
    def state(self) -> Path:
        """Where the records of an unfinished build lie."""
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

    def seal(self, manifest: Manifest, texts: Mapping[str, str]) -> Manifest:
        """Write the card and what lies beside it, and last the manifest; return that."""
        manifest = manifest.with_files(texts)
        for name, text in texts.items():
            write_file(self.path / name, text)
        write_file(self.manifest_path, manifest.to_json())
        return manifest

    def check(self) -> None:
        """Refuse a place that cannot take a build, before any work and without a trace.

        Raises:
            UsageError: it cannot be written, is a file, or holds other things.
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
            place = self.path
            while not place.exists():
                place = place.parent
            with tempfile.NamedTemporaryFile(dir=place):
                pass
        except OSError as error:
            msg = f"{where}: cannot be written: {error.strerror}; choose another folder"
            raise UsageError(msg) from error

    def prepare(self) -> None:
        """Make the place for the records of a build.

        Raises:
            UsageError: the folder cannot be written, is a file, or holds other things.
        """
        self.check()
        try:
            self.state.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            msg = f"--out {quote(str(self.path), 200)}: cannot be written: {error.strerror}"
            raise UsageError(msg) from error

    def inputs(self) -> dict[str, Any] | None:
        """Return the inputs that an unfinished build was started with."""
        return self._read("inputs.json")

    def start(self, inputs: dict[str, Any], infos: Mapping[str, ConfigInfo]) -> None:
        """Note the inputs and what is there; a folder that was finished is not any more."""
        write_file(self.state / "inputs.json", json.dumps(inputs, indent=1, sort_keys=True))
        for name, info in infos.items():
            self.record(name, info)
        self.manifest_path.unlink(missing_ok=True)

    def record(self, config: str, info: ConfigInfo) -> None:
        """Note that a config is finished."""
        write_file(self.state / f"{config}{RECORD}", json.dumps(asdict(info)))

    def records(self) -> dict[str, ConfigInfo]:
        """Return the configs that an unfinished build has finished."""
        found = {}
        for path in sorted(self.state.glob(f"*{RECORD}")):
            record = self._read(path.name)
            with suppress(TypeError):  # a record of something else
                found[path.name.removesuffix(RECORD)] = config_info(record or {})
        return found

    def intact(self, infos: Mapping[str, ConfigInfo]) -> dict[str, ConfigInfo]:
        """Return those configs whose files are as they were written."""
        return {
            name: info
            for name, info in infos.items()
            if _is_ours(name, info) and _is_intact(self.path / info.file, info.bytes, info.sha256)
        }

    def is_whole(self, manifest: Manifest) -> bool:
        """Whether every file that the manifest names is as it was written."""
        return self.intact(manifest.configs) == manifest.configs and all(
            _is_intact(self.path / name, info.bytes, info.sha256)
            for name, info in manifest.files.items()
        )

    def clear(self) -> None:
        """Remove what an earlier build left: its manifest, its records, folders of configs."""
        for config in self._config_folders():
            shutil.rmtree(config, ignore_errors=True)
        for record in self.state.glob(f"*{RECORD}"):
            record.unlink()
        self.manifest_path.unlink(missing_ok=True)
        (self.state / "inputs.json").unlink(missing_ok=True)

    def _config_folders(self) -> list[Path]:
        """Return the folders that are named as configs are and hold nothing but a config."""
        found = []
        for path in self.path.iterdir():
            try:
                parse_config(path.name)
            except UsageError:
                continue
            file = Path(config_file(path.name)).name
            real = path.is_dir() and not path.is_symlink()
            if real and all(entry.name.startswith(file) for entry in path.iterdir()):
                found.append(path)
        return found

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            body = json.loads((self.state / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return body if isinstance(body, dict) else None


def _is_ours(name: str, info: ConfigInfo) -> bool:
    """Whether a config is named as configs are and lies where they lie."""
    try:
        parse_config(name)
    except UsageError:
        return False
    return info.file == config_file(name)


def _is_intact(path: Path, size: int, sha256: str) -> bool:
    return path.is_file() and path.stat().st_size == size and sha256_file(path) == sha256


#: Name of the lock on everything; shares of a build have names of their own.
WHOLE = "whole"
#: Seconds in which workers whose build was killed notice it, with much to spare.
ORPHANS_END = 60


@contextmanager
def locked(folder: BuildDir, share: str = WHOLE) -> Iterator[None]:
    """Hold a folder, or one share of a build in it.

    Shares of one build work side by side; the whole folder is held alone.

    Raises:
        UsageError: the folder cannot be written, is a file, or holds other things.
        RulerError: another build holds it.
    """
    folder.prepare()
    lock = _acquire(folder, _lock_path(folder, share))
    owner = folder.state / f"{share}.owner"
    try:
        _assert_exclusive(folder, share)
        write_file(owner, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
        if share == WHOLE:  # so what is half written was left by the dead
            for left in (*folder.path.glob("*.partial"), *folder.path.glob("*/*.partial")):
                left.unlink()
        yield
    finally:
        owner.unlink(missing_ok=True)
        if folder.manifest_path.exists():
            shutil.rmtree(folder.state, ignore_errors=True)
        lock.release()


def workers_lock(folder: BuildDir, share: str) -> Path:
    """Return the file that each worker of a share holds while it lives."""
    return folder.state / f"{share}.workers"


def _lock_path(folder: BuildDir, share: str) -> Path:
    return folder.state / f"{share}.lock"


def _assert_exclusive(folder: BuildDir, share: str) -> None:
    """See that nobody holds what this share must have alone; wait for workers of the dead.

    Raises:
        RulerError: somebody does.
    """
    others = folder.state.glob("*.lock") if share == WHOLE else [_lock_path(folder, WHOLE)]
    for other in others:
        if other.stem != share and other.exists():
            _acquire(folder, other).release()
    pattern = "*.workers" if share == WHOLE else workers_lock(folder, share).name
    for left in folder.state.glob(pattern):  # a killed build's, about to notice
        _acquire(folder, left, timeout=ORPHANS_END).release()


def _acquire(folder: BuildDir, path: Path, timeout: float = 0) -> FileLock:
    lock = FileLock(path)
    try:
        lock.acquire(timeout=timeout)
    except Timeout as error:
        owner = _owner(path.with_suffix(".owner"))
        where = quote(str(folder.path), 200)
        msg = f"{where}: another build is at work here ({owner}); wait for it"
        raise RulerError(msg) from error
    return lock


def _owner(path: Path) -> str:
    try:
        who = json.loads(path.read_text(encoding="utf-8"))
        return f"process {who['pid']} on {who['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "an unknown process"
