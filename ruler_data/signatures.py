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
    classes = declaration.__mro__ if isinstance(declaration, type) else (declaration,)
    modules = [vars(sys.modules[owner.__module__]) for owner in reversed(classes)]
    return _Names({name: value for module in modules for name, value in module.items()})


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
    signature, is_class = inspect.signature(declaration), isinstance(declaration, type)
    parameters = inspect.signature(function).parameters.values()
    further = [param for param in parameters if param.kind is inspect.Parameter.VAR_KEYWORD]
    if is_class:
        signature = signature.replace(parameters=[*signature.parameters.values(), *further])

    @wraps(function)
    def call(*values: Any, **keywords: Any) -> Any:  # noqa: ANN401 - as the signature says
        for name in () if further else keywords.keys() - signature.parameters.keys():
            hint = near(name, signature.parameters)
            msg = f"{function.__name__}() has no argument {name!r}{hint}"
            raise TypeError(msg)
        bound = signature.bind(*values, **keywords)
        bound.arguments.update(fitting(declaration, bound.arguments))
        if not is_class:
            return function(*bound.args, **bound.kwargs)
        settings = bound.arguments.pop(further[0].name, {}) if further else {}
        return function(declaration(*bound.args, **bound.kwargs), **settings)

    call.__dict__["declared"] = declaration
    call.__dict__.pop("__wrapped__")  # `help` would show that
    call.__doc__, names = _described(function, declaration), _names(declaration)
    call.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[
            parameter.replace(annotation=_plain(parameter.annotation, names))
            for parameter in signature.parameters.values()
        ],
        return_annotation=inspect.signature(function).return_annotation,
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
    if isinstance(value, os.PathLike) and not _fits(value, hint.__origin__):
        value = os.fspath(value)
    elif isinstance(value, Real) and not isinstance(value, bool):  # e.g. of numpy
        value = int(value) if isinstance(value, Integral) else float(value)
    (option,) = hint.__metadata__
    low, high = option.min, option.max
    above = low is None or not isinstance(value, Real) or value >= low
    below = high is None or not isinstance(value, Real) or value <= high
    if above and below and _fits(value, hint.__origin__):
        return value
    limits = {"from": low, "to": high}.items()
    bounds = [f"{word} {limit:,}" for word, limit in limits if limit is not None]
    problem = f"{name} {ascii(value)[:LONGEST]}"
    raise UsageError(problem, " ".join(["give", _words(hint.__origin__), *bounds]))


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
