"""The signature of a command: its only declaration.

    @checked
    def verify(data: Annotated[str, Argument(help="Folder of a build.")], ...) -> Verdict: ...

A parameter is an option if its annotation has typer's metadata. The command line reads it; in
Python a value that typer would refuse as text raises `UsageError` before the body runs, and `help`
and the reference show plain types and a list of the parameters. Where what follows needs options
as one value, a frozen dataclass declares them (`takes`).
"""

import ast
import builtins
import inspect
import os
import re
import sys
from collections.abc import Callable, Collection, Mapping
from functools import cache, wraps
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Concatenate,
    Literal,
    ParamSpec,
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
P = ParamSpec("P")
C = TypeVar("C")
R = TypeVar("R")

#: Characters of a value that a message repeats.
LONGEST = 60
#: What a type is called in a message.
_WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "True or False"}


class _Names(dict[str, Any]):
    """The names of a module; one that it imports for type checkers alone is `object`."""

    def __missing__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(builtins, name, object)


def declared(function: Callable[..., Any]) -> Any:  # noqa: ANN401 - any function
    """Return the function or class that declares a command; other functions declare themselves."""
    return getattr(function, "declared", function)


def _names(declaration: Any) -> _Names:  # noqa: ANN401 - a function or a class
    """Return the names that annotations of a declaration may use."""
    owners = [declaration]
    if isinstance(declaration, type):
        owners = [*reversed(declaration.__mro__)]
    names = _Names()
    for owner in owners:
        names.update(vars(sys.modules[owner.__module__]))
    return names


@cache
def options_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a command's options, by name."""
    declaration = declared(function)
    hints = get_type_hints(declaration, localns=_names(declaration), include_extras=True)
    return {name: hint for name, hint in hints.items() if get_origin(hint) is Annotated}


def checked(function: F) -> F:
    """Return a command that checks its values against the types and ranges of its signature.

    Raises:
        UsageError: on the call; with name, value and what is allowed.
    """
    return cast("F", _command(function, function))


def takes(config: Callable[P, C]) -> Callable[[Callable[Concatenate[C, ...], R]], Callable[P, R]]:
    """Return the decorator of a command whose options are the fields of a frozen dataclass.

        @takes(RunConfig)
        def run(config: RunConfig) -> Run: ...

    The command takes the fields as its parameters. Further keyword arguments are passed on, if the
    function has a place for them.
    """

    def command(function: Callable[Concatenate[C, ...], R]) -> Callable[P, R]:
        return cast("Callable[P, R]", _command(function, config))

    return command


def _command(function: Callable[..., Any], declaration: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function as the command that a declaration describes."""
    is_class = isinstance(declaration, type)
    signature = inspect.signature(declaration)
    parameters = [*signature.parameters.values()]
    settings_name = ""  # of the keyword arguments that are passed on
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            settings_name = parameter.name
            if is_class:
                parameters.append(parameter)
    signature = signature.replace(parameters=parameters)

    @wraps(function)
    def call(*values: Any, **keywords: Any) -> Any:  # noqa: ANN401 - as the signature says
        unknown = keywords.keys() - signature.parameters.keys()
        if unknown and not settings_name:
            name = min(unknown)
            hint = near(name, signature.parameters)
            raise TypeError(f"{function.__name__}() has no argument {name!r}{hint}")
        bound = signature.bind(*values, **keywords)
        bound.arguments.update(fitting(declaration, bound.arguments))
        if not is_class:
            return function(*bound.args, **bound.kwargs)
        settings = bound.arguments.pop(settings_name, {})
        return function(declaration(*bound.args, **bound.kwargs), **settings)

    names = _names(declaration)
    plain = list[inspect.Parameter]()
    for parameter in parameters:
        plain.append(parameter.replace(annotation=_plain(parameter.annotation, names)))
    returned = inspect.signature(function).return_annotation
    call.__dict__["declared"] = declaration
    call.__dict__.pop("__wrapped__")  # `help` would show that
    call.__doc__ = _described(function, declaration)
    call.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=plain, return_annotation=returned
    )
    return call


def fitting(declaration: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the values that are options, each as its declaration allows.

    Raises:
        UsageError: one does not fit; with name, value and what is allowed.
    """
    options = options_of(declaration)
    return {name: _fitting(name, values[name], options[name]) for name in options.keys() & values}


def _fitting(name: str, value: Any, hint: Any) -> Any:  # noqa: ANN401 - as the hint says
    kind = hint.__origin__
    (option,) = hint.__metadata__
    if isinstance(value, os.PathLike) and not _fits(value, kind):
        value = os.fspath(value)
    elif _is_number(value, Integral):  # e.g. of numpy
        value = int(value)
    elif _is_number(value, Real):
        value = float(value)
    if _fits(value, kind) and _is_within(value, option.min, option.max):
        return value
    allowed = f"give {_words(kind)}"
    if option.min is not None:
        allowed += f" from {option.min:,}"
    if option.max is not None:
        allowed += f" to {option.max:,}"
    raise UsageError(f"{name} {ascii(value)[:LONGEST]}", allowed)


def _is_number(value: object, kind: type) -> bool:
    """Whether a value is a number of a kind; True is none."""
    return isinstance(value, kind) and not isinstance(value, bool)


def _is_within(value: Any, low: float | None, high: float | None) -> bool:  # noqa: ANN401
    """Whether a value is within bounds; what is no number is."""
    if not isinstance(value, Real):
        return True
    if low is not None and value < low:
        return False
    return high is None or value <= high


def _described(function: Callable[..., Any], declaration: Callable[..., Any]) -> str:
    """Return the docstring of a command with its options, which stand before what it raises."""
    text = inspect.cleandoc(function.__doc__ or "")
    about = {name: hint.__metadata__[0].help for name, hint in options_of(declaration).items()}
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
    origin = get_origin(kind)
    inner = get_args(kind)
    if origin is Literal:
        return value in inner
    if origin in (Union, UnionType):
        return any(_fits(value, choice) for choice in inner)
    if origin is not None:
        return _fits_items(value, origin, inner)
    if kind is Any:
        return True
    if kind is int:
        return _is_number(value, Integral)
    if kind is float:
        return _is_number(value, Real)
    if issubclass(kind, os.PathLike):
        return isinstance(value, os.PathLike)
    return isinstance(value, kind)


def _fits_items(value: object, kind: type, inner: tuple[Any, ...]) -> bool:
    """Whether a value is of a type of collections, with items of the one type that is named."""
    if isinstance(value, str) or not isinstance(value, kind):
        return False
    if len(inner) != 1 or not isinstance(value, Collection):
        return True
    return all(_fits(item, inner[0]) for item in value)


def _words(kind: Any) -> str:  # noqa: ANN401
    """Return what a type is called: `one of auto, real, sample`, `a text or a list`."""
    origin = get_origin(kind)
    inner = get_args(kind)
    if origin is Literal:
        return f"one of {', '.join(map(str, inner))}"
    if origin in (Union, UnionType):
        words = [_words(branch) for branch in inner if branch is not NoneType]
        return " or ".join(dict.fromkeys(words))
    if origin is not None and issubclass(origin, Mapping):
        return "a mapping"
    if origin is not None:
        return "a list"
    return _WORDS.get(kind) or f"a {kind.__name__.lower()}"
