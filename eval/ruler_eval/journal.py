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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

from ruler_data.errors import RulerError
from ruler_data.files import unwritable, write_bytes
from ruler_data.names import quote
from ruler_eval.schema import Prediction

#: Seconds of answers that a power cut may cost.
SYNC_SECONDS = 5.0

#: The type of each field; JSON has one kind of number.
_FIELDS: dict[str, Any] = {
    name: kind | int if kind == float | None else kind
    for name, kind in get_type_hints(Prediction).items()
}


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
    if prediction.text is not None:
        text = prediction.text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        prediction = replace(prediction, text=text)
    record = {name: getattr(prediction, name) for name in _FIELDS}
    if not prediction.sample:
        del record["sample"]  # as in runs of versions without samples
    return json.dumps(record, separators=(",", ":")).encode("ascii") + b"\n"


def parse(line: bytes, where: object) -> Prediction:
    """Return the prediction of a line; this is the one parser of journal lines.

    It is strict: one JSON object of known fields, each of its type, with either a text or an
    error, ended by a newline. `where` is its place, e.g. `answers-0-of-1.jsonl:17`, for the error.
    """
    try:
        if not line.endswith(b"\n"):
            msg = "the line is incomplete"
            raise ValueError(msg)
        body: dict[str, Any] = json.loads(line)
        if unknown := set(body).difference(_FIELDS):
            msg = f"unknown field {quote(min(unknown))}"
            raise ValueError(msg)
        for name, kind in _FIELDS.items():
            value = body.get(name, 0 if name == "sample" else None)
            if not isinstance(value, kind) or isinstance(value, bool):
                msg = f"field {name} holds {type(value).__name__}"
                raise TypeError(msg)
        prediction = Prediction(**body)
        if (prediction.text is None) == (prediction.error is None):
            msg = "neither answered nor unscored"
            raise ValueError(msg)
    except (ValueError, TypeError, RecursionError) as error:
        msg = f"{where}: not a line of a journal: {error}; was it edited? remove the line to resume"
        raise RulerError(msg) from error
    return prediction


def read(path: Path) -> Iterator[Prediction]:
    """Yield the predictions of a whole journal, in the order of its lines."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            yield parse(line, f"{path.name}:{number}")


def read_growing(path: Path, start: int = 0) -> Iterator[tuple[Prediction, int]]:
    """Yield the predictions from a byte on, each with the byte where the next line starts.

    A line that another process is still writing is left for the next call.
    """
    with path.open("rb") as file:
        file.seek(start)
        for line in file:
            if not line.endswith(b"\n"):
                return
            start += len(line)
            yield parse(line, path.name), start


@dataclass(frozen=True)
class Mended:
    """What `mend` changed.

    Attributes:
        cut: bytes cut off the end.
        unscored: unscored rows removed, to be asked again.
        kept: rows whose answers are kept.
    """

    cut: int = 0
    unscored: int = 0
    kept: int = 0


def mend(path: Path) -> Mended:
    """Cut off a torn end and remove unscored rows; a journal that does not exist is left so.

    A kill tears the last line; a power cut may leave NULs where the disk had not written yet.

    Raises:
        RulerError: a line before the end is not a prediction, a row occurs twice, or the journal
            cannot be written.
    """
    if not path.exists():
        return Mended()
    seen: set[tuple[str, int, int]] = set()
    end = unscored = 0
    torn: RulerError | None = None
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            where = f"{path.name}:{number}"
            try:
                prediction = parse(line, where)
            except RulerError as error:
                torn = torn or error
                continue
            if torn is not None:
                raise torn  # a prediction follows it, so it is not the work of a crash
            if prediction.key in seen:
                row = f"{prediction.config}/{prediction.index}"
                msg = f"{where}: {row} occurs twice; see `ruler-eval mend`"
                raise RulerError(msg)
            seen.add(prediction.key)
            end += len(line)
            unscored += prediction.error is not None
    cut = path.stat().st_size - end
    if cut:
        os.truncate(path, end)
    if unscored:
        write_bytes(path, b"".join(to_line(each) for each in read(path) if each.error is None))
    return Mended(cut, unscored, len(seen) - unscored)
