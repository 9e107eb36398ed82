"""The journal of a shard: a line for each answered row, which nothing that happens takes away.

A line is written whole, in one call, as the row is answered, and the disk is told to keep it at
most five seconds later. What a kill or a power cut leaves torn at the end is cut off when the shard
goes on; rows that could not be answered are taken out then and asked again.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ruler_data.errors import RulerError
from ruler_data.files import sync_folder
from ruler_data.names import quote
from ruler_eval.schema import Prediction

#: Seconds of answers that a power cut may cost.
SYNC_SECONDS = 5.0

_FIELDS = tuple(field.name for field in fields(Prediction))


class Journal:
    """An open journal; answers are only ever added at its end."""

    def __init__(self, path: Path) -> None:
        """Open or begin a journal that `mend` has seen.

        Raises:
            RulerError: it cannot be written.
        """
        self._path = path
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise self._failed(error) from error
        self._synced = time.monotonic()

    def add(self, answer: Prediction) -> None:
        """Write an answer.

        Raises:
            RulerError: it cannot be written; the journal is as it was.
        """
        line = to_line(answer)
        end = os.fstat(self._file).st_size
        try:
            if os.write(self._file, line) != len(line):
                raise OSError(28, "No space left on device")
            if time.monotonic() - self._synced > SYNC_SECONDS:
                self.sync()
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, end)
            raise self._failed(error) from error

    def sync(self) -> None:
        """Make what is written last through a power cut."""
        os.fsync(self._file)
        self._synced = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(OSError):
            os.fsync(self._file)
        os.close(self._file)

    def _failed(self, error: OSError) -> RulerError:
        return RulerError(
            f"{self._path}: cannot be written: {error.strerror or error}; free space and run the "
            "same command again to go on"
        )


def to_line(answer: Prediction) -> bytes:
    """Return an answer as a line of JSON in ASCII, which no reader of lines takes for two.

    A lone surrogate, which no UTF-8 can hold, becomes U+FFFD.
    """
    if answer.text is not None:
        whole = answer.text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        answer = replace(answer, text=whole)
    record = {name: getattr(answer, name) for name in _FIELDS}
    return json.dumps(record, separators=(",", ":")).encode("ascii") + b"\n"


def read(path: Path) -> Iterator[Prediction]:
    """Yield the answers of a journal that is not torn.

    Raises:
        RulerError: a line is no answer.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            yield parse(line, f"{path.name}:{number}")


@dataclass(frozen=True)
class Mended:
    """What was done to a journal before it goes on.

    Attributes:
        cut: bytes cut off its end.
        unscored: rows taken out, to be asked again.
    """

    cut: int
    unscored: int


def mend(path: Path) -> Mended:
    """Cut off what was torn at a journal's end and take out rows that were not answered.

    A kill tears the last line; a power cut may leave NULs where the disk had not written yet.

    Raises:
        RulerError: a line before the end is no answer, a row stands there twice, or the journal
            cannot be written.
    """
    seen: set[tuple[str, int]] = set()
    end = unscored = 0
    torn: RulerError | None = None
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            where = f"{path.name}:{number}"
            try:
                answer = parse(line, where)
            except RulerError as error:
                torn = torn or error
                continue
            if torn is not None:
                raise torn  # an answer follows it: no crash does that
            if (answer.config, answer.index) in seen:
                msg = f"{where}: {answer.config}/{answer.index} stands there twice"
                raise RulerError(msg)
            seen.add((answer.config, answer.index))
            end += len(line)
            unscored += answer.error is not None
    cut = path.stat().st_size - end
    if cut:
        os.truncate(path, end)
    if unscored:
        _keep_answered(path)
    return Mended(cut, unscored)


def _keep_answered(path: Path) -> None:
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as file:
            file.writelines(to_line(answer) for answer in read(path) if answer.error is None)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        partial.unlink(missing_ok=True)
        msg = f"{path}: cannot be written: {error.strerror or error}; free space and run it again"
        raise RulerError(msg) from error


def parse(line: bytes, where: str) -> Prediction:
    """Return the answer that a line holds; `where` is its place, for the error.

    Raises:
        RulerError: it holds none.
    """
    try:
        if not line.endswith(b"\n"):
            msg = "it has no end"
            raise ValueError(msg)
        body: dict[str, Any] = json.loads(line)
        if unknown := set(body).difference(_FIELDS):
            msg = f"unknown field {quote(min(unknown))}"
            raise ValueError(msg)
        answer = Prediction(**body)
        if not (isinstance(answer.config, str) and isinstance(answer.index, int)):
            msg = "config or index is missing"
            raise ValueError(msg)
        if (answer.text is None) == (answer.error is None):
            msg = "neither answered nor unscored"
            raise ValueError(msg)
    except (ValueError, TypeError) as error:
        msg = f"{where}: not a line of a journal: {error}; was it edited? remove the line to go on"
        raise RulerError(msg) from error
    return answer
