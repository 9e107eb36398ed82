"""The folder of a run: its description, the journals of its shards, and their locks.

runs/x/run.json                 what decides on the answers
runs/x/answers-0-of-8.jsonl     the journal of one shard
runs/x/.answers-0-of-8.lock     held while that shard runs; the kernel drops locks of the dead
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
from ruler_eval.sharding import Key

_JOURNAL = re.compile(r"answers-([0-9]+)-of-([0-9]+)\.jsonl")


@dataclass(frozen=True, order=True)
class Shard:
    """Share `index` of `count` of a run's rows."""

    index: int = 0
    count: int = 1

    @property
    def name(self) -> str:
        """As in file names."""
        return f"{self.index}-of-{self.count}"

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


@dataclass(frozen=True)
class RunFolder:
    """A folder that a run is written to."""

    path: Path

    def begin(self, info: RunInfo) -> None:
        """Write what the run is, or see that the folder is that of the same run.

        A run that answered nothing, as one that was mistyped, gives way to another.

        Raises:
            UsageError: the folder holds another run or a dataset, or cannot be written.
        """
        if (self.path / FILENAME).exists():
            msg = (
                f"--out {quote(str(self.path), 200)}: holds a dataset; give the run its own folder"
            )
            raise UsageError(msg)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path / ".run.lock"):
                self._begin(info)
        except OSError as error:
            where = f"--out {quote(str(self.path), 200)}"
            msg = f"{where}: cannot be written: {error.strerror or error}; choose another folder"
            raise UsageError(msg) from error

    def _begin(self, info: RunInfo) -> None:
        ours = asdict(info)
        try:
            text = (self.path / RUN_FILE).read_text(encoding="utf-8")
        except FileNotFoundError:
            if other := next(self.path.glob(ANSWER_FILES), None):
                msg = f"{self.path}: holds {other.name} but no {RUN_FILE}; name a new folder"
                raise UsageError(msg) from None
            self._describe(info)
            return
        try:
            theirs = json.loads(text)
            theirs.pop("fingerprint")
        except (ValueError, AttributeError, KeyError) as error:
            msg = f"{self.path / RUN_FILE}: is not the description of a run; name a new folder"
            raise UsageError(msg) from error
        if differences := list(_differences(json.loads(json.dumps(ours)), theirs)):
            if self._is_blank():
                self._describe(info)
                return
            msg = (
                f"{self.path}: holds another run: {'; '.join(differences[:3])}; "
                "give what it was begun with, or another --out"
            )
            raise UsageError(msg)

    def _describe(self, info: RunInfo) -> None:
        body = {"fingerprint": info.fingerprint, **asdict(info)}
        write_file(self.path / RUN_FILE, json.dumps(body, indent=1, ensure_ascii=False) + "\n")

    def _is_blank(self) -> bool:
        """Whether no shard has an answer, and none is at work on its first."""
        if any(self.journal(shard).stat().st_size for shard in self.journals()):
            return False
        try:
            with ExitStack() as briefly:
                for lock in self.path.glob(".answers-*.lock"):
                    briefly.enter_context(FileLock(lock, timeout=0))
        except Timeout:
            return False
        return True

    @contextmanager
    def shard(self, shard: Shard) -> Iterator[tuple[Path, journal.Mended]]:
        """Hold one shard; yield its journal, mended, and what was done to it.

        Journals of another number of shards stay as they are, but for rows that were not
        answered: those are dealt anew.

        Raises:
            RulerError: this shard, or one of another number of shards, is running.
        """
        with ExitStack() as held:
            self._hold(held, shard)
            for other in sorted(self.journals()):
                if other.count != shard.count:
                    with ExitStack() as briefly:
                        self._hold(briefly, other)
                        journal.mend(self.journal(other))
            path = self.journal(shard)
            yield path, journal.mend(path) if path.exists() else journal.Mended(0, 0)

    def _hold(self, held: ExitStack, shard: Shard) -> None:
        lock = FileLock(self.path / f".answers-{shard.name}.lock", timeout=0)
        try:
            held.enter_context(lock)
        except Timeout:
            msg = f"{self.path}: shard {shard} is running; wait for it, or stop it"
            raise RulerError(msg) from None

    def journal(self, shard: Shard) -> Path:
        """Return the path of a shard's journal."""
        return self.path / f"answers-{shard.name}.jsonl"

    def journals(self) -> list[Shard]:
        """Return the shards that have a journal."""
        found = (_JOURNAL.fullmatch(path.name) for path in self.path.glob(ANSWER_FILES))
        return [Shard(int(match[1]), int(match[2])) for match in found if match]

    def answers(self) -> Iterator[Prediction]:
        """Yield the answers of all shards, each row once.

        Raises:
            RulerError: a line is no answer, or a row stands there twice.
        """
        seen: set[Key] = set()
        for shard in sorted(self.journals(), key=lambda one: (one.count, one.index)):
            for answer in journal.read(self.journal(shard)):
                if (answer.config, answer.index) in seen:
                    msg = f"{self.path}: {answer.config}/{answer.index} was answered twice"
                    raise RulerError(msg)
                seen.add((answer.config, answer.index))
                yield answer

    def answered(self) -> set[Key]:
        """Return the rows that any shard has answered; running shards may add to them.

        Raises:
            RulerError: a line is no answer.
        """
        found: set[Key] = set()
        for shard in self.journals():
            with self.journal(shard).open("rb") as file:
                lines = (line for line in file if line.endswith(b"\n"))  # siblings may be writing
                answers = (journal.parse(line, self.journal(shard).name) for line in lines)
                found.update((one.config, one.index) for one in answers if one.error is None)
        return found


def _differences(ours: Any, theirs: Any, name: str = "") -> Iterator[str]:  # noqa: ANN401
    """Yield each value that differs, as `name is OURS here and THEIRS there`."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            inner = f"{name}.{key}" if name else key
            yield from _differences(ours.get(key), theirs.get(key), inner)
    elif ours != theirs:
        yield f"{name} is {quote(str(theirs))} there and {quote(str(ours))} here"
