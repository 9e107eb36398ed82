"""The signature of a command: its only declaration.

    @checked
    def verify(data: Annotated[str, Argument(help="Folder of a build.")], ...) -> Verdict: ...

A parameter is an option if its annotation has typer's metadata. The command line reads it; in
Python a value that typer would refuse as text raises `UsageError` before the body runs, and `help`
and the reference show plain types and a list of the parameters.
"""

import ast
import builtins
import inspect
import os
import re
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
from ruler_data.names import near

F = TypeVar("F", bound=Callable[..., Any])

#: Characters of a value that a message repeats.
LONGEST = 60
#: What a type is called in a message.
_WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "True or False"}


class _Names(dict[str, Any]):
    """The names of a module; one that it imports for type checkers alone is `object`."""

    def __missing__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(builtins, name, object)


def declared(function: Callable[..., Any]) -> Any:  # noqa: ANN401 - any function
    """Return the function that declares a command; other functions declare themselves."""
    return getattr(function, "declared", function)


@cache
def options_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a command's options, by name."""
    function = declared(function)
    hints = get_type_hints(function, localns=_Names(function.__globals__), include_extras=True)
    return {name: hint for name, hint in hints.items() if get_origin(hint) is Annotated}


def checked(function: F) -> F:
    """Return a command that checks its values against the types and ranges of its signature.

    Raises:
        UsageError: on the call; with name, value and what is allowed.
    """
    signature = inspect.signature(function)
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    open_ended = inspect.Parameter.VAR_KEYWORD in kinds  # options of an engine

    @wraps(function)
    def call(*values: Any, **keywords: Any) -> Any:  # noqa: ANN401 - as the signature says
        for name in () if open_ended else keywords.keys() - signature.parameters.keys():
            hint = near(name, signature.parameters)
            msg = f"{function.__name__}() has no argument {name!r}{hint}"
            raise TypeError(msg)
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
                problem = f"{name} {ascii(value)[:LONGEST]}"
                raise UsageError(problem, " ".join(["give", _words(hint.__origin__), *bounds]))
        return function(*bound.args, **bound.kwargs)

    call.__dict__["declared"] = call.__dict__.pop("__wrapped__")  # `help` would show that
    call.__doc__ = _described(function)
    call.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[
            parameter.replace(annotation=_plain(parameter.annotation, function.__globals__))
            for parameter in signature.parameters.values()
        ]
    )
    return cast("F", call)


def _described(function: Callable[..., Any]) -> str:
    """Return the docstring of a command with its options, which stand before what it raises."""
    text = inspect.cleandoc(function.__doc__ or "")
    about = {name: hint.__metadata__[0].help for name, hint in options_of(function).items()}
    if not about:
        return text
    before, raises, after = text.partition("Raises:\n")
    lines = [f"    {name}: {help_text}" for name, help_text in about.items()]
    sections = [before.strip(), "\n".join(["Args:", *lines]), f"{raises}{after}".strip()]
    return "\n\n".join(filter(None, sections))


class _Type(str):
    """The text of a type, which `help` shows without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def _plain(annotation: Any, names: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Return the type of an annotation, without what typer reads.

    >>> _plain("Annotated[int | None, Option(min=0)]", {}), _plain("Manifest", {})
    (int | None, Manifest)
    """
    if not isinstance(annotation, str):
        return annotation
    alias = names.get(annotation)
    if alias is not None and get_origin(alias) is Annotated:
        text = inspect.formatannotation(alias.__origin__)
        return _Type(re.sub(r"\b(pathlib|typing|collections\.abc)\.", "", text))
    node = ast.parse(annotation, mode="eval").body
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Annotated":
        node = cast("ast.Tuple", node.slice).elts[0]
    return _Type(ast.unparse(node))


def _fits(value: object, kind: Any) -> bool:  # noqa: ANN401 - typing has no type of types
    """Whether a value is of a type; a text is no list of letters, and True no number."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return value in inner
    if origin in (Union, UnionType):
        return any(_fits(value, choice) for choice in inner)
    if origin is not None:
        if isinstance(value, str) or not isinstance(value, origin):
            return False
        several = value if len(inner) == 1 and isinstance(value, Collection) else ()
        return all(_fits(item, inner[0]) for item in several)
    if kind in (int, float):
        return isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
    return kind is Any or isinstance(value, os.PathLike if issubclass(kind, os.PathLike) else kind)


def _words(kind: Any) -> str:  # noqa: ANN401
    """Return what a type is called: `one of auto, real, sample`, `a text or a list`."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return f"one of {', '.join(map(str, inner))}"
    if origin in (Union, UnionType):
        words = [_words(branch) for branch in inner if branch is not NoneType]
        return " or ".join(dict.fromkeys(words))
    if origin is not None:
        return "a mapping" if issubclass(origin, Mapping) else "a list"
    return _WORDS.get(kind) or f"a {kind.__name__.lower()}"
