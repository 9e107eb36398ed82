"""The folder of a run: its description, the journals of its shards, and their locks.

runs/x/run.json                 everything that decides on the answers
runs/x/answers-0-of-8.jsonl     the journal of one shard
runs/x/.answers-0-of-8.lock     held while that shard runs; the kernel frees it if it dies
runs/x/failure-0-of-8.txt       traceback of the engine, if it failed
runs/x/shard-0-of-8.log         output of the shard's process (--data-parallel)
"""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import write_file
from ruler_data.manifest import FILENAME
from ruler_data.names import quote
from ruler_eval import journal
from ruler_eval.schema import ANSWER_FILES, RUN_FILE, Prediction, RunInfo
from ruler_eval.sharding import Key, Shard

_JOURNAL = re.compile(r"answers-([0-9]+)-of-([0-9]+)\.jsonl")


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run."""

    path: Path

    def begin(self, info: RunInfo) -> None:
        """Write the description of the run, or check that the folder has the same one.

        The description of a run without answered rows is replaced, e.g. after a mistyped option.

        Raises:
            UsageError: the folder holds another run or a dataset, or cannot be written.
        """
        where = f"--out {quote(str(self.path), 200)}"
        if (self.path / FILENAME).exists():
            msg = f"{where}: holds a dataset; give the run its own folder"
            raise UsageError(msg)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path / ".run.lock"):
                self._begin(info)
        except OSError as error:
            msg = f"{where}: cannot be written: {error.strerror or error}; choose another folder"
            raise UsageError(msg) from error

    def _begin(self, info: RunInfo) -> None:
        body = {"fingerprint": info.fingerprint, **asdict(info)}
        text = json.dumps(body, indent=1, ensure_ascii=False) + "\n"
        path = self.path / RUN_FILE
        if not path.exists():
            if other := next(self.path.glob(ANSWER_FILES), None):
                msg = f"{self.path}: holds {other.name} but no {RUN_FILE}; name a new folder"
                raise UsageError(msg)
            write_file(path, text)
            return
        try:
            present = json.loads(path.read_text(encoding="utf-8"))
            present["fingerprint"] = info.fingerprint  # of that run, if nothing else differs
        except (ValueError, TypeError) as error:
            msg = f"{path}: is not the description of a run; name a new folder"
            raise UsageError(msg) from error
        if differences := list(_differences(present, json.loads(text))):
            if self._is_blank():
                write_file(path, text)
                return
            msg = (
                f"{self.path}: holds another run: {'; '.join(differences[:3])}; "
                "give the options that it was started with, or another --out"
            )
            raise UsageError(msg)

    def _is_blank(self) -> bool:
        """Whether no shard has answered a row or is running; unscored rows are run again."""
        if self.answered():
            return False
        try:
            with ExitStack() as locks:
                for lock in self.path.glob(".answers-*.lock"):
                    locks.enter_context(FileLock(lock, timeout=0))
        except Timeout:
            return False
        return True

    @contextmanager
    def hold(self, shard: Shard) -> Iterator[journal.Mended]:
        """Hold the lock of a shard; yield what was mended in its journal.

        Journals of another number of shards keep their answers; their unscored rows are removed,
        because they are assigned anew.

        Raises:
            RulerError: this shard, or one of another number of shards, is running.
        """
        with self._lock(shard):
            for other in sorted(self.journals()):
                if other.count != shard.count:
                    with self._lock(other):
                        journal.mend(self.journal(other))
            yield journal.mend(self.journal(shard))

    @contextmanager
    def _lock(self, shard: Shard) -> Iterator[None]:
        lock = FileLock(self.path / f".answers-{shard.name}.lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            msg = f"{self.path}: shard {shard} is running; wait for it, or stop it"
            raise RulerError(msg) from None
        try:
            yield
        finally:
            lock.release()

    def journal(self, shard: Shard) -> Path:
        """Return the path of a shard's journal."""
        return self.path / f"answers-{shard.name}.jsonl"

    def failure(self, shard: Shard) -> Path:
        """Return the path of the traceback that a shard's engine left."""
        return self.path / f"failure-{shard.name}.txt"

    def log(self, shard: Shard) -> Path:
        """Return the path of the output of a shard's process."""
        return self.path / f"shard-{shard.name}.log"

    def journals(self) -> list[Shard]:
        """Return the shards that have a journal."""
        matches = (_JOURNAL.fullmatch(path.name) for path in self.path.glob(ANSWER_FILES))
        return [Shard(int(match[1]), int(match[2])) for match in matches if match]

    def predictions(self) -> Iterator[Prediction]:
        """Yield the predictions of all shards, each row once.

        Raises:
            RulerError: a line is not a prediction, or a row was answered twice.
        """
        seen: set[Key] = set()
        for shard in sorted(self.journals(), key=lambda shard: (shard.count, shard.index)):
            for prediction in journal.read(self.journal(shard)):
                if prediction.key in seen:
                    row = f"{prediction.config}/{prediction.index}"
                    msg = f"{self.path}: {row} was answered twice"
                    raise RulerError(msg)
                seen.add(prediction.key)
                yield prediction

    def answered(self) -> set[Key]:
        """Return the rows that any shard has answered; running shards may add to them.

        Raises:
            RulerError: a line is not a prediction.
        """
        return {
            prediction.key
            for shard in self.journals()
            for prediction, _ in journal.read_growing(self.journal(shard))
            if prediction.error is None
        }


def _differences(there: Any, here: Any, name: str = "") -> Iterator[str]:  # noqa: ANN401
    """Yield each value that differs, as `name is X in the folder and Y now`."""
    if isinstance(there, dict) and isinstance(here, dict):
        for key in sorted(there.keys() | here.keys()):
            inner = f"{name}.{key}" if name else key
            yield from _differences(there.get(key), here.get(key), inner)
    elif there != here:
        yield f"{name} is {quote(str(there))} in the folder and {quote(str(here))} now"
