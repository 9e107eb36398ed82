"""The journal: one line for each request; append-only, so that it survives crashes.

Each process writes a file of its own, and nothing is ever removed. A line that a crash tore is
ignored, and its row is run again, into another file.
"""

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from ruler_data.files import read_lines, unwritable
from ruler_data.manifest import reader_of
from ruler_eval.running.answers import Answer

#: Fields that every line has; the others only if they are known.
ALWAYS = ("config", "index", "text", "finish", "prompt_tokens", "answer_tokens", "seconds", "error")
#: The file of a process: its shard, a name that is unique, and the run.
NAME = "answers-{}.{}.{}.jsonl"


def unique() -> str:
    """Return a name that no other process takes, in the order of time."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ-%f}-{secrets.token_hex(4)}"


class Lines:
    """A new file of this process, to which whole lines are appended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = path.open("xb", buffering=0)
        except OSError as error:
            raise unwritable(path, error) from error

    def append(self, line: bytes) -> None:
        """Append a line."""
        try:
            if self._file.write(line) != len(line):
                raise OSError(28, "No space left on device")
        except OSError as error:
            raise unwritable(self.path, error) from error

    def close(self) -> None:
        """Sync and close it."""
        with suppress(OSError):
            os.fsync(self._file)
        self._file.close()


def run_of(path: Path) -> str | None:
    """Return the run that a journal is of; None if its name is not that of a journal.

    >>> run_of(Path("answers-0-of-8.20261125T101502Z-271828-9f3c.3f2a.jsonl"))
    '3f2a'
    """
    pieces = path.name.split(".")
    return pieces[2] if len(pieces) == 4 else None


def to_line(answer: Answer) -> bytes:
    """Return a record as one line of JSON in ASCII; a lone surrogate becomes U+FFFD."""
    record = {
        name: _valid(value) if isinstance(value, str) else value
        for name, value in asdict(answer).items()
        if name in ALWAYS or (value is not None and (name, value) != ("sample", 0))
    }
    return json.dumps(record, separators=(",", ":")).encode("ascii") + b"\n"


def _valid(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def read(path: Path, torn: list[str] | None = None) -> Iterator[Answer]:
    """Yield the records of a journal; `torn` gets a note of each line that is ignored."""
    for number, line in enumerate(read_lines(path), 1):
        try:
            yield reader_of(Answer).validate_json(line, strict=True, extra="ignore")
        except ValidationError:
            if line.strip() and torn is not None:
                note = f"{path.name} line {number}: torn or not a line of a journal; ignored"
                torn.append(note)
