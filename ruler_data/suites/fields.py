"""The fields of a suite's file: each is what it must be, or is refused with its line."""

from collections.abc import Mapping, Sequence
from typing import Any

from ruler_data.names import quote
from ruler_data.suites.strict import Document, Place

LINE = "must be one line of plain text, without |<>`[] and backslashes"


def shown(value: object) -> str:
    """Return a value as a file has it, safe to print in an error.

    >>> shown(True), shown("true"), shown([1, "a"])
    ('true', "'true'", "[1, 'a']")
    """
    if isinstance(value, bool):
        return str(value).lower()
    return quote(value) if isinstance(value, str) else quote(repr(value))[1:-1]


def refuse_unknown(
    document: Document, place: Place, values: Mapping[str, Any], known: Sequence[str]
) -> None:
    """Refuse keys that are not known."""
    for key in values:
        if key not in known:
            document.refuse((*place, key), f"no such key; known: {', '.join(known)}")


def one_line(document: Document, key: str) -> str:
    """Return a line of text, which must be there."""
    if key not in document.values:
        document.refuse((key,), f"is missing; it {LINE}")
    value = document.values[key]
    if not is_line(value):
        document.refuse((key,), f"{shown(value)}: {LINE}")
    return str(value).strip()


def is_line(value: object) -> bool:
    """Whether a value is a line of text that means nothing to Markdown, HTML or a terminal."""
    return (
        isinstance(value, str)
        and bool(value.strip())
        and value.isprintable()
        and not (set(value) & set("|<>`[]\\"))
    )


def mapping(document: Document, place: Place, value: object) -> dict[str, Any]:
    """Return a mapping."""
    if not isinstance(value, dict):
        document.refuse(place, f"{shown(value)}: must be a mapping of keys to values")
    return value


def lengths_of(document: Document) -> tuple[int, ...]:
    """Return the lengths, in tokens, rising and each once; none where none are named."""
    lengths = document.values.get("lengths", [])
    if not isinstance(lengths, list):
        document.refuse(("lengths",), f"{shown(lengths)}: must be a list of tokens, e.g. [4096]")
    for at, length in enumerate(lengths):
        if type(length) is not int or not 1 <= length <= 99_999_999:
            document.refuse(
                ("lengths", at), f"{shown(length)} is no length from 1 to 99999999 tokens"
            )
    return tuple(sorted(set(lengths)))


def percent_points(document: Document, key: str) -> float | None:
    """Return a number of percent points; None where there is none."""
    value = document.values.get(key)
    if value is not None and not (type(value) in (int, float) and 0 < value <= 100):
        document.refuse((key,), f"{shown(value)} is no number of percent points, e.g. 3.7")
    return value


def integer(document: Document, key: str, default: int, most: int) -> int:
    """Return a whole number from 1 to `most`."""
    value = document.values.get(key, default)
    if type(value) is not int or not 1 <= value <= most:
        document.refuse((key,), f"{shown(value)} is not from 1 to {most}")
    return value
