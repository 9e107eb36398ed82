"""Reading source files as checked text; every error names the file and the position.

Normalization: a byte order mark at the start is dropped, CR LF and CR become LF.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from os.path import commonpath
from pathlib import Path
from typing import Any

from ruler_data.errors import RulerError
from ruler_data.files import parse_json, read_bytes, sha256_file


def sha256_of(paths: Sequence[Path]) -> str:
    """Return the sha256 of a file; of several, of their relative paths and hashes."""
    if len(paths) == 1:
        return sha256_file(paths[0])
    folder = commonpath([path.parent for path in paths])
    return sha256_listing(
        {path.relative_to(folder).as_posix(): sha256_file(path) for path in paths}
    )


def sha256_listing(hashes: Mapping[str, str]) -> str:
    """Return the sha256 of several files' names and hashes, in order of names."""
    listing = "".join(f"{name} {hashes[name]}\n" for name in sorted(hashes))
    return hashlib.sha256(listing.encode(errors="surrogateescape")).hexdigest()


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file.

    Raises:
        RulerError: it cannot be read, is not UTF-8 or holds NUL, with the byte offset.
    """
    try:
        text = read_bytes(path, where=path.name).decode()
        if "\0" not in text:
            return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
        place = len(text.partition("\0")[0].encode())
        why = f"NUL at byte {place}; this is not a text file"
    except OSError as error:
        why = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError as error:
        octets = error.object[error.start : error.start + 4].hex(" ")
        why = f"not UTF-8 at byte {error.start}: {octets}; convert the file to UTF-8"
    raise RulerError(f"{path.name}: {why}")


def read_json(path: Path) -> Any:  # noqa: ANN401 - JSON is any value; readers check its shape
    """Return what a JSON file holds.

    Raises:
        RulerError: it cannot be read or parsed, with the offset.
    """
    text = read_text(path)
    try:
        return parse_json(text)
    except json.JSONDecodeError as error:
        why = f"not JSON at character {error.pos} of {len(text)}: {error.msg}"
        why += f" (sha256 {sha256_file(path)}); is the file cut short?"
    except ValueError as error:  # e.g. a number of 5,000 digits
        why = f"JSON that cannot be read: {error}"
    raise RulerError(f"{path.name}: {why}")


def check_text(text: str, where: str) -> str:
    """Return text from JSON if it can be written as UTF-8.

    Raises:
        RulerError: it holds a lone surrogate or NUL.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise RulerError(
            f"{where}: lone surrogate {text[error.start]!a} at character {error.start}"
        ) from error
    if "\0" in text:
        raise RulerError(f"{where}: NUL at character {text.index(chr(0))}")
    return text
