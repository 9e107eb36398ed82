"""The journal of a shard: append-only, one line for each row that was asked; survives crashes.

The last line may be cut off by a crash; readers leave it out, and the next start removes it. A row
that could not be answered is asked again, and its answer follows as another line.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from pydantic import ValidationError

from ruler_data.errors import RulerError
from ruler_data.files import unwritable
from ruler_data.manifest import reader_of
from ruler_eval.schema import Prediction, faults

#: Seconds of answers that a power cut may cost.
SYNC_SECONDS = 5.0


class Journal:
    """A journal open for appending."""

    def __init__(self, path: Path) -> None:
        """Open a journal, or create it; a line that a crash cut off is removed."""
        self._path, self._synced = path, time.monotonic()
        try:
            self._file = path.open("ab", buffering=0)
            data = path.read_bytes().rstrip(b"\0")
            self._file.truncate(data.rfind(b"\n") + 1)
        except OSError as error:
            raise unwritable(path, error) from error

    def add(self, prediction: Prediction) -> None:
        """Append a prediction; if it cannot be written, the journal is as before."""
        end, line = self._path.stat().st_size, to_line(prediction)
        try:
            if self._file.write(line) != len(line):
                raise OSError(28, "No space left on device")
            if time.monotonic() - self._synced > SYNC_SECONDS:
                os.fsync(self._file)
                self._synced = time.monotonic()
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(end)
            raise unwritable(self._path, error) from error

    def close(self) -> None:
        """Sync and close it."""
        with suppress(OSError):
            os.fsync(self._file)
        self._file.close()


def to_line(prediction: Prediction) -> bytes:
    """Return a prediction as one line of JSON in ASCII; a lone surrogate becomes U+FFFD."""
    record = asdict(prediction)
    if not prediction.sample:
        del record["sample"]  # as in runs of versions without samples
    valid = {n: _valid(each) if isinstance(each, str) else each for n, each in record.items()}
    return json.dumps(valid, separators=(",", ":")).encode("ascii") + b"\n"


def _valid(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def parse(line: bytes, where: object) -> Prediction:
    """Return the prediction of a line; `where` is its place, for the error."""
    try:
        found: Prediction = reader_of(Prediction).validate_json(line, strict=True, extra="forbid")
    except ValidationError as error:
        reason = f"not a line of a journal: {faults(error)}; was it edited? remove the line"
        raise RulerError(where, reason) from error
    if (found.text is None) == (found.error is None):
        raise RulerError(where, "not a line of a journal: neither answered nor unscored")
    return found


def read(path: Path) -> Iterator[Prediction]:
    """Yield the predictions of a journal, without an incomplete last line."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.endswith(b"\n"):
                yield parse(line, f"{path.name}:{number}")
