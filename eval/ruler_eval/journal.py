"""The journal of a shard: append-only, one line per answered row; it survives crashes.

A line is written in one call when its row is answered, and synced to the disk within five seconds.
A kill or a power cut may leave a torn end. `mend` cuts it off when the shard resumes, and removes
unscored rows, which are then asked again.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from ruler_data.errors import RulerError
from ruler_data.files import unwritable, write_bytes
from ruler_data.manifest import reader_of
from ruler_eval.schema import Key, Prediction, faults

#: Seconds of answers that a power cut may cost.
SYNC_SECONDS = 5.0


class Journal:
    """A journal open for appending."""

    def __init__(self, path: Path) -> None:
        """Open a journal that `mend` has checked, or create it."""
        self._path = path
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise unwritable(path, error) from error
        self._synced = time.monotonic()

    def add(self, prediction: Prediction) -> None:
        """Append a prediction; if it cannot be written, the journal is as before."""
        line = to_line(prediction)
        end = os.fstat(self._file).st_size
        try:
            if os.write(self._file, line) != len(line):
                raise OSError(28, "No space left on device")
            if time.monotonic() - self._synced > SYNC_SECONDS:
                os.fsync(self._file)
                self._synced = time.monotonic()
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, end)
            raise unwritable(self._path, error) from error

    def set_aside(self, count: int, path: Path) -> None:
        """Move the last lines to another file, to which they are appended."""
        lines = self._path.read_bytes().splitlines(keepends=True)
        moved = b"".join(lines[len(lines) - count :])
        try:
            with path.open("ab") as file:
                file.write(moved)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise unwritable(path, error) from error
        os.ftruncate(self._file, os.fstat(self._file).st_size - len(moved))

    def close(self) -> None:
        """Sync and close it."""
        with suppress(OSError):
            os.fsync(self._file)
        os.close(self._file)


def to_line(prediction: Prediction) -> bytes:
    """Return a prediction as one line of JSON in ASCII, which every reader sees as one line.

    A lone surrogate, which UTF-8 cannot hold, becomes U+FFFD.
    """
    record = asdict(prediction)
    if not prediction.sample:
        del record["sample"]  # as in runs of versions without samples
    valid = {n: _valid(each) if isinstance(each, str) else each for n, each in record.items()}
    return json.dumps(valid, separators=(",", ":")).encode("ascii") + b"\n"


def _valid(text: str) -> str:
    """Return a text with U+FFFD for each lone surrogate."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def parse(line: bytes, where: object) -> Prediction:
    """Return the prediction of a line; this is the one parser of journal lines.

    It is strict: one JSON object of known fields, each of its type, with either a text or an
    error, ended by a newline. `where` is its place, e.g. `answers-0-of-1.jsonl:17`, for the error.
    """
    reason, body, reader = "the line is incomplete", line, reader_of(Prediction)
    if b"\\ud" in line:  # surrogates, of which pydantic refuses a lone one
        with suppress(ValueError, RecursionError):
            body = _valid(json.dumps(json.loads(line), ensure_ascii=False)).encode()
    try:
        prediction: Prediction = reader.validate_json(body, strict=True, extra="forbid")
        if line.endswith(b"\n"):
            if (prediction.text is None) != (prediction.error is None):
                return prediction
            reason = "neither answered nor unscored"
    except ValidationError as error:
        reason = faults(error)
    remedy = "was it edited? remove the line to resume"
    raise RulerError(where, f"not a line of a journal: {reason}; {remedy}")


class Line(NamedTuple):
    """A line of a journal."""

    path: Path
    where: str  # e.g. `answers-0-of-1.jsonl:17`; without the number, if not read from the start
    data: bytes
    end: int  # byte where the next line starts
    found: Prediction | RulerError  # or why it is not one

    @property
    def prediction(self) -> Prediction:
        """Its prediction, or the error."""
        if isinstance(self.found, RulerError):
            raise self.found
        return self.found


def lines(path: Path, start: int = 0) -> Iterator[Line]:
    """Yield the lines of a journal from a byte on; without a journal, none."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        end = file.seek(start)
        for number, data in enumerate(file, 1):
            end += len(data)
            where = path.name if start else f"{path.name}:{number}"
            try:
                found: Prediction | RulerError = parse(data, where)
            except RulerError as error:
                found = error
            yield Line(path, where, data, end, found)


def read(path: Path, *, growing: bool = False) -> Iterator[Prediction]:
    """Yield the predictions of a journal; an incomplete end is left out if it is `growing`."""
    for line in lines(path):
        if growing and not line.data.endswith(b"\n"):
            return
        yield line.prediction


@dataclass(frozen=True)
class Mended:
    """What `mend` changed."""

    cut: int = 0  # bytes cut off the end
    unscored: int = 0  # rows removed, to be asked again
    kept: int = 0  # rows whose answers are kept


def mend(path: Path) -> Mended:
    """Cut off a torn end and remove unscored rows; a journal that does not exist is left so.

    A kill tears the last line; a power cut may leave NULs where the disk had not written yet.

    Raises:
        RulerError: a line before the end is not a prediction, a row occurs twice, or the journal
            cannot be written.
    """
    seen: set[Key] = set()
    size = end = unscored = 0
    torn: RulerError | None = None
    for line in lines(path):
        size = line.end
        if isinstance(line.found, RulerError):
            torn = torn or line.found
            continue
        if torn is not None:
            raise torn  # a prediction follows it, so it is not the work of a crash
        if line.found.key in seen:
            row = f"{line.found.config}/{line.found.index}"
            raise RulerError(line.where, f"{row} occurs twice; see `ruler-eval mend`")
        seen.add(line.found.key)
        end = line.end
        unscored += line.found.error is not None
    if size > end:
        os.truncate(path, end)
    if unscored:
        write_bytes(path, b"".join(to_line(each) for each in read(path) if each.error is None))
    return Mended(size - end, unscored, len(seen) - unscored)
