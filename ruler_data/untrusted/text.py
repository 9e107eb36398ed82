"""Bytes, text, JSON and lines of files that anybody may have written, measured before reading."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from ruler_data.errors import RulerError
from ruler_data.names import quote

#: Most bytes of a file of JSON, of a line in a file of lines, and of other text.
JSON_BYTES, LINE_BYTES, TEXT_BYTES = 1 << 26, 1 << 26, 1 << 28
#: Most bytes of a file that is downloaded, by the end of its name; others have their own measure.
DOWNLOADED = {".json": JSON_BYTES, ".jinja": JSON_BYTES, ".md": JSON_BYTES, ".model": TEXT_BYTES}
#: Most values in one JSON text, of which each takes up to 300 bytes in memory.
VALUES = 4_000_000


def open_file(path: Path, limit: int | None = None, where: object = None) -> BinaryIO:
    """Open a regular file: a pipe or a device may never end.

    Args:
        path: of the file.
        limit: most bytes; None if the caller reads a bounded number of bytes at a time.
        where: names the file in errors; None for its path.

    Raises:
        RulerError: it is something else, or larger.
        OSError: it cannot be opened.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    status, fault = os.fstat(handle), ""
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        fault = "is not a regular file"
    elif limit is not None and status.st_size > limit:
        fault = too_large(status.st_size, limit)
    if not fault:
        return os.fdopen(handle, "rb")  # IsADirectoryError for a folder
    os.close(handle)
    raise RulerError(where or quote(str(path), 200), fault)


def read_bytes(path: Path, limit: int = TEXT_BYTES, where: object = None) -> bytes:
    """Return a file's bytes, if they are at most `limit`; see `open_file`."""
    with open_file(path, limit, where) as file:
        data = file.read(limit + 1)
    if len(data) > limit:  # it has grown
        raise RulerError(where or quote(str(path), 200), too_large(len(data), limit))
    return data


def too_large(size: int, limit: int) -> str:
    """Return what is wrong with a file or a line of more bytes than `limit`."""
    return f"holds {size:,} bytes, and at most {limit:,} are read"


def read_text(path: Path, limit: int = TEXT_BYTES, where: object = None) -> str:
    """Return a file's text, as `Path.read_text` does; see `read_bytes`."""
    text = read_bytes(path, limit, where).decode("utf-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_json(path: Path, limit: int = JSON_BYTES, where: object = None) -> Any:  # noqa: ANN401
    """Return what a file of JSON holds; see `read_bytes` and `parse_json`."""
    return parse_json(read_bytes(path, limit, where))


def parse_json(data: bytes | str) -> Any:  # noqa: ANN401 - any value
    """Return what a JSON text holds.

    Raises:
        ValueError: it is not JSON, or holds too many values or levels.
    """
    comma, colon = (b",", b":") if isinstance(data, bytes) else (",", ":")
    if (values := data.count(comma) + data.count(colon)) > VALUES:  # type: ignore[arg-type]
        msg = f"it holds up to {values:,} values, and at most {VALUES:,} are read"
        raise ValueError(msg)
    try:
        return json.loads(data)
    except RecursionError as error:
        msg = "it is nested too deeply"
        raise ValueError(msg) from error


def read_lines(path: Path, limit: int = LINE_BYTES) -> Iterator[bytes]:
    """Yield the lines of a file; see `open_file`.

    Raises:
        RulerError: a line is longer than `limit` bytes.
    """
    with open_file(path) as file:
        number = 1
        while line := file.readline(limit + 1):
            if len(line) > limit:
                where = f"{path.name} line {number}"
                raise RulerError(where, f"holds more than {limit:,} bytes")
            yield line
            number += 1
