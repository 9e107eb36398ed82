"""The folder of a run: its description, the journals of its shards, and their locks.

runs/x/run.json                 everything that decides on the answers
runs/x/starts.jsonl             one line for each start: what may differ between them
runs/x/answers-0-of-8.jsonl     the journal of one shard
runs/x/.answers-0-of-8.lock     held while that shard runs; the kernel frees it if it dies
runs/x/.answers-0-of-8.alive    rewritten every few seconds meanwhile
runs/x/failure-0-of-8.txt       traceback of the engine, if it failed
runs/x/shard-0-of-8.log         output of the shard's process (--data-parallel)

Shards of one count run side by side; shards of another count would answer the same rows. If the
file system does not pass locks from machine to machine, a shard that another machine runs is
noticed by its `.alive` file, which changes.
"""

import hashlib
import json
import re
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

from filelock import FileLock, Timeout

from ruler_data.errors import RulerError, UsageError
from ruler_data.files import try_writing, write_file
from ruler_data.manifest import FILENAME
from ruler_data.names import quote
from ruler_data.terminal import warn
from ruler_data.version import __version__
from ruler_eval import journal
from ruler_eval.schema import ANSWER_FILES, FREE, RUN_FILE, Key, Prediction, RunInfo
from ruler_eval.sharding import Shard

STARTS = "starts.jsonl"
#: The files of a shard.
JOURNAL, FAILURE, LOG = "answers-{}.jsonl", "failure-{}.txt", "shard-{}.log"
LOCK, ALIVE = ".answers-{}.lock", ".answers-{}.alive"
_SHARD = re.compile(r"\.?answers-([0-9]+)-of-([0-9]+)\.(?:jsonl|lock|alive)")
#: Seconds between two changes of an `.alive` file, and after which one that does not change is that
#: of a dead process.
BEAT, DEAD = 5.0, 30.0
#: Names this machine in `.alive` files.
HOST = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:12]


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run."""

    path: Path

    def file(self, name: str, shard: Shard) -> Path:
        """Return the path of a file of a shard, e.g. of its `JOURNAL`."""
        return self.path / name.format(shard.name)

    def begin(self, info: RunInfo, held: Shard | None = None) -> None:
        """Write the description of the run, or check that the folder has the same one.

        The description of a run without answered rows is replaced, e.g. after a mistyped option;
        `held` is the shard that this process has locked, if any.
        """
        body = {"fingerprint": info.fingerprint, **asdict(info)}
        text = json.dumps(body, indent=1, ensure_ascii=False) + "\n"
        path = self.path / RUN_FILE
        with self._locked():
            if path.exists():
                try:
                    present = json.loads(path.read_text(encoding="utf-8"))
                    present["fingerprint"] = info.fingerprint  # of that run, if all else is equal
                except (ValueError, TypeError, RecursionError) as error:
                    reason = "is not the description of a run; name a new folder"
                    raise UsageError(path, reason) from error
                differences = list(_differences(present, json.loads(text)))
                if not differences:
                    return
                if self.answered() or self.others_run(held):
                    msg = (
                        f"{self.path}: holds another run: {'; '.join(differences[:3])}; "
                        "give the options that it was started with, or another --out"
                    )
                    raise UsageError(msg)
            elif other := next(self.path.glob(ANSWER_FILES), None):
                reason = f"holds {other.name} but no {RUN_FILE}; name a new folder"
                raise UsageError(self.path, reason)
            write_file(path, text)

    def checked(self) -> "RunFolder":
        """Return the same if it can take a run; this leaves no trace."""
        with self._writing():
            try_writing(self.path)
        return self

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the folder for a moment; it is made if it does not exist."""
        with self._writing():
            self.path.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path / ".run.lock"):
                yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        where = f"--out {quote(str(self.path), 200)}"
        try:
            if (self.path / FILENAME).exists():
                raise UsageError(where, "holds a dataset; give the run its own folder")
            yield
        except OSError as error:
            reason = f"cannot be written: {error.strerror or error}; choose another folder"
            raise UsageError(where, reason) from error

    def others_run(self, held: Shard | None) -> bool:
        """Whether a shard other than `held` is running."""
        try:
            for shard in self._shards(LOCK.format("*")):
                if shard != held:
                    with FileLock(self.file(LOCK, shard), timeout=0):
                        pass
        except Timeout:
            return True
        return False

    def log_start(self, info: RunInfo, shard: Shard, start: Mapping[str, Any]) -> None:
        """Append what may differ between the starts of a run to `starts.jsonl`."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        run = {"at": at, "shard": str(shard), "version": __version__}
        record = {**run, "fingerprint": info.fingerprint, **start}
        with (self.path / STARTS).open("ab") as file:
            file.write(json.dumps(record).encode() + b"\n")

    def first_start(self, info: RunInfo) -> dict[str, Any]:
        """Return the record of the start that the answers began with; nothing without one."""
        own = [one for one in self.starts() if one.get("fingerprint") == info.fingerprint]
        earliest = own[0] if own else {}  # shards that begin at once see one another: none is first
        return next((one for one in reversed(own) if one["first"]), earliest)

    def starts(self) -> Iterator[dict[str, Any]]:
        """Yield the records of all starts, the newest last."""
        with suppress(OSError):
            for line in (self.path / STARTS).read_bytes().splitlines():
                with suppress(ValueError, TypeError, RecursionError):  # a crash may have cut a line
                    yield dict(json.loads(line))

    @contextmanager
    def hold(self, shard: Shard) -> Iterator[None]:
        """Hold a shard, so that no other process answers its rows."""
        with ExitStack() as held:
            with self._locked():
                self._take(shard, held)
                for other in self._shards(".answers-*.*"):
                    if other.count != shard.count:
                        with ExitStack() as briefly:
                            self._take(other, briefly)
            yield

    @contextmanager
    def hold_all(self) -> Iterator[None]:
        """Hold every shard that there has been."""
        with ExitStack() as held, self._locked():
            for shard in self._shards("*answers-*.*"):
                self._take(shard, held)
            yield

    def _take(self, shard: Shard, held: ExitStack) -> None:
        """Lock a shard, and show that it runs, until `held` is closed."""
        running = f"shard {shard} is running; wait for it, or stop it"
        alive, stop = self.file(ALIVE, shard), Event()
        try:
            held.enter_context(FileLock(self.file(LOCK, shard), timeout=0))
        except Timeout:
            raise RulerError(self.path, running) from None
        if _beats(alive):
            raise RulerError(self.path, f"{running} (on another machine)")

        def beat() -> None:
            while not stop.is_set():
                with suppress(OSError):
                    alive.write_text(f"{HOST} {time.time_ns()}")
                stop.wait(BEAT)
            alive.unlink(missing_ok=True)

        thread = Thread(target=beat, daemon=True)
        thread.start()
        held.callback(thread.join)
        held.callback(stop.set)

    def journals(self) -> list[Shard]:
        """Return the shards that have a journal."""
        return self._shards(ANSWER_FILES)

    def _shards(self, pattern: str) -> list[Shard]:
        matches = (_SHARD.fullmatch(path.name) for path in self.path.glob(pattern))
        return sorted({Shard(int(match[1]), int(match[2])) for match in matches if match})

    def predictions(self) -> Iterator[Prediction]:
        """Yield the predictions of all shards, each row once."""
        seen: set[Key] = set()
        for shard in sorted(self.journals(), key=lambda shard: (shard.count, shard.index)):
            for prediction in journal.read(self.file(JOURNAL, shard)):
                if prediction.key in seen:
                    row = f"{prediction.config}/{prediction.index}"
                    raise RulerError(
                        self.path, f"{row} was answered twice; `ruler-eval mend` says more"
                    )
                seen.add(prediction.key)
                yield prediction

    def answered(self) -> set[Key]:
        """Return the rows that any shard has answered; running shards may add to them."""
        return {
            prediction.key
            for shard in self.journals()
            for prediction in journal.read(self.file(JOURNAL, shard), growing=True)
            if prediction.error is None
        }


def _beats(alive: Path) -> bool:
    """Whether another machine shows that it runs a shard; this takes a while where it has died."""
    with suppress(FileNotFoundError):
        first = alive.read_bytes()
        if not first or first.split()[0] == HOST.encode():  # its lock was free: it has died
            return False
        warn(f"{alive.name}: another machine had this shard; waiting {DEAD:.0f} s for a sign of it")
        deadline = time.monotonic() + DEAD
        while time.monotonic() < deadline:
            time.sleep(BEAT / 5)
            if alive.read_bytes() != first:
                return True
    return False


def _differences(there: Any, here: Any, name: str = "") -> Iterator[str]:  # noqa: ANN401
    """Yield each value that differs, as `name is X in the folder and Y now`."""
    if isinstance(there, dict) and isinstance(here, dict):
        for key in sorted(there.keys() | here.keys()):
            inner = f"{name}.{key}" if name else key
            free = name == "engine_info.options" and key in FREE  # older versions recorded these
            unknown = inner == "engine_info.server" and key not in there  # and not this
            if not (free or unknown):
                yield from _differences(there.get(key), here.get(key), inner)
    elif there != here:
        before, now = ("missing" if one is None else quote(str(one)) for one in (there, here))
        yield f"{name} is {before} in the folder and {now} now"
