"""The journal: one line for each request; append-only, so that it survives crashes.

Each process writes a file of its own, and nothing is ever removed. A line that a crash tore is
ignored, and its row is run again; the next line begins on a new one.
"""

import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from pydantic import ValidationError

from ruler_data.errors import RulerError
from ruler_data.files import unwritable
from ruler_data.manifest import reader_of
from ruler_eval.answers import Answer

#: Seconds of answers that a power cut may cost.
SYNC_SECONDS = 5.0
#: Fields that every line has; the others only if they are known.
ALWAYS = ("config", "index", "text", "finish", "prompt_tokens", "answer_tokens", "seconds", "error")
#: The file of a process: its shard, when it started, and a random part.
NAME, TIME = "answers-{}.{}.jsonl", "%Y%m%dT%H%M%SZ"


class Journal:
    """A journal of this process, open for appending."""

    def __init__(self, folder: Path, shard: str) -> None:
        """Create one, e.g. `answers-0-of-8.20261125T101502Z-9f3c.jsonl`."""
        unique = f"{time.strftime(TIME, time.gmtime())}-{secrets.token_hex(4)}"
        self.path = folder / NAME.format(shard, unique)
        self._synced, self._is_torn = time.monotonic(), False
        try:
            self._file = self.path.open("xb", buffering=0)
        except OSError as error:
            raise unwritable(self.path, error) from error

    def add(self, answer: Answer) -> None:
        """Append the record of a row."""
        line = b"\n" * self._is_torn + to_line(answer)
        try:
            self._is_torn = True
            if self._file.write(line) != len(line):
                raise OSError(28, "No space left on device")
            self._is_torn = False
            if time.monotonic() - self._synced > SYNC_SECONDS:
                os.fsync(self._file)
                self._synced = time.monotonic()
        except OSError as error:
            raise unwritable(self.path, error) from error

    def close(self) -> None:
        """Sync and close it."""
        with suppress(OSError):
            os.fsync(self._file)
        self._file.close()


def to_line(answer: Answer) -> bytes:
    """Return a record as one line of JSON in ASCII; a lone surrogate becomes U+FFFD."""
    known = {
        name: _valid(value) if isinstance(value, str) else value
        for name, value in asdict(answer).items()
        if name in ALWAYS or (value is not None and (name, value) != ("sample", 0))
    }
    return json.dumps(known, separators=(",", ":")).encode("ascii") + b"\n"


def _valid(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def parse(line: bytes, where: object) -> Answer:
    """Return the record of a line; `where` is its place, for the error."""
    try:
        found: Answer = reader_of(Answer).validate_json(line, strict=True, extra="ignore")
    except ValidationError as error:
        raise RulerError(where, "torn or not a line of a journal; ignored") from error
    return found


def read(path: Path, torn: list[str] | None = None) -> Iterator[tuple[Answer, int, int]]:
    """Yield the records of a journal, each with its offset in bytes and its number from 1.

    Args:
        path: of the journal.
        torn: where to add a note of each line that is ignored.
    """
    offset = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    yield parse(line, f"{path.name} line {number}"), offset, number
                except RulerError as error:
                    (torn if torn is not None else []).append(str(error))
            offset += len(line)
