"""The signature of a command: read for the command line, and checked in Python.

    @checked
    def verify(data: Folder, *, rows: Annotated[int | None, Option(min=0)] = None) -> Verdict: ...

A parameter is an option if its annotation has typer's metadata. A value that typer would refuse as
text raises `UsageError` before the body runs.
"""

import builtins
import inspect
import os
from collections.abc import Callable, Collection, Mapping
from functools import cache, wraps
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from ruler_data.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

#: Characters of a value that a message repeats.
LONGEST = 60
#: What a type is called in a message.
_WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "True or False"}


class _Names(dict[str, Any]):
    """The names of a module; one that it imports for type checkers alone is `object`."""

    def __missing__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(builtins, name, object)


@cache
def options_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a command's options, by name."""
    names = _Names(inspect.unwrap(function).__globals__)
    hints = get_type_hints(function, localns=names, include_extras=True)
    return {name: hint for name, hint in hints.items() if get_origin(hint) is Annotated}


def checked(function: F) -> F:
    """Return a command that checks its values against the types and ranges of its signature.

    Raises:
        UsageError: on the call; with name, value and what is allowed.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def call(*values: Any, **keywords: Any) -> Any:  # noqa: ANN401 - as the signature says
        bound = signature.bind(*values, **keywords)
        for name, hint in options_of(function).items():
            if name not in bound.arguments:
                continue
            value = bound.arguments[name]
            if isinstance(value, os.PathLike) and not _fits(value, hint.__origin__):
                value = bound.arguments[name] = os.fspath(value)
            elif isinstance(value, Real) and not isinstance(value, bool):  # e.g. of numpy
                value = int(value) if isinstance(value, Integral) else float(value)
                bound.arguments[name] = value
            (option,) = hint.__metadata__
            low, high = option.min, option.max
            above = low is None or not isinstance(value, Real) or value >= low
            below = high is None or not isinstance(value, Real) or value <= high
            if not (above and below and _fits(value, hint.__origin__)):
                limits = {"from": low, "to": high}.items()
                bounds = [f"{word} {limit:,}" for word, limit in limits if limit is not None]
                what = f"{name} {ascii(value)[:LONGEST]}"
                raise UsageError(what, " ".join(["give", _words(hint.__origin__), *bounds]))
        return function(*bound.args, **bound.kwargs)

    return cast("F", call)


def _fits(value: object, kind: Any) -> bool:  # noqa: ANN401 - typing has no type of types
    """Whether a value is of a type; a text is no list of letters, and True no number."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return value in inner
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is not None:
        if isinstance(value, str) or not isinstance(value, origin):
            return False
        several = value if len(inner) == 1 and isinstance(value, Collection) else ()
        return all(_fits(one, inner[0]) for one in several)
    if kind in (int, float):
        return isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
    return kind is Any or isinstance(value, os.PathLike if issubclass(kind, os.PathLike) else kind)


def _words(kind: Any) -> str:  # noqa: ANN401
    """Return what a type is called: `one of auto, real, sample`, `a text or a list`."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return f"one of {', '.join(map(str, inner))}"
    if origin in (Union, UnionType):
        words = [_words(one) for one in inner if one is not NoneType]
        return " or ".join(dict.fromkeys(words))
    if origin is not None:
        return "a mapping" if issubclass(origin, Mapping) else "a list"
    return _WORDS.get(kind) or f"a {kind.__name__.lower()}"
